// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: all refcounts, written anew.
 *
 * What was counted goes into blocks and a table at places that nobody uses; all of it is on stable storage before the
 * header refers to it, which it does from one moment to the next. Up to then nothing that was there has changed, and
 * when it fails nothing has.
 *
 * Where an old block can be believed, a refcount does not become lower than it was: what is leaked is freed, or
 * is not, by those who do so otherwise. The old table and its blocks are free at once: a table whose blocks nobody
 * refers to looks just like an L2 table that was lost.
 */
#include "qcow2/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/entry.h"
#include "qcow2/mend.h"
#include "qcow2/qcow2.h"

#define MOST_BLOCKS (HEADER_MAX_RT_BYTES / 8)
#define LEAST_USED 16			/* clusters that a block must know to be taken for one */

struct place {				/* of blocks */
	uint64_t first, n;
};

struct rebuild {
	struct check *c;
	uint64_t span;			/* clusters that a block counts */
	uint8_t *needed;		/* a bit a block */
	uint64_t blocks, end;		/* how many are needed; one behind the last */
	uint64_t table, table_clusters;
	struct place *place;
	size_t places, place_room;
	uint64_t placed;		/* clusters in these */
	uint8_t *entries;		/* the table, as it is on disk */
	uint8_t *old;			/* a block */
};

bool repair_must_rebuild(const struct check *c)
{
	return c->counts_overlap || c->table_lost || c->blockless || c->counts_unread ||
	       c->r->found[QIMG_FAULT_REFCOUNT_ENTRY];
}

/* ---- an old table ---- */

/* The block says of the clusters from `base` on what was counted, but for a few. */
static bool agrees(struct check *c, const uint8_t *block, uint64_t base)
{
	uint64_t used = 0, same = 0;

	for (uint64_t k = 0; k < repair_span(c); k++) {
		uint64_t stored = entry_refcount_get(block, c->q->h.refcount_order, k);
		uint64_t refs = refmap_count(c->map, base + k);

		used += stored || refs;
		same += stored && refs;
	}
	return used >= LEAST_USED && same >= used - used / 4;
}

bool repair_is_old_table(struct check *c)
{
	uint64_t per_cluster = c->q->cluster_size / 8, entry = 0, i = 0;
	struct qimg_error ignored;
	uint8_t *block = mem_buffer(c->q->cluster_size, &ignored);
	bool is = false;

	for (; i < per_cluster && !entry; i++)
		entry = be64_get(c->buf + i * 8);
	if (!block || !i-- || !is_aligned(entry, c->q->cluster_size) || !check_inside(c, entry, c->q->cluster_size) ||
	    file_read(c->q->file, entry, block, c->q->cluster_size, &ignored) < 0)
		goto out;
	/* It may be any cluster of a table. */
	for (; i < MOST_BLOCKS && i * repair_span(c) < c->clusters && !is; i += per_cluster)
		is = agrees(c, block, i * repair_span(c));
out:
	free(block);
	return is;
}

/* ---- which blocks there are ---- */

static int need(struct rebuild *b, uint64_t i, struct qimg_error *e)
{
	if (i >= MOST_BLOCKS)
		return error_set(e, EFBIG, "The file '%s' is too long for a refcount table of %" PRIu64 " bytes: "
				 "the cluster at 0x%" PRIx64 " is in use", file_path(b->c->q->file),
				 HEADER_MAX_RT_BYTES, i * b->span << b->c->q->cluster_bits);
	if (!(b->needed[i / 8] & 1 << i % 8)) {
		b->needed[i / 8] |= (uint8_t)(1 << i % 8);
		b->blocks++;
		b->end = max_u64(b->end, i + 1);
	}
	return 0;
}

static int need_range(struct rebuild *b, uint64_t first, uint64_t n, struct qimg_error *e)
{
	for (uint64_t i = first / b->span; i <= (first + n - 1) / b->span; i++)
		if (need(b, i, e) < 0)
			return -1;
	return 0;
}

/* One behind the last of the clusters from `first` on that need no block, up to `end`. */
static uint64_t skip_unused(struct check *c, uint64_t first, uint64_t end)
{
	while (first < end) {
		int all = first % REFMAP_SOME ? REFMAP_MIXED : refmap_alike(c->map, first);

		if (all == 1 || (all && refmap_count(c->map, first)) || refmap_is(c->map, REFMAP_ORPHAN, first))
			return first;
		if (all || refmap_any(c->map, REFMAP_ORPHAN, first, REFMAP_SOME, NULL))
			first++;
		else
			first += max_u64(refmap_blank(c->map, first), REFMAP_SOME);
	}
	return end;
}

