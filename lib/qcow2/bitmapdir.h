/* SPDX-License-Identifier: BSD-2-Clause */
/* The directory of persistent dirty bitmaps. */
#ifndef QCOW2_BITMAPDIR_H
#define QCOW2_BITMAPDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qcow2;
struct qimg_error;

enum {				/* flags of a bitmap */
	BITMAP_IN_USE = 1 << 0,		/* was not written back: its content is not to be trusted */
	BITMAP_AUTO = 1 << 1,		/* to be kept up to date by whoever writes */
	BITMAP_EXTRA_COMPATIBLE = 1 << 2,	/* may be used without knowing its extra data */
};

struct bitmap_entry {
	char *name;
	uint64_t table_offset;
	uint32_t table_size;		/* entries */
	uint32_t flags;
	unsigned granularity_bits;	/* 0..63 */
	unsigned type;			/* 1, but for a check */
	uint32_t name_len;		/* as stored: 1..1023, but for a check */
	uint8_t *extra;			/* data behind it that is not known here */
	uint32_t extra_len;
};

/*
 * Reads the directory: *count entries, none when the image has no bitmaps that can be relied on. To be
 * freed with bitmapdir_free.
 */
int bitmapdir_load(struct qcow2 *q, struct bitmap_entry **list, size_t *count,
		   struct qimg_error *e);
/*
 * For a check: as many entries as can be told apart, also those that the header leaves out and that bitmapdir_check
 * refuses. -1: that is not all that the header says, why tells what is wrong. To be freed in any case.
 */
int bitmapdir_load_some(struct qcow2 *q, struct bitmap_entry **list, size_t *count, struct qimg_error *why);
/* Whether type, granularity and name are what they can be; -1: e tells what is not. */
int bitmapdir_check(const struct bitmap_entry *b, size_t index, struct qimg_error *e);
/* The directory of these bitmaps: its size, and its bytes, written to buf. */
uint64_t bitmapdir_size(const struct bitmap_entry *list, size_t count);
void bitmapdir_encode(const struct bitmap_entry *list, size_t count, uint8_t *buf);
void bitmapdir_free(struct bitmap_entry *list, size_t count);

#endif
