// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: what is mended, and in which order.
 */
#include "qcow2/repair.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "qcow2/check.h"
#include "qcow2/mend.h"
#include "qcow2/qcow2.h"
#include "qcow2/repair_apart.h"
#include "qcow2/repair_entries.h"

/* Faults of structures: these are mended before refcounts are. */
static const enum qimg_fault structures[] = {
	QIMG_FAULT_L1_ENTRY,
	QIMG_FAULT_L2_ENTRY,
	QIMG_FAULT_SUBCLUSTERS,
	QIMG_FAULT_PACKED,
	QIMG_FAULT_DATA_FILE,
	QIMG_FAULT_SNAPSHOT_TABLE,
	QIMG_FAULT_SNAPSHOT_L1,
	QIMG_FAULT_BITMAP_DIRECTORY,
	QIMG_FAULT_BITMAP_ENTRY,
};

/* What leaves unknown who owns which cluster. */
static bool is_hopeless(const struct check *c)
{
	/* Of refcounts what is lost can be counted anew. */
	return c->view[0].unusable || c->q->h.fault[HEADER_FAULT_L1] || c->q->h.fault[HEADER_FAULT_EXTENSIONS] ||
	       c->r->found[QIMG_FAULT_UNREAD] > c->counts_unread || c->overlaps;
}

static bool is_structure(enum qimg_fault fault)
{
	for (size_t i = 0; i < ARRAY_SIZE(structures); i++)
		if (structures[i] == fault)
			return true;
	return false;
}

bool repair_mends(const struct check *c)
{
	return c->how->flags & QIMG_CHECK_FIX_ALL && !is_hopeless(c);
}

bool repair_mends_fault(const struct check *c, enum qimg_fault fault)
{
	return repair_mends(c) && is_structure(fault);
}

/*
 * With some faults more than single clusters may be lost: that what is leaked is not what they have lost nobody
 * can tell.
 */
const char *repair_holds(const struct check *c)
{
	static const struct {
		enum qimg_fault fault;
		const char *why;
	} losing[] = {
		{ QIMG_FAULT_SNAPSHOT_TABLE, "the snapshot table is damaged" },
		{ QIMG_FAULT_SNAPSHOT_L1, "the tables of a snapshot are not where they should be" },
		{ QIMG_FAULT_BITMAP_DIRECTORY, "the bitmap directory is damaged" },
		{ QIMG_FAULT_BITMAP_ENTRY, "the table of a bitmap is damaged" },
		{ QIMG_FAULT_CRYPT_HEADER, "the encryption header is not where it should be" },
	};

	/* Who deletes the last snapshot clears both: then it is the number that was lost. */
	if (!c->q->h.nb_snapshots && c->q->h.snapshots_offset &&
	    !(c->how->flags & QIMG_CHECK_DROP_ORPHANS) && !c->how->backup)
		return "the header counts no snapshots, but says where their table is";
	if (c->r->found[QIMG_FAULT_UNREAD] > c->counts_unread)
		return "some metadata could not be read";
	if (c->view[0].unusable || c->q->h.fault[HEADER_FAULT_L1])
		return "the L1 table is not where the header says, or not as long";
	if (c->q->h.fault[HEADER_FAULT_EXTENSIONS])
		return "the extensions of the header are damaged";
	for (size_t i = 0; i < ARRAY_SIZE(losing); i++)
		if (c->r->found[losing[i].fault] && !repair_mends_fault(c, losing[i].fault))
			return losing[i].why;
	if (c->overlaps || ((c->table_overlap || c->overlaps_movable || c->overlaps_apart) && !repair_mends(c)))
		return "metadata shares its place with other things";
	return NULL;
}

bool repair_frees(const struct check *c)
{
	return check_fixes(c) && !repair_holds(c);
}

static bool has_structures(const struct check *c)
{
	for (unsigned i = 0; i < QIMG_FAULTS; i++)
		if (c->r->found[i] && repair_mends_fault(c, i))
			return true;
	return repair_mends(c) && (c->overlaps_movable || repair_has_plan(c));
}

/* Nobody is to use the image before the repair is done, or was done again. */
static int mark_corrupt(struct check *c, struct qimg_error *e)
{
	struct header *h = &c->q->h;

	if (h->version < 3 || h->incompatible & INCOMPAT_CORRUPT)
		return 0;
	h->incompatible |= INCOMPAT_CORRUPT;
	c->mend->marked = true;
	return mend_header(c, header_store_features, e);
}

