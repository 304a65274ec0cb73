// SPDX-License-Identifier: BSD-2-Clause
/*
 * The pieces of a copy that are under way.
 *
 * Invariant, in order: the requests of piece n are submitted before those of piece n + 1. Where zeros are
 * written (which may allocate tables in the target) a piece has the target to itself.
 */
#include "ops/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/request.h"
#include "io/file.h"

enum { DEPTH = 64 };			/* transfers in flight */

#define FILE_UNIT (4 * KIB)		/* what file systems keep holes in */

/* The least that the target can leave out: the unit in which the sources' holes are taken over. */
static uint64_t unit_of(const struct copy *c)
{
	uint64_t unit = c->target->grain;

	if (c->compress)
		unit = c->target->cluster_size;
	if (!c->target->cluster_size)
		unit = max_u64(unit, FILE_UNIT);
	return unit;
}

/*
 * The unit in which zeros are looked for in data: no less than the sparse size, so that a larger one
 * makes for fewer, larger holes.
 */
static uint64_t scan_unit(const struct copy *c)
{
	return c->sparse ? max_u64(unit_of(c), UINT64_C(1) << log2_u64(c->sparse)) : unit_of(c);
}

static int make_piece(struct ring *r, struct piece *p, struct qimg_error *e)
{
	p->ring = r;
	p->buf = mem_buffer(r->budget.piece, e);
	if (!p->buf)
		return -1;
	if (!r->copy->compress)
		return 0;
	p->packed = mem_buffer(r->budget.piece, e);
	p->parts = mem_array(r->budget.piece / r->copy->target->cluster_size, sizeof(*p->parts), e);
	return p->packed && p->parts ? 0 : -1;
}

/* All images of a copy are driven by one loop. */
static void set_loops(const struct ring *r, struct loop *l)
{
	for (size_t i = 0; i < r->copy->source_count; i++)
		image_set_loop(r->copy->sources[i], l);
	image_set_loop(r->copy->target, l);
}

/* Reading and looking for zeros is work enough for the processors that do not write. */
static void set_serial(const struct copy *c, bool on)
{
	file_set_serial(c->target->file, on);
	if (c->target->data_file)
		file_set_serial(c->target->data_file, on);
}

int ring_open(struct ring *r, const struct copy *c, struct qimg_error *e)
{
	memset(r, 0, sizeof(*r));
	r->copy = c;
	r->unit = scan_unit(c);
	budget_make(&r->budget, c, r->unit);
	r->plan = (struct plan){
		.sources = c->sources, .source_count = c->source_count, .size = c->size,
		.unit = unit_of(c), .all_data = !c->sparse, .keep_depth = c->keep_depth,
		.salvage = c->salvage,
	};
	/* Without clusters there is nothing whose place depends on the order. */
	r->ordered = !c->any_order && c->target->cluster_size;
	r->pieces = mem_array(r->budget.pieces, sizeof(*r->pieces), e);
	if (!r->pieces)
		return -1;
	for (unsigned i = 0; i < r->budget.pieces; i++)
		if (make_piece(r, &r->pieces[i], e) < 0)
			return -1;
	if (c->compress) {
		r->codecs = mem_array(r->budget.workers + 1, sizeof(struct codec_ctx *), e);
		if (!r->codecs)
			return -1;
	}
	if (loop_new(&r->loop, NULL, DEPTH, r->budget.workers, e) < 0)
		return -1;
	set_loops(r, r->loop);
	set_serial(c, true);
	/* A request can be delivered only where this has succeeded. */
	for (size_t i = 0; i < c->source_count; i++)
		if (!image_loop(c->sources[i], e))
			return -1;
	return image_loop(c->target, e) ? 0 : -1;
}

void ring_close(struct ring *r)
{
	while (r->active)
		loop_step(r->loop, true);
	if (r->loop) {
		set_loops(r, NULL);
		set_serial(r->copy, false);
	}
	loop_free(r->loop);
	for (unsigned i = 0; r->pieces && i < r->budget.pieces; i++) {
		free(r->pieces[i].buf);
		free(r->pieces[i].packed);
		free(r->pieces[i].parts);
	}
	for (unsigned i = 0; r->codecs && i <= r->budget.workers; i++)
		codec_free(r->codecs[i]);
	free(r->codecs);
	free(r->pieces);
	memset(r, 0, sizeof(*r));
}

struct piece *ring_free_piece(struct ring *r)
{
	for (unsigned i = 0; i < r->budget.pieces; i++)
		if (r->pieces[i].state == PIECE_FREE)
			return &r->pieces[i];
	return NULL;
}

void ring_fail(struct ring *r, const struct qimg_error *e)
{
	if (!r->failed)
		r->error = *e;
	r->failed = true;
}

bool ring_alone(const struct piece *p)
{
	const struct ring *r = p->ring;

	for (unsigned i = 0; i < r->budget.pieces; i++)
		if (r->pieces[i].state != PIECE_FREE && r->pieces[i].number < p->number)
			return false;
	return true;
}

/* The piece whose turn it is, if it is ready. */
static struct piece *next_in_order(struct ring *r)
{
	for (unsigned i = 0; i < r->budget.pieces; i++) {
		struct piece *p = &r->pieces[i];

		if (p->number == r->turn && (p->state == PIECE_READY || p->state == PIECE_WRITE))
			return p;
	}
	return NULL;
}

static bool submitted(const struct piece *p)
{
	return p->at == p->step.len && p->part == p->part_count;
}

/* Pieces that have nothing in flight and nothing to submit are through. */
static bool settle(struct ring *r)
{
	bool any = false;

	for (unsigned i = 0; i < r->budget.pieces; i++) {
		struct piece *p = &r->pieces[i];

		if ((p->state != PIECE_READY && p->state != PIECE_WRITE) || p->pending ||
		    !(submitted(p) || r->failed))
			continue;
		p->state = PIECE_FREE;
		r->active--;
		if (!r->failed)
			r->done += p->step.len;
		any = true;
	}
	ring_report(r);
	return any;
}

void ring_report(struct ring *r)
{
	const struct qimg_progress *p = r->copy->progress;

	if (p && p->report && r->done != r->reported)
		p->report(p->ctx, r->done, r->copy->size);
	r->reported = r->done;
}

static bool may_write(const struct ring *r, const struct piece *p)
{
	return !r->failed && (p->state == PIECE_READY || p->state == PIECE_WRITE);
}

void ring_submit(struct ring *r)
{
	struct piece *p;

	do {
		for (unsigned i = 0; i < r->budget.pieces && !r->ordered; i++)
			if (may_write(r, &r->pieces[i]))
				piece_submit(&r->pieces[i]);
		while (r->ordered && (p = next_in_order(r)) && may_write(r, p) && piece_submit(p))
			r->turn++;
		/* Who waited for the others to be through goes on. */
	} while (settle(r) && r->active);
}
