// SPDX-License-Identifier: BSD-2-Clause
/*
 * The workers of a pool. One lock guards the lists, of jobs to run and of jobs that have run; it is
 * never held while a job runs. Of serial jobs one is run at a time.
 *
 * The descriptor costs a system call each time the last list stops or starts being empty, so it is
 * made only when somebody asks for it. It is readable exactly while that list is not empty.
 */
#include "io/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

/* More than any machine has CPUs, and than I/O has use for. */
#define MOST_WORKERS 4096

struct job_list {
	struct pool_job *first, **last;
};

struct worker {
	struct pool *pool;
	pthread_t thread;
};

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t work;		/* there is a job, or `stop` */
	pthread_cond_t ready;		/* a job has run */
	struct job_list jobs, serial, done;
	unsigned queued;		/* in jobs */
	bool serial_runs;		/* a worker has a serial job */
	unsigned idle;			/* workers that wait for a job */
	bool waiting;			/* the owner waits for `ready` */
	bool stop;
	int event;			/* an eventfd, or -1: nobody has asked for it */

	/* The owner's. */
	unsigned under_way, workers, most;
	struct worker worker[];
};

static void list_init(struct job_list *l)
{
	l->first = NULL;
	l->last = &l->first;
}

static void list_add(struct job_list *l, struct pool_job *job)
{
	job->next = NULL;
	*l->last = job;
	l->last = &job->next;
}

static struct pool_job *list_take(struct job_list *l)
{
	struct pool_job *job = l->first;

	if (job) {
		l->first = job->next;
		if (!l->first)
			l->last = &l->first;
		job->next = NULL;
	}
	return job;
}

static void event_set(int fd)
{
	while (eventfd_write(fd, 1) && errno == EINTR)
		;
}

static void event_clear(int fd)
{
	eventfd_t n;

	while (eventfd_read(fd, &n) && errno == EINTR)
		;
}

/* With the lock. Returns whether the owner has to be woken. */
static bool add_done(struct pool *p, struct pool_job *job)
{
	bool wake = p->waiting;

	if (!p->done.first && p->event >= 0)
		event_set(p->event);
	list_add(&p->done, job);
	p->waiting = false;
	return wake;
}

/* With the lock: a job that can be run now, or NULL. */
static struct pool_job *take_job(struct pool *p)
{
	struct pool_job *job = p->serial_runs ? NULL : list_take(&p->serial);

	if (job) {
		p->serial_runs = true;
		return job;
	}
	job = list_take(&p->jobs);
	if (job)
		p->queued--;
	return job;
}

/* The next job, with the lock; NULL: it is time to stop. */
static struct pool_job *next_job(struct pool *p)
{
	struct pool_job *job;

	while (!(job = take_job(p)) && !p->stop) {
		p->idle++;
		pthread_cond_wait(&p->work, &p->lock);
		p->idle--;
	}
	return job;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct pool *p = w->pool;
	unsigned number = (unsigned)(w - p->worker);
	struct pool_job *job;

