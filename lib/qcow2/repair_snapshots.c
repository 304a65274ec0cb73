// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: the snapshot table, and where the L1 tables of snapshots are.
 *
 * The table is always written anew, elsewhere: the header then refers to the new one in one step, and until then the
 * old one is in force. What is in the entries is decided in memory (q->snapshots); the places of L1 tables that
 * others have, too, are given up for copies. A snapshot of which nothing can be kept is named and left out. What it
 * alone had is leaked then, and the next round deals with that.
 */
#include "qcow2/repair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/range.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/header.h"
#include "qcow2/mend.h"
#include "qcow2/qcow2.h"
#include "qcow2/repair_l1.h"
#include "qcow2/snaptable.h"

#define EXTRA_LEN 24			/* with all fields that are known */
#define LEAST_EXTRA 16			/* that version 3 asks for */
#define MOST_EXTRA 1024			/* that the reference keeps */
#define ID_ROOM 24

/* Whether snapshot i has an L1 table that shares its place, or of which the end of the file has cut off some. */
static bool moves_l1(const struct check *c, uint32_t i)
{
	const struct check_view *v = &c->view[i + 1];
	uint64_t len = (uint64_t)v->l1_size * 8;

	return !v->unusable && (check_shares(c, v->l1_offset, len) ||
				!range_within(v->l1_offset, len, file_size(c->q->file)));
}

static uint64_t l1_clusters(const struct check *c, uint64_t entries)
{
	return div_up(entries * 8, c->q->cluster_size);
}

static bool is_wanted(const struct check *c)
{
	if (c->r->found[QIMG_FAULT_SNAPSHOT_TABLE] || c->r->found[QIMG_FAULT_SNAPSHOT_L1])
		return true;
	if (!c->q->h.nb_snapshots || !c->overlaps_movable)
		return false;
	for (uint32_t i = 0; i < c->snapshots; i++)
		if (moves_l1(c, i))
			return true;
	return check_shares(c, c->q->h.snapshots_offset, c->snapshots_len);
}

uint64_t repair_snapshots_need(const struct check *c)
{
	uint64_t bytes, clusters = 0;

	if (!is_wanted(c))
		return 0;
	bytes = snaptable_size(c->q->snapshots, c->snapshots) + (uint64_t)c->snapshots * (EXTRA_LEN + ID_ROOM);
	for (uint32_t i = 0; i < c->snapshots; i++)
		if (moves_l1(c, i))
			clusters += l1_clusters(c, c->view[i + 1].l1_size);
	return clusters + div_up(bytes, c->q->cluster_size);
}

/* ---- entries ---- */

static int mend_extra(struct check *c, struct snapshot *s, struct qimg_error *e)
{
	if (s->extra_len > MOST_EXTRA)
		return snaptable_set_extra(s, MOST_EXTRA, e);
	if (c->q->h.version >= 3 && s->extra_len < LEAST_EXTRA)
		return snaptable_set_extra(s, EXTRA_LEN, e);
	return 0;
}

static void tell_removed(struct check *c, const struct snapshot *s)
{
	struct qimg_finding f = { .fault = QIMG_FAULT_SNAPSHOT_L1, .has_host = true, .host = s->l1_offset,
				  .host_len = (uint64_t)s->l1_size * 8, .snapshot = s->name };
	char about[1200];

	check_tell(c, &f, "%s is removed: no L1 table of it is left", snaptable_about(s, about, sizeof(about)));
}

static int by_id(const void *a, const void *b)
{
	const struct snapshot *x = *(struct snapshot *const *)a, *y = *(struct snapshot *const *)b;
	int order = strcmp(x->id, y->id);

	return order ? order : (x > y) - (x < y);
}

static int by_place(const void *a, const void *b)
{
	const struct snapshot *x = *(struct snapshot *const *)a, *y = *(struct snapshot *const *)b;

	return (x > y) - (x < y);
}

