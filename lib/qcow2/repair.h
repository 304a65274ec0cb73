/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mending what a check has found.
 *
 * Every moment is safe: a repair that was interrupted can be run again, and no guest data is lost on the way.
 *   1. Space for what has to be moved is found where nothing refers to, and is counted as used; then refcounts
 *      that are too low are raised, in place, or all of them are written anew elsewhere.
 *   2. When structures are to be mended, the image is marked corrupt (version 3): nobody else writes to it.
 *   3. Structures are mended, and what shares its place is copied apart: copies are on stable storage before
 *      anything refers to them. Then all is read and counted afresh, until nothing of that kind is left.
 *   4. COPIED bits are made what goes with the number of references.
 *   5. Refcounts that are too high are lowered; what is free then is given back to the host.
 * Each step is on stable storage before the next begins.
 */
#ifndef QCOW2_REPAIR_H
#define QCOW2_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "qcow2/header.h"
#include "qimg.h"

struct check;

/* ---- repair.c ---- */

/* Whether faults of that kind are going to be mended: what findings say of themselves. */
bool repair_mends_fault(const struct check *c, enum qimg_fault fault);
/* Whether refcounts that are too low, and COPIED bits, are going to be mended. */
bool repair_mends(const struct check *c);
/* Whether that fault of the header is, by itself. */
bool repair_mends_header(const struct check *c, enum header_fault fault);
/* Whether leaked clusters are going to be freed. */
bool repair_frees(const struct check *c);
/* Why they are not, for people; NULL: they are. */
const char *repair_holds(const struct check *c);
/* Does what there is to do when all of the image was looked at. c->again: it has to be looked at once more. */
int repair_window(struct check *c, struct qimg_error *e);
/* The marks of the header, when nothing has to be looked at again. */
int repair_finish(struct check *c, struct qimg_error *e);

/* ---- repair_space.c ---- */

/*
 * n clusters in a row that nothing refers to, and that are no part of what is kept: behind the end of a file, or
 * where there is room on a device (ENOSPC: nowhere). From then on they count as referenced, once.
 */
int repair_find(struct check *c, uint64_t n, uint64_t *first, struct qimg_error *e);
/* Up to *n of these, as they come. */
int repair_find_some(struct check *c, uint64_t *n, uint64_t *first, struct qimg_error *e);
/* Finds c->spare_left clusters, which then are taken one after the other. */
int repair_reserve(struct check *c, struct qimg_error *e);
/* n of these, in a row; host offset of the first. */
int repair_take(struct check *c, uint64_t n, uint64_t *host, struct qimg_error *e);

/* ---- repair_counts.c: refcounts where they are, and COPIED ---- */

/* So many refcounts are in a block. */
uint64_t repair_span(const struct check *c);
/* Whether there is a block, which shares its place with nothing, that has the refcount of the cluster. */
bool repair_has_block(const struct check *c, uint64_t cluster);
/* Whether its refcount is going to be what it has to be, when it is too low. */
bool repair_mends_count(const struct check *c, uint64_t cluster);
int repair_raise(struct check *c, struct qimg_error *e);
int repair_copied(struct check *c, struct qimg_error *e);
int repair_lower(struct check *c, struct qimg_error *e);

/* ---- repair_rebuild.c: all refcounts, elsewhere ---- */

/* Whether they cannot be mended where they are. */
bool repair_must_rebuild(const struct check *c);
/*
 * Whether the cluster in c->buf, which looks like an L2 table, is one of a refcount table that is no longer in force.
 */
bool repair_is_old_table(struct check *c);
/* Writes blocks and a table with what was counted, and makes the header refer to them. */
int repair_rebuild(struct check *c, struct qimg_error *e);

/* ---- repair_orphans.c ---- */

/*
 * Marks leaked clusters that look like L2 tables which something has lost, and what they refer to: these are
 * kept. To be called when all is counted.
 */
int repair_find_orphans(struct check *c, struct qimg_error *e);

/*
 * ---- repair_snapshots.c, repair_bitmaps.c: structures ----
 *
 * need: so many clusters may be taken (an upper bound), when all was explained. The other does the work; when it is
 * done c->again is set, and all is read afresh. What it finds broken may be mended in several rounds.
 */
uint64_t repair_snapshots_need(const struct check *c);
int repair_snapshots(struct check *c, struct qimg_error *e);
uint64_t repair_bitmaps_need(struct check *c);
int repair_bitmaps(struct check *c, struct qimg_error *e);

/* ---- repair_free.c ---- */

/* Gives back to the host what was freed, and the end of the file that nothing uses. */
int repair_give_back(struct check *c, struct qimg_error *e);

#endif
