// SPDX-License-Identifier: BSD-2-Clause
/* FICLONERANGE and copy_file_range. The hook sees a clone as an allocation: no bytes pass through here. */
#include "io/clone.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/file_priv.h"

/* One call at most: it can't be interrupted by signals where it only shares. */
#define PIECE (64 * MIB)

static int check(struct file *from, struct file *to, uint64_t to_off, uint64_t len, struct qimg_error *e)
{
	int code;

	if (file_check_change(to, e) < 0)
		return -1;
	if (from->device || to->device)
		return error_set(e, ENOTSUP, "'%s' is a block device", from->device ? from->path : to->path);
	code = file_hook_call(to, FILE_OP_ALLOCATE, to_off, NULL, len);
	if (code)
		return error_errno(e, code, "Could not clone %" PRIu64 " bytes to offset 0x%" PRIx64
				   " of '%s'", len, to_off, to->path);
	return 0;
}

/* These say that it can't be done, and not that it went wrong. */
static bool unsupported(int code)
{
	return code == EOPNOTSUPP || code == ENOTTY || code == EINVAL || code == ENOSYS ||
	       code == EXDEV || code == EPERM || code == ETXTBSY || code == EBADF;
}

static int failed(struct file *to, uint64_t off, int code, struct qimg_error *e)
{
	if (unsupported(code))
		return error_set(e, ENOTSUP, "The host can't copy to '%s' by itself", to->path);
	return error_errno(e, code, "Could not clone to offset 0x%" PRIx64 " of '%s'", off, to->path);
}

bool clone_possible(struct file *from, struct file *to)
{
	/* No file system shares from an odd offset, but those that share at all look at it. */
	struct file_clone_range range = { .src_fd = from->fd, .src_offset = 1, .src_length = 1 };

	if (from->device || to->device || !file_writable(to))
		return false;
	return ioctl(to->fd, FICLONERANGE, &range) && errno == EINVAL;
}

int clone_share(struct file *from, uint64_t from_off, struct file *to, uint64_t to_off, uint64_t len,
		struct qimg_error *e)
{
	struct file_clone_range range = { .src_fd = from->fd, .src_offset = from_off,
					  .src_length = len, .dest_offset = to_off };

	/* A length of 0 means all of the file. */
	if (!len)
		return 0;
	if (check(from, to, to_off, len, e) < 0)
		return -1;
	while (ioctl(to->fd, FICLONERANGE, &range))
		if (errno != EINTR)
			return failed(to, to_off, errno, e);
	file_changed(to, to_off, len);
	file_grown(to, to_off + len);
	return 0;
}

int clone_copy(struct file *from, uint64_t from_off, struct file *to, uint64_t to_off, uint64_t len,
	       struct qimg_error *e)
{
	if (!len)
		return 0;
	if (check(from, to, to_off, len, e) < 0)
		return -1;
	while (len) {
		off_t in = (off_t)from_off, out = (off_t)to_off;
		ssize_t n = copy_file_range(from->fd, &in, to->fd, &out, min_u64(len, PIECE), 0);

		if (n < 0 && errno == EINTR)
			continue;
		/* 0: beyond the end, or a file system that has no data to give this way */
		if (n <= 0)
			return failed(to, to_off, n ? errno : EOPNOTSUPP, e);
		file_changed(to, to_off, (uint64_t)n);
		file_grown(to, to_off + (uint64_t)n);
		from_off += (uint64_t)n;
		to_off += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}
