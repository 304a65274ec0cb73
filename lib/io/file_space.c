// SPDX-License-Identifier: BSD-2-Clause
/* What lies around a file: space on its file system, pages in memory. */
#include "io/file_priv.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bytes.h"

#define XFS_MAGIC 0x58465342

/* Others may compress, share blocks, or have their space elsewhere. */
static bool counts_blocks(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return false;
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_MAGIC || fs.f_type == TMPFS_MAGIC;
}

bool file_space(struct file *f, uint64_t *bytes)
{
	struct statvfs fs;

	if (f->device || !counts_blocks(f->fd) || fstatvfs(f->fd, &fs) || !fs.f_blocks)
		return false;
	return mul_u64(geteuid() ? fs.f_bavail : fs.f_bfree, fs.f_frsize, bytes);
}

void file_drop_cache(struct file *f)
{
	posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
}
