/* SPDX-License-Identifier: BSD-2-Clause */
/* What an I/O engine is, for lib/io alone. */
#ifndef IO_IOQ_PRIV_H
#define IO_IOQ_PRIV_H

#include "io/ioq.h"

struct ioq_engine {
	const char *name;
	int (*open)(struct ioq *q, struct qimg_error *e);	/* may set q->state */
	void (*close)(struct ioq *q);
	/* Takes one request; the queue sees to it that at most q->depth are with the engine. */
	void (*start)(struct ioq *q, struct ioq_req *r);
	/* Waits for one of the requests it has, and gives it back. */
	struct ioq_req *(*wait)(struct ioq *q);
};

extern const struct ioq_engine ioq_sync_engine;

struct ioq_list {
	struct ioq_req *first, **last;
};

void ioq_list_init(struct ioq_list *l);
void ioq_list_add(struct ioq_list *l, struct ioq_req *r);
struct ioq_req *ioq_list_take(struct ioq_list *l);	/* the first one, or NULL */

struct ioq {
	const struct ioq_engine *engine;
	unsigned depth, running;
	struct ioq_list held;		/* submitted, not started */
	struct ioq_list started;	/* the sync engine's */
	void *state;			/* of other engines */
};

/* Does what r says, now, with plain system calls, and fills code and error. */
void ioq_perform(struct ioq_req *r);

#endif
