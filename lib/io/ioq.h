/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue of I/O requests with an engine behind it. All I/O on guest data goes through here; engines
 * differ in how many requests they keep in flight. The queue and its requests belong to one thread.
 */
#ifndef IO_IOQ_H
#define IO_IOQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file;
struct qimg_error;
struct ioq;

enum ioq_op { IOQ_READ, IOQ_WRITE, IOQ_SYNC, IOQ_ZERO, IOQ_DISCARD };

enum {
	IOQ_METADATA = 1 << 30,	/* READ, WRITE: not guest data; some models tell the two apart */
};

struct ioq_req {		/* filled by the caller, who keeps it alive until it is reaped */
	enum ioq_op op;
	struct file *file;	/* stays open until then, too; in one queue at a time */
	uint64_t off;
	void *buf;		/* READ, WRITE */
	uint64_t len;
	unsigned flags;		/* ZERO: SPARSE_*; IOQ_METADATA */
	void *owner;		/* the caller's */
	/* Filled by the engine: 0 or an errno value, and the message that belongs to it. */
	int code;
	struct qimg_error *error;	/* the caller's, or NULL; filled when code is not 0 */
	struct ioq_req *next;	/* the queue's */
};

/*
 * engine: "sync", "threads", "native" (Linux AIO), "io_uring", "model=NAME"; NULL or "auto" for the best
 * that works here. depth: requests in flight at most, >= 1; an engine may have a lower limit of its own.
 */
int ioq_new(struct ioq **q, const char *engine, unsigned depth, struct qimg_error *e);
void ioq_free(struct ioq *q);	/* nothing may be in flight; NULL is allowed */
const char *ioq_engine_name(const struct ioq *q);
/*
 * Takes a request. It may start later: when fewer than `depth` are in flight, or together with others
 * with the next call that reaps. Never fails by itself.
 */
void ioq_submit(struct ioq *q, struct ioq_req *r);
/* The next completed request, in order of completion; NULL when nothing is in flight. Waits. */
struct ioq_req *ioq_reap(struct ioq *q);
/* The same without waiting: NULL when none has completed. Starts what was submitted. */
struct ioq_req *ioq_poll(struct ioq *q);
/*
 * Readable when there is reason to call ioq_poll: something has completed, or waits to be started.
 * -1: ioq_poll itself does the work, just call it.
 */
int ioq_fd(struct ioq *q);
/* Submits one request and waits for it. 0, or -1 with *e. Nothing else may be in flight. */
int ioq_run(struct ioq *q, struct ioq_req *r, struct qimg_error *e);

/* The engines "model=NAME" by number, and what the model is made after; NULL behind the last one. */
const char *ioq_model(unsigned i, const char **source);
bool ioq_is_model(const struct ioq *q);
/* How many ns a device as in the model would have taken so far; 0 with other engines. */
uint64_t ioq_model_now(const struct ioq *q);

#endif
