// SPDX-License-Identifier: BSD-2-Clause
/*
 * Checking an image: the order of things, the header, the refcount table, and what findings are.
 *
 * Nothing is trusted but that the header could be decoded. Sizes that the image dictates are bounded by the
 * header's limits (tables) or by the length of the file (everything else).
 */
#include "qcow2/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "image/driver.h"
#include "io/draft.h"
#include "io/file.h"
#include "qcow2/mend.h"
#include "qcow2/qcow2.h"
#include "qcow2/repair.h"
#include "qcow2/repair_apart.h"
#include "qcow2/snaptable.h"
#include "qcow2/table.h"

#define DEFAULT_MEMORY (512 * MIB)
#define LEAST_MEMORY MIB
#define ROOM_FOR_TABLES (16 * MIB)	/* that the list of L2 tables may take, however little there is */
#define LEAST_WINDOW 65536		/* clusters */
#define MOST_WINDOWS 4096
#define MOST_ROUNDS 8			/* of a repair */
#define MOST_LOW 100000			/* remembered one by one */

/* ---- findings ---- */

void check_tell(struct check *c, const struct qimg_finding *f, const char *fmt, ...)
{
	struct qimg_finding out = *f;
	char text[1024];
	uint64_t n = f->fault == QIMG_FAULT_LEAK || f->fault == QIMG_FAULT_REFCOUNT ? f->clusters : 1;
	va_list ap;

	c->r->found[f->fault] += n;
	out.fixed |= repair_mends_fault(c, f->fault);
	if (out.fixed)
		*(f->fault == QIMG_FAULT_LEAK ? &c->r->leaks_fixed : &c->r->corruptions_fixed) += n;
	if (!c->how->finding || c->told[f->fault] >= c->how->max_findings)
		return;
	c->told[f->fault]++;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	out.text = text;
	c->how->finding(c->how->ctx, &out);
}

static void sum_up(struct check *c)
{
	struct qimg_check_result *r = c->r;

	r->leaks = r->found[QIMG_FAULT_LEAK];
	r->errors = r->found[QIMG_FAULT_UNREAD];
	for (unsigned i = 0; i < QIMG_FAULTS; i++)
		r->corruptions += r->found[i];
	r->corruptions -= r->leaks + r->errors + r->found[QIMG_FAULT_ORPHAN];
	/* Who reads such an image otherwise refuses it: what was found is not all that there is to know. */
	for (unsigned i = 0; i < HEADER_FAULTS; i++)
		r->errors += c->q->h.fault[i] != NULL;
	r->errors += c->q->h.snapshots_cut;
	r->leaked_bytes = r->leaks << c->q->cluster_bits;
	r->image_end = c->highest << c->q->cluster_bits;
	r->total_clusters = div_up(c->q->h.size, c->q->cluster_size);
}

bool check_stopped(const struct check *c)
{
	const struct qimg_progress *p = c->how->progress;

	return p && p->cancel && *p->cancel;
}

void check_progress(struct check *c, uint64_t bytes)
{
	const struct qimg_progress *p = c->how->progress;

	c->done += bytes;
	if (p && p->report)
		p->report(p->ctx, min_u64(c->done, c->total), c->total);
}

/* ---- counting ---- */

/* Whether the answer of the map was only that it has no more room: then the window is done again. */
static int no_room(struct check *c, int ret, const struct qimg_error *e)
{
	if (ret < 0 && e->code == E2BIG) {
		c->full = true;
		ret = 0;
	}
	return ret;
}

/* All of it has been, and is gone through for something else. */
static bool is_counted(const struct check *c)
{
	return c->step == CHECK_CLAIM || c->step == CHECK_TELL || c->step == CHECK_PLAN;
}

int check_add(struct check *c, uint64_t cluster, uint64_t n, uint64_t times, struct qimg_error *e)
{
	return c->full || is_counted(c) ? 0 : no_room(c, refmap_add(c->map, cluster, n, times, e), e);
}

