/* SPDX-License-Identifier: BSD-2-Clause */
/* What an I/O engine is, for lib/io alone. */
#ifndef IO_IOQ_PRIV_H
#define IO_IOQ_PRIV_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "io/file_priv.h"
#include "io/ioq.h"
#include "io/pool.h"

/* As many threads of an engine that lives on them sleep in system calls at most. */
#define MOST_THREADS 64

/* A copy that takes longer than to have another thread make it. */
#define IOQ_BIG (64 * KIB)

enum ioq_way {
	IOQ_TRANSFER,		/* pread or pwrite of what is left, once */
	IOQ_DATASYNC,		/* fdatasync */
	IOQ_FALLOCATE,		/* fallocate of a range */
	IOQ_CALL,		/* anything else, in a helper thread and on a copy of struct file */
};

struct ioq_span {
	uint64_t from, to;	/* what it may write */
	bool loose;		/* this may be more than what it changes: see ioq_must_wait */
	bool alone;		/* nothing else of the file may be in flight */
};

struct ioq_io {			/* a request that has been started */
	struct ioq_req *req;	/* NULL: the slot is free */
	struct ioq_io *next;	/* of free slots; the engine's while it has the request */
	enum ioq_way way;
	int mode;		/* FALLOCATE */
	uint64_t off, len;	/* FALLOCATE */
	bool direct;		/* TRANSFER: to be done past the page cache */
	bool flying;		/* counted in file->flying */
	bool helped;		/* a helper thread has it, not the engine */
	bool serial;		/* and not while another serial one runs */
	bool urge;		/* TRANSFER: tell the kernel to start writing to storage */
	bool grows;		/* counted in file->growing */
	bool settled;		/* DATASYNC: done, but others of this file are not */
	struct ioq_span span;
	size_t done;		/* bytes moved so far */
	ssize_t result;		/* a helper's: bytes moved, or minus an errno value */
	uint64_t due;		/* the model's */
	struct pool_job job;
	struct file shadow;	/* CALL: the copy */
};

struct ioq_engine {
	const char *name;	/* with a '=' at its end: an argument follows */
	/* start does the whole request by itself, at any time until poll, and calls ioq_finish. */
	bool whole;
	/* NULL: nothing to set up. */
	int (*open)(struct ioq *q, const char *arg, struct qimg_error *e);
	void (*close)(struct ioq *q);
	/*
	 * Takes what is no CALL, to be reported with ioq_advance (or has done it already, and
	 * has). May put off the start until poll. false: a helper thread shall do it.
	 */
	bool (*start)(struct ioq *q, struct ioq_io *io);
	/* Starts what was put off and reports what is done; NULL: the engine never keeps any. */
	void (*poll)(struct ioq *q, bool wait);
	/* Readable when poll has something to report; NULL: poll never waits. */
	int (*fd)(struct ioq *q);
};

extern const struct ioq_engine ioq_sync_engine, ioq_threads_engine, ioq_aio_engine, ioq_uring_engine,
			       ioq_model_engine;

struct ioq_list {
	struct ioq_req *first, **last;
};

void ioq_list_init(struct ioq_list *l);
void ioq_list_add(struct ioq_list *l, struct ioq_req *r);
void ioq_list_add_first(struct ioq_list *l, struct ioq_req *r);
struct ioq_req *ioq_list_take(struct ioq_list *l);	/* the first one, or NULL */

struct ioq {
	const struct ioq_engine *engine;
	const char *name;
	void *state;			/* the engine's */
	unsigned depth;
	struct ioq_list held;		/* submitted, not started */
	struct ioq_list finished;	/* not reaped yet */
	unsigned running;		/* in slots: */
	unsigned helping;		/*   with helper threads */
	unsigned serial;		/*   of these, one at a time, all for one file: */
	const struct file *serial_file;
	unsigned engaged;		/*   with the engine */
	unsigned loose;			/*   with `loose` set */
	unsigned alone;			/*   with `alone` set */
	bool put_off;			/* the engine has some that it has not started */
	unsigned batch;			/* so many are started at once: see ioq_pace */
	struct pool *helpers;		/* made when first needed */
	bool no_helpers;		/* there can be none */
	unsigned most_helpers;
	unsigned spare;			/* processors beside the owner's */
	int epoll, event;		/* for ioq_fd; -1: never asked for */
	bool event_set;
	struct ioq_io *free;
	struct ioq_io *slot;		/* depth of them */
};

/* Where the rest of a transfer goes, or comes from; NULL with syncs and the like. */
static inline void *ioq_rest(const struct ioq_io *io)
{
	return io->req->buf ? (char *)io->req->buf + io->done : NULL;
}

/* ---- ioq_io.c: the life of a request that has been started ---- */

/* The request may not start while others that are running do. */
bool ioq_must_wait(const struct ioq *q, const struct ioq_req *r);
void ioq_begin(struct ioq *q, struct ioq_io *io);
/* A piece of it is done: `result` bytes, or minus an errno value. Goes on, or finishes the request. */
void ioq_advance(struct ioq *q, struct ioq_io *io, ssize_t result);
/* The request is done; its code and error are set. Frees the slot. */
void ioq_finish(struct ioq *q, struct ioq_io *io);
/* Reads from the page cache what lies there. false: it did nothing. */
bool ioq_read_cached(struct ioq *q, struct ioq_io *io);
/*
 * A call that starts more than two transfers keeps them all back from the device until it has seen the last
 * one: a device that takes its time stands idle meanwhile, and then the owner does. So an engine starts few
 * at a time, and more as long as it finds that all it had started has ended.
 */
void ioq_pace(struct ioq *q, bool all_ended);
/*
 * Whether what was kept back, `pending` with this one, is to be started now. Small ones may wait for company while the
 * device has enough to do.
 */
bool ioq_is_due(const struct ioq *q, const struct ioq_io *io, unsigned pending);
/* Lets a helper thread do it. */
void ioq_hand_over(struct ioq *q, struct ioq_io *io);
/* ioq.c: makes the helper threads; false: there can be none. */
bool ioq_need_helpers(struct ioq *q);
/*
 * ioq.c: for the owner of a file who is about to change it without the queue: waits until nothing of the
 * file is in flight. What ends meanwhile is to be reaped as ever.
 */
void ioq_settle(struct file *f);
/* What is left of a TRANSFER, as one call can move it. */
size_t ioq_piece(const struct ioq_io *io);
/* ioq_model.c: an operation on f without a queue. */
void ioq_meter_charge(struct ioq_meter *meter, struct file *f, enum file_op op, uint64_t off,
		      uint64_t len);
void ioq_meter_put(struct ioq_meter *meter);	/* of a file; NULL is allowed */
/* Does what r says, now, with plain system calls, and fills code and error. */
void ioq_perform(struct ioq_req *r);

#endif
