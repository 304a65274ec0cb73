// SPDX-License-Identifier: BSD-2-Clause
/*
 * Transfers past the page cache. O_DIRECT asks for aligned offsets, lengths and addresses; callers of
 * file_read and file_write know none of that.
 *
 * A transfer is cut into an unaligned head, an aligned middle and an unaligned tail. The middle goes
 * straight to the caller's memory if that is aligned; all else passes a bounce buffer, and what shares
 * a block with bytes that stay is read, changed and written back. A tail that ends the file may not be
 * padded, since that would make the file longer, for ever if the power fails: it is written through
 * the page cache, by a second descriptor without O_DIRECT.
 *
 * A page that becomes dirty while a direct write of something in it is in flight is an error to the
 * kernel, which the next sync reports. So nothing of the file is in flight while its end is written,
 * and that leaves no dirty page. The queue sees to it for its requests (ioq_must_wait); the owner of the
 * file, who can write at any time, waits here for the queue to come to rest.
 *
 * A file that refuses direct transfers although it took the flag falls back to the page cache for good,
 * also when nothing is in flight.
 */
#include "io/file_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/ioq_priv.h"

#define BOUNCE MIB

/* What is asked for when neither kernel nor device tells: right for all but exotic storage. */
#define USUAL_ALIGN 4096

static int set_direct(struct file *f, bool on)
{
	int fl = fcntl(f->fd, F_GETFL);

	if (fl < 0 || fcntl(f->fd, F_SETFL, on ? fl | O_DIRECT : fl & ~O_DIRECT))
		return errno;
	return 0;
}

/* What the kernel says about this very file, since Linux 6.1. false: it says nothing. */
static bool ask_kernel(struct file *f, uint32_t *align, uint32_t *memory)
{
#ifdef STATX_DIOALIGN
	struct statx st;

	if (statx(f->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) || !(st.stx_mask & STATX_DIOALIGN))
		return false;
	*align = st.stx_dio_offset_align;
	*memory = st.stx_dio_mem_align;
	return true;
#else
	(void)f;
	(void)align;
	(void)memory;
	return false;
#endif
}

