/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checking an image: what the parts of it have in common.
 *
 * The references to every cluster are counted (check.c, check_other.c and check_tables.c go through all that
 * refers to clusters) and compared with the stored refcounts (check_counts.c). What is wrong with a
 * structure is told when it is read for the first time. What is wrong with a cluster, because of others, is
 * marked while counting and comparing; then all is gone through once more to say whom it touches.
 *
 * When the memory is too small for the whole file, this is done for one window of clusters after the other.
 */
#ifndef QCOW2_CHECK_H
#define QCOW2_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qcow2/refmap.h"
#include "qimg.h"

struct bitmap_entry;
struct mend;
struct repair_plan;
struct qcow2;

struct check_view {			/* the active tables, or those of a snapshot */
	const char *name;		/* of the snapshot, NULL: active */
	uint64_t l1_offset;
	uint32_t l1_size;
	bool unusable;			/* its L1 table is not where one can be */
	uint64_t times;			/* views that have the same table; 0: an earlier one counts for it */
};

struct check_table {			/* an L2 table */
	uint64_t off;
	uint64_t times;			/* as often it is referred to */
	uint32_t view, l1_index;	/* by whom first: the active ones come before those of snapshots */
};

struct check_low {			/* a cluster whose refcount is too low */
	uint64_t cluster, refcount, references;
	bool has_guest;
	uint64_t guest;
	uint32_t view;
};

enum check_step {
	CHECK_COUNT,
	CHECK_CLAIM,		/* of a repair: what broken entries of L1 and L2 tables may have lost is kept, */
	CHECK_TELL,		/* and what becomes of them is told */
	CHECK_PLAN,		/* of a repair: what has to be copied apart is noted */
	CHECK_EXPLAIN,
};

struct check {
	struct qcow2 *q;
	const struct qimg_check *how;
	struct qimg_check_result *r;
	uint64_t clusters;		/* of the file, a partial one included */
	uint64_t *rt;			/* refcount table */
	uint32_t rt_size;
	uint64_t *block;		/* its blocks, by cluster; one that is named twice is there twice */
	size_t blocks;
	struct check_view *view;	/* the first is the active one */
	uint32_t views;
	struct check_table *table;	/* by offset */
	size_t tables, table_room;
	uint32_t snapshots;		/* that could be read */
	uint64_t snapshots_len;		/* bytes of their table */

	struct refmap *map;
	uint64_t from, to;		/* the window: clusters */
	bool first;			/* structures are read for the first time */
	bool full;			/* the window was too large for the memory */
	enum check_step step;
	struct check_low *low;		/* in the order of clusters; as many as may be told */
	size_t lows, low_room;
	bool wanted;			/* there is something to explain */
	bool broken;			/* entries of L1 and L2 tables are */
	bool odd_copied;		/* COPIED is set, or missing, where it is wrong whatever the refcount */
	bool overlaps;			/* some of that is metadata that shares its place, */
	bool overlaps_movable;		/* with what a repair can write elsewhere */
	bool overlaps_apart;		/* or it is what an entry refers to, which can get a copy */
	bool surplus;			/* clusters have more references than their refcount says, and more than one */
	bool counts_overlap;		/* with the refcount table or a block of it */
	bool table_overlap;		/* with the table */
	bool table_lost, table_unread;	/* the refcount table is not within the file; it cannot be read */
	bool blockless;			/* clusters in use have no refcount block */
	uint64_t counts_unread;		/* pieces of refcount table and blocks that could not be read */
	struct check_deep *deep;	/* check_deep.c's */
	struct mend *mend;		/* of a repair */
	struct repair_plan *plan;	/* what has to be copied apart, or NULL */
	uint64_t spare, spare_left;	/* clusters that were found for what has to be moved */
	uint64_t *behind;		/* bits of CHECK_BEHIND clusters behind the end: something points there */
	uint64_t space;			/* where the next free clusters are looked for; 0: not yet */
	bool again;			/* something was mended that others depend on */
	uint8_t ones[REFMAP_SOME * 8], zeros[REFMAP_SOME * 8];	/* so many refcounts of 1, and of 0 */
	uint64_t highest;		/* one behind the last cluster in use */
	uint64_t told[QIMG_FAULTS];
	uint64_t extent, extent_len;	/* the run of the file that was looked at last: */
	bool hole;			/* whether it takes no space */
	uint64_t done, total;		/* of the progress, in bytes */
	uint8_t *buf;			/* CHECK_PIECE bytes or a cluster, whichever is more */
};

#define CHECK_PIECE (UINT32_C(2) << 20)
#define CHECK_AHEAD (UINT32_C(16) << 20)	/* that the host is told of before it is read */
#define CHECK_BEHIND 65536

