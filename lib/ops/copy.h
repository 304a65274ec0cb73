/* SPDX-License-Identifier: BSD-2-Clause */
/* The pipeline that moves the content of images: plan, read, look for zeros, deflate, write. */
#ifndef OPS_COPY_H
#define OPS_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qimg_error;
struct qimg_image;
struct qimg_progress;

/* Blocks that source and target share on the host, instead of a copy. */
enum copy_share {
	COPY_SHARE_NEVER,
	COPY_SHARE_FREE,	/* where it costs nothing: reflinks */
	COPY_SHARE_HOST,	/* else have the host copy */
};

struct copy {
	struct qimg_image *const *sources;	/* one behind the other */
	size_t source_count;
	uint64_t size;			/* of all sources together; the target has it at least */
	struct qimg_image *target;
	uint64_t sparse;		/* runs of zeros this long become holes; 0: zeros are written */
	unsigned keep_depth;		/* not 0: what source images this deep supply is left out */
	bool blank;			/* the target reads as zeros: nothing needs to be zeroed */
	bool compress;
	int level;			/* of compression; 0: the default */
	unsigned parallel;		/* pieces under way, and workers; 0: what suits the machine */
	bool any_order;			/* the layout may depend on which read or worker is faster */
	bool salvage;			/* what can't be read becomes zeros */
	enum copy_share share;
	uint64_t rate;			/* bytes of data written in a second at most; 0: no limit */
	const struct qimg_progress *progress;	/* or NULL */
};

/*
 * Copies all of the sources to the start of the target. Does not flush. ECANCELED when stopped.
 * Nothing may be in flight on the images.
 */
int copy_run(const struct copy *c, struct qimg_error *e);
/* Makes a range of the target read as zeros; what does so already is left alone. */
int copy_zero(const struct copy *c, uint64_t off, uint64_t len, struct qimg_error *e);
/* Fails with ECANCELED when the user wants to stop; p may be NULL. */
int copy_check_cancel(const struct qimg_progress *p, struct qimg_error *e);
/* Tells the user something about how the work is done; p may be NULL. */
void copy_note(const struct qimg_progress *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* A new part of the work begins, with a total of its own. */
void copy_phase(const struct qimg_progress *p, const char *phase);

#endif
