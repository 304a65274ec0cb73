// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: clusters that one entry too many refers to.
 *
 * That is guest data, or an L2 table, where other metadata is; what two places of the active disk refer to although
 * its refcount says that only one does; and what has more references than a refcount can say. Who comes first keeps
 * the place. What a snapshot and the disk share is no such thing, nor are compressed clusters side by side.
 *
 * First all that is to be copied is noted: nothing that could change what it reads as has been written then. Then all
 * copies are made, then L2 entries are switched over, then L1 entries, with a sync between: nothing ever refers to
 * what is not there, and where it is interrupted copies are leaked that nobody refers to. L2 tables are changed in
 * their copies, too; those that have to leave their place in these alone.
 */
#include "qcow2/repair_apart.h"

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
#include "qcow2/repair.h"

#define L1_PIECE 8192			/* entries that are read at once */

struct move {
	uint64_t where, raw;		/* the entry, and what it is */
	uint64_t from, to;		/* host offsets of clusters */
	uint32_t clusters;
	bool copied;			/* what COPIED becomes */
};

struct repair_plan {
	struct refmap *seen;		/* references so far to clusters that have too many; SEEN: active ones */
	struct move *move;		/* those of L1 entries are first */
	size_t moves, room, tables;
	uint64_t clusters;
};

bool repair_can_copy(const struct check *c)
{
	return c->q->h.crypt_method != CRYPT_LUKS;
}

/* ---- what is to be copied ---- */

static int add_move(struct check *c, const struct move *m, struct qimg_error *e)
{
	struct repair_plan *p = c->plan;
	void *list = p->move;
	size_t room = p->room ? p->room * 2 : 64;

	if (p->moves == p->room) {
		if (mem_grow(&list, p->room, room, sizeof(*m), e) < 0)
			return -1;
		p->move = list;
		p->room = room;
	}
	p->move[p->moves++] = *m;
	p->clusters += m->clusters;
	return 0;
}

/* Something else was there before. Refcounts move by themselves, and leave their place to what else is there. */
static bool is_intruder(struct check *c, uint64_t cluster, bool table)
{
	if (check_is_counts(c, cluster))
		return false;
	return table ? refmap_is(c->map, REFMAP_MISPLACED, cluster) :
	       refmap_is(c->map, REFMAP_OVERLAP, cluster) && refmap_is(c->map, REFMAP_METADATA, cluster);
}

/*
 * A reference to a cluster that has more of them than its refcount says: what the active disk has of these, after the
 * first. Where the refcount is lost nobody knows what it has said.
 */
static bool is_surplus(struct check *c, uint64_t cluster, bool active, uint64_t times)
{
	struct refmap *seen = c->plan->seen;
	uint64_t max = c->q->refcount_max, refs, stored;
	struct qimg_error ignored;

	if (!refmap_is(c->map, REFMAP_LOW, cluster))
		return false;
	refs = refmap_count(seen, cluster) + times;
	if (refmap_count(c->map, cluster) > max && refs > max)
		return true;
	return active && refmap_is(seen, REFMAP_SEEN, cluster) && repair_has_block(c, cluster) &&
	       check_stored(c, cluster, &stored, &ignored) == 0 && refs > max_u64(stored, 1);
}

enum kind { TABLE, DATA, PACKED };

/* n clusters from `first` on, which an entry refers to. *moves: the entry gets a copy. */
static int look_at(struct check *c, enum kind kind, uint64_t first, uint64_t n, bool active, uint64_t times,
		   bool *moves, struct qimg_error *e)
{
	struct refmap *seen = c->plan->seen;

	*moves = false;
	for (uint64_t k = first; k < first + n && !*moves; k++)
		*moves = is_intruder(c, k, kind == TABLE) || is_surplus(c, k, active && kind != PACKED, times);
	for (uint64_t k = first; k < first + n && !*moves; k++) {
		if (!refmap_is(c->map, REFMAP_LOW, k))
			continue;
		if (refmap_add(seen, k, 1, times, e) < 0 ||
		    (active && kind != PACKED && refmap_set(seen, REFMAP_SEEN, k, 1, e) < 0))
			return -1;
	}
	return 0;
}

