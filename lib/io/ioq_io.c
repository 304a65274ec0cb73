// SPDX-License-Identifier: BSD-2-Clause
/*
 * The life of one request with an engine that has several in flight.
 *
 * What only the owner of a file may do (checks, the hook, keeping its length) happens in the owner's
 * thread, before a request starts and after it has ended. In between lie bare system calls, each by
 * the engine or by a helper thread, or else a whole call of lib/io that a helper makes on a copy of
 * struct file. Here alone is decided what a short, interrupted or refused transfer means.
 *
 * A request is loose when it may write more than it changes: a direct write of a part of a block
 * writes back the rest of the block, and setting the length of a file could cut off what others have
 * added. Such requests run while nothing else writes there. Writing the end of a direct file, or setting
 * its length, is done alone: file_direct.c tells why.
 *
 * What is written through the page cache to a file that is EAGER goes on to storage while more is
 * written, so that the sync at the end has little left to wait for.
 *
 * Writes through the page cache to one file exclude each other in the kernel. Several threads still do
 * more of them in the same time than one, but spin; that is a loss where the processors have other work.
 * The file is SERIAL then: one helper at a time writes to it, and goes on with the next by itself.
 */
#include "io/ioq_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/range.h"
#include "io/sparse.h"

/* One system call moves less than 2 GiB. */
#define MOST_PIECE GIB

/* Written to an EAGER file before the kernel is told to start. */
#define EAGER_PIECE (32 * MIB)

/* ---- order ---- */

static bool unaligned(const struct ioq_req *r)
{
	const struct file *f = r->file;

	return f->direct_align && !(is_aligned(r->off | r->len, f->direct_align) &&
				    is_aligned((uintptr_t)r->buf, f->direct_memory));
}

/* A request that is done in place, since it sets the length of the file. */
static bool sets_length(const struct ioq_req *r)
{
	return r->op == IOQ_ZERO && !r->file->device && r->off + r->len > r->file->size;
}

/* Finds out what the request may write, and how it bears others beside it. */
static void span(const struct ioq_req *r, struct ioq_span *s)
{
	struct range outer;

	*s = (struct ioq_span){ .from = 0 };
	/* Those out of range fail without writing. */
	if (r->op == IOQ_READ || r->op == IOQ_SYNC || !r->len ||
	    !range_within(r->off, r->len, INT64_MAX))
		return;
	s->from = r->off;
	s->to = r->off + r->len;
	if (r->op == IOQ_DISCARD)
		return;
	s->loose = unaligned(r);
	s->alone = direct_ends(r->file, r->off, r->len);
	if (s->loose) {
		outer = range_outer(r->off, r->len, r->file->direct_align);
		s->from = outer.start;
		s->to = range_end(&outer);
	}
	if (sets_length(r)) {
		s->from = min_u64(s->from, r->file->size);
		s->to = UINT64_MAX;
		s->loose = true;
		s->alone = r->file->direct_align;
	}
}

bool ioq_must_wait(const struct ioq *q, const struct ioq_req *r)
{
	const struct file *f = r->file;
	const struct ioq_io *io;
	struct ioq_span s;
	unsigned i;

	if (f->resting)
		return true;
	span(r, &s);
	if (!s.alone && !q->alone && !f->refused && !s.loose && !q->loose)
		return false;
	for (i = 0; i < q->depth; i++) {
		io = &q->slot[i];
		if (!io->req || io->req->file != f)
			continue;
		if (s.alone || io->span.alone || f->refused ||
		    ((s.loose || io->span.loose) && s.from < io->span.to && io->span.from < s.to))
			return true;
	}
	return false;
}

/* ---- ends ---- */

/* The request that had it goes elsewhere. */
static struct ioq_req *free_slot(struct ioq *q, struct ioq_io *io)
{
	struct ioq_req *r = io->req;

	if (io->span.loose)
		q->loose--;
	if (io->span.alone)
		q->alone--;
	if (io->flying) {
		r->file->flying--;
		r->file->alone = false;
	}
	if (io->grows)
		r->file->growing--;
	if (q->engine->whole)
		q->engaged--;
	io->req = NULL;
	io->next = q->free;
	q->free = io;
	q->running--;
	return r;
}

void ioq_finish(struct ioq *q, struct ioq_io *io)
{
	ioq_list_add(&q->finished, free_slot(q, io));
}

/* The file refuses direct transfers: this starts again when nothing of it is in flight. */
static void start_again(struct ioq *q, struct ioq_io *io)
{
	struct ioq_req *r = free_slot(q, io);

	r->file->refused = r->file->direct_align;
	r->code = 0;
	ioq_list_add_first(&q->held, r);
}

