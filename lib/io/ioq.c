// SPDX-License-Identifier: BSD-2-Clause
/*
 * The request queue. It knows what is independent of engines: the order of submission, and the limit
 * on requests in flight.
 */
#include "io/ioq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/ioq_priv.h"
#include "io/sparse.h"

static const struct ioq_engine *const engines[] = { &ioq_sync_engine };

void ioq_list_init(struct ioq_list *l)
{
	l->first = NULL;
	l->last = &l->first;
}

void ioq_list_add(struct ioq_list *l, struct ioq_req *r)
{
	r->next = NULL;
	*l->last = r;
	l->last = &r->next;
}

struct ioq_req *ioq_list_take(struct ioq_list *l)
{
	struct ioq_req *r = l->first;

	if (r) {
		l->first = r->next;
		if (!l->first)
			l->last = &l->first;
		r->next = NULL;
	}
	return r;
}

int ioq_new(struct ioq **q, const char *engine, unsigned depth, struct qimg_error *e)
{
	struct ioq *n;
	size_t i;

	if (!depth)
		return error_set(e, EINVAL, "An I/O queue needs a depth of at least 1");
	for (i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		if (!strcmp(engines[i]->name, engine))
			break;
	}
	if (i == sizeof(engines) / sizeof(engines[0]))
		return error_set(e, EINVAL, "Unknown I/O engine '%s'", engine);
	n = mem_zalloc(sizeof(*n), e);
	if (!n)
		return -1;
	n->engine = engines[i];
	n->depth = depth;
	ioq_list_init(&n->held);
	ioq_list_init(&n->started);
	if (n->engine->open && n->engine->open(n, e)) {
		free(n);
		return -1;
	}
	*q = n;
	return 0;
}

void ioq_free(struct ioq *q)
{
	if (!q)
		return;
	if (q->engine->close)
		q->engine->close(q);
	free(q);
}

static void start_held(struct ioq *q)
{
	struct ioq_req *r;

	while (q->running < q->depth && (r = ioq_list_take(&q->held))) {
		q->running++;
		q->engine->start(q, r);
	}
}

void ioq_submit(struct ioq *q, struct ioq_req *r)
{
	r->code = 0;
	ioq_list_add(&q->held, r);
	start_held(q);
}

struct ioq_req *ioq_reap(struct ioq *q)
{
	struct ioq_req *r;

	if (!q->running)
		return NULL;
	r = q->engine->wait(q);
	q->running--;
	start_held(q);
	return r;
}

int ioq_run(struct ioq *q, struct ioq_req *r, struct qimg_error *e)
{
	r->error = e;
	ioq_submit(q, r);
	ioq_reap(q);
	return r->code ? -1 : 0;
}

void ioq_perform(struct ioq_req *r)
{
	struct qimg_error own = { .code = 0 }, *e = r->error ? r->error : &own;
	int ret = -1;

	switch (r->op) {
	case IOQ_READ:
		ret = file_read(r->file, r->off, r->buf, r->len, e);
		break;
	case IOQ_WRITE:
		ret = file_write(r->file, r->off, r->buf, r->len, e);
		break;
	case IOQ_SYNC:
		ret = file_sync(r->file, e);
		break;
	case IOQ_ZERO:
		ret = sparse_zero(r->file, r->off, r->len, r->flags, NULL, e);
		break;
	case IOQ_DISCARD:
		ret = sparse_discard(r->file, r->off, r->len, e);
		break;
	}
	/* 0 means success to those who look at the code alone. */
	r->code = !ret ? 0 : e->code ? e->code : EIO;
}