/* Of those with one ID all but the first in the table get other ones. Changes the order of the list. */
static int renumber(struct snapshot **list, uint32_t n, struct qimg_error *e)
{
	uint64_t highest = 0;
	const char *last = NULL;

	for (uint32_t i = 0; i < n; i++) {
		const char *id = list[i]->id;

		if (strlen(id) < 19 && strspn(id, "0123456789") == strlen(id))
			highest = max_u64(highest, strtoull(id, NULL, 10));
	}
	qsort(list, n, sizeof(*list), by_id);
	for (uint32_t i = 0; i < n; i++) {
		char *other;

		if (!last || strcmp(last, list[i]->id)) {
			last = list[i]->id;
			continue;
		}
		other = mem_printf(e, "%" PRIu64, ++highest);
		if (!other)
			return -1;
		free(list[i]->id);
		list[i]->id = other;
	}
	return 0;
}

/* A copy of the L1 table of snapshot i becomes its table. */
static int move_l1(struct check *c, uint32_t i, struct qimg_error *e)
{
	struct check_view *v = &c->view[i + 1];
	uint64_t len = (uint64_t)v->l1_size * 8, room = round_up(len, c->q->cluster_size), to, n;

	if (repair_take(c, room / c->q->cluster_size, &to, e) < 0)
		return -1;
	for (uint64_t at = 0; at < room; at += n) {
		n = min_u64(room - at, max_u64(CHECK_PIECE, c->q->cluster_size));
		memset(c->buf, 0, n);
		if (at < len && file_read(c->q->file, v->l1_offset + at, c->buf, min_u64(n, len - at), e) < 0)
			return -1;
		if (mend_write(c, to + at, c->buf, n, e) < 0)
			return -1;
	}
	v->l1_offset = c->q->snapshots[i].l1_offset = to;
	return 0;
}

/* What becomes of snapshot i. *keep: whether anything does. */
static int mend_entry(struct check *c, uint32_t i, bool *keep, struct qimg_error *e)
{
	struct snapshot *s = &c->q->snapshots[i];
	struct qimg_error why;

	if (mend_extra(c, s, e) < 0)
		return -1;
	*keep = true;
	if (moves_l1(c, i) && s->l1_size)
		return move_l1(c, i, e);
	if (snaptable_check_l1(c->q, s, &why) < 0 || c->view[i + 1].unusable) {
		/* Its place may be another now: whether anybody else is there is seen in the next round. */
		if (repair_l1_find(c, s, keep, e) < 0)
			return -1;
		if (!*keep)
			tell_removed(c, s);
		c->view[i + 1].unusable = true;
		return 0;
	}
	return 0;
}

/* ---- the table ---- */

static int write_table(struct check *c, const struct snapshot *list, uint32_t n, struct qimg_error *e)
{
	struct header *h = &c->q->h;
	uint64_t size = snaptable_size(list, n), room = round_up(size, c->q->cluster_size), to = 0;
	uint8_t *buf = n ? mem_array(room, 1, e) : NULL;
	int ret = -1;

	if (n) {
		if (!buf || repair_take(c, room / c->q->cluster_size, &to, e) < 0)
			goto out;
		snaptable_encode(list, n, buf);
		if (mend_write(c, to, buf, room, e) < 0)
			goto out;
	}
	h->nb_snapshots = n;
	h->snapshots_offset = to;
	ret = mend_header(c, header_store_snapshots, e);
out:
	free(buf);
	return ret;
}

int repair_snapshots(struct check *c, struct qimg_error *e)
{
	uint32_t all = c->snapshots, n = 0;
	struct snapshot **kept = NULL, *list = NULL;
	int ret = -1;

	if (!is_wanted(c))
		return 0;
	kept = mem_array(max_u64(all, 1), sizeof(*kept), e);
	list = mem_array(max_u64(all, 1), sizeof(*list), e);
	if (!kept || !list)
		goto out;
	for (uint32_t i = 0; i < all; i++) {
		bool keep;

		if (mend_entry(c, i, &keep, e) < 0)
			goto out;
		if (keep)
			kept[n++] = &c->q->snapshots[i];
	}
	if (renumber(kept, n, e) < 0)
		goto out;
	qsort(kept, n, sizeof(*kept), by_place);
	for (uint32_t i = 0; i < n; i++)
		list[i] = *kept[i];
	ret = write_table(c, list, n, e);
out:
	free(kept);
	free(list);
	return ret;
}