/* can_copy: what lies there, too, is what an entry refers to, and can be copied. */
static void note_overlap(struct check *c, uint64_t cluster, bool can_copy)
{
	bool movable = refmap_is(c->map, REFMAP_MOVABLE, cluster);

	c->wanted = true;
	c->overlaps_movable |= movable;
	if (check_is_counts(c, cluster))
		c->counts_overlap = true;
	else if (can_copy)
		c->overlaps_apart = true;
	else if (!movable)
		c->overlaps = true;
	c->table_overlap |= check_is_table(c, cluster);
}

static int set_mark(struct check *c, enum refmap_mark mark, uint64_t cluster, uint64_t n, struct qimg_error *e)
{
	return c->full ? 0 : no_room(c, refmap_set(c->map, mark, cluster, n, e), e);
}

int check_mark(struct check *c, enum refmap_mark mark, uint64_t cluster, uint64_t n,
	       struct qimg_error *e)
{
	return is_counted(c) ? 0 : set_mark(c, mark, cluster, n, e);
}

int check_mark_shared(struct check *c, uint64_t cluster, bool can_copy, struct qimg_error *e)
{
	if (is_counted(c))
		return 0;
	note_overlap(c, cluster, can_copy);
	return set_mark(c, REFMAP_OVERLAP, cluster, 1, e);
}

/* [off, off+len) is referred to, and part of it lies behind the end. Tables of many clusters do not grow back. */
static void note_behind(const struct check *c, uint64_t off, uint64_t len)
{
	uint64_t first = off >> c->q->cluster_bits, last = (len ? off + len - 1 : off) >> c->q->cluster_bits;

	if (last < first || last - first > 1)
		return;
	for (uint64_t at = max_u64(first, c->clusters); at <= last && at - c->clusters < CHECK_BEHIND; at++)
		c->behind[(at - c->clusters) / 64] |= UINT64_C(1) << (at - c->clusters) % 64;
}

bool check_is_awaited(const struct check *c, uint64_t cluster)
{
	uint64_t n = cluster - c->clusters;

	return cluster >= c->clusters && n < CHECK_BEHIND && c->behind[n / 64] >> n % 64 & 1;
}

bool check_inside(const struct check *c, uint64_t off, uint64_t len)
{
	uint64_t end = c->clusters << c->q->cluster_bits;

	if (off < end && len <= end - off)
		return true;
	note_behind(c, off, len);
	return false;
}

bool check_is_hole(struct check *c, uint64_t off, uint64_t len)
{
	uint64_t size = file_size(c->q->file);
	struct file_extent x;
	struct qimg_error ignored;

	if (off >= size)
		return true;
	if (off - c->extent >= c->extent_len) {
		if (file_extent(c->q->file, off, size - off, &x, &ignored) < 0)
			return false;
		c->extent = off;
		c->extent_len = x.len;
		c->hole = x.hole;
	}
	return c->hole && min_u64(len, size - off) <= c->extent + c->extent_len - off;
}

/* What metadata is in a cluster: the first that check_use was called for. */
static const char *owner(struct check *c, uint64_t cluster, char *buf, size_t size)
{
	const struct qcow2 *q = c->q;
	const struct header *h = &q->h;
	uint64_t at = cluster << q->cluster_bits;

	if (!at)
		return "the header";
	if (at - h->rt_offset < (uint64_t)h->rt_clusters << q->cluster_bits)
		return "the refcount table";
	for (uint32_t i = 0; i < c->rt_size; i++) {
		if (c->rt[i] != at)
			continue;
		snprintf(buf, size, "refcount block %" PRIu32, i);
		return buf;
	}
	if (at - q->l1_offset < round_up((uint64_t)q->l1_size * 8, q->cluster_size))
		return "the L1 table";
	if (h->nb_snapshots && at - h->snapshots_offset < round_up(c->snapshots_len, q->cluster_size))
		return "the snapshot table";
	for (uint32_t i = 1; i < c->views; i++) {
		const struct check_view *v = &c->view[i];

		if (v->unusable || at - v->l1_offset >= round_up((uint64_t)v->l1_size * 8, q->cluster_size))
			continue;
		snprintf(buf, size, "the L1 table of snapshot '%s'", v->name);
		return buf;
	}
	return "other metadata";
}

