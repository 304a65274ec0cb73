// SPDX-License-Identifier: BSD-2-Clause
/*
 * The L1 table in memory, the L2 tables behind the cache.
 *
 * A new L2 table (empty, or the copy of a shared one) is written whole when it gets its cluster; the L1
 * entry changes in memory only and reaches the disk with the next flush. Entries of the L1 table are
 * checked when they are followed, so that one bad entry does not hide the rest of an image.
 */
#include "qcow2/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/alloc.h"
#include "qcow2/cache.h"
#include "qcow2/flush.h"
#include "qcow2/qcow2.h"
#include "qcow2/second.h"

#define SECTOR 512
#define PER_SECTOR (SECTOR / sizeof(uint64_t))

/* Also when another L1 table takes the place of the first: what is where in the file stays true. */
static int open_second(struct qcow2 *q, struct qimg_error *e)
{
	struct second_options o = { q->l2_file, q->l2_file_size, q->l2_file_direct };

#ifdef QIMG_SECOND_LEVEL
	if (!o.path && !q->no_cache)
		o = (struct second_options){ .path = P_tmpdir };
	if (o.path)
		o.size = q->l2_entry_size;
#endif
	if (!o.path || q->second)
		return 0;
	return second_open(&q->second, q->img, &o, (uint32_t)q->l2_entry_size, UINT64_MAX, e);
}

int table_reload(struct qcow2 *q, struct qimg_error *e)
{
	if (q->l1_size && file_read(q->file, q->l1_offset, q->l1, (size_t)q->l1_size * sizeof(uint64_t), e) < 0)
		return -1;
	for (uint32_t i = 0; i < q->l1_size; i++)
		q->l1[i] = be64_get(&q->l1[i]);
	return 0;
}

int table_open(struct qcow2 *q, uint64_t l1_offset, uint32_t l1_size, struct qimg_error *e)
{
	uint64_t slots = max_u64(q->l2_cache_size / q->l2_entry_size, 2);
	size_t bytes = (size_t)l1_size * sizeof(uint64_t);

	if (bytes > HEADER_MAX_L1_BYTES)
		return error_set(e, EFBIG,
				 "L1 table of '%s' has %" PRIu32 " entries, at most %" PRIu64
				 " are supported", q->img->name, l1_size,
				 HEADER_MAX_L1_BYTES / sizeof(uint64_t));
	q->l1 = mem_array(max_u64(l1_size, 1), sizeof(uint64_t), e);
	q->l1_dirty = mem_array(div_up(bytes, SECTOR) + 1, 1, e);
	if (!q->l1 || !q->l1_dirty)
		goto fail;
	q->l1_size = l1_size;
	q->l1_offset = l1_offset;
	q->l1_any_dirty = false;
	if (table_reload(q, e) < 0)
		goto fail;
	if (cache_open(&q->l2_cache, q->file, (uint32_t)q->l2_entry_size,
		       (uint32_t)min_u64(slots, UINT32_MAX / 2), flush_clean_l2, q, e) < 0 ||
	    open_second(q, e) < 0)
		goto fail;
	if (!q->cache_size_given)
		cache_share(q->l2_cache, q->img);
	if (q->compact_size &&
	    cache_keep_compact(q->l2_cache, q->entry_size / sizeof(uint64_t), q->compact_size, e) < 0)
		goto fail;
	if (q->no_cache)
		cache_set_off(q->l2_cache);
	/* Without a cache nothing would be left of a load for the second look of the same call. */
	cache_set_depth(q->l2_cache, q->no_cache ? 1 : q->metadata_depth);
	cache_set_second(q->l2_cache, q->second);
	return 0;

fail:
	table_close(q);
	return -1;
}

void table_close(struct qcow2 *q)
{
	cache_close(q->l2_cache);
	free(q->l1);
	free(q->l1_dirty);
	q->l2_cache = NULL;
	q->l1 = NULL;
	q->l1_dirty = NULL;
	q->l1_size = 0;
}

uint32_t table_l1_index(const struct qcow2 *q, uint64_t guest)
{
	return (uint32_t)(guest >> (q->cluster_bits + q->l2_bits));
}

uint64_t table_span(const struct qcow2 *q)
{
	return UINT64_C(1) << (q->cluster_bits + q->l2_bits);
}

static void set_l1(struct qcow2 *q, uint32_t index, uint64_t l1e)
{
	q->l1[index] = l1e;
	q->l1_dirty[index / PER_SECTOR] = 1;
	q->l1_any_dirty = true;
}

/* The place of the entry of guest in an L2 table. */
static uint64_t entry_at(const struct qcow2 *q, uint64_t guest)
{
	return ((guest >> q->cluster_bits) & ((UINT64_C(1) << q->l2_bits) - 1)) * q->entry_size;
}

/* Pins the slice of the L2 table at `table` that has the entry of guest. */
static int pin(struct qcow2 *q, uint64_t table, uint64_t guest, struct cursor *c, struct wait *w,
	       struct qimg_error *e)
{
	uint32_t size = cache_slice_size(q->l2_cache);
	uint64_t at = entry_at(q, guest);
	uint32_t in_slice = (uint32_t)(at & (size - 1));
	int ret = cache_get(q->l2_cache, table + at - in_slice, &c->slice, w, e);

	if (ret)
		return ret;
	c->entry = c->slice->data + in_slice;
	c->count = (size - in_slice) / q->entry_size;
	return 0;
}

int table_find(struct qcow2 *q, uint64_t guest, struct cursor *c, struct wait *w,
	       struct qimg_error *e)
{
	uint32_t index = table_l1_index(q, guest);
	uint64_t table;

