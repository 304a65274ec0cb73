// SPDX-License-Identifier: BSD-2-Clause
/* What lies around a file: space on its file system, pages in memory. */
#include "io/file_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bytes.h"

#define XFS_MAGIC 0x58465342

/* Others may compress, share blocks, or have their space elsewhere. */
static bool counts_blocks(long type)
{
	return type == EXT4_SUPER_MAGIC || type == XFS_MAGIC || type == TMPFS_MAGIC;
}

/* Asks for the space behind the end of the file, and gives it back. */
static bool can_reserve(struct file *f, uint64_t bytes)
{
	struct stat st;
	int code;

	if (fstat(f->fd, &st))
		return true;
	code = fallocate(f->fd, FALLOC_FL_KEEP_SIZE, st.st_size, (off_t)bytes) ? errno : 0;
	/* Of what is refused a part may have been reserved. */
	if (ftruncate(f->fd, st.st_size))
		return true;
	return code != ENOSPC;
}

bool file_lacks_space(struct file *f, uint64_t bytes, uint64_t *have)
{
	struct statfs fs;
	uint64_t block;

	if (f->device || fstatfs(f->fd, &fs) || !counts_blocks(fs.f_type) || !fs.f_blocks)
		return false;
	block = (uint64_t)(fs.f_frsize ? fs.f_frsize : fs.f_bsize);
	if (!mul_u64(geteuid() ? fs.f_bavail : fs.f_bfree, block, have) || bytes <= *have)
		return false;
	/* XFS has more when it is asked: what it holds back for files that grow, or has not freed yet. */
	return fs.f_type != XFS_MAGIC || bytes > INT64_MAX || !can_reserve(f, bytes);
}

/* By the numbers in statfs(2); some headers know but a few of them. */
const char *file_system_name(const char *path)
{
	static const struct {
		uint32_t magic;
		const char *name;
	} known[] = {
		{ EXT4_SUPER_MAGIC, "ext4" }, { XFS_MAGIC, "xfs" }, { TMPFS_MAGIC, "tmpfs" },
		{ 0x9123683e, "btrfs" }, { 0x2fc12fc1, "zfs" }, { 0xca451a4e, "bcachefs" },
		{ 0xf2f52010, "f2fs" }, { 0x794c7630, "overlayfs" }, { 0x6969, "nfs" }, { 0xff534d42, "cifs" },
		{ 0xfe534d42, "smb2" }, { 0x65735546, "fuse" }, { 0x01021997, "9p" }, { 0x00c36400, "ceph" },
		{ 0x01161970, "gfs2" }, { 0x7461636f, "ocfs2" }, { 0x4d44, "vfat" }, { 0x2011bab0, "exfat" },
		{ 0x7366746e, "ntfs3" },
	};
	struct statfs fs;

	if (statfs(path, &fs))
		return NULL;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].magic == (uint32_t)fs.f_type)
			return known[i].name;
	return NULL;
}

void file_will_read(struct file *f, uint64_t off, uint64_t len)
{
	if (!f->direct_align)
		posix_fadvise(f->fd, (off_t)off, (off_t)len, POSIX_FADV_WILLNEED);
}

void file_drop_cache(struct file *f)
{
	posix_fadvise(f->fd, 0, 0, POSIX_FADV_DONTNEED);
}