/* Tells of each part of a structure that something else has, too, and had first. */
static int tell_overlaps(struct check *c, uint64_t first, uint64_t n, const char *what, struct qimg_error *e)
{
	unsigned bits = c->q->cluster_bits;
	char buf[1100];
	uint64_t which;

	for (uint64_t end = first + n; refmap_any(c->map, REFMAP_OVERLAP, first, end - first, &which);
	     first = which + 1) {
		struct qimg_finding f = { .fault = QIMG_FAULT_OVERLAP, .has_host = true,
					  .host = which << bits, .host_len = c->q->cluster_size,
					  .fixed = repair_mends(c) };

		if (refmap_is(c->map, REFMAP_SEEN, which))
			check_tell(c, &f, "%s lies where %s is, in the cluster at 0x%" PRIx64, what,
				   owner(c, which, buf, sizeof(buf)), f.host);
		else if (check_mark(c, REFMAP_SEEN, which, 1, e) < 0)
			return -1;
	}
	return 0;
}

static int use(struct check *c, uint64_t off, uint64_t len, uint64_t times, const char *what, bool can_copy,
	       struct qimg_error *e)
{
	unsigned bits = c->q->cluster_bits;
	uint64_t first = off >> bits, n = len ? ((off + len - 1) >> bits) - first + 1 : 0, which, at = first;

	if (c->step == CHECK_EXPLAIN)
		return tell_overlaps(c, first, n, what, e);
	for (; refmap_any(c->map, REFMAP_METADATA, at, first + n - at, &which); at = which + 1)
		if (check_mark_shared(c, which, can_copy, e) < 0 ||
		    (can_copy && check_mark(c, REFMAP_MISPLACED, which, 1, e) < 0))
			return -1;
	if (check_add(c, first, n, times, e) < 0)
		return -1;
	return check_mark(c, REFMAP_METADATA, first, n, e);
}

int check_use(struct check *c, uint64_t off, uint64_t len, uint64_t times, const char *what,
	      struct qimg_error *e)
{
	return use(c, off, len, times, what, false, e);
}

int check_use_table(struct check *c, uint64_t off, uint64_t times, struct qimg_error *e)
{
	return use(c, off, c->q->cluster_size, times, "an L2 table", true, e);
}

int check_use_movable(struct check *c, uint64_t off, uint64_t len, uint64_t times, const char *what,
		      struct qimg_error *e)
{
	unsigned bits = c->q->cluster_bits;
	uint64_t first = off >> bits, n = len ? ((off + len - 1) >> bits) - first + 1 : 0;

	if (c->step == CHECK_COUNT && check_mark(c, REFMAP_MOVABLE, first, n, e) < 0)
		return -1;
	return check_use(c, off, len, times, what, e);
}

bool check_shares(const struct check *c, uint64_t off, uint64_t len)
{
	unsigned bits = c->q->cluster_bits;
	uint64_t first = off >> bits, n = len ? ((off + len - 1) >> bits) - first + 1 : 0;

	return refmap_any(c->map, REFMAP_OVERLAP, first, n, NULL);
}

/* ---- the header ---- */

static int use_header(struct check *c, struct qimg_error *e)
{
	return check_use(c, 0, 1, 1, "the header", e);
}

/* Those of tables that others look at are told there. */
static void tell_header(struct check *c)
{
	static const enum header_fault own[] = { HEADER_FAULT_L1, HEADER_FAULT_LENGTH, HEADER_FAULT_EXTENSIONS,
						 HEADER_FAULT_BACKING, HEADER_FAULT_RAW };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		struct qimg_finding f = { .fault = QIMG_FAULT_HEADER, .has_host = true, .host_len = c->q->cluster_size,
					  .fixed = repair_mends_header(c, own[i]) };

		if (c->q->h.fault[own[i]])
			check_tell(c, &f, "%s", c->q->h.fault[own[i]]);
	}
}

/* ---- windows ---- */

static int go_through_all(struct check *c, struct qimg_error *e)
{
	if (use_header(c, e) < 0 || check_blocks(c, e) < 0 || check_other(c, e) < 0 ||
	    check_tables(c, e) < 0)
		return -1;
	if (check_stopped(c))
		return error_set(e, ECANCELED, "Interrupted");
	return 0;
}

bool check_fixes(const struct check *c)
{
	return c->how->flags & (QIMG_CHECK_FIX_LEAKS | QIMG_CHECK_FIX_ALL);
}

