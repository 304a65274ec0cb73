// SPDX-License-Identifier: BSD-2-Clause
/*
 * Refcounts: the table whole in memory, the blocks slice by slice through their cache.
 *
 * Slices may be written at any time: they hold increments, and those decrements whose references are
 * gone from the disk already (alloc.c defers the others). A new block is written whole, zeroed, when
 * it gets its cluster; the table entry changes in memory only and reaches the disk with the next
 * barrier, after a sync.
 */
#include "qcow2/refcount.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/alloc.h"
#include "qcow2/cache.h"
#include "qcow2/entry.h"
#include "qcow2/flush.h"
#include "qcow2/qcow2.h"

#define SECTOR 512
#define PER_SECTOR (SECTOR / sizeof(uint64_t))
#define BLOCK_MASK (~UINT64_C(511))

/* A pinned place in a block: the refcount of one cluster and those behind it in the slice. */
struct place {
	struct slice *slice;	/* NULL: there is no block */
	size_t index;		/* in the slice */
	uint64_t count;		/* refcounts from there to the end of the slice (of the block) */
};

static unsigned span_bits(const struct qcow2 *q)
{
	return q->cluster_bits + 3 - q->h.refcount_order;
}

uint64_t refcount_span(const struct qcow2 *q)
{
	return UINT64_C(1) << span_bits(q);
}

int refcount_open(struct qcow2 *q, struct qimg_error *e)
{
	size_t bytes = (size_t)q->h.rt_clusters << q->cluster_bits;
	uint32_t slice = (uint32_t)min_u64(q->cluster_size, 4096);
	uint64_t slots = max_u64(q->rc_cache_size / slice, 2);

	q->rt = mem_alloc(bytes, e);
	q->rt_dirty = mem_array(bytes / SECTOR, 1, e);
	if (!q->rt || !q->rt_dirty)
		goto fail;
	if (file_read(q->file, q->h.rt_offset, q->rt, bytes, e) < 0)
		goto fail;
	q->rt_size = (uint32_t)(bytes / sizeof(uint64_t));
	q->rt_offset = q->h.rt_offset;
	for (uint32_t i = 0; i < q->rt_size; i++)
		q->rt[i] = be64_get(&q->rt[i]) & BLOCK_MASK;
	alloc_open(q);
	if (cache_open(&q->rc_cache, q->file, slice, (uint32_t)min_u64(slots, UINT32_MAX / 2),
		       flush_clean_refcounts, q, e) < 0)
		goto fail;
	cache_set_depth(q->rc_cache, q->metadata_depth);
	return 0;

fail:
	refcount_close(q);
	return -1;
}

void refcount_close(struct qcow2 *q)
{
	cache_close(q->rc_cache);
	free(q->rt);
	free(q->rt_dirty);
	q->rc_cache = NULL;
	q->rt = NULL;
	q->rt_dirty = NULL;
	q->rt_size = 0;
}

/* The offset in the file of the slice with the refcount of a cluster, 0: there is no block. */
static uint64_t slice_at(const struct qcow2 *q, uint64_t cluster)
{
	uint64_t index = cluster >> span_bits(q), in_block = cluster & (refcount_span(q) - 1);
	unsigned slice_bits = log2_u64(cache_slice_size(q->rc_cache)) + 3 - q->h.refcount_order;

	if (index >= q->rt_size || !q->rt[index])
		return 0;
	return q->rt[index] + (in_block >> slice_bits) * cache_slice_size(q->rc_cache);
}

static int pin(struct qcow2 *q, uint64_t cluster, struct place *p, struct wait *w,
	       struct qimg_error *e)
{
	uint64_t index = cluster >> span_bits(q), in_block = cluster & (refcount_span(q) - 1);
	unsigned slice_bits = log2_u64(cache_slice_size(q->rc_cache)) + 3 - q->h.refcount_order;
	uint64_t per_slice = UINT64_C(1) << slice_bits;

	p->slice = NULL;
	p->index = in_block & (per_slice - 1);
	if (index >= q->rt_size || !q->rt[index]) {
		p->count = refcount_span(q) - in_block;
		return 0;
	}
	p->count = per_slice - p->index;
	if (!is_aligned(q->rt[index], q->cluster_size))
		return error_set(e, EIO, "Refcount block offset 0x%" PRIx64
				 " (refcount table entry %" PRIu64 " of '%s') is not aligned to a cluster",
				 q->rt[index], index, q->img->name);
	return cache_get(q->rc_cache, slice_at(q, cluster), &p->slice, w, e);
}

bool refcount_at_hand(const struct qcow2 *q, uint64_t cluster)
{
	uint64_t at = slice_at(q, cluster);

	return !at || cache_has(q->rc_cache, at);
}

static void unpin(struct qcow2 *q, struct place *p)
{
	if (p->slice)
		cache_put(q->rc_cache, p->slice);
}

