/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is dirty in a cache or a table, as pieces to be written one after the other. A piece is a copy,
 * so that what it came from may change again before it has been written.
 */
#ifndef QCOW2_WRITEBACK_H
#define QCOW2_WRITEBACK_H

#include <stddef.h>
#include <stdint.h>

struct cache;
struct qimg_error;
struct slice;

/* All zeros: nothing is begun. */
struct writeback {
	struct slice **list;		/* of a cache, by offset; NULL: not listed yet */
	uint32_t count, next;
	/* The piece. */
	uint64_t off;			/* in the file */
	size_t len;
	uint8_t *buf;
	size_t room;			/* bytes of buf */
	uint32_t first, n;		/* slices of the list, or sectors of the table, in it */
};

/* A table of 64-bit entries that is in memory as a whole, in CPU byte order. */
struct whole_table {
	const uint64_t *entry;
	uint32_t count;
	uint64_t off;			/* in the file */
	uint8_t *dirty;			/* a byte for each sector */
};

/* Of a cache only this slice is to be written; it is dirty, and nothing is listed yet. */
int writeback_only(struct writeback *wb, struct slice *s, struct qimg_error *e);
/*
 * The next piece: 1, 0 when nothing (that was dirty at the first call) is left, -1 on failure. Each piece
 * is followed by a call of _done with what became of its write, 0 or an errno value.
 */
int writeback_slices(struct writeback *wb, struct cache *c, struct qimg_error *e);
void writeback_slices_done(struct writeback *wb, struct cache *c, int code);
int writeback_sectors(struct writeback *wb, const struct whole_table *t, struct qimg_error *e);
void writeback_sectors_done(struct writeback *wb, const struct whole_table *t, int code);
/* Between one cache or table and the next. */
void writeback_reset(struct writeback *wb);
void writeback_free(struct writeback *wb);

#endif
