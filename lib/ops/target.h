/* SPDX-License-Identifier: BSD-2-Clause */
/* The target of a conversion: made anew beside the old one, or an existing image written in place. */
#ifndef OPS_TARGET_H
#define OPS_TARGET_H

#include <stdbool.h>
#include <stdint.h>

struct qimg_convert;
struct qimg_creation;
struct qimg_error;
struct qimg_image;
struct replace;

struct target {
	struct qimg_image *img;
	struct qimg_creation *creation;	/* NULL: an existing image */
	struct replace *replace;
	char *new_data;			/* data file that is not there yet: removed on failure */
	uint64_t size;			/* guest bytes that the result is made of, from 0 on */
	bool blank;			/* all of them read as zeros */
};

/* Checks what can be checked while nothing has been touched. size: of all sources together. */
int target_prepare(struct target *t, const struct qimg_convert *c, uint64_t size,
		   struct qimg_error *e);
/* Creates and opens it, or opens the existing image. */
int target_open(struct target *t, const struct qimg_convert *c, uint64_t size,
		struct qimg_error *e);
/* Closes it; on stable storage and under its name afterwards. When it fails, target_abort is due. */
int target_finish(struct target *t, struct qimg_error *e);
/* Takes everything back. Also right after a failure of any of these, and after success. */
void target_abort(struct target *t);

#endif
