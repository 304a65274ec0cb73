// SPDX-License-Identifier: BSD-2-Clause
/*
 * Open host files and block devices: their life, their length, whole transfers and syncs.
 *
 * Invariants: `size` is the length of the file as far as this process has changed it, without a
 * system call for each change. A sync that failed is remembered: the kernel reports a lost write
 * once, and after that nothing written to this file may be called safe.
 */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/range.h"
#include "io/draft_priv.h"
#include "io/file_priv.h"
#include "io/ioq_priv.h"

static const struct file_hook *hook;

void file_set_hook(const struct file_hook *h)
{
	hook = h;
}

int file_hook_call(struct file *f, enum file_op op, uint64_t off, const void *buf, uint64_t len)
{
	if (f->shadow)
		return f->hook_code;
	if (f->meter)
		ioq_meter_charge(f->meter, f, op, off, len);
	return hook ? hook->call(hook->ctx, f, op, off, buf, len) : 0;
}

/* What a thing that is no file is called, or NULL when it can hold an image. */
static const char *unfit(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
	case S_IFBLK:
		return NULL;
	case S_IFDIR:
		return "a directory";
	case S_IFIFO:
		return "a pipe";
	case S_IFSOCK:
		return "a socket";
	case S_IFCHR:
		return "a character device";
	default:
		return "of an unknown kind";
	}
}

static int refuse(const char *path, mode_t mode, struct qimg_error *e)
{
	return error_set(e, S_ISDIR(mode) ? EISDIR : EINVAL, "Could not open '%s': it is %s, not a file "
			 "or a block device", path, unfit(mode));
}

int file_open_fd(const char *path, int flags, struct qimg_error *e)
{
	struct stat st;
	int fd;

	/*
	 * Opening a pipe would wake a writer that waits for a reader, and a device can react in any
	 * way: look first. O_NONBLOCK is for what takes its place between the two calls.
	 */
	if (!stat(path, &st) && unfit(st.st_mode))
		return refuse(path, st.st_mode, e);
	do {
		fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return error_errno(e, errno, "Could not open '%s'", path);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0) {
		error_errno(e, errno, "Could not set up '%s'", path);
		close(fd);
		return -1;
	}
	return fd;
}

int file_open(struct file **f, const char *path, unsigned flags, struct qimg_error *e)
{
	int mode = flags & FILE_WRITE ? O_RDWR : O_RDONLY;
	int fd;

	if (flags & FILE_CREATE)
		mode |= O_CREAT | (flags & FILE_EXCL ? O_EXCL : 0);
	fd = file_open_fd(path, mode, e);
	if (fd < 0)
		return -1;
	if (file_adopt(f, fd, path, flags, e)) {
		close(fd);
		return -1;
	}
	return 0;
}

/* Reads length and identity; keeps nothing that was remembered about the file. */
static int load(struct file *f, struct qimg_error *e)
{
	struct stat st;
	off_t end;

	if (fstat(f->fd, &st))
		return error_errno(e, errno, "Could not examine '%s'", f->path);
	if (unfit(st.st_mode))
		return refuse(f->path, st.st_mode, e);
	f->device = S_ISBLK(st.st_mode);
	if (!f->device && file_system_errs_on_holes(f->fd))
		f->missing |= MISSING_SEEK;
	if (f->device) {
		end = lseek(f->fd, 0, SEEK_END);
		if (end < 0)
			return error_errno(e, errno, "Could not get the size of '%s'", f->path);
		f->size = (uint64_t)end;
		f->id = (struct file_id){ 0, st.st_rdev };
	} else {
		f->size = (uint64_t)st.st_size;
		f->id = (struct file_id){ st.st_dev, st.st_ino };
	}
	f->cache_end = 0;
	return 0;
}

int file_adopt(struct file **f, int fd, const char *path, unsigned flags, struct qimg_error *e)
{
	struct file *n = mem_zalloc(sizeof(*n), e);

	if (!n)
		return -1;
	n->fd = fd;
	n->flags = flags;
	n->through = -1;
	n->path = mem_strdup(path, e);
	if (!n->path || load(n, e)) {
		free(n->path);
		free(n);
		return -1;
	}
	if (flags & FILE_DIRECT)
		direct_enable(n);
	*f = n;
	return 0;
}