	pthread_mutex_lock(&p->lock);
	while ((job = next_job(p))) {
		pthread_mutex_unlock(&p->lock);
		job->run(job, number);
		pthread_mutex_lock(&p->lock);
		if (job->serial)
			p->serial_runs = false;
		/* Who is woken needs the lock: better not while it is held. */
		if (add_done(p, job)) {
			pthread_mutex_unlock(&p->lock);
			pthread_cond_signal(&p->ready);
			pthread_mutex_lock(&p->lock);
		}
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* 0, or an errno value. */
static int start_worker(struct pool *p)
{
	struct worker *w = &p->worker[p->workers];
	sigset_t all, old;
	int code;

	/* Signals are for the threads of the program, which knows what they interrupt. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	w->pool = p;
	code = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!code)
		p->workers++;
	return code;
}

unsigned pool_cpus(void)
{
	int size, n = 0;
	cpu_set_t *set;

	for (size = 1024; !n && size <= 1 << 20; size *= 2) {
		set = CPU_ALLOC(size);
		if (!set)
			break;
		if (!sched_getaffinity(0, CPU_ALLOC_SIZE(size), set))
			n = CPU_COUNT_S(CPU_ALLOC_SIZE(size), set);
		CPU_FREE(set);
	}
	return n > 0 ? (unsigned)n : 1;
}

static struct pool *make(unsigned most, struct qimg_error *e)
{
	struct pool *p;

	if (most > MOST_WORKERS)
		most = MOST_WORKERS;
	p = mem_zalloc(sizeof(*p) + most * sizeof(p->worker[0]), e);
	if (!p)
		return NULL;
	/* With default attributes these take nothing and can't fail on Linux. */
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->ready, NULL);
	list_init(&p->jobs);
	list_init(&p->serial);
	list_init(&p->done);
	p->event = -1;
	p->most = most;
	return p;
}

/* Starts workers until there are n; some are enough. */
static int start(struct pool **p, struct pool *made, unsigned n, struct qimg_error *e)
{
	int code = 0;

	while (!code && made->workers < n)
		code = start_worker(made);
	if (!made->workers) {
		pool_free(made);
		return error_errno(e, code, "Could not start a thread");
	}
	*p = made;
	return 0;
}

int pool_new(struct pool **p, unsigned workers, struct qimg_error *e)
{
	struct pool *made = make(workers ? workers : pool_cpus(), e);

	if (!made || start(p, made, made->most, e) < 0)
		return -1;
	(*p)->most = (*p)->workers;
	return 0;
}

int pool_new_elastic(struct pool **p, unsigned most, struct qimg_error *e)
{
	struct pool *made = make(most ? most : 1, e);

	return made ? start(p, made, 1, e) : -1;
}

void pool_free(struct pool *p)
{
	unsigned i;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (i = 0; i < p->workers; i++)
		pthread_join(p->worker[i].thread, NULL);
	pthread_cond_destroy(&p->ready);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	if (p->event >= 0)
		close(p->event);
	free(p);
}

unsigned pool_workers(const struct pool *p)
{
	return p->most;
}

static void submit(struct pool *p, struct pool_job *job, bool serial)
{
	unsigned ready;
	bool more, wake;

	job->serial = serial;
	p->under_way++;
	pthread_mutex_lock(&p->lock);
	/* Who has the serial job before this one goes on with this one. */
	wake = p->idle && !(serial && (p->serial_runs || p->serial.first));
	list_add(serial ? &p->serial : &p->jobs, job);
	p->queued += !serial;
	/* One that was signalled before and has not got the lock yet still counts as idle. */
	ready = p->queued + (p->serial.first && !p->serial_runs);
	more = ready > p->idle;
	pthread_mutex_unlock(&p->lock);
	if (wake)
		pthread_cond_signal(&p->work);
	if (more && p->workers < p->most && start_worker(p))
		p->most = p->workers;
}

void pool_submit(struct pool *p, struct pool_job *job)
{
	submit(p, job, false);
}

void pool_submit_serial(struct pool *p, struct pool_job *job)
{
	submit(p, job, true);
}

struct pool_job *pool_reap(struct pool *p, bool wait)
{
	struct pool_job *job;

	if (!p->under_way)
		return NULL;
	pthread_mutex_lock(&p->lock);
	while (!(job = list_take(&p->done)) && wait) {
		p->waiting = true;
		pthread_cond_wait(&p->ready, &p->lock);
	}
	p->waiting = false;
	if (job && !p->done.first && p->event >= 0)
		event_clear(p->event);
	pthread_mutex_unlock(&p->lock);
	if (job)
		p->under_way--;
	return job;
}

int pool_fd(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	if (p->event < 0) {
		p->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (p->event >= 0 && p->done.first)
			event_set(p->event);
	}
	pthread_mutex_unlock(&p->lock);
	return p->event;
}
