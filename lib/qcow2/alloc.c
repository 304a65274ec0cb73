// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finding free host clusters, first fit from a hint below which nothing is free; deferred releases.
 *
 * A cluster is taken by raising its refcount in memory, so it can't be found twice. An external data
 * file has no refcounts: there a release only tells the host, if it is to be told.
 */
#include "qcow2/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/range.h"
#include "io/file.h"
#include "io/sparse.h"
#include "qcow2/entry.h"
#include "qcow2/flush.h"
#include "qcow2/qcow2.h"
#include "qcow2/refcount.h"

#define MAX_RELEASES 65536
#define MIN_PRESSURE (64 * MIB)
#define AHEAD (32 * MIB)

struct release {
	uint64_t cluster, n;
	enum release_why why;
	bool data;			/* in an external data file: has no refcount */
};

void alloc_open(struct qcow2 *q)
{
	q->free_hint = 0;
	q->blank_from = file_is_device(q->file) ? UINT64_MAX :
		div_up(file_size(q->file), q->cluster_size);
}

int alloc_trim(struct qcow2 *q, struct qimg_error *e)
{
	uint64_t end = q->blank_from << q->cluster_bits;

	if (!q->stretched || end >= file_size(q->file))
		return 0;
	q->stretched = false;
	return file_truncate(q->file, end, e);
}

void alloc_not_blank(struct qcow2 *q, uint64_t cluster)
{
	if (q->blank_from < cluster)
		q->blank_from = cluster;
}

int alloc_check_end(const struct qcow2 *q, uint64_t cluster, uint64_t n, struct qimg_error *e)
{
	uint64_t end = (cluster + n) << q->cluster_bits;

	if (cluster + n > UINT64_C(1) << (56 - q->cluster_bits))
		return error_set(e, ENOSPC, "'%s' has reached the largest host offset of the format",
				 q->img->name);
	if (file_is_device(q->file) && end > file_size(q->file))
		return error_set(e, ENOSPC, "No space left on '%s': it ends at %" PRIu64
				 " bytes, the image needs %" PRIu64,
				 q->img->name, file_size(q->file), end);
	return 0;
}

/*
 * A free cluster must not be where metadata is: then the refcounts are wrong, and writing there would
 * destroy the image. What was never part of the file can't be.
 */
int alloc_check_overlap(struct qcow2 *q, uint64_t cluster, uint64_t n, struct qimg_error *e)
{
	uint64_t off = cluster << q->cluster_bits, len = n << q->cluster_bits;
	const char *what = NULL;

	if (cluster >= q->blank_from)
		return 0;
	if (!cluster)
		what = "header";
	else if (range_overlaps(off, len, q->l1_offset, (uint64_t)q->l1_size * sizeof(uint64_t)))
		what = "L1 table";
	else if (range_overlaps(off, len, q->rt_offset, (uint64_t)q->rt_size * sizeof(uint64_t)))
		what = "refcount table";
	for (uint32_t i = 0; !what && i < q->l1_size; i++)
		if (entry_l1_table(q->l1[i]) - off < len)
			what = "an L2 table";
	for (uint32_t i = 0; !what && i < q->rt_size; i++)
		if (q->rt[i] - off < len && q->rt[i])
			what = "a refcount block";
	if (!what)
		return 0;
	flush_mark_corrupt(q);
	return error_set(e, EIO, "Refcounts of '%s' say that host offset 0x%" PRIx64 " is free, but %s is"
			 " there: the image is damaged and was marked corrupt, run 'qemu-img check'",
			 q->img->name, off, what);
}

/* One search: a run of at least `least` and at most `want` free clusters. */
static int find(struct qcow2 *q, uint64_t least, uint64_t want, uint64_t *cluster, uint64_t *got,
		struct wait *w, struct qimg_error *e)
{
	uint64_t at = q->free_hint, run = 0;
	bool skipped = false;		/* free clusters lie before `at` that were too few */

	while (run < want) {
		enum refcount_scan what;
		uint64_t n;
		int ret;

		/* A shorter run now is better than a longer one that has to be waited for. */
		if (w && run >= least && !refcount_at_hand(q, at))
			break;
		ret = refcount_scan(q, at, want - run, &what, &n, w, e);
		if (ret)
			return ret;
		if (what == SCAN_FREE) {
			run += n;
			at += n;
			continue;
		}
		if (run >= least)
			break;
		if (run)
			skipped = true;
		run = 0;
		if (what == SCAN_ABSENT) {
			/* Enough blocks in one place that the run behind them is not interrupted. */
			uint64_t span = refcount_span(q), count = div_up(least, span - 1);

			at = round_down(at, span);
			for (uint64_t i = 1; i < count; i++)
				if ((at >> log2_u64(span)) + i < q->rt_size &&
				    q->rt[(at >> log2_u64(span)) + i])
					count = 1;
			ret = flush_finish(q, w, e);
			if (!ret)
				ret = refcount_make_blocks(q, at, (uint32_t)count, e);
			if (ret)
				return ret;
			continue;
		}
		at += n;
		if (!skipped)
			q->free_hint = at;
	}
	if (alloc_check_end(q, at - run, run, e) < 0) {
		/* Of a run that crosses the end of a device its front part may do. */
		uint64_t end = file_size(q->file) >> q->cluster_bits;

		if (!file_is_device(q->file) || at - run + least > end)
			return -1;
		run -= at - end;
		at = end;
	}
	*cluster = at - run;
	*got = run;
	return 0;
}

