/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How often each cluster of a file is referenced, and a few bits about it, for a range of clusters.
 *
 * Regions of clusters that nothing refers to take no memory. The others have two bits a cluster, as long as
 * no count of the region is above 3, and then as many as its highest count needs, so that every count is
 * exact; each kind of mark takes another bit, in the regions where it is used.
 */
#ifndef QCOW2_REFMAP_H
#define QCOW2_REFMAP_H

#include <stdbool.h>
#include <stdint.h>

struct qimg_error;
struct refmap;

enum refmap_mark {
	REFMAP_METADATA,	/* a table or the like is there */
	REFMAP_COPIED,		/* an entry of the active tables with the COPIED bit refers to it */
	REFMAP_UNCOPIED,	/* and one without it */
	REFMAP_OVERLAP,		/* as well as something else */
	REFMAP_MOVABLE,		/* of the snapshots or bitmaps: a repair can write it elsewhere */
	REFMAP_MISPLACED,	/* an L2 table, and other metadata before it */
	REFMAP_ORPHAN,		/* leaked, and kept all the same */
	REFMAP_CLAIMED,		/* of the latter: a broken entry may have lost it, or the table that has */
	REFMAP_CONTESTED,	/* more than one may have */
	REFMAP_LOWERED,		/* its refcount becomes 1, for which COPIED has to be set */
	REFMAP_FREED,		/* nothing uses it any longer */
	REFMAP_SEEN,		/* while that is told: by the first of them */
	REFMAP_LOW,		/* its refcount is below the number of references */
	REFMAP_WRONG_COPIED,	/* of the active entries that refer to it those with the bit are wrong */
	REFMAP_WRONG_UNCOPIED,	/* and those without it */
	REFMAP_MARKS
};

/*
 * For the clusters [from, to); what is beyond is ignored by all calls. memory: bytes it may take; calls
 * that would need more fail with E2BIG.
 */
int refmap_open(struct refmap **m, uint64_t from, uint64_t to, uint64_t memory, struct qimg_error *e);
void refmap_close(struct refmap *m);	/* NULL is allowed */

/* So many references more to each of n clusters. Counts stay at UINT64_MAX when they get there. */
int refmap_add(struct refmap *m, uint64_t cluster, uint64_t n, uint64_t times, struct qimg_error *e);
int refmap_set(struct refmap *m, enum refmap_mark mark, uint64_t cluster, uint64_t n,
	       struct qimg_error *e);
uint64_t refmap_count(struct refmap *m, uint64_t cluster);
/*
 * Whether each of REFMAP_SOME clusters from here on, a multiple of that, has one reference, or (0) none; REFMAP_MIXED:
 * neither is so, or it is not known without looking at each.
 */
enum { REFMAP_SOME = 32, REFMAP_MIXED = -1 };
int refmap_alike(struct refmap *m, uint64_t cluster);
bool refmap_is(struct refmap *m, enum refmap_mark mark, uint64_t cluster);
/* Whether one of n clusters has the mark; *which, if not NULL, is the first of them. */
bool refmap_any(struct refmap *m, enum refmap_mark mark, uint64_t cluster, uint64_t n,
		uint64_t *which);
/* Nothing refers to, and no mark is on, the n clusters from here on (0: on this one there may be). */
uint64_t refmap_blank(struct refmap *m, uint64_t cluster);
/*
 * The first cluster from here on that is not blank, or of a piece of the file where one is not; UINT64_MAX: there is
 * none. However long the file is, all of it is gone through in as many steps as there are such pieces.
 */
uint64_t refmap_next(struct refmap *m, uint64_t cluster);
/* One behind the last cluster with a reference; 0: none has one. */
uint64_t refmap_end(const struct refmap *m);
void refmap_relax(struct refmap *m);	/* from now on it may take what it needs */
uint64_t refmap_memory(const struct refmap *m);	/* bytes taken */

#endif