/* ---- check.c ---- */

/* f has what is known of the place; it is counted, and told unless too much has been. */
void check_tell(struct check *c, const struct qimg_finding *f, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool check_fixes(const struct check *c);
/* A structure of len bytes is at off. Its clusters are counted, or (EXPLAIN) what it shares is told. */
int check_use(struct check *c, uint64_t off, uint64_t len, uint64_t times, const char *what,
	      struct qimg_error *e);
/* The same for what a repair can write elsewhere when it shares its place. */
int check_use_movable(struct check *c, uint64_t off, uint64_t len, uint64_t times, const char *what,
		      struct qimg_error *e);
/* The same for an L2 table: the entries that refer to it get copies when something else is there. */
int check_use_table(struct check *c, uint64_t off, uint64_t times, struct qimg_error *e);
/* Something else is there already. can_copy: it is what an entry refers to, and can be copied. */
int check_mark_shared(struct check *c, uint64_t cluster, bool can_copy, struct qimg_error *e);
/* Whether something of [off, off + len) shares its place with something else; when all was counted. */
bool check_shares(const struct check *c, uint64_t off, uint64_t len);
/* Adds to the counts; remembers when there was no room. */
int check_add(struct check *c, uint64_t cluster, uint64_t n, uint64_t times, struct qimg_error *e);
int check_mark(struct check *c, enum refmap_mark mark, uint64_t cluster, uint64_t n,
	       struct qimg_error *e);
/* [off, off+len) begins in the file and ends in it, or in the cluster at its end. */
bool check_inside(const struct check *c, uint64_t off, uint64_t len);
/*
 * Whether something was found to refer to that cluster, which is behind the end: what is put there would be taken
 * for what is missing.
 */
bool check_is_awaited(const struct check *c, uint64_t cluster);
/* The file has no space for it: it reads as zeros, and need not be read. */
bool check_is_hole(struct check *c, uint64_t off, uint64_t len);
bool check_stopped(const struct check *c);
void check_progress(struct check *c, uint64_t bytes);

/* ---- check_blocks.c: refcount table, places of refcount blocks ---- */

int check_blocks_load(struct check *c, struct qimg_error *e);
int check_blocks(struct check *c, struct qimg_error *e);
/* Once, when it is known whether they are going to be mended. Entries that are no places of blocks are none then. */
void check_blocks_tell(struct check *c);
/* Whether the refcount table is in that cluster, or (counts) the table or a block. */
bool check_is_table(const struct check *c, uint64_t cluster);
bool check_is_counts(const struct check *c, uint64_t cluster);

/* ---- check_other.c: snapshot table, encryption header ---- */

/* Finds the views. */
int check_snapshots(struct check *c, struct qimg_error *e);
int check_other(struct check *c, struct qimg_error *e);
/* Sorts the names. The next one from *i on that comes twice; NULL: there is none. */
const char *check_twin(const char **name, size_t n, size_t *i);

/* ---- check_bitmaps.c ---- */

int check_bitmaps(struct check *c, struct qimg_error *e);
/*
 * What is wrong with the entry of the directory, or NULL. *usable: its table can be looked at. *bytes is what
 * the tables of those before it take.
 */
const char *check_bitmap_fault(struct check *c, const struct bitmap_entry *b, uint64_t *bytes, bool *usable);
/* The entries that the table of a bitmap takes. */
uint64_t check_bitmap_need(const struct check *c, unsigned granularity_bits);

/* ---- check_tables.c: L1 and L2 tables ---- */

/* Finds the L2 tables, in so much memory. */
int check_gather(struct check *c, uint64_t memory, struct qimg_error *e);
/* Counts their clusters and those they refer to, or explains. */
int check_tables(struct check *c, struct qimg_error *e);
/* Of a repair, when all is counted: what broken entries may have lost, and what becomes of them. */
int check_broken(struct check *c, struct qimg_error *e);
/* Of a repair, when refcounts were compared: what has to be copied apart. */
int check_plan(struct check *c, struct qimg_error *e);

/* ---- check_counts.c: stored refcounts ---- */

int check_counts(struct check *c, struct qimg_error *e);
/* Tells of the clusters whose refcounts are too low. */
void check_tell_low(struct check *c);
int check_stored(struct check *c, uint64_t cluster, uint64_t *refcount, struct qimg_error *e);

/* ---- check_deep.c: data ---- */

/* Reads what the entries of the table t, whose bytes are at `data`, refer to. */
int check_deep(struct check *c, const struct check_table *t, const uint8_t *data, struct qimg_error *e);
void check_deep_end(struct check *c);	/* frees what that has made */

#endif
