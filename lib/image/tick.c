// SPDX-License-Identifier: BSD-2-Clause
/*
 * What formats do now and then, by time: giving back memory that nobody has used for long. There is no
 * clock of its own: calls on the image look whether it is time, and qimg_poll_timeout says when to
 * call.
 */
#include "image/image.h"

#include <limits.h>
#include <time.h>

#include "base/bytes.h"

#define NEVER UINT64_MAX

/* In ms, since some time. Costs nearly nothing, and is exact to a few ms. */
static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void image_tick(struct qimg_image *img)
{
	uint64_t time, next = NEVER;

	if (img->tick_at == NEVER)
		return;
	time = now();
	if (time < img->tick_at)
		return;
	for (struct qimg_image *i = img; i; i = i->backing)
		if (i->driver->tick)
			next = min_u64(next, i->driver->tick(i, time));
	img->tick_at = next;
}

int image_tick_timeout(struct qimg_image *img)
{
	uint64_t time = now();

	image_tick(img);
	if (img->tick_at == NEVER)
		return -1;
	return img->tick_at <= time ? 0 : (int)min_u64(img->tick_at - time, INT_MAX);
}
