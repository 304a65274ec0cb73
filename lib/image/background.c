// SPDX-License-Identifier: BSD-2-Clause
/* Counted apart from the requests: nothing that waits for its turn is woken by it. */
#include "image/background.h"

#include "image/request_priv.h"

static void ended(struct loop_io *io)
{
	struct background *b = container(io, struct background, io);

	b->rs->background--;
	b->done(b);
}

bool background_start(struct qimg_image *img, struct background *b)
{
	struct requests *rs = img->requests;

	if (!rs)
		return false;
	b->rs = rs;
	b->io.done = ended;
	rs->background++;
	loop_io(rs->loop, &b->io);
	return true;
}
