// SPDX-License-Identifier: BSD-2-Clause
/*
 * The engine that does one thing after the other, in the order of submission, when it is asked for it.
 */
#include "io/ioq_priv.h"

#include <stdlib.h>

#include "base/mem.h"

struct list {
	struct ioq_io *first, **last;
};

static int sync_open(struct ioq *q, const char *arg, struct qimg_error *e)
{
	struct list *l = mem_zalloc(sizeof(*l), e);

	(void)arg;
	if (!l)
		return -1;
	l->last = &l->first;
	q->state = l;
	return 0;
}

static void sync_close(struct ioq *q)
{
	free(q->state);
}

static bool sync_start(struct ioq *q, struct ioq_io *io)
{
	struct list *l = q->state;

	io->next = NULL;
	*l->last = io;
	l->last = &io->next;
	return true;
}

static void sync_poll(struct ioq *q, bool wait)
{
	struct list *l = q->state;
	struct ioq_io *io = l->first;

	(void)wait;
	l->first = io->next;
	if (!l->first)
		l->last = &l->first;
	ioq_perform(io->req);
	ioq_finish(q, io);
}

const struct ioq_engine ioq_sync_engine = {
	.name = "sync",
	.whole = true,
	.open = sync_open,
	.close = sync_close,
	.start = sync_start,
	.poll = sync_poll,
};
