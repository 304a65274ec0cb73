/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Workers: threads that compress, inflate and scan. A job runs in one of them and comes back to the
 * thread that owns the pool; nothing else is shared.
 */
#ifndef IO_POOL_H
#define IO_POOL_H

#include <stdbool.h>

struct pool;
struct qimg_error;

/* As many CPUs as this process may use. */
unsigned pool_cpus(void);

struct pool_job {
	/* Runs in a worker. worker: 0 .. workers - 1, for state of its own; touches only the job. */
	void (*run)(struct pool_job *job, unsigned worker);
	struct pool_job *next;		/* the pool's */
	bool serial;			/* the pool's */
};

/*
 * workers 0: as many as CPUs this process may use. When the system has no more threads to give, fewer
 * are started; with none at all it is an error.
 */
int pool_new(struct pool **p, unsigned workers, struct qimg_error *e);
/* For jobs that mostly sleep: starts with one worker, and another one when all are busy, up to `most`. */
int pool_new_elastic(struct pool **p, unsigned most, struct qimg_error *e);
void pool_free(struct pool *p);		/* no jobs may be under way; NULL is allowed */
unsigned pool_workers(const struct pool *p);	/* elastic: how many it may have */
void pool_submit(struct pool *p, struct pool_job *job);
/*
 * For jobs that exclude each other anyway: one at a time, in order of submission. The worker that has one
 * goes on with the next without a way round by the owner.
 */
void pool_submit_serial(struct pool *p, struct pool_job *job);
/* A job that has run, in order of completion. NULL: none under way (wait), or none ready. */
struct pool_job *pool_reap(struct pool *p, bool wait);
/* Readable while pool_reap has something ready; -1: the system has none to give. */
int pool_fd(struct pool *p);

#endif
