// SPDX-License-Identifier: BSD-2-Clause
/* Where the metadata of a new image goes, in closed form. */
#include "qcow2/layout.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "qcow2/header.h"

/* A table of this much, with its metadata, stays below 2^56. */
#define MAX_MAPPED (UINT64_C(1) << 55)

static int too_large(const struct layout *l, const char *what, uint64_t bytes, uint64_t max,
		     struct qimg_error *e)
{
	return error_set(e, EFBIG,
			 "The image size is too large for file format 'qcow2' (try using a "
			 "larger cluster size): size %" PRIu64 " with clusters of %" PRIu64
			 " bytes takes %s of %" PRIu64 " bytes, more than %" PRIu64,
			 l->size, UINT64_C(1) << l->cluster_bits, what, bytes, max);
}

/*
 * Refcount blocks and table count themselves, too: each round covers what the round before needs.
 * The numbers only grow and settle after a few rounds.
 */
static void settle_refcounts(struct layout *l, uint64_t others)
{
	uint64_t per_block = UINT64_C(1) << (l->cluster_bits + 3 - l->refcount_order);
	uint64_t per_table = UINT64_C(1) << (l->cluster_bits - 3);
	uint64_t blocks, rt_clusters;

	l->blocks = l->rt_clusters = 1;
	for (;;) {
		l->clusters = others + l->blocks + l->rt_clusters;
		blocks = div_up(l->clusters, per_block);
		rt_clusters = div_up(blocks, per_table);
		if (blocks == l->blocks && rt_clusters == l->rt_clusters)
			return;
		l->blocks = blocks;
		l->rt_clusters = rt_clusters;
	}
}

int layout_compute(struct layout *l, struct qimg_error *e)
{
	uint64_t cluster = UINT64_C(1) << l->cluster_bits;

	l->guest_clusters = div_up(l->size, cluster);
	l->l1_entries = header_l1_need(l->size, l->cluster_bits, l->extended);
	if (l->l1_entries * 8 > HEADER_MAX_L1_BYTES)
		return too_large(l, "an L1 table", l->l1_entries * 8, HEADER_MAX_L1_BYTES, e);
	l->l1_clusters = div_up(l->l1_entries * 8, cluster);
	l->l2_tables = l->mapped ? l->l1_entries : 0;
	l->data_clusters = l->mapped && !l->external ? l->guest_clusters : 0;
	settle_refcounts(l, 1 + l->l1_clusters + l->l2_tables + l->data_clusters);
	if (l->rt_clusters << l->cluster_bits > HEADER_MAX_RT_BYTES)
		return too_large(l, "a refcount table", l->rt_clusters << l->cluster_bits,
				 HEADER_MAX_RT_BYTES, e);
	/* An entry has room for 56 bits of offset. */
	if (l->mapped && l->size > MAX_MAPPED)
		return error_set(e, EFBIG,
				 "Preallocation of %" PRIu64 " bytes is more than the %" PRIu64
				 " that can be mapped",
				 l->size, (uint64_t)MAX_MAPPED);

	l->rt_at = 1;
	l->block_at = l->rt_at + l->rt_clusters;
	l->l1_at = l->block_at + 1;
	l->l2_at = l->l1_at + l->l1_clusters;
	l->more_blocks_at = l->l2_at + l->l2_tables;
	l->data_at = l->more_blocks_at + l->blocks - 1;
	l->meta_len = l->data_at << l->cluster_bits;
	/* With nothing behind L1 the file ends with it, as scripts expect. */
	if (l->data_at == l->l2_at)
		l->meta_len = (l->l1_at << l->cluster_bits) + l->l1_entries * 8;
	l->file_len = l->data_clusters ? l->clusters << l->cluster_bits : l->meta_len;
	return 0;
}
