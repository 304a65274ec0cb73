// SPDX-License-Identifier: BSD-2-Clause
/*
 * Byte ranges. Operands are taken by value and results are new, so that clipping can never work on
 * an operand that was already overwritten.
 */
#include "base/range.h"

#include "base/bytes.h"

uint64_t range_end(const struct range *r)
{
	return r->start + r->len;
}

struct range range_clip(uint64_t start, uint64_t len, uint64_t from, uint64_t to)
{
	/* The last byte of a range always has an address; its end may not. */
	uint64_t lo = max_u64(start, from), hi;

	if (!len || from >= to)
		return (struct range){ lo, 0 };
	hi = add_u64(start, len, &hi) ? min_u64(hi, to) : to;
	return (struct range){ lo, hi > lo ? hi - lo : 0 };
}

bool range_overlaps(uint64_t a, uint64_t alen, uint64_t b, uint64_t blen)
{
	if (!alen || !blen)
		return false;
	return a <= b ? b - a < alen : a - b < blen;
}

bool range_within(uint64_t off, uint64_t len, uint64_t size)
{
	return off <= size && len <= size - off;
}

struct range range_inner(uint64_t off, uint64_t len, uint64_t align)
{
	uint64_t start, end = round_down(off + len, align);

	if (!round_up_checked(off, align, &start) || end <= start)
		return (struct range){ off, 0 };
	return (struct range){ start, end - start };
}

struct range range_outer(uint64_t off, uint64_t len, uint64_t align)
{
	uint64_t start = round_down(off, align);

	return (struct range){ start, len ? round_up(off + len, align) - start : 0 };
}
