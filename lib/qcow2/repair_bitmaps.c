// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: bitmaps.
 *
 * A bitmap that is believed says too much rather than too little: what is damaged of it becomes all ones, so that the
 * next backup copies that again. An entry of its table that is broken, or whose cluster something else has, too, is
 * changed in place. When something is wrong with its table, or with its entry of the directory, it gets a new table
 * in which all is ones. The directory is written anew, elsewhere: meanwhile the bit that makes bitmaps count is off,
 * so that an interruption costs bitmaps at worst, and never leaves one that says too little.
 */
#include "qcow2/repair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/bitmapdir.h"
#include "qcow2/check.h"
#include "qcow2/mend.h"
#include "qcow2/qcow2.h"

#define FLAGS_KNOWN (BITMAP_IN_USE | BITMAP_AUTO | BITMAP_EXTRA_COMPATIBLE)
#define MIN_GRANULARITY 9
#define MAX_GRANULARITY 31
#define USUAL_GRANULARITY 16
#define MOST_ENTRIES 0x8000000		/* of a table that the reference takes */
#define LEAST_BUDGET 64			/* clusters for new tables that are always fine */
#define ALL_ONES 1

enum fate {
	KEEP,
	BLANK,				/* a new table, all ones */
	REMOVE,
};

struct plan {
	struct bitmap_entry *b;
	enum fate *fate;
	size_t count;
	bool directory;			/* it has to be written */
	uint64_t clusters;		/* for the tables */
};

static bool has_bitmaps(const struct check *c)
{
	const struct header *h = &c->q->h;

	return h->has_bitmaps && h->autoclear & AUTOCLEAR_BITMAPS;
}

static bool is_wanted(const struct check *c)
{
	return has_bitmaps(c) && (c->r->found[QIMG_FAULT_BITMAP_DIRECTORY] ||
				  c->r->found[QIMG_FAULT_BITMAP_ENTRY] || c->overlaps_movable);
}

/* ---- what is to become of them ---- */

static uint64_t table_clusters(const struct check *c, const struct bitmap_entry *b)
{
	return div_up(check_bitmap_need(c, b->granularity_bits) * 8, c->q->cluster_size);
}

static enum fate judge(struct check *c, struct bitmap_entry *b, size_t i, uint64_t *bytes)
{
	bool usable, odd = b->flags & ~(uint32_t)FLAGS_KNOWN;
	const char *why = check_bitmap_fault(c, b, bytes, &usable);
	struct qimg_error ignored;

	if (b->granularity_bits < MIN_GRANULARITY || b->granularity_bits > MAX_GRANULARITY) {
		b->granularity_bits = USUAL_GRANULARITY;
		odd = true;
	}
	b->flags &= FLAGS_KNOWN;
	if (bitmapdir_check(b, i, &ignored) < 0)
		return REMOVE;
	if (!odd && !why && !check_shares(c, b->table_offset, (uint64_t)b->table_size * 8))
		return KEEP;
	/* Nobody knows what it would have to say with that. */
	return b->extra_len && !(b->flags & BITMAP_EXTRA_COMPATIBLE) ? REMOVE : BLANK;
}

static bool is_taken(const struct plan *p, const char *name)
{
	for (size_t i = 0; i < p->count; i++)
		if (!strcmp(p->b[i].name, name))
			return true;
	return false;
}

/* The later of two gets another name. Which of them is meant by the old one, nobody knows: that says all. */
static int part_twins(struct plan *p, size_t first, size_t second, struct qimg_error *e)
{
	struct bitmap_entry *b = &p->b[second];
	char *name = NULL;

	for (unsigned k = 2; !name || is_taken(p, name) || strlen(name) > HEADER_MAX_NAME; k++) {
		free(name);
		name = mem_printf(e, "%.1000s-%u", b->name, k);
		if (!name)
			return -1;
	}
	free(b->name);
	b->name = name;
	if (p->fate[first] == KEEP)
		p->fate[first] = BLANK;
	p->directory = true;
	return 0;
}

