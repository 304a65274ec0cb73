/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests on guest data: the one implementation of reading and writing, behind qimg_submit and behind
 * the blocking calls.
 *
 * A request is a small state machine that the image's loop drives: map or begin (which may ask to wait
 * for metadata), transfer, commit. Metadata steps run in the thread that steps the loop, one at a time.
 * Requests that have to wait for their turn are tried again, oldest first, whenever another one of the
 * image has moved on.
 *
 * Plain reads and writes do not wait for each other, except for a cluster that is being allocated. All
 * others (zero, discard, compressed writes) exclude whatever touches the same clusters, and are carried
 * out in the order of submission.
 */
#ifndef IMAGE_REQUEST_H
#define IMAGE_REQUEST_H

#include "image/image.h"

struct loop;

/* Operations beside those of enum qimg_io_op. */
enum {
	/*
	 * buf holds len compressed bytes of the cluster at off. Places are given in the order in
	 * which such requests are submitted, so that the layout does not depend on timing.
	 */
	REQUEST_PACKED = 100,
	/* As QIMG_IO_WRITE, but the place is given in one order with REQUEST_PACKED. */
	REQUEST_WRITE_ORDERED,
	/* Zeros, written where the range does not read as zeros already. */
	REQUEST_CLEAR,
};

/* The loop that drives requests on img (of its chain, too): its own, made on first use. NULL: error. */
struct loop *image_loop(struct qimg_image *img, struct qimg_error *e);
/* Makes img (nothing in flight) use a loop shared with others; NULL: one of its own again. */
void image_set_loop(struct qimg_image *img, struct loop *l);
/*
 * Submits and steps the loop until it has completed. 0, or -1 with *e. Not to be called from within
 * the loop.
 */
int request_run(struct qimg_image *img, struct qimg_io *io, struct qimg_error *e);
/* Requests of img, or of its chain, whose done was not called yet. */
unsigned request_count(const struct qimg_image *img);

#endif