/* Such file systems are nothing but page cache. Newer kernels take the flag there, and ignore it. */
static bool in_memory(struct file *f)
{
	struct statfs fs;

	return !fstatfs(f->fd, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

/* false: the file can not do direct transfers at all (the kernel says 0 then). */
static bool find_alignment(struct file *f)
{
	uint32_t align = USUAL_ALIGN, memory = USUAL_ALIGN;
	int sector;

	if (!ask_kernel(f, &align, &memory)) {
		if (f->device && !ioctl(f->fd, BLKSSZGET, &sector) && sector > 0)
			align = memory = (uint32_t)sector;
		else if (!f->device && in_memory(f))
			return false;
	}
	if (!is_pow2(align) || !is_pow2(memory) || align > BOUNCE || memory > USUAL_ALIGN)
		return false;
	f->direct_align = align;
	f->direct_memory = memory;
	return true;
}

void direct_enable(struct file *f)
{
	int code;

	if (!find_alignment(f)) {
		direct_disable(f, "its file system has no direct I/O");
		return;
	}
	code = set_direct(f, true);
	if (code)
		direct_disable(f, strerror(code));
}

void direct_disable(struct file *f, const char *why)
{
	f->direct_align = 0;
	f->refused = false;
	set_direct(f, false);
	warn("'%s' is used through the page cache: %s", f->path, why);
}

bool file_is_direct(const struct file *f)
{
	return f->direct_align;
}

void direct_close(struct file *f)
{
	if (f->through >= 0)
		close(f->through);
}

static bool is_direct(const struct file *f, uint64_t off, const void *buf, size_t len)
{
	return is_aligned(off, f->direct_align) && is_aligned(len, f->direct_align) &&
	       is_aligned((uintptr_t)buf, f->direct_memory);
}

/* An aligned transfer that was refused as such: go on without O_DIRECT. A helper leaves that to the owner. */
static bool fell_back(struct file *f, int code)
{
	if (code != EINVAL)
		return false;
	if (f->shadow) {
		f->refused = true;
		return false;
	}
	ioq_settle(f);
	direct_disable(f, "it refuses direct I/O");
	return true;
}

/*
 * Reads whole blocks up to the end of the file. After a short transfer the next offset is in the midst
 * of a block only at that end, where there is nothing more to read.
 */
static int read_blocks(struct file *f, uint64_t off, void *buf, size_t len, size_t *done)
{
	ssize_t n;

	for (*done = 0; *done < len && is_aligned(*done, f->direct_align); *done += (size_t)n) {
		n = pread(f->fd, (char *)buf + *done, len - *done, (off_t)(off + *done));
		if (!n)
			break;
		if (n < 0) {
			if (errno != EINTR && errno != EAGAIN)
				return errno;
			n = 0;
		}
	}
	return 0;
}

int direct_pread(struct file *f, uint64_t off, void *buf, size_t len, size_t *done)
{
	struct qimg_error e;
	char *bounce = NULL;
	int code = 0;

	*done = 0;
	while (*done < len && f->direct_align) {
		uint64_t at = off + *done, start = round_down(at, f->direct_align);
		size_t head = (size_t)(at - start), want = len - *done, got, n;
		char *to = (char *)buf + *done;

		n = round_down(want, f->direct_align);
		if (n && is_direct(f, at, to, n)) {
			code = read_blocks(f, at, to, n, &got);
			want = n;
		} else {
			if (!bounce)
				bounce = mem_buffer(BOUNCE, &e);
			if (!bounce) {
				code = ENOMEM;
				break;
			}
			want = min_u64(want, BOUNCE - head);
			n = round_up(head + want, f->direct_align);
			code = read_blocks(f, start, bounce, n, &got);
			got = got > head ? min_u64(got - head, want) : 0;
			memcpy(to, bounce + head, got);
		}
		*done += got;
		if (code && fell_back(f, code))
			code = 0;
		else if (code || got < want)
			break;
	}
	free(bounce);
	if (!code && *done < len && !f->direct_align) {
		size_t got;

		code = file_pread(f->fd, off + *done, (char *)buf + *done, len - *done, &got);
		*done += got;
	}
	return code;
}

/* For a descriptor without O_DIRECT on the same file, whatever its name is by now. */
static int open_through(const struct file *f)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", f->fd);
	return open(name, O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

/* To the disk, and out of memory. Systems without the call do it later by themselves. */
static int push_out(int fd, uint64_t off)
{
	if (sync_file_range(fd, (off_t)off, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
			    SYNC_FILE_RANGE_WAIT_AFTER) && errno != ENOSYS)
		return errno;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return 0;
}

/* The last bytes of a file whose length is no multiple of a block. Nothing of it is in flight. */
static int write_end(struct file *f, uint64_t off, const void *buf, size_t len, size_t *done)
{
	bool switched = false;
	int code = 0, fd;

	*done = 0;
	if (f->through < 0)
		f->through = open_through(f);
	fd = f->through;
	if (fd < 0) {
		/* There is no /proc, or the file may not be opened any more. */
		switched = true;
		fd = f->fd;
		code = set_direct(f, false);
	}
	if (code)
		return code;
	code = file_pwrite(fd, off, buf, len, done);
	if (!code)
		code = push_out(fd, round_down(off, f->direct_align));
	if (switched && set_direct(f, true))
		f->refused = true;
	return code;
}

bool direct_ends(const struct file *f, uint64_t off, uint64_t len)
{
	return f->direct_align && !is_aligned(off + len, f->direct_align) &&
	       round_up(off + len, f->direct_align) > f->size;
}

/*
 * Writes up to a bounce buffer's worth through it. Blocks at either end that are changed in part only
 * are read first. At the end of the file only whole blocks are written here; *done may be 0 then.
 */
static int write_bounced(struct file *f, uint64_t off, const void *buf, size_t len, char *bounce,
			 size_t *done)
{
	uint32_t a = f->direct_align;
	uint64_t start = round_down(off, a), limit = max_u64(f->size, off + len), end;
	size_t head = (size_t)(off - start), got, n;
	int code;

	*done = 0;
	len = min_u64(len, BOUNCE - head);
	end = round_up(off + len, a);
	if (end > limit) {
		/* Padding would make the file longer. */
		end -= a;
		if (end <= off)
			return 0;
		len = (size_t)(end - off);
	}
	n = (size_t)(end - start);
	if (head) {
		code = read_blocks(f, start, bounce, a, &got);
		if (code)
			return code;
		memset(bounce + got, 0, a - got);
	}
	if (head + len < n && (!head || n > a)) {
		code = read_blocks(f, end - a, bounce + n - a, a, &got);
		if (code)
			return code;
		memset(bounce + n - a + got, 0, a - got);
	}
	memcpy(bounce + head, buf, len);
	code = file_pwrite(f->fd, start, bounce, n, &got);
	*done = got > head ? min_u64(got - head, len) : 0;
	return code;
}

int direct_pwrite(struct file *f, uint64_t off, const void *buf, size_t len, size_t *done)
{
	struct qimg_error e;
	char *bounce = NULL;
	int code = 0;

	*done = 0;
	/* What others have in flight may be of the same block. */
	if (!f->shadow && (f->alone || !is_aligned(off | len, f->direct_align)))
		ioq_settle(f);
	while (*done < len && f->direct_align) {
		const char *from = (const char *)buf + *done;
		uint64_t at = off + *done;
		size_t n = round_down(len - *done, f->direct_align), put = 0;

		if (n && is_direct(f, at, from, n)) {
			code = file_pwrite(f->fd, at, from, n, &put);
		} else {
			if (!bounce)
				bounce = mem_buffer(BOUNCE, &e);
			if (!bounce) {
				code = ENOMEM;
				break;
			}
			code = write_bounced(f, at, from, len - *done, bounce, &put);
			if (!code && !put)
				code = write_end(f, at, from, len - *done, &put);
		}
		*done += put;
		file_grown(f, at + put);
		if (code && fell_back(f, code))
			code = 0;
		else if (code)
			break;
	}
	free(bounce);
	if (!code && *done < len) {
		size_t put;

		code = file_pwrite(f->fd, off + *done, (const char *)buf + *done, len - *done, &put);
		*done += put;
	}
	return code;
}