static int take(struct qcow2 *q, uint64_t least, uint64_t want, uint64_t *host, uint64_t *got,
		bool *blank, struct wait *w, struct qimg_error *e)
{
	uint64_t cluster;
	int ret = find(q, least, want, &cluster, got, w, e);

	if (ret > 0)	/* MAP_WAIT */
		return ret;
	if (ret < 0) {
		/* What waits to be released may be what is missing. Who can wait flushes by himself. */
		if (w || e->code != ENOSPC ||
		    !(q->pending.count || q->covered.count || q->settled.count))
			return -1;
		if (flush_all(q, e) < 0 || find(q, least, want, &cluster, got, NULL, e) != 0)
			return -1;
	}
	if (alloc_check_overlap(q, cluster, *got, e) < 0)
		return -1;
	if (refcount_raise(q, cluster, *got, e) < 0)
		return -1;
	if (q->free_hint == cluster)
		q->free_hint = cluster + *got;
	*blank = cluster >= q->blank_from;
	alloc_not_blank(q, cluster + *got);
	q->stretched |= file_stretch(q->file, (cluster + *got) << q->cluster_bits, AHEAD);
	*host = cluster << q->cluster_bits;
	return 0;
}

int alloc_run(struct qcow2 *q, uint64_t want, uint64_t *host, uint64_t *got, bool *blank,
	      struct wait *w, struct qimg_error *e)
{
	return take(q, 1, want, host, got, blank, w, e);
}

int alloc_table(struct qcow2 *q, uint64_t n, uint64_t *host, struct qimg_error *e)
{
	uint64_t got;
	bool blank;

	return take(q, n, n, host, &got, &blank, NULL, e);
}

/* The refcount of a cluster has become 0. */
static void freed(struct qcow2 *q, uint64_t cluster)
{
	if (cluster < q->free_hint)
		q->free_hint = cluster;
	if (q->pack_cursor >> q->cluster_bits == cluster)
		q->pack_cursor = 0;
}

static int list_add(struct release_list *l, struct release new, struct qimg_error *e)
{
	struct release *last = l->count ? &l->r[l->count - 1] : NULL;

	if (last && last->why == new.why && last->data == new.data &&
	    last->cluster + last->n == new.cluster) {
		last->n += new.n;
		l->clusters += new.n;
		return 0;
	}
	if (!l->r || l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		void *p = l->r;

		if (mem_grow(&p, l->room, room, sizeof(*l->r), e) < 0)
			return -1;
		l->r = p;
		l->room = room;
	}
	l->r[l->count++] = new;
	l->clusters += new.n;
	return 0;
}

/* Takes the first n away. */
static void list_drop(struct release_list *l, size_t n)
{
	for (size_t i = 0; i < n; i++)
		l->clusters -= l->r[i].n;
	if (n)
		memmove(l->r, l->r + n, (l->count - n) * sizeof(*l->r));
	l->count -= n;
}

static int add_release(struct qcow2 *q, uint64_t cluster, uint64_t n, enum release_why why,
		       bool data, struct qimg_error *e)
{
	return list_add(&q->pending, (struct release){ cluster, n, why, data }, e);
}

int alloc_release(struct qcow2 *q, uint64_t host, uint64_t n, enum release_why why,
		  struct qimg_error *e)
{
	return add_release(q, host >> q->cluster_bits, n, why, false, e);
}

void alloc_undo(struct qcow2 *q, uint64_t host, uint64_t n)
{
	struct qimg_error ignored;
	uint64_t cluster = host >> q->cluster_bits;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t left;

		if (refcount_lower(q, cluster + i, &left, &ignored) < 0) {
			/* The refcounts can't be had just now: with the next flush. */
			add_release(q, cluster + i, n - i, RELEASE_OTHER, false, &ignored);
			return;
		}
		if (!left)
			freed(q, cluster + i);
	}
}

int alloc_release_data(struct qcow2 *q, uint64_t host, uint64_t n, enum release_why why,
		       struct qimg_error *e)
{
	if (q->external && !q->discard_passed[why])
		return 0;
	return add_release(q, host >> q->cluster_bits, n, why, q->external, e);
}