static struct qimg_error *error_of(const struct ioq_req *r, struct qimg_error *own)
{
	return r->error ? r->error : own;
}

static void end_transfer(struct ioq *q, struct ioq_io *io, int code)
{
	struct qimg_error own;
	struct ioq_req *r = io->req;
	size_t left = r->len - io->done;

	if (r->op == IOQ_WRITE) {
		file_changed(r->file, r->off, r->len);
		if (io->done)
			file_grown(r->file, r->off + io->done);
	}
	if (code)
		file_failed(r->file, r->op == IOQ_WRITE, r->off + io->done, left, code,
			    error_of(r, &own));
	else if (r->op == IOQ_READ)
		memset((char *)r->buf + io->done, 0, left);
	r->code = code;
	ioq_finish(q, io);
}

/*
 * The kernel tells only one of several syncs at the same time that data was lost: none of them has
 * succeeded before all have.
 */
static void end_sync(struct ioq *q, struct ioq_io *io, int code)
{
	struct file *f = io->req->file;
	struct qimg_error own;
	unsigned i;

	if (code && !f->sync_error)
		f->sync_error = code;
	io->settled = true;
	for (i = 0; i < q->depth; i++) {
		io = &q->slot[i];
		if (io->req && io->req->file == f && io->way == IOQ_DATASYNC && !io->settled)
			return;
	}
	for (i = 0; i < q->depth; i++) {
		io = &q->slot[i];
		if (!io->req || io->req->file != f || io->way != IOQ_DATASYNC)
			continue;
		io->req->code = f->sync_error;
		if (f->sync_error)
			file_sync_failed(f, error_of(io->req, &own));
		ioq_finish(q, io);
	}
}

/* Takes over what a helper's call has learned about the file. */
static void end_call(struct ioq *q, struct ioq_io *io, int code)
{
	struct ioq_req *r = io->req;
	struct file *f = r->file;

	f->missing |= io->shadow.missing;
	f->zeroed_by |= io->shadow.zeroed_by;
	if (io->span.alone)
		f->through = io->shadow.through;
	if (io->shadow.refused && code) {
		start_again(q, io);
		return;
	}
	f->refused |= io->shadow.refused;
	if (r->op != IOQ_READ) {
		file_changed(f, r->off, r->len);
		file_grown(f, io->shadow.size);
	}
	r->code = code;
	ioq_finish(q, io);
}

/* ---- starting ---- */

/* What a request asks for, on f, from `done` on. 0, or the errno value, never without one. */
static int perform(const struct ioq_req *r, struct file *f, size_t done)
{
	struct qimg_error own = { .code = 0 }, *e = error_of(r, &own);
	int ret = -1;

	e->code = 0;
	switch (r->op) {
	case IOQ_READ:
		ret = file_read(f, r->off + done, (char *)r->buf + done, r->len - done, e);
		break;
	case IOQ_WRITE:
		ret = file_write(f, r->off + done, (char *)r->buf + done, r->len - done, e);
		break;
	case IOQ_SYNC:
		ret = file_sync(f, e);
		break;
	case IOQ_ZERO:
		ret = sparse_zero(f, r->off, r->len, r->flags, NULL, e);
		break;
	case IOQ_DISCARD:
		ret = sparse_discard(f, r->off, r->len, e);
		break;
	}
	return !ret ? 0 : e->code ? e->code : EIO;
}

void ioq_perform(struct ioq_req *r)
{
	r->code = perform(r, r->file, 0);
}

size_t ioq_piece(const struct ioq_io *io)
{
	return (size_t)min_u64(io->req->len - io->done, MOST_PIECE);
}

/* Runs in a helper thread, or in place where there are none. */
static void help(struct pool_job *job, unsigned worker)
{
	struct ioq_io *io = (struct ioq_io *)((char *)job - offsetof(struct ioq_io, job));
	const struct ioq_req *r = io->req;
	int fd = r->file->fd;
	void *at = ioq_rest(io);
	off_t off = (off_t)(r->off + io->done);

	(void)worker;
	switch (io->way) {
	case IOQ_TRANSFER:
		io->result = r->op == IOQ_READ ? pread(fd, at, ioq_piece(io), off) :
			     pwrite(fd, at, ioq_piece(io), off);
		if (io->result < 0)
			break;
		/* This is a hint: errors do not matter. */
		if (io->urge)
			sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
		return;
	case IOQ_DATASYNC:
		io->result = fdatasync(fd);
		break;
	case IOQ_FALLOCATE:
		io->result = fallocate(fd, io->mode, (off_t)io->off, (off_t)io->len);
		break;
	case IOQ_CALL:
		io->result = -perform(r, &io->shadow, io->done);
		return;
	}
	if (io->result < 0)
		io->result = -errno;
}

