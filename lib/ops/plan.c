// SPDX-License-Identifier: BSD-2-Clause
/*
 * Extents of the sources, joined into runs of one kind and fitted to the grain of the target.
 *
 * Positions asked for only grow, so that `run` and `ahead` make each extent be looked up once. A unit of
 * the target that is partly data is copied as a whole; only whole units are kept or zeroed.
 */
#include "ops/plan.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"
#include "io/file.h"

/* Runs are not joined beyond this, so that a caller can be cancelled between steps. */
#define RUN_MAX (4 * GIB)

static uint64_t step_end(const struct step *s)
{
	return s->start + s->len;
}

static bool step_holds(const struct step *s, uint64_t pos)
{
	return s->len && pos >= s->start && pos < step_end(s);
}

/* Moves to the source that holds pos. */
static void find_source(struct plan *p, uint64_t pos)
{
	if (pos < p->source_start) {
		p->source = 0;
		p->source_start = 0;
	}
	while (pos - p->source_start >= p->sources[p->source]->size) {
		p->source_start += p->sources[p->source]->size;
		p->source++;
	}
}

struct qimg_image *plan_source(struct plan *p, uint64_t pos, uint64_t *off)
{
	find_source(p, pos);
	*off = pos - p->source_start;
	return p->sources[p->source];
}

static enum step_kind classify(const struct plan *p, const struct extent *x)
{
	bool deep = p->keep_depth && x->depth >= p->keep_depth;

	switch (x->kind) {
	case EXTENT_HOLE:
		/* No image has it: below the target's backing file there is nothing, either. */
		if (p->keep_depth)
			return STEP_KEEP;
		break;
	case EXTENT_ZERO:
		/* Not allocated: beyond the end of a backing file, where the target's may go on. */
		if (deep && x->allocated)
			return STEP_KEEP;
		break;
	case EXTENT_DATA:
	case EXTENT_PACKED:
		return deep ? STEP_KEEP : STEP_DATA;
	}
	return p->all_data ? STEP_DATA : STEP_ZERO;
}

/* How much is taken for lost when the map of a source is broken. */
static uint64_t lost_len(const struct qimg_image *src, uint64_t off)
{
	uint64_t grain = max_u64(src->cluster_size, 64 * KIB);

	return min_u64(src->size - off, grain - off % grain);
}

/*
 * That a cluster has a place does not mean that anything was written there: where the file has a hole, zeros
 * are read. All of an image with preallocated metadata is like that.
 */
static void look_for_hole(struct extent *x, struct step *s)
{
	struct file_extent in_file;
	struct qimg_error ignored;

	if (file_extent(x->file, x->host, x->len, &in_file, &ignored) < 0)
		return;
	s->len = in_file.len;
	if (in_file.hole)
		s->kind = STEP_ZERO;
}

static int map_one(struct plan *p, uint64_t pos, struct step *s, struct qimg_error *e)
{
	struct extent x;
	uint64_t off;
	struct qimg_image *src = plan_source(p, pos, &off);

	s->start = pos;
	if (image_map_chain(src, off, src->size - off, &x, NULL, e) < 0) {
		if (!p->salvage)
			return -1;
		s->len = lost_len(src, off);
		s->kind = STEP_DATA;
		return 0;
	}
	s->len = x.len;
	s->kind = classify(p, &x);
	if (s->kind == STEP_DATA && x.kind == EXTENT_DATA && !p->all_data)
		look_for_hole(&x, s);
	return 0;
}

/* Makes p->run the run that holds pos. */
static int find_run(struct plan *p, uint64_t pos, struct qimg_error *e)
{
	if (step_holds(&p->run, pos))
		return 0;
	if (step_holds(&p->ahead, pos))
		p->run = p->ahead;
	else if (map_one(p, pos, &p->run, e) < 0)
		return -1;
	p->ahead.len = 0;
	while (step_end(&p->run) < p->size && p->run.len < RUN_MAX) {
		if (map_one(p, step_end(&p->run), &p->ahead, e) < 0)
			return -1;
		if (p->ahead.kind != p->run.kind)
			break;
		p->run.len += p->ahead.len;
		p->ahead.len = 0;
	}
	return 0;
}

/* The end of the whole units of the run that holds `from`; at most `from` when there are none. */
static uint64_t whole_units(const struct plan *p, uint64_t from)
{
	uint64_t end = step_end(&p->run);

	if (end < p->size)
		end = round_down(end, p->unit);
	return max_u64(end, from);
}

int plan_next(struct plan *p, uint64_t pos, uint64_t max, struct step *s, struct qimg_error *e)
{
	uint64_t at = pos, end;

	if (!max || !p->unit || !is_aligned(pos, p->unit) || pos >= p->size)
		return error_set(e, EINVAL, "Offset 0x%" PRIx64 " cannot start a step of a copy", pos);
	/* max need not be a power of two */
	end = min_u64(p->size, pos - pos % max + max);
	s->start = pos;
	s->kind = STEP_DATA;
	while (at < end) {
		if (find_run(p, at, e) < 0)
			return -1;
		if (p->run.kind != STEP_DATA) {
			uint64_t from = round_up(at, p->unit), to = whole_units(p, from);

			if (from < to && from == pos) {
				s->kind = p->run.kind;
				end = to;
				break;
			}
			if (from < to) {
				end = min_u64(end, from);
				break;
			}
		}
		at = step_end(&p->run);
	}
	s->len = end - pos;
	return 0;
}
