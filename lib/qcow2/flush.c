// SPDX-License-Identifier: BSD-2-Clause
/*
 * The order in which metadata reaches the disk.
 *
 * After a crash at any instant: a refcount is never below the number of references (leaks are
 * allowed); an entry never points at a cluster with someone else's data or old bytes; L1 and the
 * refcount table never point at a table that was not written. So an allocation needs refcount before
 * L2 before L1, and freeing needs the reverse. Instead of edges between the caches there is one rule:
 * decrements wait until the references are gone from the disk (alloc.c). Then:
 *
 *   barrier:  write dirty refcount slices; if the refcount table changed: sync, write it; sync
 *   flush:    barrier; write dirty L2 slices and L1 sectors; sync; apply the releases
 *   evict:    a refcount slice: write it. An L2 slice: barrier, then write all dirty L2 slices (with
 *             metadata-writeback=single: that one)
 *   switch:   barrier; header field; sync
 *
 * New L2 tables and refcount blocks were written whole when they got their clusters, so the sync of
 * the barrier covers them, and guest data, too. With lazy refcounts the dirty bit in the header
 * stands in for the first half of the barrier.
 *
 * All of these are runs through one list of steps, up to one step or another; one run at a time. A run
 * belongs to nobody: whoever needs it over carries it on, and one write or sync at a time may be left
 * to such a caller (MAP_WAIT) while others go about their business. From its first step until the
 * mapping is written the mapping is frozen: what is linked later would need a barrier of its own. Clusters
 * may be taken all the time, since refcounts may always be too high.
 */
#include "qcow2/flush.h"

#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "image/driver.h"
#include "io/file.h"
#include "qcow2/alloc.h"
#include "qcow2/cache.h"
#include "qcow2/open.h"
#include "qcow2/qcow2.h"
#include "qcow2/refcount.h"
#include "qcow2/table.h"

enum step {
	IDLE,
	REFCOUNTS,
	TABLE_SYNC,		/* before and after the data file, where that is a file of its own: */
	TABLE,
	BARRIER_DATA,
	BARRIER,
	L2,
	L1,
	FINAL_DATA,
	FINAL,
	OVER,
};

/* A write, or with len 0 a sync. */
struct op {
	struct file *file;
	uint64_t off;
	void *buf;
	size_t len;
};

static bool frozen(const struct qcow2 *q)
{
	return q->flush.step >= REFCOUNTS && q->flush.step <= L1;
}

static struct whole_table l1_table(const struct qcow2 *q)
{
	return (struct whole_table){ q->l1, q->l1_size, q->l1_offset, q->l1_dirty };
}

static struct whole_table refcount_table(const struct qcow2 *q)
{
	return (struct whole_table){ q->rt, q->rt_size, q->rt_offset, q->rt_dirty };
}

static void start(struct qcow2 *q, enum step last)
{
	struct flush *f = &q->flush;

	f->last = last;
	f->only = NULL;
	f->step = REFCOUNTS;
	/* What is in the caches is what the disk has: there is nothing to order. */
	if (last == FINAL && !cache_any_dirty(q->l2_cache) && !q->l1_any_dirty)
		f->step = FINAL_DATA;
	if (last == FINAL)
		f->started++;
	if (f->step == FINAL_DATA)
		alloc_cover(q);
}

static void next_step(struct qcow2 *q)
{
	struct flush *f = &q->flush;

	writeback_reset(&f->piece);
	if (f->step == f->last) {
		f->step = OVER;
		return;
	}
	f->step++;
	/* The references are gone from what the next sync covers. */
	if (f->step == FINAL_DATA)
		alloc_cover(q);
}

static int sync_of(struct file *file, struct op *op)
{
	*op = (struct op){ .file = file };
	return 1;
}

/* What is to be done next in this step: 1, 0 when the step is over, -1. */
static int next_op(struct qcow2 *q, struct op *op, struct qimg_error *e)
{
	struct flush *f = &q->flush;
	const struct whole_table l1 = l1_table(q), rt = refcount_table(q);
	int ret = 0;

	switch (f->step) {
	case REFCOUNTS:
		/* A run that ends here is for a slice that has to leave its cache. */
		if (!q->dirty_marked || f->last == REFCOUNTS)
			ret = writeback_slices(&f->piece, q->rc_cache, e);
		break;
	case TABLE_SYNC:
		return !q->dirty_marked && q->rt_any_dirty ? sync_of(q->file, op) : 0;
	case TABLE:
		if (!q->dirty_marked && q->rt_any_dirty)
			ret = writeback_sectors(&f->piece, &rt, e);
		if (!q->dirty_marked && !ret)
			q->rt_any_dirty = false;
		break;
	case BARRIER_DATA:
	case FINAL_DATA:
		/* First of all: what the image says about the data file must be true. */
		return q->external ? sync_of(q->data, op) : 0;
	case BARRIER:
	case FINAL:
		return sync_of(q->file, op);
	case L2:
		if (f->only && !f->piece.list)
			ret = writeback_only(&f->piece, f->only, e);
		if (ret == 0)
			ret = writeback_slices(&f->piece, q->l2_cache, e);
		break;
	case L1:
		if (q->l1_any_dirty)
			ret = writeback_sectors(&f->piece, &l1, e);
		if (!ret)
			q->l1_any_dirty = false;
		break;
	}
	if (ret == 1)
		*op = (struct op){ q->file, f->piece.off, f->piece.buf, f->piece.len };
	return ret;
}