static int check_window(struct check *c, uint64_t memory, struct qimg_error *e)
{
	int ret = -1;

	if (refmap_open(&c->map, c->from, c->to, memory, e) < 0)
		return -1;
	c->step = CHECK_COUNT;
	c->full = c->wanted = false;
	c->lows = 0;
	if (go_through_all(c, e) < 0)
		goto out;
	c->r->passes++;
	if (c->first) {
		tell_header(c);
		check_blocks_tell(c);
	}
	c->first = false;
	if (c->full) {
		ret = 0;
		goto out;
	}
	/* Marks of what is wrong: bits of clusters that have counts already. */
	refmap_relax(c->map);
	if (c->broken && check_broken(c, e) < 0)
		goto out;
	if (repair_frees(c) && repair_find_orphans(c, e) < 0)
		goto out;
	if (check_counts(c, e) < 0)
		goto out;
	if (check_stopped(c)) {
		error_set(e, ECANCELED, "Interrupted");
		goto out;
	}
	if (repair_mends(c) && (c->overlaps_apart || c->surplus) && check_plan(c, e) < 0)
		goto out;
	c->step = CHECK_EXPLAIN;
	if ((c->wanted || (c->odd_copied && !c->from)) && go_through_all(c, e) < 0)
		goto out;
	check_tell_low(c);
	ret = check_fixes(c) ? repair_window(c, e) : 0;
out:
	repair_plan_free(c->plan);
	c->plan = NULL;
	refmap_close(c->map);
	c->map = NULL;
	return ret;
}

/* Clusters that are sure to fit into the memory: with counts of two bits, and two kinds of marks. */
static uint64_t window(uint64_t memory)
{
	return max_u64(memory / 10 * 9 * 2, LEAST_WINDOW);
}

/* More clusters than are referred to; in a long file with holes far less than it has. */
static uint64_t most_used(const struct check *c)
{
	return min_u64(c->clusters, ((uint64_t)c->tables + 1) << c->q->l2_bits);
}

static int too_little(const struct check *c, uint64_t memory, struct qimg_error *e)
{
	return error_set(e, ENOMEM, "%" PRIu64 " bytes of memory are too little to %s '%s'; give more with --memory",
			 memory, check_fixes(c) ? "repair" : "check", c->q->img->name);
}

static int check_windows(struct check *c, uint64_t memory, struct qimg_error *e)
{
	uint64_t size = window(memory), limit = max_u64(c->clusters, 1);

	/* What is mended must be known to share its place with nothing, wherever that is. */
	if (size >= most_used(c) || check_fixes(c))
		size = UINT64_MAX;
	for (c->from = 0; c->from < limit || !c->from; ) {
		c->to = size >= limit - min_u64(c->from, limit) ? UINT64_MAX : c->from + size;
		if (check_window(c, memory, e) < 0)
			return -1;
		if (!c->full) {
			if (c->to == UINT64_MAX)
				return 0;
			c->from = c->to;
			continue;
		}
		size = min_u64(size, limit) / 2;
		if (check_fixes(c) || size < LEAST_WINDOW / 2 || limit / size > MOST_WINDOWS)
			return too_little(c, memory, e);
	}
	return 0;
}

