// SPDX-License-Identifier: BSD-2-Clause
/*
 * Owner, mode, ACL and extended attributes of a file that replaces another.
 *
 * Nothing may become easier to reach than it was: what protects the old file is kept or the copy fails.
 * The rest is kept as far as the system allows, with a warning where it does not.
 */
#include "io/replace_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

#define ACL "system.posix_acl_access"

/* Hashes of the content, which will be another one. */
static bool belongs_to_content(const char *name)
{
	return !strcmp(name, "security.ima") || !strcmp(name, "security.evm");
}

static bool unsupported(int code)
{
	return code == EOPNOTSUPP || code == ENOSYS;
}

/* The attribute's value in fresh memory. NULL with 0 in errno: it is gone meanwhile. */
static void *get_value(int fd, const char *name, size_t *size)
{
	ssize_t n = fgetxattr(fd, name, NULL, 0);
	void *value;

	if (n < 0)
		return NULL;
	value = malloc(n ? (size_t)n : 1);
	if (!value)
		return NULL;
	n = fgetxattr(fd, name, value, (size_t)n);
	if (n < 0) {
		free(value);
		return NULL;
	}
	*size = (size_t)n;
	return value;
}

/* Whether fd has that attribute already, as a new file has its security label. */
static bool has_value(int fd, const char *name, const void *value, size_t size)
{
	size_t n;
	void *now = get_value(fd, name, &n);
	bool same = now && n == size && !memcmp(now, value, n);

	free(now);
	return same;
}

static int copy_one(int fd, int from, const char *name, const char *path, struct qimg_error *e)
{
	size_t size = 0;
	void *value = get_value(from, name, &size);
	int code = 0;

	if (!value || (fsetxattr(fd, name, value, size, 0) && !has_value(fd, name, value, size)))
		code = errno;
	free(value);
	if (!code || code == ENODATA)
		return 0;
	if (!strcmp(name, ACL))
		return error_errno(e, code, "Could not keep the access control list of '%s'", path);
	warn("The attribute '%s' of '%s' is lost: %s", name, path, strerror(code));
	return 0;
}

static int copy_xattrs(int fd, int from, const char *path, struct qimg_error *e)
{
	ssize_t n = flistxattr(from, NULL, 0);
	char *list = NULL, *name;
	int ret = 0;

	if (n > 0) {
		list = mem_alloc((size_t)n, e);
		if (!list)
			return -1;
		n = flistxattr(from, list, (size_t)n);
	}
	if (n < 0 && !unsupported(errno)) {
		ret = error_errno(e, errno, "Could not read the extended attributes of '%s'", path);
		goto out;
	}
	for (name = list; !ret && n > 0 && name < list + n; name += strlen(name) + 1) {
		if (!belongs_to_content(name))
			ret = copy_one(fd, from, name, path, e);
	}
out:
	free(list);
	return ret;
}

static int copy_owner(int fd, const struct stat *st, const char *path, struct qimg_error *e)
{
	struct stat now;

	if (fstat(fd, &now))
		return error_errno(e, errno, "Could not examine the new file for '%s'", path);
	if (now.st_uid == st->st_uid && now.st_gid == st->st_gid)
		return 0;
	if (!fchown(fd, st->st_uid, st->st_gid))
		return 0;
	if (errno != EPERM || now.st_uid == st->st_uid)
		return error_errno(e, errno, "Could not keep the owner (%ju) and group (%ju) of '%s'",
				   (uintmax_t)st->st_uid, (uintmax_t)st->st_gid, path);
	/* Only root gives files away. The group decides who else may reach it: that one is kept. */
	if (now.st_gid != st->st_gid && fchown(fd, (uid_t)-1, st->st_gid))
		return error_errno(e, errno, "Could not keep the group (%ju) of '%s'",
				   (uintmax_t)st->st_gid, path);
	warn("'%s' belongs to user %ju now, no longer to user %ju", path, (uintmax_t)now.st_uid,
	     (uintmax_t)st->st_uid);
	return 0;
}

int attr_copy(int fd, int from, const struct stat *st, const char *path, struct qimg_error *e)
{
	if (copy_owner(fd, st, path, e))
		return -1;
	/* The folder may have given the new file a list that the old one does not have. */
	if (fremovexattr(fd, ACL) && errno != ENODATA && !unsupported(errno))
		return error_errno(e, errno, "Could not clear the access control list of the new file for "
				   "'%s'", path);
	if (copy_xattrs(fd, from, path, e))
		return -1;
	if (fchmod(fd, st->st_mode & 0777))
		return error_errno(e, errno, "Could not keep the mode 0%o of '%s'", st->st_mode & 0777u,
				   path);
	return 0;
}