/* A write or sync has ended. */
static void op_ended(struct qcow2 *q, int code)
{
	struct flush *f = &q->flush;
	const struct whole_table l1 = l1_table(q), rt = refcount_table(q);

	f->code = code;
	switch (f->step) {
	case REFCOUNTS:
		writeback_slices_done(&f->piece, q->rc_cache, code);
		break;
	case TABLE:
		writeback_sectors_done(&f->piece, &rt, code);
		break;
	case L2:
		writeback_slices_done(&f->piece, q->l2_cache, code);
		break;
	case L1:
		writeback_sectors_done(&f->piece, &l1, code);
		break;
	default:
		if (!code)
			next_step(q);
		break;
	}
}

static void left_op_ended(struct wait *w, int code)
{
	struct qcow2 *q = w->priv;

	q->flush.under_way = NULL;
	op_ended(q, code);
}

static int run_ended(struct qcow2 *q, bool failed, struct qimg_error *e)
{
	struct flush *f = &q->flush;

	writeback_free(&f->piece);
	f->step = IDLE;
	f->code = 0;
	if (f->last != FINAL)
		return failed ? -1 : 0;
	/* All who wait for a flush find the same answer, that of the releases included. */
	failed = failed || alloc_apply(q, e) < 0;
	f->ended = f->started;
	if (failed)
		f->error = *e;
	else
		f->done = f->ended;
	return failed ? -1 : 0;
}

/* A write or sync that was left to a caller has failed. */
static int left_op_failed(struct qcow2 *q, struct qimg_error *e)
{
	const struct flush *f = &q->flush;

	if (f->step == REFCOUNTS || f->step == TABLE || f->step == L2 || f->step == L1)
		return error_errno(e, f->code, "Writing metadata of '%s' at 0x%" PRIx64,
				   file_path(q->file), f->piece.off);
	return error_errno(e, f->code, "Could not bring '%s' to stable storage", q->img->name);
}

static int blocking_op(struct qcow2 *q, const struct op *op, struct qimg_error *e)
{
	int ret = op->len ? file_write(op->file, op->off, op->buf, op->len, e) :
		  file_sync(op->file, e);

	op_ended(q, ret < 0 ? e->code : 0);
	q->flush.code = 0;
	return ret;
}

/* Carries the run on until it is over, or until nothing is frozen any more. */
static int carry_on(struct qcow2 *q, bool only_thaw, struct wait *w, struct qimg_error *e)
{
	struct flush *f = &q->flush;
	struct op op = { .file = NULL };
	int ret;

	while (f->step != IDLE) {
		if (only_thaw && !frozen(q))
			return 0;
		if (f->under_way && w) {
			w->op = WAIT_TURN;
			return MAP_WAIT;
		}
		if (f->under_way)
			image_await(f->under_way);
		if (f->code) {
			left_op_failed(q, e);
			return run_ended(q, true, e);
		}
		if (f->step == OVER)
			return run_ended(q, false, e);
		ret = next_op(q, &op, e);
		if (ret == 0) {
			next_step(q);
		} else if (ret == 1 && w) {
			w->op = op.len ? WAIT_WRITE : WAIT_SYNC;
			w->file = op.file;
			w->off = op.off;
			w->buf = op.buf;
			w->len = op.len;
			w->done = left_op_ended;
			w->priv = q;
			f->under_way = w;
			return MAP_WAIT;
		} else if (ret < 0 || blocking_op(q, &op, e) < 0) {
			return run_ended(q, true, e);
		}
	}
	return 0;
}

/* A run up to `last`, blocking, after the one that is in progress. */
static int run_now(struct qcow2 *q, enum step last, struct qimg_error *e)
{
	if (carry_on(q, false, NULL, e) < 0)
		return -1;
	start(q, last);
	return carry_on(q, false, NULL, e);
}

int flush_thaw(struct qcow2 *q, struct wait *w, struct qimg_error *e)
{
	return frozen(q) ? carry_on(q, true, w, e) : 0;
}

int flush_finish(struct qcow2 *q, struct wait *w, struct qimg_error *e)
{
	return carry_on(q, false, w, e);
}

