/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent dirty bitmaps as formats hand them to each other. Bit i says whether anything has changed in
 * [i << granularity_bits, (i + 1) << granularity_bits) of the disk; it is bit i % 8 of byte i / 8.
 */
#ifndef IMAGE_BITMAP_H
#define IMAGE_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qimg_error;
struct qimg_image;

struct bitmap {
	char *name;
	unsigned granularity_bits;
	bool automatic;			/* to be kept up to date by whoever writes to the disk */
	bool broken;			/* what it says is not to be trusted: can not be read */
	/* The driver's. */
	uint64_t table;
	uint32_t table_size;
};

/* Where the content of new bitmaps comes from: bytes [off, off+len), zeros behind its end. */
typedef int (*bitmap_read_fn)(void *ctx, const struct bitmap *b, uint64_t off, void *buf, size_t len,
			      struct qimg_error *e);

uint64_t bitmap_bytes(const struct bitmap *b, uint64_t disk_size);
void bitmap_free_list(struct bitmap *list, size_t count);

#endif
