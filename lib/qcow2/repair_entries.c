// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: broken entries of L1 and L2 tables, in place.
 *
 * What can be read goes on to read the same. Of what cannot, all is kept that can be: an offset that has lost a bit
 * comes back (repair_claims.c), compressed data that inflates stays, bits that contradict others go. An entry of
 * which nothing is left is removed. Each entry is changed by itself and in one write, and refers to nothing afterwards
 * that is not counted, so that it does not matter where this is interrupted.
 */
#include "qcow2/repair_entries.h"

#include <inttypes.h>
#include <stdio.h>
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
#include "qcow2/repair_claims.h"
#include "qcow2/table.h"

#define L1_PIECE 8192			/* entries that are read at once */
#define MOST_FLAWS 6			/* of one entry */

/* ---- what becomes of an entry ---- */

/* What is wrong with it, in the order in which it is mended. */
enum flaw {
	NO_FLAW, BAD_PLACE, LOST_PLACE, BAD_ZERO, BAD_PACKED, LONG_PACKED, BAD_BITMAP, BAD_DATA_FILE,
};

static enum flaw find_flaw(struct check *c, const uint8_t *p, uint64_t guest, struct entry *en)
{
	static const enum flaw of[] = {
		[ENTRY_UNALIGNED] = BAD_PLACE, [ENTRY_BAD_VERSION] = BAD_ZERO, [ENTRY_BAD_PACKED] = BAD_PACKED,
		[ENTRY_NOT_GUEST] = BAD_DATA_FILE, [ENTRY_BAD_SUBCLUSTERS] = BAD_BITMAP,
	};
	const struct qcow2 *q = c->q;
	struct qimg_error ignored;

	if (entry_get(q, p, guest, en, &ignored) < 0) {
		enum flaw flaw = of[en->fault];

		if (q->external)
			return flaw == BAD_ZERO ? flaw : BAD_DATA_FILE;
		return flaw == BAD_BITMAP && !en->host && en->copied ? LOST_PLACE : flaw;
	}
	if (q->external)
		return NO_FLAW;
	if (en->kind == ENTRY_PACKED)
		return !check_inside(c, en->host, 1) ? BAD_PACKED : !check_inside(c, en->host, en->packed) ?
		       LONG_PACKED : NO_FLAW;
	if (!en->host)
		return en->copied ? LOST_PLACE : NO_FLAW;
	return check_inside(c, en->host, q->cluster_size) ? NO_FLAW : BAD_PLACE;
}

static enum repair_lost lost_kind(enum flaw flaw)
{
	return flaw == BAD_PACKED || flaw == LONG_PACKED ? REPAIR_LOST_PACKED : REPAIR_LOST_DATA;
}

/* Whether it may have been another place that the entry had. */
static bool may_be_near(const struct qcow2 *q, enum flaw flaw, const uint8_t *p)
{
	return !q->external && entry_has_data(q, p) &&
	       (flaw == BAD_PLACE || flaw == LOST_PLACE || flaw == BAD_PACKED || flaw == LONG_PACKED);
}

/* The compressed data may end where the file does. */
static bool shorten(struct check *c, uint8_t *p, struct entry *en)
{
	uint64_t end = c->clusters << c->q->cluster_bits;

	en->packed = (uint32_t)(end - en->host);
	if (c->q->img->encrypted || !repair_inflates(c, en->host, en->packed))
		return false;
	entry_put(c->q, p, en);
	return true;
}

/* The guest's place in a data file that has all that the guest reads, or where the entry says that data is. */
static void mend_in_data_file(const struct check *c, uint8_t *p, uint64_t guest, const struct entry *en,
			      struct repair_fate *f)
{
	const struct qcow2 *q = c->q;
	struct entry data = { .kind = ENTRY_DATA, .copied = true, .host = guest,
			      .alloc = q->extended ? UINT32_MAX : 0 };

