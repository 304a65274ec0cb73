// SPDX-License-Identifier: BSD-2-Clause
/* Repairing an image: refcounts, where they are, and COPIED bits. */
#include "qcow2/repair.h"

#include <stdlib.h>

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
	return ((uint64_t)c->q->cluster_size * 8) >> c->q->h.refcount_order;
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

static int change_blocks(struct check *c, enum change change, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	unsigned order = q->h.refcount_order;

	for (uint32_t i = 0; i < c->rt_size; i++) {
		bool changed = false;
		struct qimg_error ignored;

		if (!repair_has_block(c, i * repair_span(c)) ||
		    file_read(q->file, c->rt[i], c->buf, q->cluster_size, &ignored) < 0)
			continue;
		for (uint64_t k = 0; k < repair_span(c); k++) {
			uint64_t stored = entry_refcount_get(c->buf, order, k);
			uint64_t now = wanted(c, change, i * repair_span(c) + k, stored);

			if (now == stored)
				continue;
			entry_refcount_put(c->buf, order, k, now);
			changed = true;
		}
		if (changed && mend_write(c, c->rt[i], c->buf, q->cluster_size, e) < 0)
			return -1;
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
	struct qcow2 *q = c->q;
	struct qimg_error ignored;

	for (size_t i = 0; i < c->tables; i++) {
		const struct check_table *t = &c->table[i];

		if (t->view || file_read(q->file, t->off, c->buf, q->cluster_size, &ignored) < 0)
			continue;
		if (mend_table(c, table_span(q) * t->l1_index, c->buf) &&
		    mend_write(c, t->off, c->buf, q->cluster_size, e) < 0)
			return -1;
	}
	if (!c->view[0].unusable && mend_l1(c, e) < 0)
		return -1;
	return mend_sync(c, e);
}

int repair_raise(struct check *c, struct qimg_error *e)
{
	return change_blocks(c, RAISE, e);
}

int repair_lower(struct check *c, struct qimg_error *e)
{
	return change_blocks(c, LOWER, e);
}

int repair_copied(struct check *c, struct qimg_error *e)
{
	return mend_copied(c, e);
}
