// SPDX-License-Identifier: BSD-2-Clause
/*
 * The engine for Linux AIO, by its system calls. It is asynchronous for direct transfers only: through
 * the page cache io_submit would do the work itself, so that threads do it, as in the engine of that
 * name.
 *
 * What has ended is in a ring that the kernel maps into the process: it is read there, without a system call,
 * unless there is something to wait for. The event costs the kernel time with each request, so that they get
 * it only when somebody has asked for the descriptor.
 */
#include "io/ioq_priv.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"

/* What aio_context_t points to. */
struct ring {
	uint32_t id, size, head, tail;	/* from head to tail: ended, and not taken yet */
	uint32_t magic, compatible, incompatible, header_length;
	struct io_event event[];
};

#define RING_MAGIC 0xa10a10a1

struct aio {
	aio_context_t context;
	int event;			/* -1: there is none */
	bool watched;			/* somebody waits for it */
	unsigned silent;		/* under way, or to be submitted, without it */
	unsigned pending;
	struct iocb **start;		/* the first `pending` are not submitted yet */
	struct iocb *cb;		/* by slot */
	struct io_event *done;
};

static void aio_free(struct aio *a)
{
	if (a->context)
		syscall(SYS_io_destroy, a->context);
	if (a->event >= 0)
		close(a->event);
	free(a->start);
	free(a->cb);
	free(a->done);
	free(a);
}

static int aio_open(struct ioq *q, const char *arg, struct qimg_error *e)
{
	struct aio *a = mem_zalloc(sizeof(*a), e);
	long ret;

	(void)arg;
	if (!a)
		return -1;
	/* All queues on the machine share /proc/sys/fs/aio-max-nr: make do with less. */
	while ((ret = syscall(SYS_io_setup, q->depth, &a->context)) && errno == EAGAIN && q->depth > 1)
		q->depth /= 2;
	a->event = ret ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ret || a->event < 0) {
		error_errno(e, errno, "The I/O engine 'native' can not be used");
		a->context = ret ? 0 : a->context;
		a->event = -1;
		aio_free(a);
		return -1;
	}
	a->start = mem_array(q->depth, sizeof(a->start[0]), e);
	a->cb = a->start ? mem_array(q->depth, sizeof(a->cb[0]), e) : NULL;
	a->done = a->cb ? mem_array(q->depth, sizeof(a->done[0]), e) : NULL;
	if (!a->done) {
		aio_free(a);
		return -1;
	}
	q->most_helpers = (unsigned)min_u64(q->depth, MOST_THREADS);
	q->state = a;
	return 0;
}

static void aio_close(struct ioq *q)
{
	aio_free(q->state);
}

static void take_pending(struct aio *a, unsigned n)
{
	a->pending -= n;
	memmove(a->start, a->start + n, a->pending * sizeof(a->start[0]));
}

static void ended(struct ioq *q, uint64_t slot, ssize_t result)
{
	struct aio *a = q->state;

	a->silent -= !(a->cb[slot].aio_flags & IOCB_FLAG_RESFD);
	ioq_advance(q, &q->slot[slot], result);
}

static void submit(struct ioq *q)
{
	struct aio *a = q->state;
	uint64_t slot;
	long n;

	while (a->pending) {
		n = syscall(SYS_io_submit, a->context, (long)a->pending, a->start);
		if (n > 0) {
			take_pending(a, (unsigned)n);
			continue;
		}
		/* It refuses the first one. */
		slot = a->start[0]->aio_data;
		take_pending(a, 1);
		ended(q, slot, n ? -errno : -EAGAIN);
	}
	q->put_off = false;
}

static bool aio_start(struct ioq *q, struct ioq_io *io)
{
	struct aio *a = q->state;
	struct iocb *cb = &a->cb[io - q->slot];
	const struct ioq_req *r = io->req;

	if (!io->direct)
		return ioq_read_cached(q, io);
	if (io->way != IOQ_TRANSFER)
		return false;
	memset(cb, 0, sizeof(*cb));
	cb->aio_data = (uint64_t)(io - q->slot);
	cb->aio_lio_opcode = r->op == IOQ_READ ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
	cb->aio_fildes = (uint32_t)r->file->fd;
	cb->aio_buf = (uintptr_t)r->buf + io->done;
	cb->aio_nbytes = ioq_piece(io);
	cb->aio_offset = (int64_t)(r->off + io->done);
	cb->aio_flags = a->watched ? IOCB_FLAG_RESFD : 0;
	a->silent += !a->watched;
	cb->aio_resfd = (uint32_t)a->event;
	a->start[a->pending++] = cb;
	q->put_off = true;
	if (ioq_is_due(q, io, a->pending))
		submit(q);
	return true;
}

/* Those that have ended, into a->done. -1: the ring is of a kind not known here. */
static long look(struct aio *a, unsigned most)
{
	struct ring *r;
	uint32_t head, tail;
	long n = 0;

	/* The kernel gives an address as a number. */
	memcpy(&r, &a->context, sizeof(r));
	head = r->head;
	tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
	if (r->magic != RING_MAGIC || r->incompatible)
		return -1;
	while (n < (long)most && head != tail) {
		a->done[n++] = r->event[head];
		head = head + 1 < r->size ? head + 1 : 0;
	}
	if (n)
		__atomic_store_n(&r->head, head, __ATOMIC_RELEASE);
	return n;
}

static void aio_poll(struct ioq *q, bool wait)
{
	struct aio *a = q->state;
	eventfd_t count;
	long n, i;

	submit(q);
	/* First this, then what it stands for, so that none is overlooked. */
	if (a->watched)
		eventfd_read(a->event, &count);
	/* A request that was refused may have ended by now. */
	if (!q->engaged)
		return;
	wait = wait && !q->finished.first;
	n = look(a, q->depth);
	if (n < 0 || (!n && wait))
		n = syscall(SYS_io_getevents, a->context, (long)wait, (long)q->depth, a->done, NULL);
	ioq_pace(q, n == (long)q->engaged);
	for (i = 0; i < n; i++)
		ended(q, a->done[i].data, (ssize_t)a->done[i].res);
	/* Those who wait for the event have to come back for these. */
	if (a->watched && a->silent)
		eventfd_write(a->event, 1);
}

static int aio_fd(struct ioq *q)
{
	struct aio *a = q->state;

	if (!a->watched && a->silent)
		eventfd_write(a->event, 1);
	a->watched = true;
	return a->event;
}

const struct ioq_engine ioq_aio_engine = {
	.name = "native",
	.open = aio_open,
	.close = aio_close,
	.start = aio_start,
	.poll = aio_poll,
	.fd = aio_fd,
};
