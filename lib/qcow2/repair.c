// SPDX-License-Identifier: BSD-2-Clause
/*
 * Mending refcounts and COPIED bits in place. Nothing is allocated, and nothing is written when metadata shares
 * its place with anything else: who knows whose it is.
 */
#include "qcow2/repair.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/entry.h"
#include "qcow2/flush.h"
#include "qcow2/qcow2.h"
#include "qcow2/table.h"

#define LEAST_ENTRIES 8			/* that make a cluster look like an L2 table */

/* What is read as refcounts and tables must be these. */
static bool is_sure(const struct check *c)
{
	return !c->overlaps && !c->r->found[QIMG_FAULT_HEADER] && !c->r->found[QIMG_FAULT_UNREAD];
}

bool repair_mends(const struct check *c)
{
	return c->how->flags & QIMG_CHECK_FIX_ALL && is_sure(c);
}

bool repair_frees(const struct check *c)
{
	/* Where these point nobody knows. */
	static const enum qimg_fault losing[] = {
		QIMG_FAULT_L1_ENTRY, QIMG_FAULT_L2_ENTRY, QIMG_FAULT_SUBCLUSTERS, QIMG_FAULT_PACKED,
		QIMG_FAULT_SNAPSHOT_TABLE, QIMG_FAULT_SNAPSHOT_L1, QIMG_FAULT_BITMAP_DIRECTORY,
		QIMG_FAULT_BITMAP_ENTRY, QIMG_FAULT_CRYPT_HEADER,
	};

	if (!check_fixes(c) || !is_sure(c))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(losing); i++)
		if (c->r->found[losing[i]])
			return false;
	return true;
}

static uint64_t span(const struct check *c)
{
	return ((uint64_t)c->q->cluster_size * 8) >> c->q->h.refcount_order;
}

bool repair_has_block(const struct check *c, uint64_t cluster)
{
	uint64_t i = cluster / span(c);

	return i < c->rt_size && c->rt[i];
}

/* ---- lost L2 tables ---- */

/*
 * Whether the first `bytes` of c->buf may be those of a table whose clusters nobody else refers to. Returns the
 * number of clusters that it names; -1: they are not.
 */
static int64_t count_lost(struct check *c, uint32_t bytes)
{
	const struct qcow2 *q = c->q;
	struct qimg_error ignored;
	int64_t entries = 0;

	for (uint32_t i = 0; i < bytes / q->entry_size; i++) {
		const uint8_t *p = c->buf + (size_t)i * q->entry_size;
		struct entry en;

		if (!be64_get(p))
			continue;
		if (entry_reserved(q, p) || entry_get(q, p, (uint64_t)i << q->cluster_bits, &en, &ignored) < 0)
			return -1;
		if (!en.host)
			continue;
		if (!check_inside(c, en.host, 1) || refmap_count(c->map, en.host >> q->cluster_bits))
			return -1;
		entries++;
	}
	return entries;
}

/* Of most clusters the beginning is enough to see that they are no tables. */
static bool looks_lost(struct check *c, uint64_t cluster)
{
	const struct qcow2 *q = c->q;
	uint64_t at = cluster << q->cluster_bits;
	uint32_t some = (uint32_t)min_u64(q->cluster_size, 512);
	struct qimg_error ignored;

	return file_read(q->file, at, c->buf, some, &ignored) == 0 && count_lost(c, some) >= 0 &&
	       file_read(q->file, at, c->buf, q->cluster_size, &ignored) == 0 &&
	       count_lost(c, q->cluster_size) >= LEAST_ENTRIES;
}

static int keep_orphan(struct check *c, uint64_t cluster, struct qimg_error *e)
{
	const struct qcow2 *q = c->q;
	struct qimg_finding f = { .fault = QIMG_FAULT_ORPHAN, .has_host = true, .host = cluster << q->cluster_bits,
				  .host_len = q->cluster_size };
	struct qimg_error ignored;

	check_tell(c, &f, "the leaked cluster at 0x%" PRIx64 " looks like an L2 table that was lost: it is kept, "
		   "with what it refers to", f.host);
	if (check_mark(c, REFMAP_ORPHAN, cluster, 1, e) < 0)
		return -1;
	for (uint32_t i = 0; i < UINT32_C(1) << q->l2_bits; i++) {
		const uint8_t *p = c->buf + (size_t)i * q->entry_size;
		uint64_t first, n;
		struct entry en;

		if (entry_get(q, p, (uint64_t)i << q->cluster_bits, &en, &ignored) < 0 || !en.host)
			continue;
		first = en.host >> q->cluster_bits;
		n = en.kind == ENTRY_PACKED ? ((en.host + en.packed - 1) >> q->cluster_bits) - first + 1 : 1;
		if (check_mark(c, REFMAP_ORPHAN, first, n, e) < 0)
			return -1;
	}
	return 0;
}