/* One look at all of the image; what of a repair can be done after it. */
static int look(struct check *c, struct qimg_error *e)
{
	const struct qimg_check *how = c->how;
	uint64_t memory = max_u64(how->memory ? how->memory : DEFAULT_MEMORY, LEAST_MEMORY), taken;
	int ret = -1;

	memset(c->r, 0, sizeof(*c->r));
	c->clusters = div_up(file_size(c->q->file), c->q->cluster_size);
	c->low_room = min_u64(how->finding ? how->max_findings : 0, MOST_LOW);
	c->low = mem_array(max_u64(c->low_room, 1), sizeof(*c->low), e);
	c->buf = mem_buffer(max_u64(CHECK_PIECE, c->q->cluster_size), e);
	c->behind = mem_zalloc(CHECK_BEHIND / 8, e);
	if (!c->low || !c->buf || !c->behind || check_blocks_load(c, e) < 0 || check_snapshots(c, e) < 0 ||
	    check_gather(c, max_u64(memory / 2, ROOM_FOR_TABLES), e) < 0)
		goto out;
	c->total = ((uint64_t)c->tables + c->rt_size) << c->q->cluster_bits;
	taken = c->table_room * sizeof(*c->table) + 2 * c->rt_size * sizeof(*c->rt) + CHECK_PIECE;
	ret = check_windows(c, memory > 2 * taken ? memory - taken : memory / 2, e);
	/* What was told before it was known that nothing can be mended. */
	if (!repair_mends(c))
		c->r->corruptions_fixed = 0;
	if (ret == 0 && check_fixes(c) && !c->again)
		ret = repair_finish(c, e);
	c->r->leaks_held = check_fixes(c) ? repair_holds(c) : NULL;
	sum_up(c);
out:
	check_deep_end(c);
	snaptable_free(c->q);
	free(c->rt);
	free(c->block);
	free(c->low);
	free(c->buf);
	free(c->behind);
	free(c->table);
	free(c->view);
	return ret;
}

/* What a repair has changed is in the file, and not yet in memory. */
static int reload(struct qcow2 *q, struct qimg_error *e)
{
	struct header h;

	if (header_read_damaged(q->file, &h, e) < 0)
		return -1;
	snaptable_free(q);
	header_free(&q->h);
	q->h = h;
	return table_reload(q, e);
}

int qcow2_check(struct qimg_image *img, const struct qimg_check *how, struct qimg_check_result *r,
		struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	struct check c = { .q = q, .how = how, .r = r, .first = true };
	/* What was told once is not told again. */
	struct qimg_check silent = *how;
	struct qimg_check_result rest;
	struct mend *mend = NULL;
	struct qimg_error ignored;
	int ret = check_fixes(&c) ? mend_open(&mend, q, how, e) : 0;

	c.mend = mend;
	/* It may be the second look at what was tried out. */
	if (ret == 0 && draft_is(q->file))
		ret = reload(q, e);
	if (ret == 0)
		ret = look(&c, e);
	silent.finding = NULL;
	silent.flags &= ~(unsigned)QIMG_CHECK_DEEP;
	for (unsigned round = 1; ret == 0 && c.again && round < MOST_ROUNDS; round++) {
		c = (struct check){ .q = q, .how = &silent, .r = &rest, .first = true, .mend = mend };
		ret = reload(q, e) < 0 ? -1 : look(&c, e);
	}
	if (mend_close(mend, ret == 0, ret ? &ignored : e) < 0)
		ret = -1;
	return ret;
}

static const char *const fault_names[] = {
	[QIMG_FAULT_LEAK] = "leak",
	[QIMG_FAULT_REFCOUNT] = "refcount",
	[QIMG_FAULT_OVERLAP] = "overlap",
	[QIMG_FAULT_COPIED] = "copied",
	[QIMG_FAULT_HEADER] = "header",
	[QIMG_FAULT_L1_ENTRY] = "l1-entry",
	[QIMG_FAULT_L2_ENTRY] = "l2-entry",
	[QIMG_FAULT_SUBCLUSTERS] = "subclusters",
	[QIMG_FAULT_PACKED] = "packed",
	[QIMG_FAULT_DATA_FILE] = "data-file",
	[QIMG_FAULT_REFCOUNT_ENTRY] = "refcount-entry",
	[QIMG_FAULT_SNAPSHOT_TABLE] = "snapshot-table",
	[QIMG_FAULT_SNAPSHOT_L1] = "snapshot-l1",
	[QIMG_FAULT_BITMAP_DIRECTORY] = "bitmap-directory",
	[QIMG_FAULT_BITMAP_ENTRY] = "bitmap-entry",
	[QIMG_FAULT_CRYPT_HEADER] = "crypt-header",
	[QIMG_FAULT_INFLATE] = "inflate",
	[QIMG_FAULT_DATA] = "read",
	[QIMG_FAULT_ORPHAN] = "orphan",
	[QIMG_FAULT_UNREAD] = "unread",
};

const char *qimg_fault_name(enum qimg_fault fault)
{
	return (unsigned)fault < QIMG_FAULTS ? fault_names[fault] : "unknown";
}
