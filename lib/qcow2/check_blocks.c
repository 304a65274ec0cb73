// SPDX-License-Identifier: BSD-2-Clause
/*
 * Checking an image: the refcount table and where its blocks are. These alone can be made anew from everything else,
 * so that what shares its place with them is known apart from other overlaps.
 */
#include "qcow2/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/qcow2.h"
#include "qcow2/repair.h"

#define BLOCK_RESERVED UINT64_C(511)	/* bits of an entry of the refcount table */

static uint64_t table_len(const struct check *c)
{
	return (uint64_t)c->q->h.rt_clusters << c->q->cluster_bits;
}

/* What is wrong with an entry of the refcount table, or NULL. */
static const char *block_fault(const struct check *c, uint64_t entry)
{
	if (entry & BLOCK_RESERVED)
		return "reserved bits are set";
	if (!is_aligned(entry, c->q->cluster_size))
		return "it is not aligned to a cluster";
	if (!check_inside(c, entry, c->q->cluster_size))
		return "it lies beyond the end of the file";
	return NULL;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int check_blocks_load(struct check *c, struct qimg_error *e)
{
	const struct header *h = &c->q->h;
	size_t bytes = (size_t)table_len(c);
	struct qimg_error why;

	/* What lies behind the end is no table. */
	if (!check_inside(c, h->rt_offset, bytes))
		bytes = 0;
	c->rt_size = (uint32_t)(bytes / 8);
	c->rt = mem_array(max_u64(c->rt_size, 1), sizeof(*c->rt), e);
	c->block = mem_array(max_u64(c->rt_size, 1), sizeof(*c->block), e);
	if (!c->rt || !c->block)
		return -1;
	/* What cannot be read is as good as none. */
	if (bytes && file_read(c->q->file, h->rt_offset, c->rt, bytes, &why) < 0) {
		c->rt_size = 0;
		c->table_unread = true;
	}
	for (uint32_t i = 0; i < c->rt_size; i++) {
		c->rt[i] = be64_get(&c->rt[i]);
		if (c->rt[i] && !block_fault(c, c->rt[i]))
			c->block[c->blocks++] = c->rt[i] >> c->q->cluster_bits;
	}
	qsort(c->block, c->blocks, sizeof(*c->block), by_number);
	return 0;
}

bool check_is_table(const struct check *c, uint64_t cluster)
{
	uint64_t first = c->q->h.rt_offset >> c->q->cluster_bits;

	return c->rt_size && cluster >= first && cluster - first < c->q->h.rt_clusters;
}

bool check_is_counts(const struct check *c, uint64_t cluster)
{
	return check_is_table(c, cluster) ||
	       (c->blocks && bsearch(&cluster, c->block, c->blocks, sizeof(*c->block), by_number));
}

int check_blocks(struct check *c, struct qimg_error *e)
{
	char what[40];

	if (c->rt_size && check_use(c, c->q->h.rt_offset, table_len(c), 1, "the refcount table", e) < 0)
		return -1;
	for (uint32_t i = 0; i < c->rt_size; i++) {
		if (!c->rt[i] || block_fault(c, c->rt[i]))
			continue;
		snprintf(what, sizeof(what), "refcount block %" PRIu32, i);
		if (check_use(c, c->rt[i], c->q->cluster_size, 1, what, e) < 0)
			return -1;
	}
	return 0;
}

static void tell_table(struct check *c)
{
	const struct header *h = &c->q->h;
	struct qimg_finding f = { .fault = QIMG_FAULT_HEADER, .has_host = true, .host = h->rt_offset,
				  .host_len = table_len(c), .fixed = repair_mends(c) };

	if (c->table_unread) {
		f.fault = QIMG_FAULT_UNREAD;
		c->counts_unread++;
		check_tell(c, &f, "the refcount table at 0x%" PRIx64 " cannot be read", f.host);
	} else if (h->fault[HEADER_FAULT_COUNTS]) {
		c->table_lost = true;
		f.host = 0;
		f.host_len = c->q->cluster_size;
		check_tell(c, &f, "%s", h->fault[HEADER_FAULT_COUNTS]);
	} else if (!c->rt_size) {
		c->table_lost = true;
		check_tell(c, &f, "the refcount table at 0x%" PRIx64 ", of %" PRIu64 " bytes, does not lie within "
			   "the file", f.host, f.host_len);
	}
}

void check_blocks_tell(struct check *c)
{
	tell_table(c);
	for (uint32_t i = 0; i < c->rt_size; i++) {
		const char *why = c->rt[i] ? block_fault(c, c->rt[i]) : NULL;
		struct qimg_finding f = { .fault = QIMG_FAULT_REFCOUNT_ENTRY, .has_host = true,
					  .host = c->rt[i], .host_len = c->q->cluster_size,
					  .fixed = repair_mends(c) };

		if (!why)
			continue;
		check_tell(c, &f, "refcount block %" PRIu32 " (0x%" PRIx64 "): %s", i, c->rt[i], why);
		c->rt[i] = 0;
	}
}