static int find_needed(struct rebuild *b, struct qimg_error *e)
{
	struct check *c = b->c;
	uint64_t at, limit = min_u64(div_up(c->clusters, b->span), c->rt_size);

	for (at = refmap_next(c->map, 0); at != UINT64_MAX && !check_stopped(c); at = refmap_next(c->map, at)) {
		uint64_t i = at / b->span, end = (i + 1) * b->span;

		at = skip_unused(c, at, end);
		if (at < end && need(b, i, e) < 0)
			return -1;
		at = end;
	}
	if (check_stopped(c))
		return error_set(e, ECANCELED, "Interrupted");
	for (uint64_t i = 0; i < limit; i++)
		if (repair_has_block(c, i * b->span) && !check_is_hole(c, c->rt[i], c->q->cluster_size) &&
		    need(b, i, e) < 0)
			return -1;
	return 0;
}

/* ---- where they are ---- */

static int add_place(struct rebuild *b, uint64_t first, uint64_t n, struct qimg_error *e)
{
	void *list = b->place;
	size_t room = b->place_room ? b->place_room * 2 : 16;

	if (b->places == b->place_room) {
		if (mem_grow(&list, b->place_room, room, sizeof(*b->place), e) < 0)
			return -1;
		b->place = list;
		b->place_room = room;
	}
	b->place[b->places++] = (struct place){ first, n };
	b->placed += n;
	return need_range(b, first, n, e);
}

/* Each place may need a block more. */
static int find_places(struct rebuild *b, struct qimg_error *e)
{
	struct check *c = b->c;
	uint64_t per_cluster = c->q->cluster_size / 8, first, n;

	/* They may lie behind all that there is. And room for a file that is half as long again. */
	n = max_u64(b->end, div_up(max_u64(c->clusters, max_u64(refmap_end(c->map), c->space)), b->span));
	b->table_clusters = min_u64(div_up(n + n / 2 + 2, per_cluster), MOST_BLOCKS / per_cluster);
	if (repair_find(c, b->table_clusters, &b->table, e) < 0 ||
	    need_range(b, b->table, b->table_clusters, e) < 0)
		return -1;
	while (b->placed < b->blocks) {
		n = b->blocks - b->placed;
		if (repair_find_some(c, &n, &first, e) < 0 || add_place(b, first, n, e) < 0)
			return -1;
	}
	if (b->end > b->table_clusters * per_cluster)
		return error_set(e, EFBIG, "The file '%s' is too long for a refcount table of %" PRIu64 " bytes",
				 file_path(c->q->file), HEADER_MAX_RT_BYTES);
	return 0;
}

/* ---- what is in them ---- */

static void fill_counted(struct rebuild *b, uint64_t base, uint8_t *block)
{
	struct check *c = b->c;
	unsigned order = c->q->h.refcount_order;
	uint64_t n;

	for (uint64_t k = 0; k < b->span; k += n) {
		int all = refmap_alike(c->map, base + k);

		n = REFMAP_SOME;
		if (!all)
			n = max_u64(refmap_blank(c->map, base + k), n);
		else if (all == 1)
			memcpy(block + (k << order) / 8, c->ones, (REFMAP_SOME << order) / 8);
		for (uint64_t j = k; all == REFMAP_MIXED && j < k + n; j++)
			entry_refcount_put(block, order, j,
					   min_u64(refmap_count(c->map, base + j), c->q->refcount_max));
	}
}

static void keep_stored(struct rebuild *b, uint64_t i, uint8_t *block)
{
	struct check *c = b->c;
	struct qimg_error ignored;
	unsigned order = c->q->h.refcount_order;

	if (file_read(c->q->file, c->rt[i], b->old, c->q->cluster_size, &ignored) < 0 ||
	    !memcmp(b->old, block, c->q->cluster_size))
		return;
	/* Behind the end of the file there is nothing to keep. */
	for (uint64_t k = 0; k < b->span && i * b->span + k < c->clusters; k++) {
		uint64_t stored = entry_refcount_get(b->old, order, k);

		if (stored > entry_refcount_get(block, order, k))
			entry_refcount_put(block, order, k, stored);
	}
}

static void keep_orphans(struct rebuild *b, uint64_t base, uint8_t *block)
{
	uint64_t end = base + b->span;

	for (uint64_t at = base; refmap_any(b->c->map, REFMAP_ORPHAN, at, end - at, &at); at++)
		if (!refmap_count(b->c->map, at))
			entry_refcount_put(block, b->c->q->h.refcount_order, at - base, 1);
}

