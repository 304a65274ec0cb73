// SPDX-License-Identifier: BSD-2-Clause
/*
 * A closed loop of requests on one image: whenever one has ended the next one starts in its place.
 *
 * The clock is read once for each request: the end of one is the start of the next. A flush stands between
 * the requests before and behind it; without no_drain nothing else is in flight while it runs.
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
#include "image/image.h"
#include "ops/histogram.h"

enum { REPORT_EVERY = 1024 };	/* requests */

struct run;

struct slot {
	struct qimg_io io;
	struct run *run;
	uint64_t start;
};

struct run {
	const struct qimg_workload *w;
	struct slot *slot;
	struct slot flush;
	struct slot **idle;		/* slots that nothing is in flight for */
	unsigned idles;
	uint64_t started, ended;	/* requests */
	uint64_t next;			/* offset of the next one, IN_STEPS */
	uint64_t random;		/* state of the generator */
	uint64_t begin, now;		/* ns */
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

/* splitmix64: one addition and a few multiplications, and every seed will do. */
static uint64_t next_random(struct run *r)
{
	uint64_t z = r->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Below n; the bias of a 128-bit product is beyond measuring. */
static uint64_t random_below(struct run *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)next_random(r) * n) >> 64);
}

static uint64_t next_offset(struct run *r)
{
	const struct qimg_workload *w = r->w;
	uint64_t size = w->image->size, at = r->next;

	if (w->order == QIMG_AT_RANDOM)
		return w->offset + random_below(r, (size - w->offset) / w->size) * w->size;
	if (at + w->size > size)
		at = 0;
	r->next = (at + w->step % size) % size;
	return at;
}

static bool is_write(struct run *r)
{
	if (r->w->write_percent == 0 || r->w->write_percent >= 100)
		return r->w->write_percent;
	return random_below(r, 100) < r->w->write_percent;
}

static bool stopped(const struct run *r)
{
	const struct qimg_progress *p = r->w->progress;

	return r->failed || (p && p->cancel && *p->cancel);
}

static bool more(const struct run *r)
{
	const struct qimg_workload *w = r->w;

	if (stopped(r) || (w->count && r->started >= w->count))
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
	r->now = clock_ns(CLOCK_MONOTONIC);
	if (io->code)
		failed(r, &io->error);
}

static void report(struct run *r)
{
	const struct qimg_progress *p = r->w->progress;

	if (!p || !p->report || r->ended % REPORT_EVERY)
		return;
	if (r->w->run_ns)
		p->report(p->ctx, min_u64(r->now - r->begin, r->w->run_ns), r->w->run_ns);
	else
		p->report(p->ctx, r->ended, r->w->count);
}

static void request_ended(struct qimg_io *io)
{
	struct slot *s = (struct slot *)io;
	struct run *r = s->run;

	r->idle[r->idles++] = s;
	r->now = clock_ns(CLOCK_MONOTONIC);
	if (io->code) {
		failed(r, &io->error);
		return;
	}
	r->ended++;
	histogram_add(&r->latency, r->now - s->start);
	report(r);
}

static void start(struct run *r)
{
	struct slot *s = r->idle[--r->idles];

	s->io.op = is_write(r) ? QIMG_IO_WRITE : QIMG_IO_READ;
	s->io.off = next_offset(r);
	s->start = r->now;
	r->started++;
	r->flush_due = r->w->flush_interval && r->started % r->w->flush_interval == 0;
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
		} else {
			return;
		}
	}
}

static int check(const struct qimg_workload *w, struct qimg_error *e)
{
	uint64_t size = w->image->size;

	if (!w->depth)
		return error_set(e, EINVAL, "A workload needs a depth of at least 1");
	if (!w->size)
		return error_set(e, EINVAL, "Requests of 0 bytes measure nothing");
	if (!w->step && w->order == QIMG_IN_STEPS)
		return error_set(e, EINVAL, "With a step of 0 all requests would be for the same bytes");
	if (w->size > size)
		return error_set(e, EINVAL, "A request of %" PRIu64 " bytes does not fit into '%s', which has %"
				 PRIu64, w->size, w->image->name, size);
	if (w->offset > size - w->size)
		return error_set(e, EINVAL, "A request of %" PRIu64 " bytes at offset %" PRIu64
				 " reaches beyond the end of '%s', which has %" PRIu64 " bytes",
				 w->size, w->offset, w->image->name, size);
	return 0;
}

/* Each request has memory of its own to read into; what is written is the same for all. */
static int prepare(struct run *r, uint8_t **memory, struct qimg_error *e)
{
	const struct qimg_workload *w = r->w;
	uint64_t room = round_up(w->size, 4096), all;

	if (!mul_u64(room, (uint64_t)w->depth + 1, &all) || all > SIZE_MAX / 2)
		return error_set(e, ENOMEM, "%u requests of %" PRIu64 " bytes are too much for the memory",
				 w->depth, w->size);
	r->slot = mem_array(w->depth, sizeof(*r->slot), e);
	r->idle = mem_array(w->depth, sizeof(*r->idle), e);
	*memory = r->slot && r->idle ? mem_buffer((size_t)all, e) : NULL;
	if (!*memory)
		return -1;
	memset(*memory, w->pattern, (size_t)all);
	for (unsigned i = 0; i < w->depth; i++) {
		struct slot *s = &r->slot[i];

		s->run = r;
		s->io.len = w->size;
		s->io.buf = *memory + (w->write_percent >= 100 ? 0 : (i + 1) * room);
		s->io.done = request_ended;
		r->idle[w->depth - 1 - i] = s;
	}
	r->idles = w->depth;
	r->flush.run = r;
	r->flush.io.op = QIMG_IO_FLUSH;
	r->flush.io.done = flushed;
	return 0;
}

static void loop(struct run *r)
{
	do
		fill(r);
	while (qimg_poll(r->w->image, true) || (!stopped(r) && (r->flush_due || more(r))));
}

static void sum_up(const struct run *r, struct qimg_workload_result *out)
{
	const struct histogram *h = &r->latency;

	out->requests = r->ended;
	out->bytes = r->ended * r->w->size;
	out->ns = r->now - r->begin;
	out->mean = histogram_mean(h);
	out->p50 = histogram_at(h, 500);
	out->p95 = histogram_at(h, 950);
	out->p99 = histogram_at(h, 990);
	out->p999 = histogram_at(h, 999);
	out->max = h->max;
}

int qimg_workload_run(const struct qimg_workload *w, struct qimg_workload_result *out,
		      struct qimg_error *e)
{
	uint8_t *memory = NULL;
	struct run *r;
	uint64_t cpu;
	int ret = -1;

	memset(out, 0, sizeof(*out));
	if (check(w, e) < 0)
		return -1;
	r = mem_zalloc(sizeof(*r), e);
	if (!r)
		return -1;
	r->w = w;
	r->random = w->seed;
	r->next = w->offset;
	r->error = e;
	if (prepare(r, &memory, e) < 0)
		goto out;
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	r->begin = r->now = clock_ns(CLOCK_MONOTONIC);
	loop(r);
	out->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	sum_up(r, out);
	if (!r->failed && stopped(r))
		error_set(e, ECANCELED, "Interrupted");
	ret = stopped(r) ? -1 : 0;
out:
	free(memory);
	free(r->slot);
	free(r->idle);
	free(r);
	return ret;
}
