// SPDX-License-Identifier: BSD-2-Clause
/*
 * Files without a name, made so where the file system can (O_TMPFILE); else the name lives only from
 * one system call to the next. And block devices that are used in place of one.
 */
#include "io/unnamed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file_priv.h"
#include "io/holders.h"

/* The folder that path is in. */
static char *folder_of(const char *path, struct qimg_error *e)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return mem_strdup(".", e);
	return mem_strndup(path, slash == path ? 1 : (size_t)(slash - path), e);
}

/* A file with a name for a moment. -1 with errno. */
static int make_named(const char *folder)
{
	struct qimg_error ignored;
	char *name = mem_printf(&ignored, "%s/.qimg-XXXXXX", folder);
	int fd = -1, code = ENOMEM;

	if (name) {
		fd = mkostemp(name, O_CLOEXEC);
		code = errno;
		if (fd >= 0)
			unlink(name);
	}
	free(name);
	errno = code;
	return fd;
}

static int make(struct file **f, const char *path, bool is_folder, unsigned flags,
		struct qimg_error *e)
{
	char *folder = is_folder ? mem_strdup(path, e) : folder_of(path, e);
	int fd, ret = -1;

	if (!folder)
		return -1;
	fd = open(folder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	/* Old kernels say EISDIR. */
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
		fd = make_named(folder);
	if (fd < 0) {
		error_errno(e, errno, "Could not make a file in '%s'", folder);
		goto out;
	}
	ret = file_adopt(f, fd, path, flags, e);
	if (ret < 0)
		close(fd);
out:
	free(folder);
	return ret;
}

/* O_EXCL keeps off what the kernel uses (mounts, volumes), the lock other images. */
static int open_device(struct file **f, const char *path, struct file_id id, unsigned flags,
		       struct qimg_error *e)
{
	char text[512];
	int fd;

	do {
		fd = open(path, O_RDWR | O_EXCL | O_NONBLOCK | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0 && errno == EBUSY)
		return error_set(e, EBUSY, "Could not use '%s', which would be overwritten: it is mounted or in "
				 "use%s%s", path, holders_describe(id, text, sizeof(text)) ? " by " : "", text);
	if (fd < 0)
		return error_errno(e, errno, "Could not open '%s'", path);
	if (file_adopt(f, fd, path, flags, e) < 0) {
		close(fd);
		return -1;
	}
	if (lock_set(*f, LOCK_WRITE, e) < 0) {
		file_close(*f);
		*f = NULL;
		return -1;
	}
	return 0;
}

int unnamed_open(struct file **f, const char *path, unsigned flags, struct qimg_error *e)
{
	bool exists;
	struct stat st;
	int ret;

	flags |= FILE_WRITE | FILE_NO_SYNC;
	exists = !stat(path, &st);
	if (!exists && errno != ENOENT)
		return error_errno(e, errno, "Could not open '%s'", path);
	if (exists && !S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return error_set(e, EINVAL, "Could not open '%s': it is neither a file nor a folder nor a "
				 "block device", path);
	if (exists && S_ISBLK(st.st_mode))
		ret = open_device(f, path, (struct file_id){ 0, st.st_rdev }, flags, e);
	else
		ret = make(f, path, exists && S_ISDIR(st.st_mode), flags, e);
	if (ret == 0)
		(*f)->unnamed = true;
	return ret;
}

uint32_t unnamed_unit(const struct file *f)
{
	return (uint32_t)max_u64(f->direct_align, 1);
}
