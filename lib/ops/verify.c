// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reading both sides again. A few lanes, each with a buffer for either side: while one compares, the
 * others read. What the metadata of both says reads as zeros is not read.
 */
#include "ops/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/request.h"
#include "io/file.h"
#include "io/loop.h"
#include "ops/copy.h"
#include "ops/plan.h"

#define ROOM (1 * MIB)
#define UNIT (4 * KIB)

enum { LANES = 4, DEPTH = 16, SECTOR = 512 };

struct lane {
	struct verify *v;
	uint64_t start, len;
	uint64_t read;			/* of the source; it may come from several */
	uint64_t salvage;		/* at most so much at a time, after a failure; else 0 */
	bool zero;			/* the source reads as zeros there */
	unsigned pending;
	uint8_t *source, *target;
	struct qimg_io source_io, target_io;
};

struct verify {
	const struct copy *copy;
	struct plan plan;
	struct loop *loop;
	struct lane lane[LANES];
	unsigned active;
	uint64_t pos, done;
	bool failed;
	struct qimg_error error;
};

static void fail(struct verify *v, const struct qimg_error *e)
{
	if (!v->failed)
		v->error = *e;
	v->failed = true;
}

static void report(const struct verify *v)
{
	const struct qimg_progress *p = v->copy->progress;

	if (p && p->report)
		p->report(p->ctx, v->done, v->copy->size);
}

static void compare(struct lane *l)
{
	struct verify *v = l->v;
	struct qimg_error e;
	uint64_t at = 0;

	v->active--;
	if (v->failed)
		return;
	if (memcmp(l->source, l->target, l->len)) {
		while (l->source[at] == l->target[at])
			at++;
		error_set(&e, EIO, "The target differs from the source at offset 0x%" PRIx64
			  ": it was not stored as it was written", l->start + at);
		fail(v, &e);
		return;
	}
	v->done += l->len;
	report(v);
}

static void read_source(struct lane *l);

/* What the copy could not read it has as zeros (salvage.c), and so it is here. */
static void source_ended(struct lane *l)
{
	const struct qimg_io *io = &l->source_io;

	if (io->code && !l->v->copy->salvage) {
		fail(l->v, &io->error);
	} else if (io->code && io->len > SECTOR) {
		l->salvage = max_u64(UINT64_C(1) << log2_u64(io->len - 1), SECTOR);
		return;
	} else if (io->code) {
		memset(l->source + l->read, 0, io->len);
	} else {
		l->salvage *= 2;
	}
	l->read += io->len;
}

static void read_done(struct qimg_io *io)
{
	struct lane *l = io->user;

	if (io == &l->source_io)
		source_ended(l);
	else if (io->code)
		fail(l->v, &io->error);
	if (io == &l->source_io && l->read < l->len && !l->v->failed)
		read_source(l);
	if (--l->pending == 0)
		compare(l);
}

static void read_source(struct lane *l)
{
	uint64_t off, len = l->len - l->read;
	struct qimg_image *src = plan_source(&l->v->plan, l->start + l->read, &off);

	if (l->salvage)
		len = min_u64(len, l->salvage);
	l->source_io = (struct qimg_io){
		.op = QIMG_IO_READ, .off = off, .len = min_u64(len, src->size - off),
		.buf = l->source + l->read, .done = read_done, .user = l,
	};
	l->pending++;
	qimg_submit(src, &l->source_io);
}

static void start(struct verify *v, struct lane *l, uint64_t len)
{
	l->start = v->pos;
	l->len = len;
	l->read = l->salvage = 0;
	l->target_io = (struct qimg_io){
		.op = QIMG_IO_READ, .off = l->start, .len = len, .buf = l->target, .done = read_done,
		.user = l,
	};
	v->active++;
	l->pending++;
	qimg_submit(v->copy->target, &l->target_io);
	/* A pending read of zeros costs nothing but the memory it sets. */
	read_source(l);
}

