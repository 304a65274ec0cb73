// SPDX-License-Identifier: BSD-2-Clause
/*
 * A closed loop of requests on one image: whenever one has ended the next one starts in its place.
 *
 * The clock is read once for each request: the end of one is the start of the next. That of a model costs
 * nothing, and moves on while a request is submitted whose metadata is waited for: it is read at each start.
 * A flush stands between the requests before and behind it; without no_drain nothing else is in flight while
 * it runs.
 *
 * The warm-up is over when all that it has sent has ended, its flushes included. So what is measured is of
 * requests that were sent in the time that is measured, and of all of these, however few they are.
 */
#include "qimg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "image/request.h"
#include "io/loop.h"
#include "ops/histogram.h"
#include "ops/pattern.h"

enum { REPORT_EVERY = 1024 };	/* requests */
enum { STANDSTILL = 1 << 20 };	/* requests in which a clock has to move */

struct run;

struct slot {
	struct qimg_io io;
	struct run *run;
	uint64_t start;
};

struct run {
	const struct qimg_workload *w;
	const struct loop *model;	/* whose clock counts; NULL: this machine's */
	struct pattern pattern;
	struct slot *slot;
	struct slot flush;
	struct slot **idle;		/* slots that nothing is in flight for */
	unsigned idles;
	uint8_t *memory;		/* of all requests; at its start what is written */
	uint64_t room;			/* for each in there */
	uint64_t started, ended;	/* requests */
	uint64_t warmed;			/* of these the warm-up's */
	bool warm;			/* that is over */
	uint64_t launch, begin, now;	/* ns; begin: of what is measured */
	uint64_t warm_ns;		/* that the warm-up took */
	uint64_t cpu;			/* ns, at begin */
	uint64_t moved;			/* what had ended when the clock moved last */
	uint64_t bytes, writes;
	bool flush_due, flushing, failed;
	struct qimg_error *error;	/* of the first that failed */
	struct histogram latency;
};

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void read_clock(struct run *r)
{
	uint64_t now = r->model ? loop_model_now(r->model) : clock_ns(CLOCK_MONOTONIC);

	if (now != r->now)
		r->moved = r->ended;
	r->now = now;
}

static bool stopped(const struct run *r)
{
	const struct qimg_progress *p = r->w->progress;

	return r->failed || (p && p->cancel && *p->cancel);
}

/* Whether one more is sent, of the warm-up or behind it. */
static bool more(const struct run *r)
{
	const struct qimg_workload *w = r->w;

	if (stopped(r))
		return false;
	if (!r->warm)
		return r->started < w->warm_count || r->now - r->launch < w->warm_ns;
	if (w->count && r->started >= r->warmed + w->count)
		return false;
	return w->run_ns ? r->now - r->begin < w->run_ns : w->count;
}

static void failed(struct run *r, const struct qimg_error *e)
{
	if (!r->failed)
		*r->error = *e;
	r->failed = true;
}

static void flushed(struct qimg_io *io)
{
	struct run *r = ((struct slot *)io)->run;

	r->flushing = false;
	read_clock(r);
	if (io->code)
		failed(r, &io->error);
}

static void report(struct run *r)
{
	const struct qimg_progress *p = r->w->progress;
	uint64_t counted = r->ended - r->warmed;

	if (!p || !p->report || !r->warm || counted % REPORT_EVERY)
		return;
	if (r->w->run_ns)
		p->report(p->ctx, min_u64(r->now - r->begin, r->w->run_ns), r->w->run_ns);
	else
		p->report(p->ctx, counted, r->w->count);
}