/* The first of the old blocks that is not before the cluster. */
static size_t find_block(const struct check *c, uint64_t cluster)
{
	size_t low = 0, high = c->blocks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (c->block[middle] < cluster)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A cluster of the old structure: only what else is there counts. */
static int drop_old(struct rebuild *b, uint64_t base, uint8_t *block, uint64_t cluster, struct qimg_error *e)
{
	struct check *c = b->c;
	uint64_t refs = refmap_count(c->map, cluster), old = check_is_table(c, cluster);

	old += find_block(c, cluster + 1) - find_block(c, cluster);
	refs -= min_u64(refs, old);
	entry_refcount_put(block, c->q->h.refcount_order, cluster - base, min_u64(refs, c->q->refcount_max));
	return refs ? 0 : check_mark(c, REFMAP_FREED, cluster, 1, e);
}

static int fill_block(struct rebuild *b, uint64_t i, uint8_t *block, struct qimg_error *e)
{
	struct check *c = b->c;
	uint64_t base = i * b->span, end = base + b->span, table = c->q->h.rt_offset >> c->q->cluster_bits;
	uint64_t table_end = table + (c->rt_size ? c->q->h.rt_clusters : 0);

	memset(block, 0, c->q->cluster_size);
	fill_counted(b, base, block);
	if (repair_has_block(c, i * b->span))
		keep_stored(b, i, block);
	else
		keep_orphans(b, base, block);
	for (uint64_t at = max_u64(table, base); at < min_u64(table_end, end); at++)
		if (drop_old(b, base, block, at, e) < 0)
			return -1;
	for (size_t k = find_block(c, base); k < c->blocks && c->block[k] < end; k++)
		if (drop_old(b, base, block, c->block[k], e) < 0)
			return -1;
	return 0;
}

/* In the order of what they count, so that each place is written from its beginning to its end. */
static int write_blocks(struct rebuild *b, struct qimg_error *e)
{
	struct check *c = b->c;
	uint32_t size = c->q->cluster_size;
	uint64_t i = 0, most = max_u64(CHECK_PIECE / size, 1), n;

	for (size_t p = 0; p < b->places; p++) {
		for (uint64_t done = 0; done < b->place[p].n && i < b->end; done += n) {
			uint64_t at = (b->place[p].first + done) << c->q->cluster_bits;

			for (n = 0; n < most && done + n < b->place[p].n && i < b->end; i++) {
				if (!(b->needed[i / 8] & 1 << i % 8))
					continue;
				if (fill_block(b, i, c->buf + n * size, e) < 0)
					return -1;
				be64_put(b->entries + i * 8, at + n * size);
				n++;
			}
			if (check_stopped(c))
				return error_set(e, ECANCELED, "Interrupted");
			if (n && mend_write(c, at, c->buf, n * size, e) < 0)
				return -1;
		}
	}
	return mend_write(c, b->table << c->q->cluster_bits, b->entries, b->table_clusters * size, e);
}

static int switch_over(struct rebuild *b, struct qimg_error *e)
{
	struct header *h = &b->c->q->h;
	struct header saved = *h;

	h->rt_offset = b->table << b->c->q->cluster_bits;
	h->rt_clusters = (uint32_t)b->table_clusters;
	if (mend_header(b->c, h->fault[HEADER_FAULT_COUNTS] ? header_store_counts : header_store_rt, e) == 0)
		return 0;
	*h = saved;
	return -1;
}

int repair_rebuild(struct check *c, struct qimg_error *e)
{
	struct rebuild b = { .c = c, .span = repair_span(c) };
	uint64_t length = file_size(c->q->file);
	struct qimg_error ignored;
	int ret = -1;

	b.needed = mem_zalloc(MOST_BLOCKS / 8, e);
	b.old = mem_buffer(c->q->cluster_size, e);
	if (!b.needed || !b.old || find_needed(&b, e) < 0 || find_places(&b, e) < 0)
		goto out;
	b.entries = mem_zalloc(b.table_clusters * c->q->cluster_size, e);
	if (!b.entries)
		goto out;
	ret = write_blocks(&b, e) < 0 || mend_sync(c, e) < 0 ? -1 : 0;
	/* The header refers to none of that. */
	if (ret < 0 && !file_is_device(c->q->file) && !(c->how->flags & QIMG_CHECK_DRY_RUN))
		file_truncate(c->q->file, length, &ignored);
	if (ret == 0)
		ret = switch_over(&b, e);
	if (ret == 0)
		ret = repair_give_back(c, e);
out:
	free(b.needed);
	free(b.place);
	free(b.entries);
	free(b.old);
	return ret < 0 ? error_prefix(e, "Writing refcounts anew") : 0;
}
