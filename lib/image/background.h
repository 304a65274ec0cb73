/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * I/O of a format that no request waits for: the loop of the image carries it out beside the requests.
 * Closing the image, and whatever else drains its requests, waits for it.
 */
#ifndef IMAGE_BACKGROUND_H
#define IMAGE_BACKGROUND_H

#include "io/loop.h"

struct qimg_image;
struct requests;

struct background {
	struct loop_io io;		/* req is filled by the caller, as for loop_io */
	void (*done)(struct background *b);	/* called from the loop; io.req.code, io.error */
	struct requests *rs;		/* background.c's */
};

/* false: the image has no loop, as long as all its calls have been blocking ones. */
bool background_start(struct qimg_image *img, struct background *b);

#endif