static int plan_l1(struct check *c, uint32_t view, uint64_t where, uint64_t l1e, struct qimg_error *e)
{
	const struct check_view *v = &c->view[view];
	uint64_t off = entry_l1_table(l1e), size = c->q->cluster_size;
	struct move m = { .where = where, .raw = l1e, .from = off, .clusters = 1, .copied = !view && v->times == 1 };
	bool moves;

	if (!off || !is_aligned(off, size) || !check_inside(c, off, size))
		return 0;
	if (look_at(c, TABLE, off >> c->q->cluster_bits, 1, !view, v->times, &moves, e) < 0)
		return -1;
	return moves ? add_move(c, &m, e) : 0;
}

static int plan_view(struct check *c, uint32_t view, uint8_t *l1, struct qimg_error *e)
{
	const struct check_view *v = &c->view[view];
	struct qimg_error ignored;
	uint64_t n;

	for (uint64_t first = 0; first < v->l1_size && !check_stopped(c); first += n) {
		uint64_t at = v->l1_offset + first * 8;

		n = min_u64(v->l1_size - first, L1_PIECE);
		if (file_read(c->q->file, at, l1, (size_t)n * 8, &ignored) < 0)
			continue;
		for (uint64_t i = 0; i < n; i++)
			if (plan_l1(c, view, at + i * 8, be64_get(l1 + i * 8), e) < 0)
				return -1;
	}
	return 0;
}

int repair_plan_begin(struct check *c, struct qimg_error *e)
{
	uint8_t *l1 = mem_array(L1_PIECE, 8, e);
	int ret = -1;

	c->plan = mem_zalloc(sizeof(*c->plan), e);
	if (!l1 || !c->plan || refmap_open(&c->plan->seen, c->from, c->to, UINT64_MAX, e) < 0)
		goto out;
	ret = 0;
	for (uint32_t i = 0; ret == 0 && i < c->views; i++)
		if (!c->view[i].unusable && c->view[i].times)
			ret = plan_view(c, i, l1, e);
	c->plan->tables = c->plan->moves;
out:
	free(l1);
	return ret;
}

static int plan_entry(struct check *c, const struct check_table *t, const uint8_t *p, uint32_t i,
		      struct qimg_error *e)
{
	const struct qcow2 *q = c->q;
	struct move m = { .where = t->off + (uint64_t)i * q->entry_size, .raw = be64_get(p), .clusters = 1,
			  .copied = !t->view && t->times == 1 };
	struct qimg_error ignored;
	struct entry en;
	bool moves, packed;
	uint64_t first;

	if (!m.raw || entry_get(q, p, 0, &en, &ignored) < 0 || (!en.host && en.kind != ENTRY_PACKED))
		return 0;
	packed = en.kind == ENTRY_PACKED;
	if (!check_inside(c, en.host, packed ? en.packed : q->cluster_size))
		return 0;
	m.from = round_down(en.host, q->cluster_size);
	first = m.from >> q->cluster_bits;
	if (packed) {
		m.copied = false;
		m.clusters = (uint32_t)(((en.host + en.packed - 1) >> q->cluster_bits) - first + 1);
	}
	if (look_at(c, packed ? PACKED : DATA, first, m.clusters, !t->view, t->times, &moves, e) < 0)
		return -1;
	return moves ? add_move(c, &m, e) : 0;
}

int repair_plan_table(struct check *c, const struct check_table *t, const uint8_t *data, struct qimg_error *e)
{
	const struct qcow2 *q = c->q;

	if (q->external || !repair_can_copy(c))
		return 0;
	for (uint32_t i = 0; i < UINT32_C(1) << q->l2_bits; i++)
		if (plan_entry(c, t, data + (size_t)i * q->entry_size, i, e) < 0)
			return -1;
	return 0;
}

void repair_plan_free(struct repair_plan *p)
{
	if (!p)
		return;
	refmap_close(p->seen);
	free(p->move);
	free(p);
}

