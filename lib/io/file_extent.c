// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where a file has data and where holes, and its attributes that steer how space is laid out.
 *
 * The last run is remembered, since a map asks for one run in many pieces; whatever changes the file
 * goes through file_changed, which forgets it. Runs are asked from the kernel at most as far as the
 * file reaches for us.
 */
#include "io/file_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/draft_priv.h"

#define ZFS_MAGIC 0x2fc12fc1

/* OpenZFS up to 2.2.1 does it to dirty files, a sync before does not help, and the version can't be told. */
bool file_system_errs_on_holes(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (unsigned long)fs.f_type == ZFS_MAGIC;
}

/* Fills the cache with the run at off. */
static int look(struct file *f, uint64_t off, struct qimg_error *e)
{
	off_t at;

	f->cache_start = off;
	f->cache_end = f->size;
	f->cache_hole = false;
	if (f->device || (f->missing & MISSING_SEEK))
		return 0;

	at = lseek(f->fd, (off_t)off, SEEK_DATA);
	if (at < 0 && errno == ENXIO) {
		f->cache_hole = true;
		return 0;
	}
	if (at > (off_t)off) {
		f->cache_end = min_u64((uint64_t)at, f->size);
		f->cache_hole = true;
		return 0;
	}
	if (at == (off_t)off)
		at = lseek(f->fd, (off_t)off, SEEK_HOLE);
	if (at > (off_t)off) {
		f->cache_end = min_u64((uint64_t)at, f->size);
	} else if (at >= 0 || errno == ENXIO) {
		/* Somebody else changes the file meanwhile: data is always a right answer. */
		f->cache_end = off + 1;
	} else if (errno == EINVAL || errno == EOPNOTSUPP) {
		f->missing |= MISSING_SEEK;
	} else {
		f->cache_end = 0;
		return error_errno(e, errno, "Could not look for holes at offset 0x%" PRIx64 " of '%s'",
				   off, f->path);
	}
	return 0;
}

int file_extent(struct file *f, uint64_t off, uint64_t len, struct file_extent *x,
		struct qimg_error *e)
{
	bool drafted;

	if (off >= f->size) {
		*x = (struct file_extent){ len, true };
		return 0;
	}
	if (f->draft) {
		len = draft_run(f, off, len, &drafted);
		*x = (struct file_extent){ len, !drafted };
		if (drafted || draft_is_cut(f, off))
			return 0;
	}
	if ((off < f->cache_start || off >= f->cache_end) && look(f, off, e))
		return -1;
	*x = (struct file_extent){ min_u64(len, f->cache_end - off), f->cache_hole };
	return 0;
}

uint32_t file_extent_hint(struct file *f)
{
	struct fsxattr x;

	if (ioctl(f->fd, FS_IOC_FSGETXATTR, &x) || !(x.fsx_xflags & FS_XFLAG_EXTSIZE))
		return 0;
	return x.fsx_extsize;
}

int file_set_extent_hint(struct file *f, uint32_t bytes, struct qimg_error *e)
{
	struct fsxattr x;

	if (!ioctl(f->fd, FS_IOC_FSGETXATTR, &x)) {
		if (bytes)
			x.fsx_xflags |= FS_XFLAG_EXTSIZE;
		else
			x.fsx_xflags &= ~(uint32_t)FS_XFLAG_EXTSIZE;
		x.fsx_extsize = bytes;
		if (!ioctl(f->fd, FS_IOC_FSSETXATTR, &x))
			return 0;
	}
	return error_errno(e, errno == ENOTTY ? EOPNOTSUPP : errno, "Could not set the extent size hint "
			   "of '%s' to %" PRIu32, f->path, bytes);
}

int file_set_nocow(struct file *f, struct qimg_error *e)
{
	int attr;

	if (!ioctl(f->fd, FS_IOC_GETFLAGS, &attr)) {
		attr |= FS_NOCOW_FL;
		if (!ioctl(f->fd, FS_IOC_SETFLAGS, &attr))
			return 0;
	}
	return error_errno(e, errno == ENOTTY ? EOPNOTSUPP : errno, "Could not turn off copy-on-write for "
			   "'%s'", f->path);
}