	if (en->fault != ENTRY_BAD_PACKED) {
		entry_set_host(q, p, guest);
		entry_set_copied(p, true);
		if (q->extended)
			entry_mend_subclusters(q, p);
		f->does = "it gets the guest's";
	} else if (q->h.autoclear & AUTOCLEAR_DATA_FILE_RAW) {
		entry_put(q, p, &data);
		f->does = "what the data file has there takes its place";
	} else {
		entry_remove(q, p, false);
		f->does = "it is removed";
	}
}

static void mend(struct check *c, enum flaw flaw, uint64_t guest, struct entry *en, struct repair_fate *f)
{
	const struct qcow2 *q = c->q;
	uint8_t *p = f->entry;
	uint64_t near = may_be_near(q, flaw, p) ? repair_claimed(c, lost_kind(flaw), en->host, en->packed) : 0;

	if (flaw == LONG_PACKED && shorten(c, p, en)) {
		f->does = "it is kept, as it inflates";
		return;
	}
	if (near) {
		entry_set_host(q, p, near);
		f->near = near;
		f->does = "a lost bit is restored";
		return;
	}
	switch (flaw) {
	case BAD_ZERO:
		entry_clear_zero(p);
		f->does = "the bit is cleared";
		break;
	case BAD_BITMAP:
		entry_mend_subclusters(q, p);
		f->does = "what is allocated is kept";
		break;
	case LOST_PLACE:
		entry_set_copied(p, false);
		if (q->extended)
			entry_mend_subclusters(q, p);
		f->does = "the bit is cleared";
		break;
	case BAD_DATA_FILE:
		mend_in_data_file(c, p, guest, en, f);
		break;
	default:
		f->does = entry_has_data(q, p) ? "it is removed" : "it loses its place and reads as zeros";
		/* Behind the end of the file all is zeros, which those of a backing file are not. */
		entry_remove(q, p, q->h.backing_name && en->fault == ENTRY_SOUND && en->kind != ENTRY_PACKED);
	}
}

void repair_l2_fate(struct check *c, const uint8_t *p, uint64_t guest, struct repair_fate *f)
{
	const struct qcow2 *q = c->q;
	struct entry en;
	enum flaw flaw;

	*f = (struct repair_fate){ .does = NULL };
	memcpy(f->entry, p, q->entry_size);
	if (entry_reserved(q, p)) {
		entry_clear_reserved(q, f->entry);
		f->does = "they are cleared";
	}
	for (unsigned n = 0; n < MOST_FLAWS; n++) {
		flaw = find_flaw(c, f->entry, guest, &en);
		if (flaw == NO_FLAW)
			return;
		mend(c, flaw, guest, &en, f);
	}
	entry_remove(q, f->entry, false);
	f->does = "it is removed";
}

void repair_l1_fate(struct check *c, uint64_t l1e, struct repair_fate *f)
{
	uint64_t reserved = entry_l1_reserved(l1e), off = entry_l1_table(l1e), size = c->q->cluster_size;

	*f = (struct repair_fate){ .l1e = l1e & ~reserved };
	if (reserved)
		f->does = "they are cleared";
	if (off ? is_aligned(off, size) && check_inside(c, off, size) : !(l1e & L1_COPIED))
		return;
	f->near = repair_claimed(c, REPAIR_LOST_TABLE, off, 0);
	if (f->near) {
		f->l1e = entry_l1_set_table(f->l1e, f->near);
		f->does = "a lost bit is restored";
	} else {
		f->l1e = 0;
		f->does = off ? "it is removed" : "the bit is cleared";
	}
}

int repair_l2_claim(struct check *c, const uint8_t *p, uint64_t guest, struct qimg_error *e)
{
	const struct qcow2 *q = c->q;
	uint8_t copy[16];
	struct entry en;
	enum flaw flaw;

	memcpy(copy, p, q->entry_size);
	if (entry_reserved(q, p))
		entry_clear_reserved(q, copy);
	flaw = find_flaw(c, copy, guest, &en);
	if (!may_be_near(q, flaw, copy))
		return 0;
	return repair_claim(c, lost_kind(flaw), en.host, en.packed, e);
}

