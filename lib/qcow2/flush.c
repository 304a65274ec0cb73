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
 *   evict:    a refcount slice: write it. An L2 slice: barrier, then write all dirty L2 slices
 *   switch:   barrier; header field; sync
 *
 * New L2 tables and refcount blocks were written whole when they got their clusters, so the sync of
 * the barrier covers them, and guest data, too. With lazy refcounts the dirty bit in the header
 * stands in for the first half of the barrier.
 */
#include "qcow2/flush.h"

#include <errno.h>

#include "base/error.h"
#include "io/file.h"
#include "qcow2/alloc.h"
#include "qcow2/cache.h"
#include "qcow2/open.h"
#include "qcow2/qcow2.h"
#include "qcow2/refcount.h"
#include "qcow2/table.h"

/* The data file first: what the image says about it must be true. */
static int sync_all(struct qcow2 *q, struct qimg_error *e)
{
	if (q->external && file_sync(q->data, e) < 0)
		return -1;
	return file_sync(q->file, e);
}

static int write_refcounts(struct qcow2 *q, struct qimg_error *e)
{
	if (cache_write_dirty(q->rc_cache, e) < 0)
		return -1;
	if (q->rt_any_dirty) {
		if (file_sync(q->file, e) < 0 || refcount_write_table(q, e) < 0)
			return -1;
	}
	return 0;
}

static int barrier(struct qcow2 *q, struct qimg_error *e)
{
	if (!q->dirty_marked && write_refcounts(q, e) < 0)
		return -1;
	return sync_all(q, e);
}

static int write_mapping(struct qcow2 *q, struct qimg_error *e)
{
	if (cache_write_dirty(q->l2_cache, e) < 0)
		return -1;
	return table_write_l1(q, e);
}

int flush_all(struct qcow2 *q, struct qimg_error *e)
{
	if (cache_any_dirty(q->l2_cache) || q->l1_any_dirty) {
		if (barrier(q, e) < 0 || write_mapping(q, e) < 0)
			return -1;
	}
	if (sync_all(q, e) < 0)
		return -1;
	return alloc_apply(q, e);
}

int qcow2_flush(struct qimg_image *img, struct wait *w, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);

	(void)w;
	if (!q->writable || !q->wrote_anything)
		return 0;
	return flush_all(q, e);
}

int flush_clean_l2(void *owner, struct slice *victim, struct qimg_error *e)
{
	struct qcow2 *q = owner;

	(void)victim;
	if (barrier(q, e) < 0)
		return -1;
	return cache_write_dirty(q->l2_cache, e);
}

int flush_clean_refcounts(void *owner, struct slice *victim, struct qimg_error *e)
{
	struct qcow2 *q = owner;

	return cache_write(q->rc_cache, victim, e);
}

int flush_switch(struct qcow2 *q,
		 int (*store)(struct file *f, const struct header *h, struct qimg_error *e),
		 struct qimg_error *e)
{
	if (barrier(q, e) < 0)
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
	if (!q->writable || !q->wrote_anything)
		return 0;
	if (flush_all(q, e) < 0)
		return -1;
	if (cache_any_dirty(q->rc_cache) || q->rt_any_dirty) {
		if (write_refcounts(q, e) < 0 || sync_all(q, e) < 0)
			return -1;
	}
	if (q->dirty_marked) {
		q->h.incompatible &= ~(uint64_t)INCOMPAT_DIRTY;
		if (header_store_features(q->file, &q->h, e) < 0 || file_sync(q->file, e) < 0)
			return -1;
		q->dirty_marked = false;
	}
	return 0;
}
