// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finding the folder and the name of a target.
 *
 * Symbolic links are followed by hand, because rename and linkat work on names: the link stays, and
 * what it points at is made or replaced. The kernel is asked first whether it would follow them for us
 * (it refuses links that others planted in /tmp), and afterwards whether we ended at the same file.
 */
#include "io/replace_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

#define MAX_LINKS 40

static int check_kind(const char *path, const struct stat *st, struct qimg_error *e)
{
	if (S_ISREG(st->st_mode) || S_ISBLK(st->st_mode))
		return 0;
	return error_set(e, S_ISDIR(st->st_mode) ? EISDIR : EINVAL, "Could not create '%s': it exists and "
			 "is %s, not a file or a block device", path,
			 S_ISDIR(st->st_mode) ? "a directory" : S_ISFIFO(st->st_mode) ? "a pipe" :
			 S_ISSOCK(st->st_mode) ? "a socket" : S_ISCHR(st->st_mode) ?
			 "a character device" : "of an unknown kind");
}

/* What a link in the folder of `path` points at, as a path from where `path` starts. */
static char *follow(const char *path, struct qimg_error *e)
{
	char to[PATH_MAX];
	const char *slash = strrchr(path, '/');
	ssize_t n = readlink(path, to, sizeof(to) - 1);

	if (n < 0) {
		error_errno(e, errno, "Could not read the symbolic link '%s'", path);
		return NULL;
	}
	to[n] = '\0';
	if (*to == '/' || !slash)
		return mem_strdup(to, e);
	return mem_printf(e, "%.*s/%s", (int)(slash - path), path, to);
}

static int split(struct place *p, const char *path, struct qimg_error *e)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

	if (!*path)
		return error_errno(e, ENOENT, "Could not create ''");
	if (!*base || !strcmp(base, ".") || !strcmp(base, ".."))
		return error_set(e, EISDIR, "Could not create '%s': the name is one of a directory",
				 p->path);
	if (strlen(base) > NAME_MAX)
		return error_errno(e, ENAMETOOLONG, "Could not create '%s'", p->path);
	strcpy(p->base, base);
	p->folder = !slash ? mem_strdup(".", e) :
		    slash == path ? mem_strdup("/", e) : mem_strndup(path, (size_t)(slash - path), e);
	if (!p->folder)
		return -1;
	p->dirfd = open(p->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->dirfd < 0)
		return error_errno(e, errno, "Could not create '%s': folder '%s'", p->path, p->folder);
	return 0;
}

int place_refresh(struct place *p, struct qimg_error *e)
{
	p->exists = !fstatat(p->dirfd, p->base, &p->st, AT_SYMLINK_NOFOLLOW);
	if (!p->exists)
		return errno == ENOENT ? 0 : error_errno(e, errno, "Could not examine '%s'", p->path);
	return check_kind(p->path, &p->st, e);
}

int place_find(struct place *p, const char *path, struct qimg_error *e)
{
	struct stat whole, st;
	char *at = NULL, *next;
	unsigned links;
	bool exists;

	memset(p, 0, sizeof(*p));
	p->dirfd = -1;
	p->path = mem_strdup(path, e);
	at = mem_strdup(path, e);
	if (!p->path || !at)
		goto fail;
	exists = !stat(path, &whole);
	if (!exists && errno != ENOENT) {
		error_errno(e, errno, "Could not create '%s'", path);
		goto fail;
	}
	if (exists && check_kind(path, &whole, e))
		goto fail;
	for (links = 0; !lstat(at, &st) && S_ISLNK(st.st_mode); links++) {
		if (links == MAX_LINKS) {
			error_errno(e, ELOOP, "Could not create '%s'", path);
			goto fail;
		}
		next = follow(at, e);
		free(at);
		at = next;
		if (!at)
			goto fail;
	}
	if (split(p, at, e) || place_refresh(p, e))
		goto fail;
	/* Links like /proc/self/fd/1 name no place. */
	if (exists != p->exists ||
	    (exists && (whole.st_dev != p->st.st_dev || whole.st_ino != p->st.st_ino))) {
		error_set(e, ENOENT, "Could not create '%s': the place that its link names ('%s') is not "
			  "where it leads", path, at);
		goto fail;
	}
	free(at);
	return 0;
fail:
	free(at);
	place_free(p);
	return -1;
}

void place_free(struct place *p)
{
	if (p->dirfd >= 0)
		close(p->dirfd);
	free(p->folder);
	free(p->path);
	p->dirfd = -1;
	p->folder = p->path = NULL;
}

static bool is_mount_point(const struct place *p)
{
#ifdef STATX_ATTR_MOUNT_ROOT
	struct statx x;

	return !statx(p->dirfd, p->base, AT_SYMLINK_NOFOLLOW, 0, &x) &&
	       (x.stx_attributes & STATX_ATTR_MOUNT_ROOT);
#else
	(void)p;
	return false;
#endif
}

int place_check_access(const struct place *p, struct qimg_error *e)
{
	static const char hint[] = "an existing image can be written in place with 'convert -n'";
	struct stat dir;
	uid_t me = geteuid();

	if (faccessat(p->dirfd, ".", W_OK | X_OK, AT_EACCESS)) {
		if (!p->exists)
			return error_errno(e, errno, "Could not create '%s': folder '%s' can not be "
					   "written to", p->path, p->folder);
		return error_errno(e, errno, "Could not replace '%s' (%s): folder '%s' can not be written "
				   "to", p->path, hint, p->folder);
	}
	if (!p->exists)
		return 0;
	if (p->st.st_nlink > 1)
		return error_set(e, EMLINK, "Could not replace '%s': it has %ju names (hard links), and "
				 "the others would keep the old content; remove them, or write in place with "
				 "'convert -n'", p->path, (uintmax_t)p->st.st_nlink);
	if (is_mount_point(p))
		return error_set(e, EBUSY, "Could not replace '%s': it is a mount point; %s", p->path,
				 hint);
	if (me && !fstatat(p->dirfd, ".", &dir, AT_EMPTY_PATH) && (dir.st_mode & S_ISVTX) &&
	    dir.st_uid != me && p->st.st_uid != me)
		return error_set(e, EPERM, "Could not replace '%s': it belongs to another user, and folder "
				 "'%s' keeps users from replacing each other's files (it is sticky); %s",
				 p->path, p->folder, hint);
	return 0;
}
