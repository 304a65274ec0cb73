// SPDX-License-Identifier: BSD-2-Clause
/*
 * The engine for io_uring. Requests of one batch are handed to the kernel with one system call, the one
 * that also waits where something waits.
 */
#include "io/ioq_priv.h"

#include "config.h"

#ifdef HAVE_LIBURING

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"

static int set_up(struct io_uring *ring, unsigned depth)
{
	int ret = -EINVAL;

#ifdef IORING_SETUP_COOP_TASKRUN
	/* Completions need not interrupt us: we look for them when we have nothing else to do. */
	ret = io_uring_queue_init(depth, ring, IORING_SETUP_COOP_TASKRUN);
#endif
	return ret == -EINVAL ? io_uring_queue_init(depth, ring, 0) : ret;
}

static bool has_operations(struct io_uring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool has = probe && io_uring_opcode_supported(probe, IORING_OP_READ) &&
		   io_uring_opcode_supported(probe, IORING_OP_WRITE) &&
		   io_uring_opcode_supported(probe, IORING_OP_FSYNC) &&
		   io_uring_opcode_supported(probe, IORING_OP_FALLOCATE);

	free(probe);
	return has;
}

static int uring_open(struct ioq *q, const char *arg, struct qimg_error *e)
{
	struct io_uring *ring = mem_zalloc(sizeof(*ring), e);
	int ret;

	(void)arg;
	if (!ring)
		return -1;
	ret = set_up(ring, q->depth);
	if (!ret && !has_operations(ring)) {
		io_uring_queue_exit(ring);
		ret = -ENOSYS;
	}
	if (ret) {
		free(ring);
		return error_errno(e, -ret, "The I/O engine 'io_uring' can not be used");
	}
	q->state = ring;
	return 0;
}

static void uring_close(struct ioq *q)
{
	io_uring_queue_exit(q->state);
	free(q->state);
}

static void start_now(struct ioq *q)
{
	io_uring_submit(q->state);
	q->put_off = io_uring_sq_ready(q->state);
}

static bool uring_start(struct ioq *q, struct ioq_io *io)
{
	const struct ioq_req *r = io->req;
	void *at = ioq_rest(io);
	struct io_uring_sqe *sqe;

	/* Writing to the page cache is copying, which the kernel would do while it submits. */
	if (io->way == IOQ_TRANSFER && r->op == IOQ_WRITE && !io->direct)
		return false;
	sqe = io_uring_get_sqe(q->state);
	if (!sqe)
		return false;
	if (io->way == IOQ_DATASYNC)
		io_uring_prep_fsync(sqe, r->file->fd, IORING_FSYNC_DATASYNC);
	else if (io->way == IOQ_FALLOCATE)
		io_uring_prep_fallocate(sqe, r->file->fd, io->mode, (off_t)io->off, (off_t)io->len);
	else if (r->op == IOQ_READ)
		io_uring_prep_read(sqe, r->file->fd, at, (unsigned)ioq_piece(io), r->off + io->done);
	else
		io_uring_prep_write(sqe, r->file->fd, at, (unsigned)ioq_piece(io), r->off + io->done);
	io_uring_sqe_set_data(sqe, io);
	q->put_off = true;
	/* What the page cache has is copied by the call: sooner done, sooner somebody else can go on. */
	if (io->direct ? ioq_is_due(q, io, io_uring_sq_ready(q->state)) :
	    io->way == IOQ_TRANSFER && ioq_piece(io) >= IOQ_BIG)
		start_now(q);
	return true;
}

static void uring_poll(struct ioq *q, bool wait)
{
	struct io_uring *ring = q->state;
	struct io_uring_cqe *cqe;
	struct ioq_io *io;
	int result;

	/* Should it fail for lack of memory, the next poll tries again. */
	if (wait)
		io_uring_submit_and_wait(ring, 1);
	else if (q->put_off)
		io_uring_submit(ring);
	q->put_off = io_uring_sq_ready(ring);
	ioq_pace(q, io_uring_cq_ready(ring) == q->engaged);
	while (!io_uring_peek_cqe(ring, &cqe)) {
		io = io_uring_cqe_get_data(cqe);
		result = cqe->res;
		io_uring_cqe_seen(ring, cqe);
		ioq_advance(q, io, result);
	}
}

static int uring_fd(struct ioq *q)
{
	struct io_uring *ring = q->state;

	return ring->ring_fd;
}

const struct ioq_engine ioq_uring_engine = {
	.name = "io_uring",
	.open = uring_open,
	.close = uring_close,
	.start = uring_start,
	.poll = uring_poll,
	.fd = uring_fd,
};

#endif
