/* SPDX-License-Identifier: BSD-2-Clause */
/* Carrying the persistent bitmaps of a source over into a target. */
#ifndef OPS_BITMAPS_H
#define OPS_BITMAPS_H

#include "image/bitmap.h"
#include "qimg.h"

struct bitmaps {		/* all zeros: none */
	struct bitmap *list;
	size_t count;
};

/*
 * Which bitmaps are to be copied, if that was asked for; checks what can be checked before there is a
 * target. Broken ones are an error, or are left out with a warning.
 */
int bitmaps_choose(struct bitmaps *b, const struct qimg_convert *c, struct qimg_error *e);
/* Whether the target, which is open, can take them. */
int bitmaps_check(const struct bitmaps *b, struct qimg_image *target, struct qimg_error *e);
/* Copies them; all data has been written. */
int bitmaps_copy(const struct bitmaps *b, struct qimg_image *source, struct qimg_image *target,
		 struct qimg_error *e);
void bitmaps_free(struct bitmaps *b);

#endif
