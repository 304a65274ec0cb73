// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: L1 tables of snapshots that are not what, or not where, the snapshot table says.
 *
 * Of place, number of entries and size of the disk one is wrong, rarely two: what goes with the others is taken, if
 * what is there can be an L1 table. Where the place is lost, the file may have just one table that nothing refers
 * to and that can be it.
 */
#include "qcow2/repair_l1.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/entry.h"
#include "qcow2/qcow2.h"
#include "qcow2/repair.h"
#include "qcow2/snaptable.h"
#include "qcow2/table.h"

#define PIECE 4096			/* entries that are read at once */
#define SOME_TABLES 16			/* L2 tables that are looked at */
#define SIZED_EXTRA 24			/* extra data with the size of the disk in it */

/* Its refcount says that it is in use, and nothing uses it. */
static bool is_leaked(struct check *c, uint64_t cluster)
{
	struct qimg_error ignored;
	uint64_t stored;

	return cluster < c->clusters && !refmap_count(c->map, cluster) &&
	       check_stored(c, cluster, &stored, &ignored) == 0 && stored;
}

static bool are_leaked(struct check *c, uint64_t first, uint64_t end)
{
	for (; first < end; first++)
		if (!is_leaked(c, first))
			return false;
	return true;
}

/* Whether a cluster that nothing refers to can be an L2 table that is used. */
static bool can_be_l2(struct check *c, uint64_t off)
{
	struct qcow2 *q = c->q;
	uint8_t *data = mem_buffer(q->cluster_size, &(struct qimg_error){ 0 });
	bool can = false;
	struct qimg_error ignored;
	struct entry en;

	if (!data || file_read(q->file, off, data, q->cluster_size, &ignored) < 0)
		goto out;
	for (uint32_t i = 0; i < q->cluster_size / q->entry_size; i++) {
		const uint8_t *p = data + (size_t)i * q->entry_size;

		if (!be64_get(p))
			continue;
		can = !entry_reserved(q, p) && entry_get(q, p, 0, &en, &ignored) == 0 &&
		      (!en.host || check_inside(c, en.host, 1));
		if (!can)
			break;
	}
out:
	free(data);
	return can;
}

static bool is_l2(struct check *c, uint64_t off)
{
	uint64_t cluster = off >> c->q->cluster_bits;

	return refmap_is(c->map, REFMAP_METADATA, cluster) || (is_leaked(c, cluster) && can_be_l2(c, off));
}

/*
 * Whether the entries [from, to) of a table at off can be those of an L1 table; strictly: one at least says something,
 * and L2 tables are where they point to.
 */
static bool can_be_l1(struct check *c, uint64_t off, uint64_t from, uint64_t to, bool strictly)
{
	uint64_t l1[PIECE / 8], n, used = 0;
	struct qimg_error ignored;

	if (!check_inside(c, off, to * 8))
		return false;
	for (; from < to; from += n) {
		n = min_u64(to - from, ARRAY_SIZE(l1));
		if (file_read(c->q->file, off + from * 8, l1, n * 8, &ignored) < 0)
			return false;
		for (uint64_t i = 0; i < n; i++) {
			uint64_t l1e = be64_get(&l1[i]), table = entry_l1_table(l1e);

			if (!l1e)
				continue;
			if (entry_l1_reserved(l1e) || !table || !is_aligned(table, c->q->cluster_size) ||
			    !check_inside(c, table, c->q->cluster_size))
				return false;
			if (strictly && used++ < SOME_TABLES && !is_l2(c, table))
				return false;
		}
	}
	return used || !strictly;
}

/* ---- the size ---- */

static uint64_t need(const struct check *c, uint64_t size)
{
	return header_l1_need(size, c->q->cluster_bits, c->q->extended);
}

/* The disk becomes as large as the table can tell of. */
static int cut_disk(struct check *c, struct snapshot *s, struct qimg_error *e)
{
	s->disk_size = min_u64(s->disk_size, table_span(c->q) * s->l1_size);
	return s->extra_len < SIZED_EXTRA ? snaptable_set_extra(s, SIZED_EXTRA, e) : 0;
}

