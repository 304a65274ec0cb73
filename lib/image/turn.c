// SPDX-License-Identifier: BSD-2-Clause
/*
 * Waiting: for metadata that a format asks for, and for the turn of a request.
 *
 * Requests that wait for their turn stand in a queue by age. Whenever something has happened (a transfer or
 * a load ended, a write was committed, a request ended) all of them are tried again, oldest first.
 * When nothing is under way that could happen, the next call of the format is made without a wait:
 * so there is always progress, whoever steps the loop. The same after many loads in a row for one
 * step: a request whose metadata is pushed out again and again by others.
 */
#include "image/request_priv.h"

#include <errno.h>

struct wait *turn_waits(struct request *r)
{
	return r->blocks ? NULL : &r->wait;
}

static void put(struct request *r)
{
	struct requests *rs = r->rs;
	struct request *after = rs->turn_last;

	while (after && after->seq > r->seq)
		after = after->turn_prev;
	r->turn_prev = after;
	r->turn_next = after ? after->turn_next : rs->turn_first;
	*(r->turn_next ? &r->turn_next->turn_prev : &rs->turn_last) = r;
	*(after ? &after->turn_next : &rs->turn_first) = r;
	r->in_turn = r->waiting = true;
}

void turn_leave(struct request *r)
{
	struct requests *rs = r->rs;

	if (!r->in_turn)
		return;
	*(r->turn_prev ? &r->turn_prev->turn_next : &rs->turn_first) = r->turn_next;
	*(r->turn_next ? &r->turn_next->turn_prev : &rs->turn_last) = r->turn_prev;
	r->in_turn = r->waiting = false;
}

void turn_kick(struct requests *rs)
{
	if (!rs->turn_first || rs->kicked)
		return;
	rs->kicked = true;
	loop_later(rs->loop, &rs->kick);
}

/* Those that came to wait again meanwhile have had their turn. */
void turn_call(struct loop_task *task)
{
	struct requests *rs = container(task, struct requests, kick);
	uint64_t done = 0;
	struct request *r;

	rs->kicked = false;
	for (;;) {
		for (r = rs->turn_first; r && r->seq < done; r = r->turn_next)
			;
		if (!r)
			return;
		done = r->seq + 1;
		turn_leave(r);
		request_wake(r);
	}
}

int turn_wait(struct request *r)
{
	put(r);
	if (!r->rs->active)
		turn_kick(r->rs);
	return STEP_WAIT;
}

static void tell(struct request *r)
{
	if (!r->told)
		r->wait.done(&r->wait, r->wait_io.req.code);
	r->told = true;
}

void image_await(struct wait *w)
{
	struct request *r = container(w, struct request, wait);

	loop_await(r->rs->loop, &r->wait_io);
	tell(r);
}

static void wait_ended(struct loop_io *io)
{
	struct request *r = container(io, struct request, wait_io);

	tell(r);
	r->waiting = false;
	r->rs->active--;
	turn_kick(r->rs);
	request_wake(r);
}

static int start_wait(struct request *r)
{
	static const enum ioq_op ops[] = {
		[WAIT_READ] = IOQ_READ,
		[WAIT_WRITE] = IOQ_WRITE,
		[WAIT_SYNC] = IOQ_SYNC,
	};
	bool flush = r->op == QIMG_IO_FLUSH || r->stage == STAGE_FLUSH || r->recovering;

	if (r->wait.op == WAIT_TURN) {
		r->blocks = !r->rs->active;
		return turn_wait(r);
	}
	/* A flush loads what it needs once; others are pushed aside when they load too often. */
	if (!flush && r->wait.op != WAIT_WRITE && ++r->loads > r->rs->patience)
		r->blocks = true;
	r->wait_io.req = (struct ioq_req){ .op = ops[r->wait.op], .file = r->wait.file,
					   .off = r->wait.off, .buf = r->wait.buf, .len = r->wait.len,
					   .flags = IOQ_METADATA };
	r->wait_io.done = wait_ended;
	r->waiting = true;
	r->told = false;
	r->rs->active++;
	loop_io(r->rs->loop, &r->wait_io);
	return STEP_WAIT;
}

int turn_answer(struct request *r, int rc, const struct qimg_error *e)
{
	bool blocked = r->blocks;

	if (rc == MAP_WAIT)
		return start_wait(r);
	r->blocks = false;
	r->loads = 0;
	/* What another request holds is not to be had by blocking. */
	if (rc < 0 && blocked && e->code == EBUSY && r->rs->count > 1)
		return turn_wait(r);
	r->wait.ticket = 0;
	turn_kick(r->rs);
	return rc;
}
