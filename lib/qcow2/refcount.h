/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Refcounts: looking them up and changing them, making blocks, growing the table. Which clusters to
 * take or to give back is decided in alloc.c. Opening and closing are declared in qcow2.h.
 */
#ifndef QCOW2_REFCOUNT_H
#define QCOW2_REFCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct qcow2;
struct qimg_error;
struct wait;

enum refcount_scan {
	SCAN_USED,
	SCAN_FREE,		/* refcount 0 */
	SCAN_ABSENT,		/* refcount 0, and no block yet that could hold another value */
};

/*
 * Clusters are given by their index (host offset / cluster size). The calls that look may return
 * MAP_WAIT with w, as in image/driver.h.
 */
int refcount_get(struct qcow2 *q, uint64_t cluster, uint64_t *count, struct wait *w,
		 struct qimg_error *e);
/* *n becomes the length of the run of clusters alike from `cluster` on, at most max and >= 1. */
int refcount_scan(struct qcow2 *q, uint64_t cluster, uint64_t max, enum refcount_scan *what,
		  uint64_t *n, struct wait *w, struct qimg_error *e);
/* refcount_scan would not have to wait. */
bool refcount_at_hand(const struct qcow2 *q, uint64_t cluster);
/*
 * Adds one to each of n clusters, which have blocks. A count that would not fit is an error (ERANGE)
 * found before anything is changed.
 */
int refcount_raise(struct qcow2 *q, uint64_t cluster, uint64_t n, struct qimg_error *e);
/* Subtracts one from one cluster; *left is what remains. Below zero is an error (EIO). */
int refcount_lower(struct qcow2 *q, uint64_t cluster, uint64_t *left, struct qimg_error *e);
/*
 * Makes `count` blocks for the table entries from that of `cluster` on, which have none. The blocks
 * take the first clusters of what they describe. Grows the table as needed.
 */
int refcount_make_blocks(struct qcow2 *q, uint64_t cluster, uint32_t count, struct qimg_error *e);
/* Clusters that one block describes. */
uint64_t refcount_span(const struct qcow2 *q);

#endif
