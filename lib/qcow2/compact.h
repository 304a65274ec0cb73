/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clean slices that have left a cache, in a form that takes a small part of their size.
 *
 * A disk that was written from front to back has its clusters one behind the other, and one that nobody
 * has written to has none: then a slice is a few runs of numbers that grow by the same step. Such a slice
 * is remembered as these runs (16 bytes each) and made again from them, bit for bit, without reading the
 * disk. Slices that would need more than an eighth of their size are not kept.
 *
 * What the numbers mean is of no concern here. An entry dies when its slice is changed and when its
 * clusters get a new meaning.
 */
#ifndef QCOW2_COMPACT_H
#define QCOW2_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

struct compact;
struct qimg_error;

/*
 * slice_size: a power of two >= 512. lanes: 1, or 2 where every other number is a sequence of its own. budget:
 * bytes of memory at most, all included.
 */
int compact_open(struct compact **c, uint32_t slice_size, unsigned lanes, uint64_t budget,
		 struct qimg_error *e);
void compact_close(struct compact *c);	/* NULL is allowed */
uint64_t compact_bytes(const struct compact *c);	/* of memory, now */

/* The slice at off, which is clean, leaves memory: keeps it, if it is of the kind. */
void compact_add(struct compact *c, uint64_t off, const void *data);
bool compact_has(const struct compact *c, uint64_t off);
/* Makes the slice at off again. false: it is not there. */
bool compact_get(struct compact *c, uint64_t off, void *data);
void compact_kill(struct compact *c, uint64_t off);
/* Drops what nobody has asked for since the last call, down to no memory at all. */
void compact_clean(struct compact *c);

#endif