/* The table is too short: what lies behind it goes on, or the disk is smaller than said. */
static int lengthen(struct check *c, struct snapshot *s, bool *found, struct qimg_error *e)
{
	uint64_t entries = need(c, s->disk_size), bits = c->q->cluster_bits;
	uint64_t behind = div_up(s->l1_offset + (uint64_t)s->l1_size * 8, c->q->cluster_size);

	*found = true;
	if (entries <= HEADER_MAX_L1_BYTES / 8 && can_be_l1(c, s->l1_offset, s->l1_size, entries, false) &&
	    are_leaked(c, behind, div_up(s->l1_offset + entries * 8, UINT64_C(1) << bits))) {
		s->l1_size = (uint32_t)entries;
		return 0;
	}
	*found = s->l1_size;
	return *found ? cut_disk(c, s, e) : 0;
}

/* The table is too long to be there: as long as the disk, and the state of a machine, take. */
static bool shorten(struct check *c, struct snapshot *s)
{
	uint64_t disk = need(c, s->disk_size), all = disk + need(c, s->vm_size), most = HEADER_MAX_L1_BYTES / 8;

	if (all < s->l1_size && all <= most && can_be_l1(c, s->l1_offset, 0, all, false))
		s->l1_size = (uint32_t)all;
	else if (disk < s->l1_size && disk <= most && can_be_l1(c, s->l1_offset, 0, disk, false))
		s->l1_size = (uint32_t)disk;
	else
		return false;
	return s->l1_size;
}

/* ---- the place ---- */

static bool is_lost_l1(struct check *c, uint64_t off, uint64_t entries)
{
	uint64_t first = off >> c->q->cluster_bits;

	return are_leaked(c, first, first + div_up(entries * 8, c->q->cluster_size)) &&
	       can_be_l1(c, off, 0, entries, true);
}

/* The only place in the file where such a table is. 0: none, or more than one. */
static int search(struct check *c, uint64_t entries, uint64_t *off, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	uint64_t span = repair_span(c), at;
	uint8_t *block = mem_buffer(q->cluster_size, e);
	struct qimg_error ignored;

	if (!block)
		return -1;
	*off = 0;
	for (uint32_t i = 0; i < c->rt_size && !check_stopped(c); i++) {
		if (!c->rt[i] || file_read(q->file, c->rt[i], block, q->cluster_size, &ignored) < 0)
			continue;
		for (uint64_t k = 0; k < span && i * span + k < c->clusters; k++) {
			at = (i * span + k) << q->cluster_bits;
			if (!entry_refcount_get(block, q->h.refcount_order, k) ||
			    refmap_count(c->map, i * span + k) || !is_lost_l1(c, at, entries))
				continue;
			if (*off) {
				*off = 0;
				goto out;
			}
			*off = at;
		}
	}
out:
	free(block);
	return 0;
}

static int find_place(struct check *c, struct snapshot *s, bool *found, struct qimg_error *e)
{
	uint64_t off = round_down(s->l1_offset, c->q->cluster_size), entries = need(c, s->disk_size);

	*found = false;
	if (!entries || entries > HEADER_MAX_L1_BYTES / 8)
		return 0;
	/* What it says itself is better than what its disk needs: there may be the state of a machine. */
	if (s->l1_size >= entries && (uint64_t)s->l1_size * 8 <= HEADER_MAX_L1_BYTES)
		entries = s->l1_size;
	if (!is_lost_l1(c, off, entries) && search(c, entries, &off, e) < 0)
		return -1;
	if (!off)
		return 0;
	*found = true;
	s->l1_offset = off;
	s->l1_size = (uint32_t)entries;
	/* Nobody else gets it. */
	return check_add(c, off >> c->q->cluster_bits, div_up(entries * 8, c->q->cluster_size), 1, e);
}

int repair_l1_find(struct check *c, struct snapshot *s, bool *found, struct qimg_error *e)
{
	uint64_t bytes = (uint64_t)s->l1_size * 8;

	if (!s->l1_offset || !is_aligned(s->l1_offset, c->q->cluster_size) || !check_inside(c, s->l1_offset, 1))
		return find_place(c, s, found, e);
	if (check_inside(c, s->l1_offset, bytes) && s->l1_size < need(c, s->disk_size))
		return lengthen(c, s, found, e);
	*found = shorten(c, s);
	return *found ? 0 : find_place(c, s, found, e);
}
