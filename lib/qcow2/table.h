/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two levels of the mapping: the L1 table, whole in memory, and the L2 tables, slice by slice.
 * Opening and closing are declared in qcow2.h.
 */
#ifndef QCOW2_TABLE_H
#define QCOW2_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "qcow2/entry.h"

struct qcow2;
struct slice;
struct qimg_error;
struct wait;

/* A pinned place in an L2 table: the entry of one guest cluster and those behind it in the slice. */
struct cursor {
	struct slice *slice;
	uint8_t *entry;		/* of the guest offset asked for */
	uint32_t count;		/* entries from there to the end of the slice */
};

uint32_t table_l1_index(const struct qcow2 *q, uint64_t guest);
/* Guest bytes that one L2 table maps. */
uint64_t table_span(const struct qcow2 *q);
/*
 * Pins the slice for guest. Returns TABLE_NONE, pinning nothing, when there is no L2 table: all its
 * clusters are unallocated. MAP_WAIT with w, pinning nothing: as in image/driver.h.
 */
enum { TABLE_NONE = 2 };
int table_find(struct qcow2 *q, uint64_t guest, struct cursor *c, struct wait *w,
	       struct qimg_error *e);
/*
 * The same for a change: makes an L2 table where there is none, and copies one that a snapshot shares.
 * The L1 entry points to the table of the active image alone afterwards. Never returns TABLE_NONE.
 */
int table_find_writable(struct qcow2 *q, uint64_t guest, struct cursor *c, struct wait *w,
			struct qimg_error *e);
/* table_find would not have to wait. */
bool table_at_hand(const struct qcow2 *q, uint64_t guest);
void table_put(struct qcow2 *q, struct cursor *c);
/* Decodes the i-th entry behind the cursor; guest is the offset of that cluster. */
int table_entry(struct qcow2 *q, const struct cursor *c, uint32_t i, uint64_t guest,
		struct entry *en, struct qimg_error *e);
/* Changes it and marks the slice dirty. Only on a cursor of table_find_writable. */
void table_set(struct qcow2 *q, struct cursor *c, uint32_t i, const struct entry *en);
/* The table for guest is there and may be changed without being copied. */
bool table_is_own(const struct qcow2 *q, uint64_t guest);

/* Reads the L1 table again, of the size it had: something else than this has changed it in the file. */
int table_reload(struct qcow2 *q, struct qimg_error *e);
/* Makes room for more entries: moves the L1 table. Everything was flushed before. */
int table_grow(struct qcow2 *q, uint32_t entries, struct qimg_error *e);

#endif
