/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the metadata of a new image goes, in closed form.
 *
 * All positions are cluster numbers in the image file. The order is: header, refcount table, first
 * refcount block, L1 table, and where they are needed L2 tables, further refcount blocks, data; each
 * directly behind the one before. Every cluster of the file is in use exactly once.
 */
#ifndef QCOW2_LAYOUT_H
#define QCOW2_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

struct qimg_error;

struct layout {
	/* given */
	uint64_t size;			/* virtual */
	unsigned cluster_bits;
	unsigned refcount_order;
	bool extended;			/* extended L2 entries */
	bool mapped;			/* all guest clusters have an entry (preallocation) */
	bool external;			/* the data is in another file */

	/* filled in by layout_compute */
	uint64_t guest_clusters;
	uint64_t l1_entries, l1_clusters, l2_tables, data_clusters;
	uint64_t rt_at, rt_clusters;
	uint64_t block_at, blocks;	/* the first refcount block, and how many there are */
	uint64_t more_blocks_at;	/* the second and all others */
	uint64_t l1_at, l2_at, data_at;
	uint64_t clusters;		/* of the whole file */
	uint64_t meta_len;		/* length of the file up to the data, in bytes */
	uint64_t file_len;		/* with the data */
};

/* Fails when a table would be larger than what can be opened again. */
int layout_compute(struct layout *l, struct qimg_error *e);

#endif
