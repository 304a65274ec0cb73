/* SPDX-License-Identifier: BSD-2-Clause */
/* The pipeline that moves the content of images: plan, read, look for zeros, write. */
#ifndef OPS_COPY_H
#define OPS_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qimg_error;
struct qimg_image;
struct qimg_progress;

struct copy {
	struct qimg_image *const *sources;	/* one behind the other */
	size_t source_count;
	uint64_t size;			/* of all sources together; the target has it at least */
	struct qimg_image *target;
	uint64_t sparse;		/* runs of zeros this long become holes; 0: zeros are written */
	unsigned keep_depth;		/* not 0: what source images this deep supply is left out */
	bool blank;			/* the target reads as zeros: nothing needs to be zeroed */
	bool compress;
	bool salvage;			/* what cannot be read becomes zeros */
	uint64_t rate;			/* bytes of data written in a second at most; 0: no limit */
	const struct qimg_progress *progress;	/* or NULL */
};

/* Copies all of the sources to the start of the target. Does not flush. ECANCELED when stopped. */
int copy_run(const struct copy *c, struct qimg_error *e);
/* Makes a range of the target read as zeros; what does so already is left alone. */
int copy_zero(const struct copy *c, uint64_t off, uint64_t len, struct qimg_error *e);
/* Fails with ECANCELED when the user wants to stop; p may be NULL. */
int copy_check_cancel(const struct qimg_progress *p, struct qimg_error *e);

#endif