#define COMPANY 16		/* small transfers that are started together */
#define ENOUGH 8		/* that a device has to do */

void ioq_pace(struct ioq *q, bool all_ended)
{
	q->batch = all_ended ? (unsigned)min_u64(2 * (uint64_t)q->batch, q->depth) : 1;
}

bool ioq_is_due(const struct ioq *q, const struct ioq_io *io, unsigned pending)
{
	bool busy = q->engaged >= pending + ENOUGH;

	return pending >= (busy && ioq_piece(io) < IOQ_BIG ? max_u64(q->batch, COMPANY) : q->batch);
}

static bool is_serial(const struct ioq *q, const struct ioq_io *io)
{
	const struct ioq_req *r = io->req;

	return r->file->flags & FILE_SERIAL && io->way == IOQ_TRANSFER && r->op == IOQ_WRITE &&
	       !io->direct && (!q->serial || q->serial_file == r->file);
}

void ioq_hand_over(struct ioq *q, struct ioq_io *io)
{
	io->helped = true;
	io->serial = is_serial(q, io);
	if (io->serial) {
		q->serial++;
		q->serial_file = io->req->file;
	}
	q->helping++;
	io->job.run = help;
	if (ioq_need_helpers(q)) {
		(io->serial ? pool_submit_serial : pool_submit)(q->helpers, &io->job);
		return;
	}
	help(&io->job, 0);
	ioq_advance(q, io, io->result);
}

/* hook: what the hook said. */
static void start_call(struct ioq *q, struct ioq_io *io, int hook)
{
	io->way = IOQ_CALL;
	io->shadow = *io->req->file;
	io->shadow.shadow = true;
	io->shadow.hook_code = hook;
	io->shadow.growing = 0;
	ioq_hand_over(q, io);
}

/*
 * Reading what the page cache has is copying, which the owner is busy with, whatever the engine. A helper
 * copies meanwhile where there is a processor for it, the owner has something else to do, and the one that
 * writes is not far behind.
 */
static bool shares_work(const struct ioq *q, const struct ioq_io *io)
{
	return io->way == IOQ_TRANSFER && io->req->op == IOQ_READ && !io->direct &&
	       ioq_piece(io) >= IOQ_BIG && q->helping - q->serial < q->spare && q->serial <= 2 &&
	       (q->running > 1 || q->finished.first);
}

static void start_piece(struct ioq *q, struct ioq_io *io)
{
	if (shares_work(q, io)) {
		ioq_hand_over(q, io);
		return;
	}
	io->helped = false;
	q->engaged++;
	if (q->engine->start && q->engine->start(q, io))
		return;
	q->engaged--;
	ioq_hand_over(q, io);
}

/* Goes on with a transfer after a piece of it. What breaks the rules of O_DIRECT becomes a call. */
static void next_piece(struct ioq *q, struct ioq_io *io)
{
	const struct file *f = io->req->file;

	io->direct = f->direct_align;
	if (f->direct_align && (unaligned(io->req) || !is_aligned(io->done, f->direct_align)))
		start_call(q, io, 0);
	else
		start_piece(q, io);
}

static void advance_transfer(struct ioq *q, struct ioq_io *io, ssize_t result)
{
	struct ioq_req *r = io->req;
	int code = result < 0 ? (int)-result : 0;

	if (code == EINVAL && io->direct) {
		start_again(q, io);
		return;
	}
	if (code == EAGAIN) {
		start_call(q, io, 0);
		return;
	} else if (code && code != EINTR) {
		end_transfer(q, io, code);
		return;
	}
	if (!code) {
		io->done += (size_t)result;
		/* Direct reads end in the midst of a block only where the file does. */
		if (io->done == r->len || (r->op == IOQ_READ && (!result || (io->direct &&
		    !is_aligned(io->done, max_u64(r->file->direct_align, 1)))))) {
			end_transfer(q, io, 0);
			return;
		}
		if (!result) {
			end_transfer(q, io, EIO);
			return;
		}
	}
	next_piece(q, io);
}

static void advance_fallocate(struct ioq *q, struct ioq_io *io, ssize_t result)
{
	if (result == -EINTR) {
		start_piece(q, io);
	} else if (result) {
		/* There are other ways, and reasons not to care. */
		start_call(q, io, 0);
	} else {
		file_changed(io->req->file, io->off, io->len);
		if (io->req->op == IOQ_ZERO)
			io->req->file->zeroed_by |= 1U << (io->mode & FALLOC_FL_PUNCH_HOLE ?
							   SPARSE_PUNCH : SPARSE_ZERO_RANGE);
		ioq_finish(q, io);
	}
}

