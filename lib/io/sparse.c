// SPDX-License-Identifier: BSD-2-Clause
/*
 * Zeros, holes and reserved space, by the cheapest call that the file system or device has.
 *
 * A rung of the ladder is taken only where its success means zeros for certain: BLKDISCARD is no
 * rung, since its content is undefined. A rung that does not exist for a file is remembered in
 * `missing`; one that fails otherwise is no reason to give up while zeros can still be written.
 *
 * The hook sees what is wanted (one ZERO, PUNCH or ALLOCATE) and not the rungs.
 */
#include "io/sparse.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/range.h"
#include "io/file_priv.h"

static _Alignas(4096) char zeros[MIB];

static bool unsupported(int code)
{
	return code == EOPNOTSUPP || code == ENOTTY || code == EINVAL || code == ENOSYS;
}

/* One rung: fallocate with `mode`. 0, or an errno value; EOPNOTSUPP at once where it is missing. */
static int try_fallocate(struct file *f, unsigned rung, int mode, uint64_t off, uint64_t len)
{
	int code = 0;

	if (f->missing & rung)
		return EOPNOTSUPP;
	while (fallocate(f->fd, mode, (off_t)off, (off_t)len)) {
		code = errno;
		if (code != EINTR)
			break;
		code = 0;
	}
	if (unsupported(code))
		f->missing |= rung;
	return code;
}

static int try_ioctl(struct file *f, unsigned rung, unsigned long request, uint64_t off, uint64_t len)
{
	uint64_t range[2] = { off, len };

	if (f->missing & rung)
		return EOPNOTSUPP;
	if (!ioctl(f->fd, request, range))
		return 0;
	if (unsupported(errno))
		f->missing |= rung;
	return errno;
}

static int punch(struct file *f, uint64_t off, uint64_t len)
{
	return try_fallocate(f, MISSING_PUNCH, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len);
}

static int zero_range(struct file *f, uint64_t off, uint64_t len)
{
	return try_fallocate(f, MISSING_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, off, len);
}

static int write_zeros(struct file *f, uint64_t off, uint64_t len)
{
	size_t done;
	int code = 0;

	for (; len && !code; off += done, len -= done)
		code = file_put(f, off, zeros, min_u64(len, sizeof(zeros)), &done);
	return code;
}

static int zero_file(struct file *f, uint64_t off, uint64_t len, unsigned flags, enum sparse_how *how)
{
	int code = EOPNOTSUPP;

	if (flags & SPARSE_UNMAP) {
		*how = SPARSE_PUNCH;
		code = punch(f, off, len);
	}
	if (code) {
		*how = SPARSE_ZERO_RANGE;
		code = zero_range(f, off, len);
	}
	/* Network file systems may have this pair instead. */
	if (code && !(flags & SPARSE_UNMAP) && !(f->missing & MISSING_ALLOCATE)) {
		*how = SPARSE_PUNCH;
		code = punch(f, off, len);
		if (!code)
			code = try_fallocate(f, MISSING_ALLOCATE, 0, off, len);
	}
	if (code && !(flags & SPARSE_NO_FALLBACK)) {
		*how = SPARSE_WRITE;
		code = write_zeros(f, off, len);
	}
	return code;
}

/* off and len are multiples of the device's sector. */
static int zero_sectors(struct file *f, uint64_t off, uint64_t len, unsigned flags,
			enum sparse_how *how)
{
	int code = EOPNOTSUPP;

	/* Only with the permission to unmap does the kernel not write the zeros itself. */
	if (flags & SPARSE_UNMAP) {
		*how = SPARSE_PUNCH;
		code = punch(f, off, len);
	}
	if (!code || (flags & SPARSE_NO_FALLBACK))
		return code;
	*how = SPARSE_WRITE_ZEROES;
	code = try_ioctl(f, MISSING_BLKZEROOUT, BLKZEROOUT, off, len);
	if (code) {
		*how = SPARSE_WRITE;
		code = write_zeros(f, off, len);
	}
	return code;
}

static uint64_t sector_size(struct file *f)
{
	int sector;

	return !ioctl(f->fd, BLKSSZGET, &sector) && sector > 0 && is_pow2((uint64_t)sector) ?
	       (uint64_t)sector : 4096;
}

static int zero_device(struct file *f, uint64_t off, uint64_t len, unsigned flags,
		       enum sparse_how *how)
{
	struct range r = range_inner(off, len, sector_size(f));
	int code = 0;

	*how = SPARSE_WRITE;
	if (!r.len)
		return write_zeros(f, off, len);
	if (r.start > off)
		code = write_zeros(f, off, r.start - off);
	if (!code && off + len > range_end(&r))
		code = write_zeros(f, range_end(&r), off + len - range_end(&r));
	return code ? code : zero_sectors(f, r.start, r.len, flags, how);
}

static int grow(struct file *f, uint64_t size)
{
	size_t done;

	/* A request in flight may make the file longer than that: setting its length could cut it. */
	if (f->growing)
		return file_put(f, size - 1, zeros, 1, &done);
	while (ftruncate(f->fd, (off_t)size)) {
		if (errno != EINTR)
			return errno;
	}
	file_grown(f, size);
	return 0;
}

