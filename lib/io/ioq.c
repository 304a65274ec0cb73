// SPDX-License-Identifier: BSD-2-Clause
/*
 * The request queue: what is independent of engines and of single requests. Submitted requests are
 * held, then run in slots, then wait to be reaped. They start in the order of submission; when the
 * first one has to wait for others to end, those behind it wait, too.
 *
 * Requests run with the engine or with helper threads. Nothing here waits while there is something to
 * reap, and whatever was put off is started before anything waits.
 */
#include "io/ioq.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "config.h"
#include "io/ioq_priv.h"

/* More than any device can use. */
#define MOST_DEPTH 4096

/* By name; for "auto" the first that works. */
static const struct ioq_engine *const engines[] = {
#ifdef HAVE_LIBURING
	&ioq_uring_engine,
#endif
	&ioq_threads_engine,
	&ioq_sync_engine,
	&ioq_aio_engine,
	&ioq_model_engine,
};

void ioq_list_init(struct ioq_list *l)
{
	l->first = NULL;
	l->last = &l->first;
}

void ioq_list_add(struct ioq_list *l, struct ioq_req *r)
{
	r->next = NULL;
	*l->last = r;
	l->last = &r->next;
}

void ioq_list_add_first(struct ioq_list *l, struct ioq_req *r)
{
	r->next = l->first;
	if (!l->first)
		l->last = &r->next;
	l->first = r;
}

struct ioq_req *ioq_list_take(struct ioq_list *l)
{
	struct ioq_req *r = l->first;

	if (r) {
		l->first = r->next;
		if (!l->first)
			l->last = &l->first;
		r->next = NULL;
	}
	return r;
}

/* The engine of that name, and what follows the '=' in it. */
static const struct ioq_engine *find(const char *name, const char **arg)
{
	size_t i, n;

	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		n = strlen(engines[i]->name);
		if (engines[i]->name[n - 1] == '=' ? !strncmp(name, engines[i]->name, n) :
		    !strcmp(name, engines[i]->name)) {
			*arg = name + n;
			return engines[i];
		}
	}
	return NULL;
}

static int open_engine(struct ioq *q, const struct ioq_engine *engine, const char *arg,
		       struct qimg_error *e)
{
	q->engine = engine;
	q->name = engine->name;
	return engine->open ? engine->open(q, arg, e) : 0;
}

static int open_best(struct ioq *q, struct qimg_error *e)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		if (!open_engine(q, engines[i], "", e))
			return 0;
	}
	return -1;
}

int ioq_new(struct ioq **q, const char *engine, unsigned depth, struct qimg_error *e)
{
	const struct ioq_engine *found = NULL;
	const char *arg = "";
	struct ioq *n;
	unsigned i;

	if (!depth)
		return error_set(e, EINVAL, "An I/O queue needs a depth of at least 1");
	if (engine && !strcmp(engine, "auto"))
		engine = NULL;
	if (engine) {
		found = find(engine, &arg);
		if (!found)
			return error_set(e, EINVAL, "Unknown I/O engine '%s'", engine);
	}
	n = mem_zalloc(sizeof(*n), e);
	if (!n)
		return -1;
	n->depth = (unsigned)min_u64(depth, MOST_DEPTH);
	n->epoll = n->event = -1;
	n->most_helpers = 8;
	n->batch = 1;
	n->spare = pool_cpus() - 1;
	ioq_list_init(&n->held);
	ioq_list_init(&n->finished);
	n->slot = mem_array(n->depth, sizeof(n->slot[0]), e);
	if (!n->slot || (found ? open_engine(n, found, arg, e) : open_best(n, e)) < 0) {
		free(n->slot);
		free(n);
		return -1;
	}
	for (i = n->depth; i-- > 0; n->free = &n->slot[i])
		n->slot[i].next = n->free;
	*q = n;
	return 0;
}

void ioq_free(struct ioq *q)
{
	if (!q)
		return;
	if (q->engine->close)
		q->engine->close(q);
	pool_free(q->helpers);
	if (q->epoll >= 0)
		close(q->epoll);
	if (q->event >= 0)
		close(q->event);
	free(q->slot);
	free(q);
}

const char *ioq_engine_name(const struct ioq *q)
{
	return q->name;
}

static void watch(struct ioq *q, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	if (q->epoll >= 0 && fd >= 0)
		epoll_ctl(q->epoll, EPOLL_CTL_ADD, fd, &ev);
}