void file_close(struct file *f)
{
	if (!f)
		return;
	draft_free(f->draft);
	direct_close(f);
	ioq_meter_put(f->meter);
	close(f->fd);
	free(f->path);
	free(f);
}

const char *file_path(const struct file *f)
{
	return f->path;
}

int file_fd(const struct file *f)
{
	return f->fd;
}

bool file_is_device(const struct file *f)
{
	return f->device;
}

bool file_writable(const struct file *f)
{
	return f->flags & FILE_WRITE;
}

void file_set_eager(struct file *f)
{
	f->flags |= FILE_EAGER;
}

void file_set_serial(struct file *f, bool on)
{
	f->flags = (f->flags & ~(unsigned)FILE_SERIAL) | (on ? FILE_SERIAL : 0);
}

uint64_t file_size(const struct file *f)
{
	return f->size;
}

int file_refresh(struct file *f, struct qimg_error *e)
{
	return f->draft ? 0 : load(f, e);
}

int file_allocated(struct file *f, uint64_t *bytes, struct qimg_error *e)
{
	struct stat st;

	if (fstat(f->fd, &st))
		return error_errno(e, errno, "Could not examine '%s'", f->path);
	*bytes = f->device ? 0 : (uint64_t)st.st_blocks * 512;
	return 0;
}

struct file_id file_identity(const struct file *f)
{
	return f->id;
}

bool file_id_same(struct file_id a, struct file_id b)
{
	return a.dev == b.dev && a.ino == b.ino;
}

int file_identify(const char *path, struct file_id *id, struct qimg_error *e)
{
	struct stat st;

	if (stat(path, &st))
		return error_errno(e, errno, "Could not examine '%s'", path);
	/* A device has many nodes; its numbers are what it is. No file system has device number 0. */
	if (S_ISBLK(st.st_mode))
		*id = (struct file_id){ 0, st.st_rdev };
	else
		*id = (struct file_id){ st.st_dev, st.st_ino };
	return 0;
}

/* ---- transfers ---- */

/* After a call that failed: 0 to try again, or the errno value that stands. */
static int try_again(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int code = errno;

	if (code == EAGAIN)
		poll(&p, 1, 1000);
	return code == EINTR || code == EAGAIN ? 0 : code;
}

int file_pread(int fd, uint64_t off, void *buf, size_t len, size_t *done)
{
	ssize_t n;
	int code;

	for (*done = 0; *done < len; *done += (size_t)n) {
		n = pread(fd, (char *)buf + *done, len - *done, (off_t)(off + *done));
		if (!n)
			break;
		if (n < 0) {
			code = try_again(fd, POLLIN);
			if (code)
				return code;
			n = 0;
		}
	}
	return 0;
}

int file_pwrite(int fd, uint64_t off, const void *buf, size_t len, size_t *done)
{
	ssize_t n;
	int code;

	for (*done = 0; *done < len; *done += (size_t)n) {
		n = pwrite(fd, (const char *)buf + *done, len - *done, (off_t)(off + *done));
		if (!n)
			return EIO;
		if (n < 0) {
			code = try_again(fd, POLLOUT);
			if (code)
				return code;
			n = 0;
		}
	}
	return 0;
}

int file_failed(const struct file *f, bool write, uint64_t off, uint64_t len, int code,
		struct qimg_error *e)
{
	return error_errno(e, code, "Could not %s %" PRIu64 " bytes at offset 0x%" PRIx64 " of '%s'",
			   write ? "write" : "read", len, off, f->path);
}

int file_sync_failed(const struct file *f, struct qimg_error *e)
{
	return error_errno(e, f->sync_error, "Could not bring '%s' to stable storage", f->path);
}

int file_read(struct file *f, uint64_t off, void *buf, size_t len, struct qimg_error *e)
{
	return f->draft ? draft_read(f, off, buf, len, e) : file_read_plain(f, off, buf, len, e);
}