struct named {
	const char *name;
	size_t index;
};

static int by_name(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->index > y->index) - (x->index < y->index);
}

static int find_twins(struct plan *p, struct qimg_error *e)
{
	struct named *n = mem_array(max_u64(p->count, 1), sizeof(*n), e);
	size_t count = 0, first = 0;
	int ret = n ? 0 : -1;

	for (size_t i = 0; n && i < p->count; i++)
		if (p->fate[i] != REMOVE)
			n[count++] = (struct named){ p->b[i].name, i };
	if (n)
		qsort(n, count, sizeof(*n), by_name);
	for (size_t i = 1; ret == 0 && i < count; i++) {
		if (strcmp(n[i].name, n[first].name))
			first = i;
		else
			ret = part_twins(p, n[first].index, n[i].index, e);
	}
	free(n);
	return ret;
}

static void plan_free(struct plan *p)
{
	bitmapdir_free(p->b, p->count);
	free(p->fate);
}

/* The same each time it is asked for in a round. */
static int plan_open(struct plan *p, struct check *c, struct qimg_error *e)
{
	const struct header *h = &c->q->h;
	uint64_t bytes = 0, budget = max_u64(c->clusters, LEAST_BUDGET), n;
	struct qimg_error why;

	*p = (struct plan){ 0 };
	if (bitmapdir_load_some(c->q, &p->b, &p->count, &why) < 0) {
		if (why.code != EINVAL) {
			*e = why;
			return -1;
		}
		p->directory = true;
	}
	p->directory |= check_shares(c, h->bitmap_dir_offset, h->bitmap_dir_size);
	p->fate = mem_array(max_u64(p->count, 1), sizeof(*p->fate), e);
	if (!p->fate)
		return -1;
	for (size_t i = 0; i < p->count; i++)
		p->fate[i] = judge(c, &p->b[i], i, &bytes);
	if (find_twins(p, e) < 0)
		return -1;
	for (size_t i = 0; i < p->count; i++) {
		if (p->fate[i] == BLANK) {
			n = table_clusters(c, &p->b[i]);
			if (!n || n > budget || check_bitmap_need(c, p->b[i].granularity_bits) > MOST_ENTRIES) {
				p->fate[i] = REMOVE;
			} else {
				budget -= n;
				p->clusters += n;
			}
		}
		p->directory |= p->fate[i] != KEEP;
	}
	return 0;
}

uint64_t repair_bitmaps_need(struct check *c)
{
	struct qimg_error ignored;
	struct plan p = { 0 };
	uint64_t n = 0;

	if (!is_wanted(c))
		return 0;
	/* Without memory the repair itself fails, and says so. */
	if (plan_open(&p, c, &ignored) == 0)
		n = p.clusters + (p.directory ? div_up(bitmapdir_size(p.b, p.count), c->q->cluster_size) : 0);
	plan_free(&p);
	return n;
}

/* ---- tables ---- */

static bool is_broken(const struct check *c, uint64_t entry)
{
	uint32_t size = c->q->cluster_size;
	uint64_t off = entry & ~(uint64_t)ALL_ONES;

	return off && (entry & ALL_ONES || off >> 56 || !is_aligned(off, size) || !check_inside(c, off, size) ||
		       check_shares(c, off, size));
}

static int mend_table(struct check *c, const struct bitmap_entry *b, struct qimg_error *e)
{
	uint32_t n;

	for (uint32_t first = 0; first < b->table_size; first += n) {
		uint64_t at = b->table_offset + (uint64_t)first * 8;
		bool changed = false;

		n = (uint32_t)min_u64(b->table_size - first, CHECK_PIECE / 8);
		if (file_read(c->q->file, at, c->buf, (size_t)n * 8, e) < 0)
			return -1;
		for (uint32_t i = 0; i < n; i++) {
			if (!is_broken(c, be64_get(c->buf + (size_t)i * 8)))
				continue;
			be64_put(c->buf + (size_t)i * 8, ALL_ONES);
			changed = true;
		}
		if (changed && mend_write(c, at, c->buf, (size_t)n * 8, e) < 0)
			return -1;
	}
	return 0;
}