	c->slice = NULL;
	if (index >= q->l1_size)
		return TABLE_NONE;
	table = entry_l1_table(q->l1[index]);
	if (!table)
		return TABLE_NONE;
	if (entry_l1_check(q, index, q->l1[index], e) < 0)
		return -1;
	return pin(q, table, guest, c, w, e);
}

bool table_at_hand(const struct qcow2 *q, uint64_t guest)
{
	uint32_t index = table_l1_index(q, guest);
	uint64_t table = index < q->l1_size ? entry_l1_table(q->l1[index]) : 0;

	return !table || cache_has(q->l2_cache, table + round_down(entry_at(q, guest),
								  cache_slice_size(q->l2_cache)));
}

void table_put(struct qcow2 *q, struct cursor *c)
{
	if (c->slice)
		cache_put(q->l2_cache, c->slice);
	c->slice = NULL;
}

bool table_is_own(const struct qcow2 *q, uint64_t guest)
{
	uint32_t index = table_l1_index(q, guest);

	return index < q->l1_size && (q->l1[index] & L1_COPIED);
}

/* A table of the active image alone: empty, or the copy of the one at `old`. */
static int make_own(struct qcow2 *q, uint32_t index, uint64_t old, struct qimg_error *e)
{
	uint8_t *buf = mem_buffer(q->cluster_size, e);
	uint64_t table = 0;
	int ret = -1;

	if (!buf)
		return -1;
	if (old) {
		/* A shared table is never changed, so the disk has what the cache has. */
		if (file_read(q->file, old, buf, q->cluster_size, e) < 0)
			goto out;
	} else {
		memset(buf, 0, q->cluster_size);
	}
	if (alloc_table(q, 1, &table, e) < 0)
		goto out;
	cache_forget(q->l2_cache, table, q->cluster_size);
	if (file_write(q->file, table, buf, q->cluster_size, e) < 0) {
		alloc_undo(q, table, 1);
		goto out;
	}
	if (old && alloc_release(q, old, 1, RELEASE_OTHER, e) < 0) {
		alloc_undo(q, table, 1);
		goto out;
	}
	set_l1(q, index, table | L1_COPIED);
	ret = 0;
out:
	free(buf);
	return ret;
}

int table_find_writable(struct qcow2 *q, uint64_t guest, struct cursor *c, struct wait *w,
			struct qimg_error *e)
{
	uint32_t index = table_l1_index(q, guest);
	int ret;

	c->slice = NULL;
	if (index >= q->l1_size)
		return error_set(e, EIO,
				 "Guest offset 0x%" PRIx64 " of '%s' lies beyond its L1 table of %" PRIu32
				 " entries", guest, q->img->name, q->l1_size);
	if (entry_l1_check(q, index, q->l1[index], e) < 0)
		return -1;
	if (!(q->l1[index] & L1_COPIED) || !entry_l1_table(q->l1[index])) {
		ret = flush_thaw(q, w, e);
		if (!ret)
			ret = make_own(q, index, entry_l1_table(q->l1[index]), e);
		if (ret)
			return ret;
	}
	return pin(q, entry_l1_table(q->l1[index]), guest, c, w, e);
}

int table_entry(struct qcow2 *q, const struct cursor *c, uint32_t i, uint64_t guest,
		struct entry *en, struct qimg_error *e)
{
	return entry_get(q, c->entry + (size_t)i * q->entry_size, guest, en, e);
}

void table_set(struct qcow2 *q, struct cursor *c, uint32_t i, const struct entry *en)
{
	entry_put(q, c->entry + (size_t)i * q->entry_size, en);
	cache_dirty(q->l2_cache, c->slice);
}

int table_grow(struct qcow2 *q, uint32_t entries, struct qimg_error *e)
{
	uint64_t bytes = (uint64_t)entries * sizeof(uint64_t), old = q->l1_offset, at;
	uint32_t clusters = (uint32_t)div_up(bytes, q->cluster_size);
	uint32_t old_size = q->l1_size;
	uint64_t *l1 = NULL;
	uint8_t *dirty = NULL, *buf = NULL;
	struct header saved = q->h;
	int ret = -1;

	if (bytes > HEADER_MAX_L1_BYTES)
		return error_set(e, EFBIG, "The L1 table of '%s' would need %" PRIu64
				 " bytes, at most %" PRIu64 " are supported",
				 q->img->name, bytes, HEADER_MAX_L1_BYTES);
	l1 = mem_array(entries, sizeof(*l1), e);
	dirty = mem_array(div_up(bytes, SECTOR) + 1, 1, e);
	buf = mem_buffer((size_t)clusters * q->cluster_size, e);
	if (!l1 || !dirty || !buf)
		goto out;
	if (alloc_table(q, clusters, &at, e) < 0)
		goto out;
	memcpy(l1, q->l1, (size_t)q->l1_size * sizeof(*l1));
	memset(buf, 0, (size_t)clusters * q->cluster_size);
	for (uint32_t i = 0; i < q->l1_size; i++)
		be64_put(buf + (size_t)i * sizeof(uint64_t), l1[i]);
	q->h.l1_offset = at;
	q->h.l1_size = entries;
	if (file_write(q->file, at, buf, (size_t)clusters * q->cluster_size, e) < 0 ||
	    flush_switch(q, header_store_l1, e) < 0) {
		q->h = saved;
		goto out;	/* the header on disk may be either: both tables stay referenced */
	}
	free(q->l1);
	free(q->l1_dirty);
	q->l1 = l1;
	q->l1_dirty = dirty;
	q->l1_offset = at;
	q->l1_size = entries;
	l1 = NULL;
	dirty = NULL;
	ret = alloc_release(q, old, div_up((uint64_t)old_size * sizeof(uint64_t), q->cluster_size),
			    RELEASE_OTHER, e);
out:
	free(l1);
	free(dirty);
	free(buf);
	return ret;
}