void ioq_advance(struct ioq *q, struct ioq_io *io, ssize_t result)
{
	if (io->helped) {
		q->helping--;
		q->serial -= io->serial;
	} else {
		q->engaged--;
	}
	switch (io->way) {
	case IOQ_TRANSFER:
		advance_transfer(q, io, result);
		break;
	case IOQ_DATASYNC:
		if (result == -EINTR)
			start_piece(q, io);
		else
			end_sync(q, io, (int)-result);
		break;
	case IOQ_FALLOCATE:
		advance_fallocate(q, io, result);
		break;
	case IOQ_CALL:
		end_call(q, io, (int)-result);
		break;
	}
}

static void note_unsynced(struct ioq_io *io)
{
	struct file *f = io->req->file;

	if (!(f->flags & FILE_EAGER) || f->direct_align)
		return;
	f->unsynced += io->req->len;
	io->urge = f->unsynced >= EAGER_PIECE;
	if (io->urge)
		f->unsynced = 0;
}

/* A transfer that has passed file_check_change. */
static void begin_transfer(struct ioq *q, struct ioq_io *io)
{
	struct ioq_req *r = io->req;
	bool write = r->op == IOQ_WRITE;
	int code;

	io->way = IOQ_TRANSFER;
	code = file_hook_call(r->file, write ? FILE_OP_WRITE : FILE_OP_READ, r->off,
			      write ? r->buf : NULL, r->len);
	if (!code && !range_within(r->off, r->len, INT64_MAX))
		code = write ? EFBIG : EINVAL;
	if (code || !r->len) {
		end_transfer(q, io, code);
		return;
	}
	if (write)
		note_unsynced(io);
	if (write && r->off + r->len > r->file->size) {
		io->grows = true;
		r->file->growing++;
	}
	next_piece(q, io);
}

/* Requests that end at once, or may only be done by the owner: file.c and sparse.c do it all. */
static bool in_place(const struct ioq_req *r)
{
	if (r->op == IOQ_READ)
		return false;
	if (r->file->sync_error)
		return true;
	if (r->op == IOQ_SYNC)
		return r->file->flags & FILE_NO_SYNC;
	return !(r->file->flags & FILE_WRITE) || !r->len || sets_length(r);
}

/*
 * ZERO, DISCARD: one fallocate where that can do it. Else a helper makes the whole call, and gets the
 * answer of the hook in the copy of the file.
 */
static void begin_clear(struct ioq *q, struct ioq_io *io)
{
	struct ioq_req *r = io->req;
	struct range range = { r->off, r->len };
	int code = 0;

	if (r->op == IOQ_DISCARD)
		range = sparse_discard_range(r->file, r->off, r->len);
	if (range.len)
		code = file_hook_call(r->file, r->op == IOQ_ZERO ? FILE_OP_ZERO : FILE_OP_PUNCH,
				      range.start, NULL, range.len);
	io->mode = sparse_fallocate_mode(r->file, r->op == IOQ_DISCARD ? SPARSE_UNMAP : r->flags);
	if (code || !io->mode || !range.len || !range_within(range.start, range.len, r->file->size)) {
		start_call(q, io, code);
		return;
	}
	io->way = IOQ_FALLOCATE;
	io->off = range.start;
	io->len = range.len;
	start_piece(q, io);
}

static void begin_sync(struct ioq *q, struct ioq_io *io)
{
	int code = file_hook_call(io->req->file, FILE_OP_SYNC, 0, NULL, 0);

	io->way = IOQ_DATASYNC;
	if (code)
		end_sync(q, io, code);
	else
		start_piece(q, io);
}

void ioq_begin(struct ioq *q, struct ioq_io *io)
{
	struct ioq_req *r = io->req;

	io->done = 0;
	io->way = IOQ_CALL;
	io->grows = io->settled = io->direct = io->urge = io->flying = false;
	if (r->file->refused)
		direct_disable(r->file, "it refuses direct I/O");
	span(r, &io->span);
	q->loose += io->span.loose;
	q->alone += io->span.alone;
	if (q->engine->whole) {
		q->engaged++;
		q->engine->start(q, io);
		return;
	}
	if (in_place(r)) {
		ioq_perform(r);
		ioq_finish(q, io);
		return;
	}
	io->flying = true;
	r->file->queue = q;
	r->file->flying++;
	r->file->alone = io->span.alone;
	if (r->op == IOQ_READ || r->op == IOQ_WRITE) {
		begin_transfer(q, io);
	} else if (r->op == IOQ_SYNC) {
		begin_sync(q, io);
	} else {
		begin_clear(q, io);
	}
}
