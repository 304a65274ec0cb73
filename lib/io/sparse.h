/* SPDX-License-Identifier: BSD-2-Clause */
/* Zeros, holes and reserved space: the ladder of calls that a file system or device may offer. */
#ifndef IO_SPARSE_H
#define IO_SPARSE_H

#include <stdint.h>

#include "base/range.h"

struct file;
struct qimg_error;

enum {
	SPARSE_UNMAP = 1 << 0,		/* the space may be given back */
	SPARSE_NO_FALLBACK = 1 << 1,	/* fail with ENOTSUP instead of writing zeros */
	SPARSE_RESERVE = 1 << 2,	/* beyond the end of a file: take space, where the host can, too */
};

/* Which rung was used last, for reports. */
enum sparse_how { SPARSE_NOTHING, SPARSE_PUNCH, SPARSE_ZERO_RANGE, SPARSE_WRITE_ZEROES,
		  SPARSE_DISCARD, SPARSE_TRUNCATE, SPARSE_WRITE };

/*
 * Afterwards the range reads as zeros, for certain; the file is at least as long as its end. Tries
 * the cheapest way first. how may be NULL.
 */
int sparse_zero(struct file *f, uint64_t off, uint64_t len, unsigned flags, enum sparse_how *how,
		struct qimg_error *e);
/* By what means ranges inside the file were zeroed so far, for people. NULL: none were. */
const char *sparse_zeroed_by(const struct file *f);
/* A hint: gives space back where the host can. The content is undefined afterwards. Never grows. */
int sparse_discard(struct file *f, uint64_t off, uint64_t len, struct qimg_error *e);
/* The part of the range that sparse_discard would give back. */
struct range sparse_discard_range(struct file *f, uint64_t off, uint64_t len);
/*
 * The mode of the one fallocate that does the whole of a zeroing (discarding: flags SPARSE_UNMAP) that
 * changes no length, or 0. Where the call fails, sparse_zero or sparse_discard has to be called.
 */
int sparse_fallocate_mode(const struct file *f, unsigned flags);
/* Reserves space, growing the file; new bytes read as zeros. ENOTSUP where the host cannot. */
int sparse_allocate(struct file *f, uint64_t off, uint64_t len, struct qimg_error *e);

#endif