int file_read_plain(struct file *f, uint64_t off, void *buf, size_t len, struct qimg_error *e)
{
	size_t done = 0;
	int code = file_hook_call(f, FILE_OP_READ, off, NULL, len);

	if (!code && !range_within(off, len, INT64_MAX))
		code = EINVAL;
	if (!code)
		code = f->direct_align ? direct_pread(f, off, buf, len, &done) :
		       file_pread(f->fd, off, buf, len, &done);
	if (code)
		return file_failed(f, false, off + done, len - done, code, e);
	memset((char *)buf + done, 0, len - done);
	return 0;
}

int file_check_change(struct file *f, struct qimg_error *e)
{
	if (f->sync_error)
		return error_errno(e, f->sync_error, "'%s' takes no more changes, since earlier ones "
				   "could not be brought to stable storage", f->path);
	if (f->draft)
		return error_set(e, EROFS, "Changes of '%s' are only tried out", f->path);
	if (!(f->flags & FILE_WRITE))
		return error_set(e, EBADF, "'%s' is open for reading only", f->path);
	return 0;
}

void file_changed(struct file *f, uint64_t off, uint64_t len)
{
	if (range_overlaps(off, len, f->cache_start, f->cache_end - f->cache_start))
		f->cache_end = f->cache_start = 0;
}

void file_grown(struct file *f, uint64_t end)
{
	if (!f->device)
		f->size = max_u64(f->size, end);
}

int file_put(struct file *f, uint64_t off, const void *buf, size_t len, size_t *done)
{
	int code = f->direct_align ? direct_pwrite(f, off, buf, len, done) :
		   file_pwrite(f->fd, off, buf, len, done);

	file_changed(f, off, len);
	if (*done)
		file_grown(f, off + *done);
	return code;
}

int file_write(struct file *f, uint64_t off, const void *buf, size_t len, struct qimg_error *e)
{
	size_t done = 0;
	int code;

	if (f->draft)
		return draft_write(f, off, buf, len, e);
	if (file_check_change(f, e))
		return -1;
	if (!len)
		return 0;
	code = file_hook_call(f, FILE_OP_WRITE, off, buf, len);
	if (!code && !range_within(off, len, INT64_MAX))
		code = EFBIG;
	if (!code)
		code = file_put(f, off, buf, len, &done);
	return code ? file_failed(f, true, off + done, len - done, code, e) : 0;
}

int file_sync(struct file *f, struct qimg_error *e)
{
	int code;

	if (f->sync_error)
		return error_errno(e, f->sync_error, "Could not bring '%s' to stable storage before",
				   f->path);
	if (f->draft)
		return 0;
	if (f->flags & FILE_NO_SYNC) {
		if (f->meter && !f->shadow)
			ioq_meter_charge(f->meter, f, FILE_OP_SYNC, 0, 0);
		return 0;
	}
	code = file_hook_call(f, FILE_OP_SYNC, 0, NULL, 0);
	while (!code && fdatasync(f->fd)) {
		if (errno != EINTR)
			code = errno;
	}
	f->sync_error = code;
	return code ? file_sync_failed(f, e) : 0;
}

bool file_stretch(struct file *f, uint64_t end, uint64_t ahead)
{
	struct qimg_error ignored;
	struct rlimit most;

	if (!f->direct_align || f->device || end <= f->size || end + ahead > INT64_MAX)
		return false;
	/* Beyond its limit a process is sent a signal. */
	if (getrlimit(RLIMIT_FSIZE, &most) || end + ahead > most.rlim_cur)
		return false;
	return file_truncate(f, end + ahead, &ignored) == 0;
}

int file_truncate(struct file *f, uint64_t size, struct qimg_error *e)
{
	uint64_t from = min_u64(f->size, size);
	int code;

	if (f->draft && !f->device)
		return draft_truncate(f, size, e);
	if (file_check_change(f, e))
		return -1;
	if (f->device)
		return size == f->size ? 0 :
		       error_set(e, ENOTSUP, "'%s' is a block device: its size can not be changed", f->path);
	code = file_hook_call(f, FILE_OP_TRUNCATE, size, NULL, 0);
	if (!code && size > INT64_MAX)
		code = EFBIG;
	while (!code && ftruncate(f->fd, (off_t)size)) {
		if (errno != EINTR)
			code = errno;
	}
	if (code)
		return error_errno(e, code, "Could not set the length of '%s' to %" PRIu64, f->path, size);
	file_changed(f, from, UINT64_MAX - from);
	f->size = size;
	return 0;
}