int flush_relieve(struct qcow2 *q, struct wait *w, struct qimg_error *e)
{
	struct flush *f = &q->flush;
	int ret = 0;

	while (!ret && alloc_pressure(q)) {
		if (f->step == IDLE)
			start(q, FINAL);
		ret = carry_on(q, false, w, e);
	}
	/* Blocking, nothing would be gained by writing before room is needed. */
	if (ret || !w || f->under_way)
		return ret;
	if (f->step == IDLE && !q->writeback_single && cache_mostly_dirty(q->l2_cache))
		start(q, L2);
	return carry_on(q, false, w, e);
}

int flush_all(struct qcow2 *q, struct qimg_error *e)
{
	return run_now(q, FINAL, e);
}

int qcow2_flush(struct qimg_image *img, struct wait *w, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	struct flush *f = &q->flush;
	int ret;

	if (!q->writable || !q->wrote_anything)
		return 0;
	if (!w)
		return flush_all(q, e);
	/* One that is in progress does not cover what was linked since it began: the next one does. */
	if (!w->ticket)
		w->ticket = f->started + 1;
	while (f->ended < w->ticket) {
		if (f->step == IDLE)
			start(q, FINAL);
		ret = carry_on(q, false, w, e);
		if (ret)
			return ret;
	}
	if (f->done >= w->ticket)
		return 0;
	*e = f->error;
	return -1;
}

int flush_clean_l2(void *owner, struct slice *victim, struct wait *w, struct qimg_error *e)
{
	struct qcow2 *q = owner;
	int ret = 0;

	while (victim->dirty && !ret) {
		if (q->flush.step == IDLE) {
			start(q, L2);
			q->flush.only = q->writeback_single ? victim : NULL;
		}
		ret = carry_on(q, false, w, e);
	}
	return ret;
}

int flush_clean_refcounts(void *owner, struct slice *victim, struct wait *w, struct qimg_error *e)
{
	struct qcow2 *q = owner;
	int ret = 0;

	/* Blocking, it is written by itself: that is allowed whatever a run is about. */
	if (!w && victim->writing)
		image_await(q->flush.under_way);
	if (!w)
		return victim->dirty ? cache_write(q->rc_cache, victim, e) : 0;
	while (victim->dirty && !ret) {
		if (q->flush.step == IDLE)
			start(q, REFCOUNTS);
		ret = carry_on(q, false, w, e);
	}
	return ret;
}

int flush_switch(struct qcow2 *q,
		 int (*store)(struct file *f, const struct header *h, struct qimg_error *e),
		 struct qimg_error *e)
{
	if (run_now(q, BARRIER, e) < 0)
		return -1;
	if (store(q->file, &q->h, e) < 0)
		return -1;
	return file_sync(q->file, e);
}

int flush_begin(struct qcow2 *q, struct qimg_error *e)
{
	int claimed;

	if (!q->writable)
		return error_set(e, EBADF, "'%s' is not open for writing", q->img->name);
	if (q->h.incompatible & INCOMPAT_CORRUPT && !(q->img->flags & QIMG_OPEN_CHECK))
		return error_set(e, EROFS, "'%s' is marked corrupt and can not be written to: "
				 "run 'qemu-img check -r all'", q->img->name);
	claimed = open_claim(q, e);
	if (claimed < 0 || (claimed && file_sync(q->file, e) < 0))
		return -1;
	if (q->lazy_refcounts && !q->dirty_marked) {
		q->h.incompatible |= INCOMPAT_DIRTY;
		if (flush_switch(q, header_store_features, e) < 0) {
			q->h.incompatible &= ~(uint64_t)INCOMPAT_DIRTY;
			return -1;
		}
		q->dirty_marked = true;
	}
	return 0;
}

int flush_repaired(struct qcow2 *q, struct qimg_error *e)
{
	return file_sync(q->file, e);
}

void flush_mark_corrupt(struct qcow2 *q)
{
	struct qimg_error ignored;

	if (q->h.version < 3 || q->h.incompatible & INCOMPAT_CORRUPT)
		return;
	/* The error that led here is the one to report. */
	q->h.incompatible |= INCOMPAT_CORRUPT;
	if (header_store_features(q->file, &q->h, &ignored) == 0)
		file_sync(q->file, &ignored);
}

int flush_close(struct qcow2 *q, struct qimg_error *e)
{
	bool marked = q->dirty_marked;

	if (!q->writable || !q->wrote_anything)
		return 0;
	if (flush_all(q, e) < 0)
		return -1;
	/* The decrements of the releases; with lazy refcounts all of them, before the bit goes. */
	q->dirty_marked = false;
	if ((cache_any_dirty(q->rc_cache) || q->rt_any_dirty) && run_now(q, BARRIER, e) < 0) {
		q->dirty_marked = marked;
		return -1;
	}
	if (alloc_trim(q, e) < 0)
		return -1;
	if (marked) {
		q->h.incompatible &= ~(uint64_t)INCOMPAT_DIRTY;
		if (header_store_features(q->file, &q->h, e) < 0 || file_sync(q->file, e) < 0)
			return -1;
	}
	return 0;
}
