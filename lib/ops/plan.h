/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is to be done with each part of the sources: left to the backing file of the target, made to
 * read as zeros, or copied. The answer comes from extents, never cluster by cluster.
 */
#ifndef OPS_PLAN_H
#define OPS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qimg_image;
struct qimg_error;

enum step_kind {
	STEP_KEEP,		/* the backing file of the target supplies it */
	STEP_ZERO,		/* reads as zeros */
	STEP_DATA,		/* to be read */
};

/* Guest bytes of the sources, counted through all of them, that are treated alike. */
struct step {
	uint64_t start, len;
	enum step_kind kind;
};

struct plan {			/* the first part is filled by the caller, the rest starts as zeros */
	struct qimg_image *const *sources;
	size_t source_count;
	uint64_t size;		/* of all sources together */
	uint64_t unit;		/* steps start, and but for the last one end, at multiples; a power of two */
	bool all_data;		/* zeros are data like any other */
	bool salvage;		/* an area whose map is broken is data, so that reading it fails */
	unsigned keep_depth;	/* what images this deep or deeper supply is kept; 0: nothing is */

	size_t source;		/* the source that holds the byte at source_start */
	uint64_t source_start;
	struct step run, ahead;	/* a run of one kind, and the extent behind it; len 0: not known */
};

/*
 * The step at pos (a multiple of the unit, below the size). A DATA step ends at the next multiple of
 * max, itself a multiple of the unit; it may hold zeros that do not fill a unit.
 */
int plan_next(struct plan *p, uint64_t pos, uint64_t max, struct step *s, struct qimg_error *e);
/* The source that holds the byte at pos, and where in there that is. */
struct qimg_image *plan_source(struct plan *p, uint64_t pos, uint64_t *off);

#endif