int sparse_zero(struct file *f, uint64_t off, uint64_t len, unsigned flags, enum sparse_how *how,
		struct qimg_error *e)
{
	enum sparse_how used = SPARSE_NOTHING;
	struct range inside;
	int code;

	if (!how)
		how = &used;
	*how = SPARSE_NOTHING;
	if (file_check_change(f, e))
		return -1;
	if (!len)
		return 0;
	code = file_hook_call(f, FILE_OP_ZERO, off, NULL, len);
	if (!code && !range_within(off, len, f->device ? f->size : INT64_MAX))
		code = f->device ? ENOSPC : EFBIG;
	if (code)
		goto out;
	/* Setting the length must never shorten what somebody else has made longer meanwhile. */
	if (off + len > f->size && file_refresh(f, e))
		return -1;

	file_changed(f, off, len);
	if ((flags & SPARSE_RESERVE) && !f->device && off + len > f->size) {
		*how = SPARSE_ZERO_RANGE;
		if (!try_fallocate(f, MISSING_ZERO_RANGE, FALLOC_FL_ZERO_RANGE, off, len)) {
			file_grown(f, off + len);
			return 0;
		}
	}
	inside = range_clip(off, len, 0, f->size);
	if (inside.len)
		code = f->device ? zero_device(f, inside.start, inside.len, flags, how) :
		       zero_file(f, inside.start, inside.len, flags, how);
	if (!code && off + len > f->size) {
		*how = SPARSE_TRUNCATE;
		file_changed(f, f->size, off + len - f->size);
		code = grow(f, off + len);
	}
	if (!code)
		f->zeroed_by |= 1U << *how;
out:
	if (unsupported(code) && (flags & SPARSE_NO_FALLBACK))
		return error_set(e, ENOTSUP, "'%s' has no fast way to zero", f->path);
	if (code)
		return error_errno(e, code, "Could not zero %" PRIu64 " bytes at offset 0x%" PRIx64
				   " of '%s'", len, off, f->path);
	return 0;
}

int sparse_fallocate_mode(const struct file *f, unsigned flags)
{
	bool unmap = flags & SPARSE_UNMAP;

	if (f->device || (f->missing & (unmap ? MISSING_PUNCH : MISSING_ZERO_RANGE)))
		return 0;
	return FALLOC_FL_KEEP_SIZE | (unmap ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE);
}

struct range sparse_discard_range(struct file *f, uint64_t off, uint64_t len)
{
	struct range r = range_clip(off, len, 0, f->size);

	return f->device ? range_inner(r.start, r.len, sector_size(f)) : r;
}

const char *sparse_zeroed_by(const struct file *f)
{
	/* Where there was more than one, the dearest. */
	if (f->zeroed_by & 1U << SPARSE_WRITE)
		return "writing zeros";
	if (f->zeroed_by & 1U << SPARSE_WRITE_ZEROES)
		return "BLKZEROOUT";
	if (f->zeroed_by & 1U << SPARSE_ZERO_RANGE)
		return "FALLOC_FL_ZERO_RANGE";
	if (f->zeroed_by & 1U << SPARSE_PUNCH)
		return "FALLOC_FL_PUNCH_HOLE";
	return NULL;
}

int sparse_discard(struct file *f, uint64_t off, uint64_t len, struct qimg_error *e)
{
	struct range r = sparse_discard_range(f, off, len);
	int code;

	if (file_check_change(f, e))
		return -1;
	if (!r.len)
		return 0;
	code = file_hook_call(f, FILE_OP_PUNCH, r.start, NULL, r.len);
	if (!code) {
		file_changed(f, r.start, r.len);
		code = f->device ? try_ioctl(f, MISSING_BLKDISCARD, BLKDISCARD, r.start, r.len) :
		       punch(f, r.start, r.len);
		/* Freeing can itself need space for metadata. */
		if (unsupported(code) || code == ENOSPC)
			code = 0;
	}
	if (code)
		return error_errno(e, code, "Could not discard %" PRIu64 " bytes at offset 0x%" PRIx64
				   " of '%s'", r.len, r.start, f->path);
	return 0;
}

int sparse_allocate(struct file *f, uint64_t off, uint64_t len, struct qimg_error *e)
{
	struct qimg_error ignored;
	int code;

	if (file_check_change(f, e))
		return -1;
	if (!len)
		return 0;
	code = file_hook_call(f, FILE_OP_ALLOCATE, off, NULL, len);
	if (!code && !range_within(off, len, f->device ? f->size : INT64_MAX))
		code = f->device ? ENOSPC : EFBIG;
	if (!code && !f->device) {
		file_changed(f, off, len);
		code = try_fallocate(f, MISSING_ALLOCATE, 0, off, len);
		if (!code)
			file_grown(f, off + len);
		else
			file_refresh(f, &ignored);	/* it may have grown part of the way */
	}
	if (unsupported(code))
		return error_set(e, ENOTSUP, "The file system of '%s' can not reserve space", f->path);
	if (code)
		return error_errno(e, code, "Could not reserve %" PRIu64 " bytes at offset 0x%" PRIx64
				   " of '%s'", len, off, f->path);
	return 0;
}