int alloc_release_bytes(struct qcow2 *q, uint64_t host, uint64_t len, enum release_why why,
			struct qimg_error *e)
{
	struct range r = range_outer(host, len, q->cluster_size);

	return add_release(q, r.start >> q->cluster_bits, r.len >> q->cluster_bits, why, false, e);
}

static int list_retake(struct release_list *l, uint64_t from, uint64_t to, struct qimg_error *e)
{
	size_t count = l->count;

	for (size_t i = 0; i < count; i++) {
		struct release r = l->r[i], behind = r;
		uint64_t end = r.cluster + r.n;

		if (!r.data || r.cluster >= to || end <= from)
			continue;
		/* The part behind becomes an entry of its own; the part before stays here. */
		behind.cluster = to;
		behind.n = end - to;
		if (end > to && list_add(l, behind, e) < 0)
			return -1;
		l->r[i].n = from > r.cluster ? from - r.cluster : 0;
		l->clusters -= r.n - l->r[i].n;
	}
	return 0;
}

int alloc_retake_data(struct qcow2 *q, uint64_t host, uint64_t n, struct qimg_error *e)
{
	uint64_t from = host >> q->cluster_bits;

	if (list_retake(&q->pending, from, from + n, e) < 0 ||
	    list_retake(&q->covered, from, from + n, e) < 0)
		return -1;
	return list_retake(&q->settled, from, from + n, e);
}

bool alloc_pressure(const struct qcow2 *q)
{
	uint64_t waiting = q->pending.clusters << q->cluster_bits;

	return q->pending.count >= MAX_RELEASES ||
		(waiting > MIN_PRESSURE && waiting > file_size(q->file) / 8);
}

/* Lowers n refcounts and tells the host which clusters became free. */
static int apply_one(struct qcow2 *q, const struct release *r, struct qimg_error *e)
{
	bool pass = q->discard_passed[r->why];
	uint64_t run = 0;		/* clusters freed in a row, up to here */

	for (uint64_t i = 0; i <= r->n; i++) {
		uint64_t left = 1;

		if (i < r->n) {
			if (refcount_lower(q, r->cluster + i, &left, e) < 0)
				return -1;
			if (!left)
				freed(q, r->cluster + i);
		}
		if (!left) {
			run++;
		} else if (run) {
			/* A hint: that it can't be taken does no harm. */
			struct qimg_error ignored;

			if (pass)
				sparse_discard(q->file, (r->cluster + i - run) << q->cluster_bits,
					       run << q->cluster_bits, &ignored);
			run = 0;
		}
	}
	return 0;
}

static int apply_list(struct qcow2 *q, struct release_list *l, struct qimg_error *e)
{
	size_t i;
	int ret = 0;

	for (i = 0; i < l->count && !ret; i++) {
		const struct release *r = &l->r[i];
		struct qimg_error ignored;

		if (r->data)
			sparse_discard(q->data, r->cluster << q->cluster_bits,
				       r->n << q->cluster_bits, &ignored);
		else
			ret = apply_one(q, r, e);
	}
	/* What failed is not tried again: the rest of it leaks. */
	list_drop(l, i);
	return ret;
}

int alloc_settle(struct qcow2 *q, struct qimg_error *e)
{
	if (!q->settled.count || q->img->grace.active[q->settled_parity])
		return 0;
	return apply_list(q, &q->settled, e);
}

static void list_swap(struct release_list *a, struct release_list *b)
{
	struct release_list t = *a;

	*a = *b;
	*b = t;
}

void alloc_cover(struct qcow2 *q)
{
	struct release_list *from = &q->pending;
	struct qimg_error ignored;
	size_t i;

	if (!q->covered.count) {
		list_swap(&q->covered, from);
		return;
	}
	/* Some are still held up since the last time. Without memory the rest joins the next flush. */
	for (i = 0; i < from->count && list_add(&q->covered, from->r[i], &ignored) == 0; i++)
		;
	list_drop(from, i);
}

int alloc_apply(struct qcow2 *q, struct qimg_error *e)
{
	struct grace *g = &q->img->grace;

	if (alloc_settle(q, e) < 0)
		return -1;
	/* One wait at a time: what came later joins the next one. */
	if (q->settled.count)
		return 0;
	list_swap(&q->settled, &q->covered);
	q->settled_parity = g->parity;
	g->parity ^= 1;
	return alloc_settle(q, e);
}

void alloc_close(struct qcow2 *q)
{
	struct release_list *all[] = { &q->pending, &q->covered, &q->settled };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		free(all[i]->r);
		*all[i] = (struct release_list){ .count = 0 };
	}
}
