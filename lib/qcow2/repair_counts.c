// SPDX-License-Identifier: BSD-2-Clause
/* Repairing an image: refcounts, where they are, and COPIED bits. */
#include "qcow2/repair.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/entry.h"
#include "qcow2/mend.h"
#include "qcow2/qcow2.h"
#include "qcow2/table.h"

/* ---- refcounts ---- */

uint64_t repair_span(const struct check *c)
{
	return max_u64(((uint64_t)c->q->cluster_size * 8) >> c->q->h.refcount_order, 1);
}

bool repair_has_block(const struct check *c, uint64_t cluster)
{
	uint64_t i = cluster / repair_span(c), at = i < c->rt_size ? c->rt[i] : 0;

	return at && !refmap_is(c->map, REFMAP_OVERLAP, at >> c->q->cluster_bits);
}

bool repair_mends_count(const struct check *c, uint64_t cluster)
{
	return repair_mends(c) && (repair_has_block(c, cluster) || repair_must_rebuild(c));
}

enum change { RAISE, LOWER };

/* What the refcount of a cluster becomes. */
static uint64_t wanted(struct check *c, enum change change, uint64_t cluster, uint64_t stored)
{
	uint64_t refs = refmap_count(c->map, cluster);

	if (change == RAISE)
		return refs > stored && repair_mends(c) ? min_u64(refs, c->q->refcount_max) : stored;
	return refs < stored && repair_frees(c) && !refmap_is(c->map, REFMAP_ORPHAN, cluster) ? refs : stored;
}

/* Whether none of REFMAP_SOME refcounts from k on changes, for what can be seen at once. */
static bool stays(struct check *c, enum change change, uint64_t cluster, const uint8_t *block, uint64_t k)
{
	unsigned order = c->q->h.refcount_order;
	int all = refmap_alike(c->map, cluster);

	if (all == REFMAP_MIXED)
		return false;
	return (change == RAISE && !all) ||
	       !memcmp(block + (k << order) / 8, all ? c->ones : c->zeros, (REFMAP_SOME << order) / 8);
}

/* The block at hand, that of the clusters from `base` on. 1: it has changed. */
static int change_block(struct check *c, enum change change, uint64_t base, uint8_t *block, struct qimg_error *e)
{
	unsigned order = c->q->h.refcount_order;
	int changed = 0;

	for (uint64_t k = 0; k < repair_span(c); k++) {
		uint64_t stored, now;

		if (k % REFMAP_SOME == 0 && stays(c, change, base + k, block, k)) {
			k += REFMAP_SOME - 1;
			continue;
		}
		stored = entry_refcount_get(block, order, k);
		now = wanted(c, change, base + k, stored);
		if (now == stored)
			continue;
		if (!now && check_mark(c, REFMAP_FREED, base + k, 1, e) < 0)
			return -1;
		entry_refcount_put(block, order, k, now);
		changed = 1;
	}
	return changed;
}

/* Pieces of the file of one cluster each that lie one behind the other, in c->buf; those that change are written. */
struct pieces {
	uint64_t at;			/* host offset of the first */
	uint32_t n;
	uint32_t dirty, end;		/* a run that was changed and is not written yet */
};

static uint32_t most_pieces(const struct check *c)
{
	return (uint32_t)max_u64(CHECK_PIECE / c->q->cluster_size, 1);
}

/* Some of them, or one; none, and -1, where they cannot be read. */
static int read_pieces(struct check *c, struct pieces *p, struct qimg_error *e)
{
	p->dirty = p->end = 0;
	if (file_read(c->q->file, p->at, c->buf, (size_t)p->n * c->q->cluster_size, e) == 0)
		return 0;
	p->n = file_read(c->q->file, p->at, c->buf, c->q->cluster_size, e) == 0;
	return p->n ? 0 : -1;
}

static int write_pieces(struct check *c, struct pieces *p, struct qimg_error *e)
{
	size_t size = c->q->cluster_size, n = p->end - p->dirty, first = p->dirty;

	p->dirty = p->end = 0;
	return n ? mend_write(c, p->at + first * size, c->buf + first * size, n * size, e) : 0;
}

/* Piece k has changed: they come in order. */
static int change_piece(struct check *c, struct pieces *p, uint32_t k, struct qimg_error *e)
{
	if (p->end != k && write_pieces(c, p, e) < 0)
		return -1;
	if (p->end != k)
		p->dirty = k;
	p->end = k + 1;
	return 0;
}

static int change_blocks(struct check *c, enum change change, struct qimg_error *e)
{
	uint32_t size = c->q->cluster_size, done;
	uint64_t span = repair_span(c);

	for (uint32_t i = 0; i < c->rt_size; i += done) {
		struct pieces p = { .at = c->rt[i], .n = 1 };
		struct qimg_error ignored;

		done = 1;
		if (!repair_has_block(c, i * span) || (change == LOWER && check_is_hole(c, p.at, size)))
			continue;
		while (p.n < most_pieces(c) && i + p.n < c->rt_size && repair_has_block(c, (i + p.n) * span) &&
		       c->rt[i + p.n] == p.at + (uint64_t)p.n * size)
			p.n++;
		read_pieces(c, &p, &ignored);
		for (uint32_t k = 0; k < p.n; k++) {
			int ret = change_block(c, change, (i + k) * span, c->buf + (size_t)k * size, e);

			if (ret < 0 || (ret && change_piece(c, &p, k, e) < 0))
				return -1;
		}
		if (write_pieces(c, &p, e) < 0)
			return -1;
		done = (uint32_t)max_u64(p.n, 1);
	}
	return mend_sync(c, e);
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
		if (mend_write(c, at, bytes, sizeof(bytes), e) < 0)
			return -1;
		q->l1[i] = entry;
	}
	return 0;
}

static int mend_copied(struct check *c, struct qimg_error *e)
{
	uint32_t size = c->q->cluster_size;
	size_t done;

	for (size_t i = 0; i < c->tables; i += done) {
		const struct check_table *t = &c->table[i];
		struct pieces p = { .at = t->off, .n = 1 };

		done = 1;
		if (t->view)
			continue;
		while (p.n < most_pieces(c) && i + p.n < c->tables && !t[p.n].view &&
		       t[p.n].off == p.at + (uint64_t)p.n * size)
			p.n++;
		/* Tables could be read when they were counted. */
		if (read_pieces(c, &p, e) < 0)
			return -1;
		for (uint32_t k = 0; k < p.n; k++)
			if (mend_table(c, table_span(c->q) * t[k].l1_index, c->buf + (size_t)k * size) &&
			    change_piece(c, &p, k, e) < 0)
				return -1;
		if (write_pieces(c, &p, e) < 0)
			return -1;
		done = max_u64(p.n, 1);
	}
	if (!c->view[0].unusable && mend_l1(c, e) < 0)
		return -1;
	return mend_sync(c, e);
}

int repair_raise(struct check *c, struct qimg_error *e)
{
	/* Of what was found to be moved to, refcounts are too low. */
	return c->r->found[QIMG_FAULT_REFCOUNT] || c->space ? change_blocks(c, RAISE, e) : 0;
}

int repair_lower(struct check *c, struct qimg_error *e)
{
	return c->r->found[QIMG_FAULT_LEAK] && repair_frees(c) ? change_blocks(c, LOWER, e) : 0;
}

int repair_copied(struct check *c, struct qimg_error *e)
{
	return mend_copied(c, e);
}