/* How many clusters from here on the file has no space for: no tables are there. */
static uint64_t hole_clusters(const struct check *c, uint64_t cluster)
{
	uint64_t at = cluster << c->q->cluster_bits;
	struct file_extent x;
	struct qimg_error ignored;

	if (at >= file_size(c->q->file) ||
	    file_extent(c->q->file, at, file_size(c->q->file) - at, &x, &ignored) < 0 || !x.hole)
		return 0;
	return x.len >> c->q->cluster_bits;
}

/* The clusters from `first` on that `block` has the refcounts of. */
static int find_in_block(struct check *c, uint64_t first, const uint8_t *block, struct qimg_error *e)
{
	const struct qcow2 *q = c->q;
	uint64_t hole = 0;		/* clusters of a hole that are still to come */

	for (uint64_t k = 0; k < span(c) && first + k < c->clusters && !check_stopped(c); k++) {
		uint64_t cluster = first + k;

		hole -= hole > 0;
		if (!entry_refcount_get(block, q->h.refcount_order, k) || refmap_count(c->map, cluster) || hole)
			continue;
		hole = hole_clusters(c, cluster);
		if (hole)
			continue;
		if (looks_lost(c, cluster) && keep_orphan(c, cluster, e) < 0)
			return -1;
	}
	return 0;
}

int repair_find_orphans(struct check *c, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	uint8_t *block = mem_buffer(q->cluster_size, e);
	struct qimg_error ignored;
	int ret = block ? 0 : -1;

	for (uint32_t i = 0; ret == 0 && !q->external && i < c->rt_size && !check_stopped(c); i++) {
		if (!c->rt[i] || file_read(q->file, c->rt[i], block, q->cluster_size, &ignored) < 0)
			continue;
		ret = find_in_block(c, i * span(c), block, e);
	}
	free(block);
	return ret;
}

/* ---- refcounts ---- */

enum change { RAISE, LOWER };

/* What the refcount of a cluster becomes. */
static uint64_t wanted(struct check *c, enum change change, uint64_t cluster, uint64_t stored)
{
	uint64_t refs = refmap_count(c->map, cluster);

	if (change == RAISE)
		return refs > stored && repair_mends(c) ? min_u64(refs, c->q->refcount_max) : stored;
	return refs < stored && repair_frees(c) && !refmap_is(c->map, REFMAP_ORPHAN, cluster) ? refs : stored;
}

static int change_blocks(struct check *c, enum change change, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	unsigned order = q->h.refcount_order;

	for (uint32_t i = 0; i < c->rt_size; i++) {
		bool changed = false;
		struct qimg_error ignored;

		if (!c->rt[i] || file_read(q->file, c->rt[i], c->buf, q->cluster_size, &ignored) < 0)
			continue;
		for (uint64_t k = 0; k < span(c); k++) {
			uint64_t stored = entry_refcount_get(c->buf, order, k);
			uint64_t now = wanted(c, change, i * span(c) + k, stored);

			if (now == stored)
				continue;
			entry_refcount_put(c->buf, order, k, now);
			changed = true;
		}
		if (changed && file_write(q->file, c->rt[i], c->buf, q->cluster_size, e) < 0)
			return -1;
	}
	return flush_repaired(q, e);
}

/* ---- COPIED ---- */

/* Whether the cluster will have a refcount of one when all is done. */
static bool will_be_single(struct check *c, uint64_t cluster)
{
	uint64_t stored;
	struct qimg_error ignored;

	/* Widths of a bit cannot say that there are more references: that fault stays as it is. */
	if (min_u64(refmap_count(c->map, cluster), c->q->refcount_max) != 1)
		return false;
	if (repair_frees(c) && repair_has_block(c, cluster))
		return true;
	/* It has been raised already and will not be lowered. */
	return check_stored(c, cluster, &stored, &ignored) == 0 && stored == 1;
}

