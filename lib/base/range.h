/* SPDX-License-Identifier: BSD-2-Clause */
/* Byte ranges: the only place that clips one range against another. */
#ifndef BASE_RANGE_H
#define BASE_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct range {
	uint64_t start, len;	/* start + len never overflows */
};

uint64_t range_end(const struct range *r);
/* The part of [start, start+len) that lies in [from, to); len 0 when there is none. */
struct range range_clip(uint64_t start, uint64_t len, uint64_t from, uint64_t to);
bool range_overlaps(uint64_t a, uint64_t alen, uint64_t b, uint64_t blen);
/* [off, off+len) lies within [0, size), without overflow. */
bool range_within(uint64_t off, uint64_t len, uint64_t size);
/* The largest part of [off, off+len) that starts and ends at multiples of align (a power of two). */
struct range range_inner(uint64_t off, uint64_t len, uint64_t align);
/* The smallest range with such ends that contains it; the end may not overflow. */
struct range range_outer(uint64_t off, uint64_t len, uint64_t align);

#endif
