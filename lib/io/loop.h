/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The event loop of one thread: requests to an I/O engine, jobs for the CPU workers, and calls for later.
 * All completions are called from loop_step, in the thread that steps; they may start new work.
 * Images that are used together share a loop.
 */
#ifndef IO_LOOP_H
#define IO_LOOP_H

#include <stdbool.h>

#include "io/ioq.h"
#include "io/pool.h"
#include "qimg.h"

struct loop;

struct loop_io {
	struct ioq_req req;		/* filled by the caller; owner and error are the loop's */
	struct qimg_error error;	/* valid when req.code is not 0 */
	void (*done)(struct loop_io *io);
	bool held;			/* the loop's: it has completed, done was not called yet */
};

struct loop_job {
	struct pool_job job;		/* run is filled by the caller */
	void (*done)(struct loop_job *job);
};

struct loop_task {
	void (*call)(struct loop_task *task);
	struct loop_task *next;		/* the loop's */
};

/*
 * engine: an engine's name, or NULL for the best that works here. depth: I/O requests in flight at most.
 * workers: as for pool_new; the pool is started with the first job.
 */
int loop_new(struct loop **l, const char *engine, unsigned depth, unsigned workers,
	     struct qimg_error *e);
void loop_free(struct loop *l);		/* nothing may be under way; NULL is allowed */
const char *loop_engine(const struct loop *l);
uint64_t loop_model_now(const struct loop *l);	/* ioq_model_now */
/* Starts; never fails by itself: a failure arrives with the completion. */
void loop_io(struct loop *l, struct loop_io *io);
/* Blocks until io, which has been started, has completed. Its done, too, is called with the next step. */
void loop_await(struct loop *l, struct loop_io *io);
/* -1 with *e when the workers can't be started: the caller may run the job itself. */
int loop_job(struct loop *l, struct loop_job *job, struct qimg_error *e);
/* Calls the task with the next step. */
void loop_later(struct loop *l, struct loop_task *task);
/*
 * Calls what has completed. Waits for something to complete when `wait` is set and anything is under way.
 * Returns the number of calls made; 0 with wait: nothing is under way.
 */
unsigned loop_step(struct loop *l, bool wait);
bool loop_idle(const struct loop *l);
/* Readable while loop_step would make calls. -1: the engine completes at once, just step. */
int loop_fd(struct loop *l);

#endif