static bool mend_table(struct check *c, uint64_t guest, uint8_t *data)
{
	const struct qcow2 *q = c->q;
	bool all = repair_mends(c), changed = false;

	for (uint32_t i = 0; i < UINT32_C(1) << q->l2_bits; i++) {
		uint8_t *p = data + (size_t)i * q->entry_size;
		struct qimg_error ignored;
		struct entry en;
		bool single;

		if (!be64_get(p) ||
		    entry_get(q, p, guest + ((uint64_t)i << q->cluster_bits), &en, &ignored) < 0)
			continue;
		/* COPIED without a cluster stays as well: it tells of an offset that was lost. */
		if (q->external || en.kind == ENTRY_PACKED || !en.host)
			single = all && entry_odd_copied(q, &en) ? !en.copied : en.copied;
		else if (!all)
			single = en.copied || refmap_is(c->map, REFMAP_LOWERED, en.host >> q->cluster_bits);
		else if (repair_has_block(c, en.host >> q->cluster_bits))
			single = will_be_single(c, en.host >> q->cluster_bits);
		else
			continue;
		if (en.copied == single)
			continue;
		entry_set_copied(p, single);
		changed = true;
	}
	return changed;
}

static int mend_l1(struct check *c, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	bool all = repair_mends(c);

	for (uint32_t i = 0; i < q->l1_size; i++) {
		uint64_t off = entry_l1_table(q->l1[i]), at = q->l1_offset + (uint64_t)i * 8, entry;
		bool copied = q->l1[i] & L1_COPIED, single;
		uint8_t bytes[8];

		if (!is_aligned(off, q->cluster_size) || !check_inside(c, off, q->cluster_size))
			continue;
		if (!off || !repair_has_block(c, off >> q->cluster_bits))
			continue;
		single = all ? will_be_single(c, off >> q->cluster_bits) :
			 copied || refmap_is(c->map, REFMAP_LOWERED, off >> q->cluster_bits);
		if (copied == single)
			continue;
		entry = q->l1[i] ^ L1_COPIED;
		be64_put(bytes, entry);
		if (file_write(q->file, at, bytes, sizeof(bytes), e) < 0)
			return -1;
		q->l1[i] = entry;
	}
	return 0;
}

static int mend_copied(struct check *c, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	struct qimg_error ignored;

	for (size_t i = 0; i < c->tables; i++) {
		const struct check_table *t = &c->table[i];

		if (t->view || file_read(q->file, t->off, c->buf, q->cluster_size, &ignored) < 0)
			continue;
		if (mend_table(c, table_span(q) * t->l1_index, c->buf) &&
		    file_write(q->file, t->off, c->buf, q->cluster_size, e) < 0)
			return -1;
	}
	if (!c->view[0].unusable && mend_l1(c, e) < 0)
		return -1;
	return flush_repaired(q, e);
}

int repair_window(struct check *c, struct qimg_error *e)
{
	const struct qimg_check_result *r = c->r;

	if (!r->found[QIMG_FAULT_LEAK] && !r->found[QIMG_FAULT_REFCOUNT] && !r->found[QIMG_FAULT_COPIED])
		return 0;
	if (repair_mends(c) && (change_blocks(c, RAISE, e) < 0 || mend_copied(c, e) < 0))
		return -1;
	if (change_blocks(c, LOWER, e) < 0)
		return -1;
	/* Not to leave behind other faults than there were. */
	return repair_frees(c) && !repair_mends(c) ? mend_copied(c, e) : 0;
}

int repair_finish(struct check *c, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	const struct qimg_check_result *r = c->r;
	uint64_t clear = 0, corruptions = 0, foreign = q->h.autoclear & ~(uint64_t)AUTOCLEAR_KNOWN;

	for (unsigned i = 0; i < QIMG_FAULTS; i++)
		corruptions += i == QIMG_FAULT_LEAK || i == QIMG_FAULT_ORPHAN ? 0 : r->found[i];
	/* Without a fault that is left, refcounts are right; with one, who knows. */
	if (corruptions == r->corruptions_fixed)
		clear = repair_mends(c) ? INCOMPAT_DIRTY | INCOMPAT_CORRUPT : INCOMPAT_DIRTY;
	if (!(q->h.incompatible & clear) && !foreign)
		return 0;
	/* Nobody knows whether what these stand for is still true. */
	q->h.autoclear &= ~foreign;
	q->h.incompatible &= ~clear;
	if (header_store_features(q->file, &q->h, e) < 0)
		return -1;
	return flush_repaired(q, e);
}