/* The next stretch that has to be read. 0: the rest of this step needs none. */
static int next_length(struct verify *v, const struct step *s, uint64_t *len, struct qimg_error *e)
{
	struct extent x;

	*len = min_u64(s->len, ROOM);
	if (s->kind != STEP_ZERO)
		return 0;
	if (image_map_chain(v->copy->target, s->start, s->len, &x, NULL, e) < 0)
		return -1;
	if (x.kind == EXTENT_HOLE || x.kind == EXTENT_ZERO) {
		v->pos += x.len;
		v->done += x.len;
		*len = 0;
	} else {
		*len = min_u64(x.len, ROOM);
	}
	return 0;
}

static struct lane *free_lane(struct verify *v)
{
	for (unsigned i = 0; i < LANES; i++)
		if (!v->lane[i].pending)
			return &v->lane[i];
	return NULL;
}

static int compare_all(struct verify *v)
{
	struct qimg_error e;
	struct step s = { .len = 0 };
	struct lane *l;
	uint64_t len;

	/* Whole runs of zeros are not reported one by one. */
	while (v->active || (v->pos < v->copy->size && !v->failed)) {
		while (!v->failed && v->pos < v->copy->size && (l = free_lane(v))) {
			/* Steps begin at units; what is left of a run of zeros goes on anywhere. */
			if (v->pos >= s.start + s.len) {
				if (plan_next(&v->plan, v->pos, ROOM, &s, &e) < 0) {
					fail(v, &e);
					break;
				}
			} else {
				s.len -= v->pos - s.start;
				s.start = v->pos;
			}
			if (copy_check_cancel(v->copy->progress, &e) < 0 ||
			    next_length(v, &s, &len, &e) < 0) {
				fail(v, &e);
			} else if (len) {
				start(v, l, len);
				v->pos += len;
			}
		}
		if (v->active)
			loop_step(v->loop, true);
	}
	if (!v->failed)
		report(v);
	return v->failed ? -1 : 0;
}

static int open_lanes(struct verify *v, struct qimg_error *e)
{
	for (unsigned i = 0; i < LANES; i++) {
		v->lane[i].v = v;
		v->lane[i].source = mem_buffer(ROOM, e);
		v->lane[i].target = mem_buffer(ROOM, e);
		if (!v->lane[i].source || !v->lane[i].target)
			return -1;
	}
	return 0;
}

static int open_loop(struct verify *v, struct qimg_error *e)
{
	const struct copy *c = v->copy;

	if (loop_new(&v->loop, NULL, DEPTH, 0, e) < 0)
		return -1;
	image_set_loop(c->target, v->loop);
	if (!image_loop(c->target, e))
		return -1;
	for (size_t i = 0; i < c->source_count; i++) {
		image_set_loop(c->sources[i], v->loop);
		if (!image_loop(c->sources[i], e))
			return -1;
	}
	return 0;
}

static void close_all(struct verify *v)
{
	const struct copy *c = v->copy;

	for (size_t i = 0; v->loop && i < c->source_count; i++)
		image_set_loop(c->sources[i], NULL);
	if (v->loop)
		image_set_loop(c->target, NULL);
	loop_free(v->loop);
	for (unsigned i = 0; i < LANES; i++) {
		free(v->lane[i].source);
		free(v->lane[i].target);
	}
}

int verify_run(const struct copy *c, struct qimg_error *e)
{
	struct verify v = {
		.copy = c,
		.plan = { .sources = c->sources, .source_count = c->source_count, .size = c->size,
			  .unit = UNIT, .salvage = c->salvage },
	};
	int ret = -1;

	copy_phase(c->progress, "verify");
	report(&v);
	file_drop_cache(c->target->file);
	if (c->target->data_file)
		file_drop_cache(c->target->data_file);
	if (open_lanes(&v, e) == 0 && open_loop(&v, e) == 0) {
		ret = compare_all(&v);
		if (ret < 0)
			*e = v.error;
	}
	close_all(&v);
	return ret;
}