bool repair_has_plan(const struct check *c)
{
	return c->plan && c->plan->moves;
}

uint64_t repair_apart_need(const struct check *c)
{
	return c->plan ? c->plan->clusters : 0;
}

/* ---- doing it ---- */

static int copy(struct check *c, struct move *m, struct qimg_error *e)
{
	uint64_t size = c->q->cluster_size;

	if (repair_take(c, m->clusters, &m->to, e) < 0)
		return -1;
	for (uint64_t at = 0; at < m->clusters * size; at += size)
		if (file_read(c->q->file, m->from + at, c->buf, size, e) < 0 ||
		    mend_write(c, m->to + at, c->buf, size, e) < 0)
			return -1;
	return 0;
}

/* Changes the entries of n moves, all of the cluster at `base`, in that or (at) in a copy of it. */
static int switch_cluster(struct check *c, const struct move *m, size_t n, uint64_t base, uint64_t at,
			  struct qimg_error *e)
{
	const struct qcow2 *q = c->q;
	uint64_t first = m[0].where - base, end = m[n - 1].where - base + 8;

	if (file_read(q->file, at, c->buf, q->cluster_size, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		uint8_t *p = c->buf + (m[i].where - base);

		/* Tables may share their place with each other. */
		if (be64_get(p) != m[i].raw)
			continue;
		be64_put(p, m[i].raw + m[i].to - m[i].from);
		entry_set_copied(p, m[i].copied);
	}
	return mend_write(c, at + first, c->buf + first, (size_t)(end - first), e);
}

static int by_from(const void *a, const void *b)
{
	const struct move *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* In each of the copies that were made of the table at base. */
static int switch_copies(struct check *c, const struct move *m, size_t n, uint64_t base, const struct move *sorted,
			 struct qimg_error *e)
{
	struct move key = { .from = base };
	const struct move *at = bsearch(&key, sorted, c->plan->tables, sizeof(key), by_from);

	while (at && at > sorted && at[-1].from == base)
		at--;
	for (; at && at < sorted + c->plan->tables && at->from == base; at++)
		if (switch_cluster(c, m, n, base, at->to, e) < 0)
			return -1;
	return 0;
}

/* The entries of the moves [first, end), cluster after cluster. sorted: moves of L1 entries; NULL: these it is. */
static int switch_over(struct check *c, size_t first, size_t end, const struct move *sorted, struct qimg_error *e)
{
	unsigned bits = c->q->cluster_bits;
	const struct move *m = c->plan->move;

	for (size_t i = first, n; i < end; i += n) {
		uint64_t cluster = m[i].where >> bits;

		for (n = 1; i + n < end && m[i + n].where >> bits == cluster && m[i + n].where > m[i].where; )
			n++;
		/* What has to leave its place has something else there. */
		if (!(sorted && is_intruder(c, cluster, true)) &&
		    switch_cluster(c, m + i, n, cluster << bits, cluster << bits, e) < 0)
			return -1;
		if (sorted && switch_copies(c, m + i, n, cluster << bits, sorted, e) < 0)
			return -1;
	}
	return mend_sync(c, e);
}

int repair_apart(struct check *c, struct qimg_error *e)
{
	struct repair_plan *p = c->plan;
	struct move *sorted;
	int ret = -1;

	if (!repair_has_plan(c))
		return 0;
	sorted = mem_array(max_u64(p->tables, 1), sizeof(*sorted), e);
	if (!sorted)
		return -1;
	for (size_t i = 0; i < p->moves; i++)
		if (copy(c, &p->move[i], e) < 0)
			goto out;
	if (mend_sync(c, e) < 0)
		goto out;
	memcpy(sorted, p->move, p->tables * sizeof(*sorted));
	qsort(sorted, p->tables, sizeof(*sorted), by_from);
	if (switch_over(c, p->tables, p->moves, sorted, e) < 0)
		goto out;
	ret = switch_over(c, 0, p->tables, NULL, e);
out:
	free(sorted);
	return ret;
}
