// SPDX-License-Identifier: BSD-2-Clause
/*
 * The event loop. Completions that a step finds are called at once, one after the other; what they
 * start is left to later steps, where it would be endless otherwise: a step calls at most what was
 * under way when it began, and one more for which it waited.
 */
#include "io/loop.h"

#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

struct loop {
	struct ioq *q;
	struct pool *pool;		/* NULL until the first job */
	unsigned workers;
	unsigned ios, jobs;		/* under way */
	struct loop_task *first, **last;
	struct ioq_req *held, **held_last;	/* completed while another one was awaited */
	int epoll, event;		/* for loop_fd; -1: never asked for. event: there are tasks */
	bool event_set;
};

int loop_new(struct loop **l, const char *engine, unsigned depth, unsigned workers,
	     struct qimg_error *e)
{
	struct loop *n = mem_zalloc(sizeof(*n), e);

	if (!n)
		return -1;
	n->workers = workers;
	n->last = &n->first;
	n->held_last = &n->held;
	n->epoll = n->event = -1;
	if (ioq_new(&n->q, engine, depth, e)) {
		free(n);
		return -1;
	}
	*l = n;
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	ioq_free(l->q);
	pool_free(l->pool);
	if (l->epoll >= 0)
		close(l->epoll);
	if (l->event >= 0)
		close(l->event);
	free(l);
}

const char *loop_engine(const struct loop *l)
{
	return ioq_engine_name(l->q);
}

uint64_t loop_model_now(const struct loop *l)
{
	return ioq_model_now(l->q);
}

void loop_io(struct loop *l, struct loop_io *io)
{
	io->req.owner = io;
	io->req.error = &io->error;
	io->held = false;
	l->ios++;
	ioq_submit(l->q, &io->req);
}

static void watch(struct loop *l, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	if (l->epoll >= 0 && fd >= 0)
		epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev);
}

int loop_job(struct loop *l, struct loop_job *job, struct qimg_error *e)
{
	if (!l->pool) {
		if (pool_new(&l->pool, l->workers, e))
			return -1;
		if (l->epoll >= 0)
			watch(l, pool_fd(l->pool));
	}
	l->jobs++;
	pool_submit(l->pool, &job->job);
	return 0;
}

static void update_event(struct loop *l)
{
	bool wanted = l->first || l->held;
	eventfd_t n;

	if (l->event < 0 || wanted == l->event_set)
		return;
	if (wanted ? eventfd_write(l->event, 1) : eventfd_read(l->event, &n))
		return;
	l->event_set = wanted;
}

void loop_later(struct loop *l, struct loop_task *task)
{
	task->next = NULL;
	*l->last = task;
	l->last = &task->next;
	update_event(l);
}

static unsigned call_tasks(struct loop *l)
{
	struct loop_task *task, *next;
	unsigned n = 0;

	task = l->first;
	l->first = NULL;
	l->last = &l->first;
	for (; task; task = next) {
		next = task->next;
		task->call(task);
		n++;
	}
	return n;
}

static void call_io(struct loop *l, struct ioq_req *r)
{
	struct loop_io *io = r->owner;

	l->ios--;
	io->done(io);
}

static void call_job(struct loop *l, struct pool_job *job)
{
	struct loop_job *lj = (struct loop_job *)((char *)job - offsetof(struct loop_job, job));

	l->jobs--;
	lj->done(lj);
}

static struct ioq_req *take_held(struct loop *l)
{
	struct ioq_req *r = l->held;

	l->held = r->next;
	if (!l->held)
		l->held_last = &l->held;
	r->next = NULL;
	return r;
}

static unsigned call_completed(struct loop *l)
{
	unsigned n = 0, ios = l->ios, jobs = l->jobs;
	struct pool_job *job;
	struct ioq_req *r;

	while (ios && l->held) {
		call_io(l, take_held(l));
		ios--;
		n++;
	}
	while (jobs && (job = pool_reap(l->pool, false))) {
		call_job(l, job);
		jobs--;
		n++;
	}
	while (ios && (r = ioq_poll(l->q))) {
		call_io(l, r);
		ios--;
		n++;
	}
	return n;
}

/* Nothing had completed. Only what the engine or the workers have is under way. */
static unsigned wait_and_call(struct loop *l)
{
	struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };
	struct pool_job *job;
	struct ioq_req *r;

	if (!l->jobs) {
		r = ioq_reap(l->q);
		if (r)
			call_io(l, r);
		return r != NULL;
	}
	if (!l->ios) {
		job = pool_reap(l->pool, true);
		if (job)
			call_job(l, job);
		return job != NULL;
	}
	p[0].fd = ioq_fd(l->q);
	p[1].fd = pool_fd(l->pool);
	/* Without the descriptors, look now and then. */
	poll(p, 2, p[0].fd < 0 || p[1].fd < 0 ? 1 : -1);
	return 0;
}

unsigned loop_step(struct loop *l, bool wait)
{
	unsigned n = call_tasks(l);

	/* What the tasks have made possible is to be started before a clock goes on. */
	if (n && ioq_is_model(l->q)) {
		update_event(l);
		return n;
	}
	n += call_completed(l);
	while (!n && wait && !loop_idle(l)) {
		n = wait_and_call(l);
		n += call_completed(l);
	}
	update_event(l);
	return n;
}

static void hold(struct loop *l, struct ioq_req *r)
{
	struct loop_io *io = r->owner;

	io->held = true;
	r->next = NULL;
	*l->held_last = r;
	l->held_last = &r->next;
}

void loop_await(struct loop *l, struct loop_io *io)
{
	while (!io->held)
		hold(l, ioq_reap(l->q));
	update_event(l);
}

bool loop_idle(const struct loop *l)
{
	return !l->ios && !l->jobs && !l->first;
}

int loop_fd(struct loop *l)
{
	int io = ioq_fd(l->q);

	if (io < 0 || l->epoll >= 0)
		return l->epoll;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch(l, io);
	watch(l, l->event);
	watch(l, l->pool ? pool_fd(l->pool) : -1);
	update_event(l);
	return l->epoll;
}
