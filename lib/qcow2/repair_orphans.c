// SPDX-License-Identifier: BSD-2-Clause
/* Repairing an image: L2 tables that something has lost. What looks like one is kept, with what it refers to. */
#include "qcow2/repair.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/entry.h"
#include "qcow2/mend.h"
#include "qcow2/qcow2.h"

#define LEAST_ENTRIES 8			/* that make a cluster look like an L2 table */

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

/* They are freed where the user wants that, or can have them back. */
static bool frees_orphans(const struct check *c)
{
	return c->how->flags & QIMG_CHECK_DROP_ORPHANS || c->how->backup;
}

static int take_orphan(struct check *c, uint64_t cluster, struct qimg_error *e)
{
	const struct qcow2 *q = c->q;
	struct qimg_finding f = { .fault = QIMG_FAULT_ORPHAN, .has_host = true, .host = cluster << q->cluster_bits,
				  .host_len = q->cluster_size };
	struct qimg_error ignored;

	check_tell(c, &f, "the leaked cluster at 0x%" PRIx64 " looks like an L2 table that was lost: it is %s, "
		   "with what it refers to", f.host, frees_orphans(c) ? "freed" : "kept");
	if (frees_orphans(c))
		return mend_save(c, f.host, f.host_len, e);
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

	for (uint64_t k = 0; k < repair_span(c) && first + k < c->clusters && !check_stopped(c); k++) {
		uint64_t cluster = first + k;

		hole -= hole > 0;
		if (!entry_refcount_get(block, q->h.refcount_order, k) || refmap_count(c->map, cluster) || hole ||
		    refmap_is(c->map, REFMAP_CLAIMED, cluster))
			continue;
		hole = hole_clusters(c, cluster);
		if (hole)
			continue;
		if (looks_lost(c, cluster) && take_orphan(c, cluster, e) < 0)
			return -1;
	}
	return 0;
}

static bool is_unknown(struct check *c, uint64_t cluster)
{
	return !refmap_count(c->map, cluster) && !refmap_is(c->map, REFMAP_ORPHAN, cluster) &&
	       !refmap_is(c->map, REFMAP_CLAIMED, cluster);
}

/* Where no block says which clusters are leaked, all may be that nothing refers to. */
static int find_without_block(struct check *c, struct qimg_error *e)
{
	uint64_t span = repair_span(c), n;

	for (uint64_t at = 0; at < c->clusters && !check_stopped(c); at += n) {
		n = span - at % span;
		if (repair_has_block(c, at))
			continue;
		n = REFMAP_SOME;
		if (at % REFMAP_SOME == 0 && refmap_alike(c->map, at) == 1)
			continue;
		n = hole_clusters(c, at);
		if (n)
			continue;
		n = 1;
		if (is_unknown(c, at) && looks_lost(c, at) && !repair_is_old_table(c) && take_orphan(c, at, e) < 0)
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
		ret = find_in_block(c, i * repair_span(c), block, e);
	}
	if (ret == 0 && !q->external && repair_mends(c))
		ret = find_without_block(c, e);
	free(block);
	return ret;
}
