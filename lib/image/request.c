// SPDX-License-Identifier: BSD-2-Clause
/*
 * The life of a request: submitted, started when nothing excludes it, run until it is through, flushed
 * where writes go through, ended. done is called from the loop alone.
 */
#include "image/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/range.h"
#include "base/zero.h"
#include "image/request_priv.h"
#include "image/rw.h"

static void deliver_later(struct requests *rs)
{
	if (rs->delivering)
		return;
	rs->delivering = true;
	loop_later(rs->loop, &rs->deliver);
}

/* Calls done for what has ended up to now. */
void request_deliver(struct loop_task *task)
{
	struct requests *rs = container(task, struct requests, deliver);
	struct qimg_io *io = rs->ended, *next;

	rs->delivering = false;
	rs->ended = NULL;
	rs->ended_last = &rs->ended;
	for (; io; io = next) {
		next = io->request;
		io->request = NULL;
		rs->count--;
		rs->delivered++;
		if (io->done)
			io->done(io);
	}
}

static void add_ended(struct requests *rs, struct qimg_io *io, int rc)
{
	io->code = rc == 0 ? 0 : io->error.code ? io->error.code : EIO;
	io->error.code = io->code;
	io->request = NULL;
	*rs->ended_last = io;
	rs->ended_last = &io->request;
	deliver_later(rs);
}

void request_part(struct request *r)
{
	r->pending++;
	r->rs->active++;
}

void request_part_ended(struct request *r)
{
	r->pending--;
	r->rs->active--;
	turn_kick(r->rs);
	request_wake(r);
}

void request_fail(struct request *r, const struct qimg_error *e)
{
	if (!r->failed && e)
		r->io->error = *e;
	r->failed = true;
}

static void end(struct request *r, int rc)
{
	struct requests *rs = r->rs;

	*(r->prev ? &r->prev->next : &rs->first) = r->next;
	*(r->next ? &r->next->prev : &rs->last) = r->prev;
	rs->exclusive -= r->exclusive;
	add_ended(rs, r->io, rc);
	turn_kick(rs);
	writer_free(&r->writer);
	packer_free(&r->packer);
	free(r);
}

/* ---- the stages ---- */

static bool overlap(const struct request *a, const struct request *b)
{
	uint64_t unit = max_u64(max_u64(a->img->cluster_size, a->img->grain), 1);
	struct range ra = range_outer(a->off, a->len, unit), rb = range_outer(b->off, b->len, unit);

	return range_overlaps(ra.start, ra.len, rb.start, rb.len);
}

/* Something that was submitted earlier has to end first. */
static bool is_excluded(const struct request *r)
{
	if (!r->rs->exclusive)
		return false;
	for (const struct request *o = r->prev; o; o = o->prev)
		if (o->img == r->img && (o->exclusive || r->exclusive) && overlap(o, r))
			return true;
	return false;
}

static int check_packed(const struct request *r, struct qimg_error *e)
{
	const struct qimg_image *img = r->img;
	uint64_t cluster = img->cluster_size;

	if (!(img->driver->caps & DRIVER_PACK))
		return error_set(e, ENOTSUP, "Format '%s' has no compression", img->driver->name);
	if (!is_aligned(r->off, cluster) || (r->len != cluster && r->len != img->size - r->off))
		return error_set(e, EINVAL, "A compressed write to '%s' is of one whole cluster (%" PRIu64
				 " bytes) at a time", img->name, cluster);
	return 0;
}

static bool is_change(const struct request *r)
{
	return r->op != QIMG_IO_READ && r->op != QIMG_IO_FLUSH;
}

static int start(struct request *r)
{
	struct qimg_error *e = &r->io->error;
	bool plain = r->op == QIMG_IO_WRITE || r->op == REQUEST_WRITE_ORDERED ||
		     r->op == QIMG_IO_WRITE_COMPRESSED;

	if (r->op == QIMG_IO_FLUSH)
		return 0;
	if (rw_check_range(r->img, r->off, r->len, e) < 0)
		return -1;
	if (is_excluded(r))
		return turn_wait(r);
	if (is_change(r) && rw_change_begin(r->img, r->off, plain ? r->io->buf : NULL, r->len, e) < 0)
		return -1;
	switch (r->op) {
	case QIMG_IO_READ:
		reader_init(&r->reader, r, r->off, r->len, r->io->buf);
		return 0;
	case QIMG_IO_WRITE:
	case REQUEST_WRITE_ORDERED:
		writer_init(&r->writer, r->off, r->len, r->io->buf);
		return 0;
	case QIMG_IO_WRITE_COMPRESSED:
	case REQUEST_PACKED:
		return check_packed(r, e);
	case QIMG_IO_ZERO:
	case QIMG_IO_DISCARD:
	case REQUEST_CLEAR:
		return 0;
	}
	return error_set(e, EINVAL, "Unknown request %u", r->op);
}

int request_flush(struct request *r, struct qimg_error *e)
{
	struct transfer_spec sync = { .op = IOQ_SYNC, .file = r->img->file };

	if (!(r->img->flags & QIMG_OPEN_WRITE))
		return 0;
	if (r->img->driver->flush)
		return turn_answer(r, r->img->driver->flush(r->img, turn_waits(r), e), e);
	if (r->synced)
		return 0;
	r->synced = true;
	return transfer_start(r, &sync);
}