int refcount_get(struct qcow2 *q, uint64_t cluster, uint64_t *count, struct wait *w,
		 struct qimg_error *e)
{
	struct place p;
	int ret = pin(q, cluster, &p, w, e);

	if (ret)
		return ret;
	*count = p.slice ? entry_refcount_get(p.slice->data, q->h.refcount_order, p.index) : 0;
	unpin(q, &p);
	return 0;
}

int refcount_scan(struct qcow2 *q, uint64_t cluster, uint64_t max, enum refcount_scan *what,
		  uint64_t *n, struct wait *w, struct qimg_error *e)
{
	unsigned order = q->h.refcount_order;
	struct place p;
	uint64_t i = 1;
	bool free;
	int ret = pin(q, cluster, &p, w, e);

	if (ret)
		return ret;
	max = min_u64(max, p.count);
	if (!p.slice) {
		*what = SCAN_ABSENT;
		*n = max;
		return 0;
	}
	free = !entry_refcount_get(p.slice->data, order, p.index);
	while (i < max && !entry_refcount_get(p.slice->data, order, p.index + i) == free)
		i++;
	unpin(q, &p);
	*what = free ? SCAN_FREE : SCAN_USED;
	*n = i;
	return 0;
}

/* One pass over n clusters: only looks whether the new counts fit, or stores them. */
static int raise_pass(struct qcow2 *q, uint64_t cluster, uint64_t n, bool store,
		      struct qimg_error *e)
{
	unsigned order = q->h.refcount_order;

	while (n) {
		struct place p;
		uint64_t count;

		if (pin(q, cluster, &p, NULL, e) < 0)
			return -1;
		if (!p.slice)
			return error_set(e, EIO, "Host cluster %" PRIu64 " of '%s' has no refcount block",
					 cluster, q->img->name);
		count = min_u64(n, p.count);
		for (uint64_t i = 0; i < count; i++) {
			uint64_t v = entry_refcount_get(p.slice->data, order, p.index + i);

			if (v == q->refcount_max) {
				unpin(q, &p);
				return error_set(e, ERANGE, "Refcount of host cluster %" PRIu64
						 " of '%s' would exceed %" PRIu64
						 ", the most that %u bits hold",
						 cluster + i, q->img->name, q->refcount_max,
						 q->refcount_bits);
			}
			if (store)
				entry_refcount_put(p.slice->data, order, p.index + i, v + 1);
		}
		if (store)
			cache_dirty(q->rc_cache, p.slice);
		unpin(q, &p);
		cluster += count;
		n -= count;
	}
	return 0;
}

int refcount_raise(struct qcow2 *q, uint64_t cluster, uint64_t n, struct qimg_error *e)
{
	uint64_t stored;
	struct qimg_error ignored;

	if (raise_pass(q, cluster, n, false, e) < 0)
		return -1;
	/* A slice at a time, so that what was raised can be lowered when a later one can't be read. */
	for (stored = 0; stored < n; ) {
		struct place p;
		uint64_t part;

		if (pin(q, cluster + stored, &p, NULL, e) < 0)
			break;
		part = min_u64(n - stored, p.count);
		unpin(q, &p);
		if (raise_pass(q, cluster + stored, part, true, e) < 0)
			break;
		stored += part;
	}
	if (stored == n)
		return 0;
	while (stored--) {
		uint64_t left;

		if (refcount_lower(q, cluster + stored, &left, &ignored) < 0)
			break;		/* a leak, nothing worse */
	}
	return -1;
}

int refcount_lower(struct qcow2 *q, uint64_t cluster, uint64_t *left, struct qimg_error *e)
{
	unsigned order = q->h.refcount_order;
	struct place p;
	uint64_t v = 0;

	if (pin(q, cluster, &p, NULL, e) < 0)
		return -1;
	if (p.slice)
		v = entry_refcount_get(p.slice->data, order, p.index);
	if (!v) {
		unpin(q, &p);
		return error_set(e, EIO, "Refcount of host cluster %" PRIu64 " of '%s' is 0 although it is"
				 " in use: the image is damaged, run 'qemu-img check'",
				 cluster, q->img->name);
	}
	entry_refcount_put(p.slice->data, order, p.index, v - 1);
	cache_dirty(q->rc_cache, p.slice);
	unpin(q, &p);
	*left = v - 1;
	return 0;
}

static void set_table(struct qcow2 *q, uint64_t index, uint64_t block)
{
	q->rt[index] = block;
	q->rt_dirty[index / PER_SECTOR] = 1;
	q->rt_any_dirty = true;
}

/*
 * Moves the refcount table to a larger place, right behind everything the old one could describe,
 * together with the blocks that describe that place.
 */
