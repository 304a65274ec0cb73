// SPDX-License-Identifier: BSD-2-Clause
/*
 * Copying: plans steps and keeps the ring of pieces (ring.h) full of them.
 *
 * Invariants: memory is bounded by the budget; the first error stops new steps, and all that is under way
 * ends before it is reported; progress never goes back.
 */
#include "ops/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"
#include "ops/ring.h"

#define ZERO_PIECE (256 * MIB)	/* zeroed between two looks at the cancel flag */
#define SHARE_PIECE (256 * MIB)	/* copied by the host */

int copy_check_cancel(const struct qimg_progress *p, struct qimg_error *e)
{
	if (p && p->cancel && *p->cancel)
		return error_set(e, ECANCELED, "Interrupted");
	return 0;
}

void copy_note(const struct qimg_progress *p, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (!p || !p->note)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	p->note(p->ctx, text);
}

void copy_phase(const struct qimg_progress *p, const char *phase)
{
	if (p && p->phase)
		p->phase(p->ctx, phase);
}

int copy_zero(const struct copy *c, uint64_t off, uint64_t len, struct qimg_error *e)
{
	unsigned flags = c->sparse ? QIMG_ZERO_UNMAP : 0;

	if (c->blank)
		return 0;
	while (len) {
		struct extent x;

		if (copy_check_cancel(c->progress, e) < 0)
			return -1;
		if (image_map_chain(c->target, off, len, &x, NULL, e) < 0)
			return -1;
		if (x.kind == EXTENT_DATA || x.kind == EXTENT_PACKED) {
			x.len = min_u64(x.len, ZERO_PIECE);
			if (qimg_zero(c->target, off, x.len, flags, e) < 0)
				return -1;
		}
		off += x.len;
		len -= x.len;
	}
	return 0;
}

/* ---- the pace of a copy with a rate limit ---- */

struct pace {
	struct timespec start;
	uint64_t written;
};

static bool too_fast(const struct copy *c, const struct pace *p)
{
	struct timespec now;
	double passed;

	if (!c->rate || !p->written)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	passed = (double)(now.tv_sec - p->start.tv_sec) +
		 (double)(now.tv_nsec - p->start.tv_nsec) / 1e9;
	return passed * (double)c->rate < (double)p->written;
}

static void count_pace(const struct copy *c, struct pace *p, uint64_t len)
{
	if (c->rate && !p->written)
		clock_gettime(CLOCK_MONOTONIC, &p->start);
	p->written += len;
}

/* ---- the steps ---- */

struct run {
	const struct copy *copy;
	struct ring ring;
	struct pace pace;
	enum copy_share share;
};

/* Has the host copy what it can of the step, once nothing is in flight. The bytes that are through. */
static uint64_t share(struct run *u, struct step *s)
{
	struct ring *r = &u->ring;

	if (u->share == COPY_SHARE_NEVER || s->kind != STEP_DATA ||
	    !share_find(r, s->start, s->len, &u->share))
		return 0;
	while (r->active && !r->failed)
		loop_step(r->loop, true);
	return r->failed ? 0 : share_step(r, s->start, s->len, &u->share);
}

/* Begins the step at r->pos with a piece that is free. */
static int next_step(struct run *u, struct piece *p, struct qimg_error *e)
{
	uint64_t piece = u->ring.budget.piece, most = piece;
	struct ring *r = &u->ring;
	struct step s;
	uint64_t did;

	if (u->share != COPY_SHARE_NEVER)
		most = max_u64(most, SHARE_PIECE);
	if (plan_next(&r->plan, r->pos, most, &s, e) < 0)
		return -1;
	did = share(u, &s);
	if (did) {
		s.len = did;
		r->done += did;
		count_pace(u->copy, &u->pace, did);
	} else if (s.kind == STEP_DATA) {
		s.len = min_u64(s.len, piece - s.start % piece);
		count_pace(u->copy, &u->pace, s.len);
		piece_start(p, &s);
	} else if (s.kind == STEP_ZERO && !u->copy->blank) {
		piece_start(p, &s);
	} else {
		r->done += s.len;
	}
	r->pos += s.len;
	return 0;
}

static bool may_start(struct run *u)
{
	return !u->ring.failed && u->ring.pos < u->copy->size && !too_fast(u->copy, &u->pace);
}

/* Waits for something to happen; with a limit on the rate, time passing is something. */
static void wait_a_little(struct run *u)
{
	const struct timespec nap = { 0, 20 * 1000 * 1000 };
	struct ring *r = &u->ring;

	if (!too_fast(u->copy, &u->pace)) {
		loop_step(r->loop, true);
		return;
	}
	while (loop_step(r->loop, false))
		;
	nanosleep(&nap, NULL);
}

/* With a limit on the rate, the copy takes its time to the end. */
static bool is_through(const struct run *u)
{
	const struct ring *r = &u->ring;

	return !r->active && (r->failed || (r->pos == u->copy->size && !too_fast(u->copy, &u->pace)));
}

static int run_steps(struct run *u, struct qimg_error *e)
{
	struct ring *r = &u->ring;
	struct qimg_error why;
	struct piece *p;

	while (!is_through(u)) {
		while (may_start(u) && (p = ring_free_piece(r))) {
			if (copy_check_cancel(u->copy->progress, &why) < 0 ||
			    next_step(u, p, &why) < 0)
				ring_fail(r, &why);
			ring_report(r);
		}
		if (!r->failed && copy_check_cancel(u->copy->progress, &why) < 0)
			ring_fail(r, &why);
		if (!is_through(u))
			wait_a_little(u);
	}
	if (r->failed)
		*e = r->error;
	return r->failed ? -1 : 0;
}

static void say_how(const struct run *u)
{
	const struct ring *r = &u->ring;

	if (u->copy->compress && r->budget.workers < r->budget.wanted)
		copy_note(u->copy->progress, "Compressing with %u workers instead of %u, to need less "
			  "memory", r->budget.workers, r->budget.wanted);
	if (r->lost)
		warn("%" PRIu64 " bytes could not be read and are zeros now, the first of them at "
		     "offset 0x%" PRIx64, r->lost, r->lost_at);
}

int copy_run(const struct copy *c, struct qimg_error *e)
{
	struct run u = { .copy = c, .share = c->share };
	int ret = -1;

	copy_phase(c->progress, "copy");
	if (c->progress && c->progress->report)
		c->progress->report(c->progress->ctx, 0, c->size);
	if (ring_open(&u.ring, c, e) == 0) {
		ret = run_steps(&u, e);
		say_how(&u);
	}
	ring_close(&u.ring);
	return ret;
}
