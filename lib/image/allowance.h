/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for metadata that the images of a chain share: each takes of it what it needs, so that a long
 * chain needs no more than one image.
 *
 * When it is used up, whoever needs more takes it from the image with the most that nobody has touched
 * for long; one that has less than an equal share also from the image with the most. Else it has to
 * do with what it has. Everybody may have `least` at any time, beyond the whole if need be.
 *
 * For long: since before half as much was asked for in vain, by all together, as there is.
 */
#ifndef IMAGE_ALLOWANCE_H
#define IMAGE_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

struct qimg_error;
struct qimg_image;

enum { ALLOWANCE_BYTES = 32 << 20, ALLOWANCE_ONCE = 1 << 20 };	/* the other: with QIMG_OPEN_ONCE */

struct allowance_user {
	/* Filled by the user. */
	uint64_t least;
	uint64_t (*idle)(struct allowance_user *u);	/* bytes not touched between the last two `age`, nor since */
	/*
	 * Calls allowance_put for at least so many bytes, if it can; of idle ones, or (any) of what it can
	 * do without most easily.
	 */
	void (*give)(struct allowance_user *u, uint64_t bytes, bool any);
	void (*age)(struct allowance_user *u);
	/* allowance.c's */
	struct allowance *of;		/* NULL: has joined none */
	struct allowance_user *next;
	uint64_t used;
};

/* Each image starts with one of its own; those below join that of the image above. */
int allowance_new(struct qimg_image *img, struct qimg_error *e);
void allowance_free(struct qimg_image *img);	/* its users have left */
void allowance_share(struct qimg_image *img, struct qimg_image *below);

void allowance_join(struct qimg_image *img, struct allowance_user *u);
void allowance_leave(struct allowance_user *u);	/* with what it has; also when it has joined none */
/* false: there is no more. */
bool allowance_take(struct allowance_user *u, uint64_t bytes);
void allowance_put(struct allowance_user *u, uint64_t bytes);
bool allowance_is_full(const struct allowance_user *u);
/* What all of the chain have together. */
uint64_t allowance_used(const struct qimg_image *img);

#endif