/* The warm-up is over, or there is none: nothing is in flight. What the caller does now is not measured. */
static void warmed(struct run *r)
{
	r->warm = true;
	r->warmed = r->ended;
	r->warm_ns = r->now - r->launch;
	if (r->w->warmed)
		r->w->warmed(r->w->ctx);
	read_clock(r);
	r->begin = r->now;
	r->cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* Requests that touch no disk take no time on a model: its clock would never come to an end. */
static void check_clock(struct run *r)
{
	struct qimg_error e;

	if (!r->model || !(r->w->run_ns || r->w->warm_ns) ||
	    r->ended - r->moved < STANDSTILL + 4 * (uint64_t)r->w->depth)
		return;
	error_set(&e, EINVAL, "What is requested of '%s' is not on any disk and takes no time on '%s': give a "
		  "number of requests", r->w->image->name, loop_engine(r->model));
	failed(r, &e);
}

static void request_ended(struct qimg_io *io)
{
	struct slot *s = (struct slot *)io;
	struct run *r = s->run;

	r->idle[r->idles++] = s;
	read_clock(r);
	if (io->code) {
		failed(r, &io->error);
		return;
	}
	r->ended++;
	check_clock(r);
	if (!r->warm)
		return;
	r->bytes += io->len;
	r->writes += io->op == QIMG_IO_WRITE;
	histogram_add(&r->latency, r->now - s->start);
	report(r);
}

static void start(struct run *r)
{
	struct slot *s = r->idle[--r->idles];
	struct pattern_request q;

	pattern_next(&r->pattern, &q);
	s->io.op = q.write ? QIMG_IO_WRITE : QIMG_IO_READ;
	s->io.off = q.off;
	s->io.len = q.len;
	s->io.buf = r->memory + (q.write ? 0 : (uint64_t)(s - r->slot + 1) * r->room);
	if (r->model)
		read_clock(r);
	s->start = r->now;
	r->started++;
	r->flush_due = r->w->flush_interval && r->started % r->w->flush_interval == 0;
	if (r->w->trace)
		r->w->trace(r->w->ctx, q.off, q.len, q.write);
	qimg_submit(r->w->image, &s->io);
}

/* Starts what may start now. */
static void fill(struct run *r)
{
	bool drain = !r->w->no_drain;

	while (!stopped(r)) {
		if (r->flushing && (drain || r->flush_due))
			return;
		if (r->flush_due) {
			if (drain && r->idles < r->w->depth)
				return;
			r->flush_due = false;
			r->flushing = true;
			qimg_submit(r->w->image, &r->flush.io);
		} else if (r->idles && more(r)) {
			start(r);
		} else if (!r->warm && r->idles == r->w->depth && !r->flushing) {
			warmed(r);
		} else {
			return;
		}
	}
}

/* Each request has memory of its own to read into; what is written is the same for all. */
static int prepare(struct run *r, struct qimg_error *e)
{
	const struct qimg_workload *w = r->w;
	uint64_t longest = pattern_longest(&r->pattern), all;

	r->room = round_up(longest, 4096);
	if (!mul_u64(r->room, (uint64_t)w->depth + 1, &all) || all > SIZE_MAX / 2)
		return error_set(e, ENOMEM, "%u requests of %" PRIu64 " bytes are too much for the memory",
				 w->depth, longest);
	r->slot = mem_array(w->depth, sizeof(*r->slot), e);
	r->idle = mem_array(w->depth, sizeof(*r->idle), e);
	r->memory = r->slot && r->idle ? mem_buffer((size_t)all, e) : NULL;
	if (!r->memory)
		return -1;
	memset(r->memory, w->pattern, (size_t)all);
	for (unsigned i = 0; i < w->depth; i++) {
		struct slot *s = &r->slot[i];

		s->run = r;
		s->io.done = request_ended;
		r->idle[w->depth - 1 - i] = s;
	}
	r->idles = w->depth;
	r->flush.run = r;
	r->flush.io.op = QIMG_IO_FLUSH;
	r->flush.io.done = flushed;
	return 0;
}

/* Whose clock it is. */
static int find_clock(struct run *r, struct qimg_error *e)
{
	const struct loop *l = image_loop(r->w->image, e);

	if (!l)
		return -1;
	r->model = strncmp(loop_engine(l), "model=", 6) ? NULL : l;
	return 0;
}

static void loop(struct run *r)
{
	do
		fill(r);
	while (qimg_poll(r->w->image, true) || (!stopped(r) && (r->flush_due || !r->warm || more(r))));
}

static void sum_up(const struct run *r, struct qimg_workload_result *out)
{
	const struct histogram *h = &r->latency;

	out->virtual_time = r->model;
	out->warm_requests = r->warm ? r->warmed : r->ended;
	out->warm_ns = r->warm ? r->warm_ns : r->now - r->launch;
	if (!r->warm)
		return;
	out->requests = r->ended - r->warmed;
	out->bytes = r->bytes;
	out->writes = r->writes;
	out->ns = r->now - r->begin;
	out->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - r->cpu;
	out->mean = histogram_mean(h);
	out->p50 = histogram_at(h, 500);
	out->p95 = histogram_at(h, 950);
	out->p99 = histogram_at(h, 990);
	out->p999 = histogram_at(h, 999);
	out->max = h->max;
}

static int run(struct run *r, struct qimg_workload_result *out, struct qimg_error *e)
{
	const struct qimg_workload *w = r->w;

	if (!w->depth)
		return error_set(e, EINVAL, "A workload needs a depth of at least 1");
	if (pattern_open(&r->pattern, w, w->image->size, w->image->name, e) < 0 || prepare(r, e) < 0 ||
	    find_clock(r, e) < 0)
		return -1;
	read_clock(r);
	r->launch = r->now;
	loop(r);
	sum_up(r, out);
	if (!r->failed && stopped(r))
		error_set(e, ECANCELED, "Interrupted");
	return stopped(r) ? -1 : 0;
}

int qimg_workload_run(const struct qimg_workload *w, struct qimg_workload_result *out,
		      struct qimg_error *e)
{
	struct run *r = mem_zalloc(sizeof(*r), e);
	int ret;

	memset(out, 0, sizeof(*out));
	if (!r)
		return -1;
	r->w = w;
	r->error = e;
	ret = run(r, out, e);
	free(r->memory);
	free(r->slot);
	free(r->idle);
	free(r);
	return ret;
}