static int work(struct request *r)
{
	switch (r->op) {
	case QIMG_IO_READ:
		return reader_step(r, &r->reader);
	case QIMG_IO_WRITE:
	case REQUEST_WRITE_ORDERED:
		return writer_step(r, &r->writer);
	case QIMG_IO_WRITE_COMPRESSED:
	case REQUEST_PACKED:
		return packer_step(r);
	case QIMG_IO_ZERO:
		return clear_zero_step(r);
	case QIMG_IO_DISCARD:
		return clear_discard_step(r);
	case REQUEST_CLEAR:
		return clear_write_step(r);
	}
	return request_flush(r, &r->io->error);
}

static int step(struct request *r)
{
	switch (r->stage) {
	case STAGE_START:
		return start(r);
	case STAGE_WORK:
		return work(r);
	case STAGE_FLUSH:
		return is_change(r) && r->img->flags & QIMG_OPEN_WRITETHROUGH ?
		       request_flush(r, &r->io->error) : 0;
	case STAGE_END:
		break;
	}
	return 0;
}

/* As far as it gets. STEP_WAIT, or how it ended: nothing is pending then. */
static int advance(struct request *r)
{
	static const struct qimg_error given_up = { ECANCELED, "The request was given up" };
	int rc;

	for (;;) {
		if (r->cancelled && !r->failed)
			request_fail(r, &given_up);
		if (!r->failed) {
			rc = step(r);
			if (rc < 0)
				r->failed = true;
			if (rc == STEP_WAIT && !r->failed)
				return rc;
		}
		if (r->waiting || r->pending)
			return STEP_WAIT;
		if (r->failed) {
			rc = writer_recover(r, &r->writer);
			if (rc != 0)
				return rc;
		} else if (++r->stage == STAGE_END) {
			return 0;
		}
	}
}

void request_wake(struct request *r)
{
	int rc = STEP_WAIT;

	if (r->running)
		r->again = true;
	if (r->running || r->waiting)
		return;
	r->running = true;
	do {
		r->again = false;
		rc = advance(r);
	} while (rc == STEP_WAIT && r->again && !r->waiting);
	r->running = false;
	if (rc != STEP_WAIT)
		end(r, rc);
}

/* ---- submitting ---- */

/* What the request is, once and for all. */
static void define(struct request *r)
{
	const struct qimg_image *img = r->img;
	const struct qimg_io *io = r->io;
	bool unmap = img->detect_zeroes == DETECT_UNMAP && (img->flags & QIMG_OPEN_UNMAP);

	r->op = io->op;
	r->flags = io->flags;
	r->off = io->off;
	r->len = io->len;
	if (r->op == QIMG_IO_WRITE && img->detect_zeroes != DETECT_OFF && r->len &&
	    rw_check_range(img, r->off, r->len, &r->io->error) == 0 && zero_is(io->buf, r->len)) {
		r->op = QIMG_IO_ZERO;
		r->flags = unmap ? QIMG_ZERO_UNMAP : 0;
	}
	if (r->op == REQUEST_PACKED)
		r->len = r->off < img->size ? min_u64(img->cluster_size, img->size - r->off) : 1;
	r->ordered = r->op == REQUEST_PACKED || r->op == QIMG_IO_WRITE_COMPRESSED ||
		     r->op == REQUEST_WRITE_ORDERED;
	r->exclusive = is_change(r) && r->op != QIMG_IO_WRITE && r->op != REQUEST_WRITE_ORDERED;
	/* Two writes that are harmless apart must not make the header of another format together. */
	if (is_change(r) && img->probed && r->off < 512)
		r->exclusive = true;
}

static struct request *add(struct requests *rs, struct qimg_image *img, struct qimg_io *io)
{
	struct request *r = mem_zalloc(sizeof(*r), &io->error);

	rs->count++;
	if (!r) {
		add_ended(rs, io, -1);
		return NULL;
	}
	r->img = img;
	r->rs = rs;
	r->io = io;
	r->seq = rs->seq++;
	define(r);
	r->prev = rs->last;
	*(rs->last ? &rs->last->next : &rs->first) = r;
	rs->last = r;
	rs->exclusive += r->exclusive;
	return r;
}

void qimg_submit(struct qimg_image *img, struct qimg_io *io)
{
	struct requests *rs = requests_of(img, &io->error);
	struct request *r;

	io->request = NULL;
	if (!rs) {	/* no loop to call done from: qimg_poll does */
		io->code = io->error.code;
		io->request = img->failed;
		img->failed = io;
		return;
	}
	r = add(rs, img, io);
	if (r)
		request_wake(r);
}

static void run_ended(struct qimg_io *io)
{
	io->done = NULL;
}

int request_run(struct qimg_image *img, struct qimg_io *io, struct qimg_error *e)
{
	struct requests *rs = requests_of(img, e);
	struct request *r;

	if (!rs)
		return -1;
	io->done = run_ended;
	r = add(rs, img, io);
	if (r) {
		r->blocking = true;
		request_wake(r);
	}
	while (io->done)
		loop_step(rs->loop, true);
	if (io->code)
		*e = io->error;
	return io->code ? -1 : 0;
}

void qimg_cancel(struct qimg_image *img, struct qimg_io *io)
{
	struct request *r = img->requests ? img->requests->first : NULL;

	while (r && r->io != io)
		r = r->next;
	if (!r)
		return;
	r->cancelled = true;
	turn_leave(r);
	request_wake(r);
}
