// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes that get a new place: what the guest reads around them has to be at the new place, too, before
 * the mapping is switched.
 *
 * Where the surroundings read as zeros there are three ways (open option cow-zero-range): do nothing
 * when the host range is known to be zero, let the host clear the range, write the zeros. What has to be
 * copied or written goes out in one write together with the data when it is small (writer.c).
 */
#include "image/cow.h"

#include "base/bytes.h"
#include "io/sparse.h"

/* Up to here clearing everything in one call is cheaper than clearing head and tail apart. */
#define CLEAR_WHOLE (256 * KIB)

int cow_decide(struct request *r, const struct writer *w, struct side *s)
{
	struct qimg_error *e = &r->io->error;
	bool zero;
	int rc;

	if (s->decided)
		return 0;
	s->need = SIDE_NOTHING;
	if (s->len) {
		rc = image_is_zero(r->img, s->start, s->len, &zero, turn_waits(r), e);
		rc = turn_answer(r, rc, e);
		if (rc != 0)
			return rc;
		if (!zero)
			s->need = SIDE_COPY;
		else if (!w->m.blank || r->img->cow_zero != COW_ZERO_AUTO)
			s->need = SIDE_ZEROS;
	}
	s->decided = true;
	return 0;
}

static bool clears(const struct request *r, const struct writer *w)
{
	bool copy = w->head.need == SIDE_COPY || w->tail.need == SIDE_COPY;
	bool needed = w->head.need != SIDE_NOTHING || w->tail.need != SIDE_NOTHING;

	return needed && !copy && r->img->cow_zero != COW_ZERO_OFF;
}

static int clear_side(struct request *r, const struct writer *w, const struct side *s)
{
	struct transfer_spec t = { .op = IOQ_ZERO, .file = w->m.file,
				   .off = w->m.host + (s->start - w->m.start), .len = s->len,
				   .flags = SPARSE_NO_FALLBACK, .attempt = true };

	if (s->need == SIDE_NOTHING)
		return 0;
	if (r->img->cow_zero == COW_ZERO_ON)	/* as the reference does, whose figures it is to show */
		t.flags |= SPARSE_RESERVE;
	return transfer_start(r, &t);
}

int cow_clear(struct request *r, const struct writer *w)
{
	const struct side whole = { .start = w->head.start, .need = SIDE_ZEROS,
				    .len = w->head.len + w->m.len + w->tail.len };

	if (!clears(r, w))
		return 0;
	/* A place that was in use already may hold what the guest has until the data is written. */
	if (w->m.fresh && (r->img->cow_zero == COW_ZERO_ON || whole.len <= CLEAR_WHOLE))
		return clear_side(r, w, &whole);
	return clear_side(r, w, &w->head) < 0 || clear_side(r, w, &w->tail) < 0 ? -1 : 0;
}

void cow_cleared(const struct request *r, struct writer *w)
{
	if (clears(r, w) && !r->unsupported)
		w->head.need = w->tail.need = SIDE_NOTHING;
}