static int write_table(struct check *c, struct bitmap_entry *b, struct qimg_error *e)
{
	uint64_t entries = check_bitmap_need(c, b->granularity_bits), n, to;
	uint64_t room = table_clusters(c, b) << c->q->cluster_bits;

	if (repair_take(c, table_clusters(c, b), &to, e) < 0)
		return -1;
	b->table_offset = to;
	b->table_size = (uint32_t)entries;
	for (uint64_t at = 0; at < room; at += n) {
		n = min_u64(room - at, CHECK_PIECE);
		memset(c->buf, 0, n);
		for (uint64_t i = 0; i < n / 8 && at / 8 + i < entries; i++)
			be64_put(c->buf + i * 8, ALL_ONES);
		if (mend_write(c, to + at, c->buf, n, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- the directory ---- */

static void tell_removed(struct check *c, const struct bitmap_entry *b)
{
	struct qimg_finding f = { .fault = QIMG_FAULT_BITMAP_DIRECTORY, .has_host = true, .host = b->table_offset,
				  .host_len = (uint64_t)b->table_size * 8 };

	check_tell(c, &f, "bitmap '%s' is removed: the next backup that would use it has to be a full one", b->name);
}

/* Those that stay come to the front. Returns how many they are. */
static size_t drop_removed(struct check *c, struct plan *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->count; i++) {
		struct bitmap_entry b = p->b[i];

		if (p->fate[i] == REMOVE) {
			tell_removed(c, &b);
			continue;
		}
		p->b[i] = p->b[n];
		p->b[n] = b;
		p->fate[i] = REMOVE;
		n++;
	}
	return n;
}

static int switch_bit(struct check *c, bool on, struct qimg_error *e)
{
	struct header *h = &c->q->h;

	h->autoclear = on ? h->autoclear | AUTOCLEAR_BITMAPS : h->autoclear & ~(uint64_t)AUTOCLEAR_BITMAPS;
	return mend_header(c, header_store_features, e);
}

static int write_directory(struct check *c, const struct bitmap_entry *b, size_t n, struct qimg_error *e)
{
	struct header *h = &c->q->h;
	uint64_t size = bitmapdir_size(b, n), room = round_up(size, c->q->cluster_size), to;
	uint8_t *buf = mem_array(room, 1, e);
	int ret = -1;

	if (!buf || repair_take(c, room >> c->q->cluster_bits, &to, e) < 0)
		goto out;
	bitmapdir_encode(b, n, buf);
	ret = mend_write(c, to, buf, room, e);
	h->nb_bitmaps = (uint32_t)n;
	h->bitmap_dir_size = size;
	h->bitmap_dir_offset = to;
out:
	free(buf);
	return ret;
}

static int replace_directory(struct check *c, struct plan *p, struct qimg_error *e)
{
	size_t n;

	for (size_t i = 0; i < p->count; i++)
		if (p->fate[i] == BLANK && write_table(c, &p->b[i], e) < 0)
			return -1;
	n = drop_removed(c, p);
	if (switch_bit(c, false, e) < 0)
		return -1;
	c->q->h.has_bitmaps = n;
	if (n && write_directory(c, p->b, n, e) < 0)
		return -1;
	if (mend_header(c, header_store_bitmaps, e) < 0)
		return -1;
	return n ? switch_bit(c, true, e) : 0;
}

int repair_bitmaps(struct check *c, struct qimg_error *e)
{
	struct plan p;
	int ret = 0;

	if (!is_wanted(c))
		return 0;
	ret = plan_open(&p, c, e);
	for (size_t i = 0; ret == 0 && i < p.count; i++)
		if (p.fate[i] == KEEP)
			ret = mend_table(c, &p.b[i], e);
	if (ret == 0 && p.directory)
		ret = replace_directory(c, &p, e);
	plan_free(&p);
	return ret;
}
