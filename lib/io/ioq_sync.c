// SPDX-License-Identifier: BSD-2-Clause
/*
 * The engine that does one thing after the other, in the order of submission, when it is waited for.
 */
#include "io/ioq_priv.h"

static void sync_start(struct ioq *q, struct ioq_req *r)
{
	ioq_list_add(&q->started, r);
}

static struct ioq_req *sync_wait(struct ioq *q)
{
	struct ioq_req *r = ioq_list_take(&q->started);

	ioq_perform(r);
	return r;
}

const struct ioq_engine ioq_sync_engine = {
	.name = "sync",
	.start = sync_start,
	.wait = sync_wait,
};