int repair_l1_claim(struct check *c, uint64_t l1e, struct qimg_error *e)
{
	uint64_t off = entry_l1_table(l1e), size = c->q->cluster_size;

	if (off ? is_aligned(off, size) && check_inside(c, off, size) : !(l1e & L1_COPIED))
		return 0;
	return repair_claim(c, REPAIR_LOST_TABLE, off, 0, e);
}

const char *repair_fate_text(const struct check *c, const struct repair_fate *f, char *buf, size_t size)
{
	*buf = 0;
	if (!f->does)
		return buf;
	if (f->near)
		snprintf(buf, size, "; the leaked cluster at 0x%" PRIx64 ", one bit away, %s",
			 round_down(f->near, c->q->cluster_size),
			 repair_mends(c) ? "is what it gets back" : "may be what it has lost, and is kept");
	else if (repair_mends(c))
		snprintf(buf, size, "; %s", f->does);
	return buf;
}

/* ---- in place ---- */

static int mend_view(struct check *c, const struct check_view *v, uint8_t *l1, bool *mended, struct qimg_error *e)
{
	struct qimg_error ignored;
	struct repair_fate f;
	uint64_t n;

	for (uint64_t first = 0; first < v->l1_size && !check_stopped(c); first += n) {
		uint64_t at = v->l1_offset + first * 8, from = UINT64_MAX, to = 0;

		n = min_u64(v->l1_size - first, L1_PIECE);
		if (file_read(c->q->file, at, l1, (size_t)n * 8, &ignored) < 0)
			continue;
		for (uint64_t i = 0; i < n; i++) {
			uint64_t l1e = be64_get(l1 + i * 8);

			if (!l1e)
				continue;
			repair_l1_fate(c, l1e, &f);
			if (f.l1e == l1e)
				continue;
			be64_put(l1 + i * 8, f.l1e);
			from = min_u64(from, i);
			to = i + 1;
		}
		*mended |= to;
		if (to && mend_write(c, at + from * 8, l1 + from * 8, (size_t)(to - from) * 8, e) < 0)
			return -1;
	}
	return 0;
}

static int mend_table(struct check *c, const struct check_table *t, bool *mended, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	uint64_t guest = table_span(q) * t->l1_index;
	struct qimg_error ignored;
	struct repair_fate f;
	bool changed = false;

	if (check_is_hole(c, t->off, q->cluster_size) ||
	    file_read(q->file, t->off, c->buf, q->cluster_size, &ignored) < 0)
		return 0;
	for (uint32_t i = 0; i < UINT32_C(1) << q->l2_bits; i++, guest += q->cluster_size) {
		uint8_t *p = c->buf + (size_t)i * q->entry_size;

		if (!be64_get(p) && (!q->extended || !be64_get(p + 8)))
			continue;
		repair_l2_fate(c, p, guest, &f);
		if (!f.does)
			continue;
		memcpy(p, f.entry, q->entry_size);
		changed = true;
	}
	*mended |= changed;
	return changed ? mend_write(c, t->off, c->buf, q->cluster_size, e) : 0;
}

int repair_entries(struct check *c, bool *mended, struct qimg_error *e)
{
	uint8_t *l1 = mem_array(L1_PIECE, 8, e);
	int ret = l1 ? 0 : -1;

	/* What shares its place is left to the next round, which finds it alone there. */
	for (uint32_t i = 0; ret == 0 && i < c->views; i++) {
		const struct check_view *v = &c->view[i];

		if (!v->unusable && v->times && !check_shares(c, v->l1_offset, (uint64_t)v->l1_size * 8))
			ret = mend_view(c, v, l1, mended, e);
	}
	for (size_t i = 0; ret == 0 && i < c->tables && !check_stopped(c); i++)
		if (!check_shares(c, c->table[i].off, c->q->cluster_size))
			ret = mend_table(c, &c->table[i], mended, e);
	free(l1);
	return ret;
}