static int mend_structures(struct check *c, struct qimg_error *e)
{
	bool mended = false;
	/* What belongs to a snapshot is not known yet: nothing else of what is there may be changed before it is. */
	bool lost = c->r->found[QIMG_FAULT_SNAPSHOT_TABLE] || c->r->found[QIMG_FAULT_SNAPSHOT_L1];

	/*
	 * Entries first, as nothing else has to be changed for them, and as long as the file does not become longer:
	 * what they refer to behind its end is nothing.
	 */
	if (c->broken && !lost && (mark_corrupt(c, e) < 0 || repair_entries(c, &mended, e) < 0))
		return -1;
	if (mended)
		return mend_sync(c, e);
	c->spare_left = (lost ? 0 : repair_apart_need(c)) + repair_snapshots_need(c) + repair_bitmaps_need(c);
	if (repair_reserve(c, e) < 0)
		return -1;
	if ((repair_must_rebuild(c) ? repair_rebuild(c, e) : repair_raise(c, e)) < 0 || mark_corrupt(c, e) < 0)
		return -1;
	/* Copies before what they are copies of is changed. */
	if ((!lost && repair_apart(c, e) < 0) || repair_snapshots(c, e) < 0 || repair_bitmaps(c, e) < 0)
		return -1;
	return mend_sync(c, e);
}

bool repair_mends_header(const struct check *c, enum header_fault fault)
{
	return repair_mends(c) && (fault == HEADER_FAULT_LENGTH || fault == HEADER_FAULT_RAW);
}

/* Without a place of their directory bitmaps are gone: the bit that makes them count is taken off. */
static int mend_fields(struct check *c, struct qimg_error *e)
{
	struct header *h = &c->q->h;
	uint64_t clear = (h->fault[HEADER_FAULT_RAW] ? AUTOCLEAR_DATA_FILE_RAW : 0) |
			 (h->fault[HEADER_FAULT_BITMAPS] ? AUTOCLEAR_BITMAPS : 0);

	if (h->fault[HEADER_FAULT_LENGTH] && mend_header(c, header_store_length, e) < 0)
		return -1;
	if (!(h->autoclear & clear))
		return 0;
	h->autoclear &= ~clear;
	return mend_header(c, header_store_features, e);
}

int repair_window(struct check *c, struct qimg_error *e)
{
	const struct qimg_check_result *r = c->r;

	if (repair_mends(c) && mend_fields(c, e) < 0)
		return -1;
	c->again = has_structures(c);
	if (c->again)
		return mend_structures(c, e);
	if (repair_mends(c) && repair_must_rebuild(c)) {
		c->again = true;
		return repair_rebuild(c, e);
	}
	if (!r->found[QIMG_FAULT_LEAK] && !r->found[QIMG_FAULT_REFCOUNT] && !r->found[QIMG_FAULT_COPIED])
		return 0;
	if (repair_mends(c) && (repair_raise(c, e) < 0 || repair_copied(c, e) < 0))
		return -1;
	/* Not to leave behind other faults than there were, wherever this is interrupted. */
	if (repair_frees(c) && !repair_mends(c) && repair_copied(c, e) < 0)
		return -1;
	return repair_lower(c, e) < 0 ? -1 : repair_give_back(c, e);
}

int repair_finish(struct check *c, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	const struct qimg_check_result *r = c->r;
	uint64_t clear = c->mend->marked ? INCOMPAT_CORRUPT : 0, corruptions = 0;
	uint64_t foreign = q->h.autoclear & ~(uint64_t)AUTOCLEAR_KNOWN;

	for (unsigned i = 0; i < QIMG_FAULTS; i++)
		corruptions += i == QIMG_FAULT_LEAK || i == QIMG_FAULT_ORPHAN ? 0 : r->found[i];
	/* Without a fault that is left, refcounts are right; with one, who knows. */
	if (corruptions == r->corruptions_fixed)
		clear |= repair_mends(c) ? INCOMPAT_DIRTY | INCOMPAT_CORRUPT : INCOMPAT_DIRTY;
	if (!(q->h.incompatible & clear) && !foreign)
		return 0;
	/* Nobody knows whether what these stand for is still true. */
	q->h.autoclear &= ~foreign;
	q->h.incompatible &= ~clear;
	return mend_header(c, header_store_features, e);
}