static int grow_table(struct qcow2 *q, uint64_t entries, struct qimg_error *e)
{
	uint64_t span = refcount_span(q), per_cluster = q->cluster_size / sizeof(uint64_t);
	uint64_t first = (uint64_t)q->rt_size << span_bits(q);
	uint64_t old_offset = q->rt_offset, old_clusters = q->rt_size / per_cluster;
	uint64_t blocks = 1, clusters, used;
	uint64_t *rt = NULL;
	uint8_t *dirty = NULL, *buf = NULL;
	struct header saved = q->h;
	int ret = -1;

	/* Half as much again, so that growing by single blocks does not move the table each time. */
	entries = max_u64(entries, q->rt_size + q->rt_size / 2) + 1;
	for (;;) {
		clusters = div_up(max_u64(entries, q->rt_size + blocks), per_cluster);
		if (blocks * span >= clusters + blocks)
			break;
		blocks++;
	}
	if (clusters > HEADER_MAX_RT_BYTES / q->cluster_size)
		clusters = HEADER_MAX_RT_BYTES / q->cluster_size;
	if (clusters * per_cluster < q->rt_size + blocks)
		return error_set(e, ENOSPC, "The refcount table of '%s' can not describe a larger file:"
				 " it has reached its limit of %" PRIu64 " bytes",
				 q->img->name, HEADER_MAX_RT_BYTES);
	used = clusters + blocks;
	if (alloc_check_end(q, first, used, e) < 0 || alloc_check_overlap(q, first, used, e) < 0)
		return -1;

	rt = mem_array(clusters * per_cluster, sizeof(*rt), e);
	dirty = mem_array(clusters * q->cluster_size / SECTOR, 1, e);
	buf = mem_buffer(used << q->cluster_bits, e);
	if (!rt || !dirty || !buf)
		goto out;
	memset(buf, 0, used << q->cluster_bits);
	memcpy(rt, q->rt, q->rt_size * sizeof(*rt));
	for (uint64_t i = 0; i < blocks; i++)
		rt[q->rt_size + i] = (first + i) << q->cluster_bits;
	for (uint64_t i = 0; i < used; i++)	/* blocks are contiguous, so their counts are, too */
		entry_refcount_put(buf, q->h.refcount_order, i, 1);
	for (uint64_t i = 0; i < clusters * per_cluster; i++)
		be64_put(buf + (blocks << q->cluster_bits) + i * sizeof(uint64_t), rt[i]);
	cache_forget(q->rc_cache, first << q->cluster_bits, used << q->cluster_bits);
	q->h.rt_offset = (first + blocks) << q->cluster_bits;
	q->h.rt_clusters = (uint32_t)clusters;
	if (file_write(q->file, first << q->cluster_bits, buf, used << q->cluster_bits, e) < 0 ||
	    flush_switch(q, header_store_rt, e) < 0) {
		q->h = saved;
		goto out;
	}
	alloc_not_blank(q, first + used);
	free(q->rt);
	free(q->rt_dirty);
	q->rt = rt;
	q->rt_dirty = dirty;
	q->rt_size = (uint32_t)(clusters * per_cluster);
	q->rt_offset = q->h.rt_offset;
	q->rt_any_dirty = false;	/* written whole */
	rt = NULL;
	dirty = NULL;
	ret = alloc_release(q, old_offset, old_clusters, RELEASE_OTHER, e);
out:
	free(rt);
	free(dirty);
	free(buf);
	return ret;
}

int refcount_make_blocks(struct qcow2 *q, uint64_t cluster, uint32_t count, struct qimg_error *e)
{
	uint64_t index = cluster >> span_bits(q), first = index << span_bits(q);
	uint8_t *buf;
	int ret = -1;

	if (index + count > q->rt_size) {
		uint64_t old = q->rt_size;

		if (grow_table(q, index + count, e) < 0)
			return -1;
		/* The new table took the front of the first entry behind the old ones. */
		if (index + count > old)
			return 0;
	}
	/* Of a damaged table an entry may be missing, in whose span metadata is: the header, say. */
	if (alloc_check_end(q, first, count, e) < 0 || alloc_check_overlap(q, first, count, e) < 0)
		return -1;
	buf = mem_buffer((size_t)count << q->cluster_bits, e);
	if (!buf)
		return -1;
	memset(buf, 0, (size_t)count << q->cluster_bits);
	for (uint32_t i = 0; i < count; i++)
		entry_refcount_put(buf, q->h.refcount_order, i, 1);
	cache_forget(q->rc_cache, first << q->cluster_bits, (uint64_t)count << q->cluster_bits);
	if (file_write(q->file, first << q->cluster_bits, buf, (size_t)count << q->cluster_bits,
		       e) < 0)
		goto out;
	for (uint32_t i = 0; i < count; i++)
		set_table(q, index + i, (first + i) << q->cluster_bits);
	alloc_not_blank(q, first + count);
	ret = 0;
out:
	free(buf);
	return ret;
}
