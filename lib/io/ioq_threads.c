// SPDX-License-Identifier: BSD-2-Clause
/*
 * The engine that lets threads do it. What the page cache holds is read at once, without a thread.
 */
#include "io/ioq_priv.h"

#include <errno.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/error.h"

static int threads_open(struct ioq *q, const char *arg, struct qimg_error *e)
{
	(void)arg;
	q->most_helpers = (unsigned)min_u64(q->depth, MOST_THREADS);
	if (!ioq_need_helpers(q))
		return error_set(e, EAGAIN, "The I/O engine 'threads' can not be used: no thread could be "
				 "started");
	return 0;
}

bool ioq_read_cached(struct ioq *q, struct ioq_io *io)
{
	const struct ioq_req *r = io->req;
	struct iovec v = { ioq_rest(io), ioq_piece(io) };
	ssize_t n;

	/* Direct reads would sleep, whatever the flag says. */
	if (io->way != IOQ_TRANSFER || r->op != IOQ_READ || io->direct ||
	    (r->file->missing & MISSING_NOWAIT))
		return false;
	n = preadv2(r->file->fd, &v, 1, (off_t)(r->off + io->done), RWF_NOWAIT);
	if (n < 0) {
		if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
			r->file->missing |= MISSING_NOWAIT;
		return false;
	}
	ioq_advance(q, io, n);
	return true;
}

const struct ioq_engine ioq_threads_engine = {
	.name = "threads",
	.open = threads_open,
	.start = ioq_read_cached,
};