bool ioq_need_helpers(struct ioq *q)
{
	struct qimg_error ignored;

	if (!q->helpers && !q->no_helpers) {
		q->no_helpers = pool_new_elastic(&q->helpers, q->most_helpers, &ignored) < 0;
		if (q->helpers && q->epoll >= 0)
			watch(q, pool_fd(q->helpers));
	}
	return q->helpers;
}

static void start_held(struct ioq *q)
{
	struct ioq_io *io;

	while (q->free && q->held.first && !ioq_must_wait(q, q->held.first)) {
		io = q->free;
		q->free = io->next;
		q->running++;
		io->req = ioq_list_take(&q->held);
		ioq_begin(q, io);
	}
}

/* Sees to it that the descriptor is readable when it has to be. */
static void update_event(struct ioq *q)
{
	/* What was held back while the owner waited is started by the next call. */
	bool wanted = q->finished.first || q->put_off || (q->held.first && !q->running);
	eventfd_t n;

	if (q->event < 0 || wanted == q->event_set)
		return;
	if (wanted ? eventfd_write(q->event, 1) : eventfd_read(q->event, &n))
		return;
	q->event_set = wanted;
}

void ioq_submit(struct ioq *q, struct ioq_req *r)
{
	r->code = 0;
	ioq_list_add(&q->held, r);
	start_held(q);
	update_event(q);
}

/* What helper threads have done; sleeps until one has something when `wait` is set. */
static void collect_help(struct ioq *q, bool wait)
{
	struct pool_job *job;
	struct ioq_io *io;

	while (q->helping && (job = pool_reap(q->helpers, wait))) {
		io = (struct ioq_io *)((char *)job - offsetof(struct ioq_io, job));
		ioq_advance(q, io, io->result);
		wait = false;
	}
}

/* Until an engine or a helper thread, both of which have something to do, has done it. */
static void sleep_for_both(struct ioq *q)
{
	struct pollfd p[2] = {
		{ .fd = q->engine->fd(q), .events = POLLIN },
		{ .fd = pool_fd(q->helpers), .events = POLLIN },
	};

	/* Without the descriptors, look now and then. */
	poll(p, 2, p[0].fd < 0 || p[1].fd < 0 ? 1 : -1);
}

static void collect(struct ioq *q, bool wait)
{
	collect_help(q, false);
	if (q->engaged)
		q->engine->poll(q, wait && !q->helping && !q->finished.first);
	if (wait && !q->finished.first && q->helping) {
		if (q->engaged)
			sleep_for_both(q);
		else
			collect_help(q, true);
	}
	start_held(q);
}

static void move_all(struct ioq_list *to, struct ioq_list *from)
{
	struct ioq_req *r;

	while ((r = ioq_list_take(from)))
		ioq_list_add(to, r);
}

void ioq_settle(struct file *f)
{
	struct ioq *q = f->queue;
	struct ioq_list ended;

	if (!f->flying)
		return;
	ioq_list_init(&ended);
	f->resting = true;
	while (f->flying && q->running) {
		/* With something to reap nothing would wait. */
		move_all(&ended, &q->finished);
		collect(q, true);
	}
	f->resting = false;
	move_all(&ended, &q->finished);
	move_all(&q->finished, &ended);
	update_event(q);
}

struct ioq_req *ioq_poll(struct ioq *q)
{
	struct ioq_req *r;

	/* What is put off starts together with what the owner makes of all that has ended. */
	if (!q->finished.first)
		collect(q, false);
	/* What has started now may have been put off. */
	if (!q->finished.first && q->put_off)
		collect(q, false);
	r = ioq_list_take(&q->finished);
	update_event(q);
	return r;
}

struct ioq_req *ioq_reap(struct ioq *q)
{
	struct ioq_req *r;

	while (!q->finished.first && (q->running || q->held.first))
		collect(q, true);
	r = ioq_list_take(&q->finished);
	update_event(q);
	return r;
}

int ioq_fd(struct ioq *q)
{
	if (q->engine->whole || q->epoll >= 0)
		return q->epoll;
	q->epoll = epoll_create1(EPOLL_CLOEXEC);
	q->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch(q, q->event);
	watch(q, q->helpers ? pool_fd(q->helpers) : -1);
	watch(q, q->engine->fd ? q->engine->fd(q) : -1);
	update_event(q);
	return q->epoll;
}

int ioq_run(struct ioq *q, struct ioq_req *r, struct qimg_error *e)
{
	r->error = e;
	ioq_submit(q, r);
	ioq_reap(q);
	return r->code ? -1 : 0;
}
