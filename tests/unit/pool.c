// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/io/pool and lib/io/loop: no job is lost or run twice, whatever the number of workers and whoever
 * waits; serial jobs never run together, nor out of order; descriptors are readable when they have to be; a
 * loop calls everything in the thread that steps.
 */
#include "io/pool.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"
#include "io/loop.h"
#include "scratch.h"
#include "tap.h"

#define BURST 1000

struct sum {
	struct pool_job job;
	unsigned n, runs, worker;
	uint64_t result;
	bool serial, in_turn;
	unsigned turn;
};

static struct qimg_error e;
static struct sum sums[BURST];
static unsigned turns, turn, together;	/* turn, together: touched by serial jobs alone, so without a lock */

static uint64_t rnd(uint64_t below)
{
	static uint64_t seed = 1;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static void add_up(struct pool_job *job, unsigned worker)
{
	struct sum *s = (struct sum *)job;
	unsigned i;

	s->runs++;
	s->worker = worker;
	if (s->serial)
		s->in_turn = !together++ && turn++ == s->turn;
	for (s->result = i = 0; i <= s->n; i++)
		s->result += i;
	if (s->serial)
		together--;
}

static bool right(const struct sum *s, unsigned workers)
{
	return s->runs == 1 && s->worker < workers && s->in_turn == s->serial &&
	       s->result == (uint64_t)s->n * (s->n + 1) / 2;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && p.revents == POLLIN;
}

/* how 0: reaps that wait; 1: polls the descriptor; 2: whatever is there, without waiting. */
static bool burst(struct pool *p, unsigned workers, unsigned how)
{
	unsigned count = 1 + (unsigned)rnd(BURST), given = 0, back = 0, good = 0;
	struct pool_job *job;

	while (back < count) {
		while (given < count && given - back < 1 + rnd(64)) {
			struct sum *s = &sums[given++];

			*s = (struct sum){ .job.run = add_up, .n = (unsigned)rnd(200),
					   .serial = rnd(3) == 0 };
			s->turn = turns;
			turns += s->serial;
			(s->serial ? pool_submit_serial : pool_submit)(p, &s->job);
		}
		if (how == 1 && given > back && !readable(pool_fd(p), 10000))
			return false;
		job = pool_reap(p, how == 0);
		if (!job && (how == 1 || (how == 0 && given > back)))
			return false;
		if (!job)
			continue;
		good += right((struct sum *)job, workers);
		back++;
	}
	return good == count && !pool_reap(p, true) && !pool_reap(p, false) &&
	       (how != 1 || !readable(pool_fd(p), 0));
}

static void stress(unsigned workers, bool elastic)
{
	struct pool *p = NULL;
	unsigned i, good = 0, all = 42;

	ok(!(elastic ? pool_new_elastic : pool_new)(&p, workers, &e), "%s%u workers",
	   elastic ? "up to " : "", workers);
	is_u64(pool_workers(p), workers, "as many as were asked for");
	/* The descriptor comes into being in the midst of it. */
	for (i = 0; i < all; i++)
		good += burst(p, workers, i < all / 3 ? 0 : i % 3);
	is_u64(good, all, "no job was lost or done twice");
	pool_free(p);
}

static void interrupt(int signal)
{
	(void)signal;
}

static void block_here(struct pool_job *job, unsigned worker)
{
	sigset_t set;

	(void)worker;
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	((struct sum *)job)->result = (uint64_t)sigismember(&set, SIGUSR1);
	usleep(30000);
}

static void pools(void)
{
	struct rlimit none, old;
	struct pool *p = NULL;
	unsigned workers;

	stress(1, false);
	stress(3, false);
	stress(8, false);
	stress(1, true);
	stress(16, true);
	ok(!pool_new(&p, 0, &e), "as many workers as CPUs");
	workers = pool_workers(p);
	ok(workers >= 1 && workers <= (unsigned)sysconf(_SC_NPROCESSORS_CONF), "these are %u",
	   workers);
	ok(!pool_reap(p, true), "reaping from an empty pool does not wait");

	signal(SIGUSR1, interrupt);
	sums[0] = (struct sum){ .job.run = block_here };
	pool_submit(p, &sums[0].job);
	ok(!pool_reap(p, false), "a job that sleeps is not ready");
	raise(SIGUSR1);
	ok(pool_reap(p, true) == &sums[0].job, "it comes back when waited for");
	is_u64(sums[0].result, 1, "signals do not go to workers");
	pool_free(p);
	pool_free(NULL);

	if (geteuid() == 0) {
		skip("root can always make threads");
		return;
	}
	getrlimit(RLIMIT_NPROC, &old);
	none = old;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NPROC, &none);
	ok(pool_new(&p, 2, &e) && e.code == EAGAIN, "no threads: %s", e.msg);
	setrlimit(RLIMIT_NPROC, &old);
}

/* ---- the loop ---- */

#define CHAINS 16
#define LINKS  40
#define BLOCK  4096

/* One chain of work: write, sum in a worker, read, later, and again. */
struct chain {
	struct loop *l;
	struct file *f;
	unsigned number, left;
	struct loop_io io;
	struct loop_job job;
	struct loop_task task;
	uint8_t out[BLOCK], in[BLOCK];
	uint64_t sum;
	bool bad;
	pthread_t thread;
};

static unsigned chains_left;
static __thread unsigned steps_deep;

static void chain_write(struct loop_task *task);

static struct chain *check(struct chain *c)
{
	c->bad = c->bad || !pthread_equal(c->thread, pthread_self()) || steps_deep != 1;
	return c;
}

static void chain_read(struct loop_io *io)
{
	struct chain *c = check(io->req.owner == io
					? (struct chain *)((char *)io - offsetof(struct chain, io))
					: NULL);

	c->bad = c->bad || io->req.code || memcmp(c->in, c->out, BLOCK);
	c->task.call = chain_write;
	loop_later(c->l, &c->task);
}

static void chain_summed(struct loop_job *job)
{
	struct chain *c = check((struct chain *)((char *)job - offsetof(struct chain, job)));
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < BLOCK; i++)
		sum += c->out[i];
	c->bad = c->bad || sum != c->sum;
	c->io.req = (struct ioq_req){
		.op = IOQ_READ, .file = c->f, .off = c->number * BLOCK, .buf = c->in, .len = BLOCK
	};
	c->io.done = chain_read;
	loop_io(c->l, &c->io);
}

static void chain_sum(struct pool_job *job, unsigned worker)
{
	struct chain *c = (struct chain *)((char *)job - offsetof(struct chain, job.job));
	unsigned i;

	(void)worker;
	for (c->sum = i = 0; i < BLOCK; i++)
		c->sum += c->out[i];
}

static void chain_written(struct loop_io *io)
{
	struct chain *c = check((struct chain *)((char *)io - offsetof(struct chain, io)));

	c->bad = c->bad || io->req.code;
	c->job.job.run = chain_sum;
	c->job.done = chain_summed;
	c->bad = c->bad || loop_job(c->l, &c->job, &e);
}

static void chain_write(struct loop_task *task)
{
	struct chain *c = check((struct chain *)((char *)task - offsetof(struct chain, task)));
	unsigned i;

	if (!c->left--) {
		chains_left--;
		return;
	}
	for (i = 0; i < BLOCK; i++)
		c->out[i] = (uint8_t)(i * c->left + c->number);
	c->io.req = (struct ioq_req){
		.op = IOQ_WRITE, .file = c->f, .off = c->number * BLOCK, .buf = c->out, .len = BLOCK
	};
	c->io.done = chain_written;
	loop_io(c->l, &c->io);
}

static unsigned step(struct loop *l, bool wait)
{
	unsigned n;

	steps_deep++;
	n = loop_step(l, wait);
	steps_deep--;
	return n;
}

/* how 0: steps that wait; 1: waits for the descriptor first; 2: both in turn. */
static void chains(const char *engine, unsigned depth, unsigned how)
{
	static struct chain c[CHAINS];
	unsigned i, bad = 0, stuck = 0, count = 0;
	struct loop *l = NULL;
	struct file *f;

	if (loop_new(&l, engine, depth, 2, &e)) {
		skip("no engine %s: %s", engine, e.msg);
		return;
	}
	file_open(&f, "loop", FILE_WRITE | FILE_CREATE, &e);
	memset(c, 0, sizeof(c));
	for (i = 0; i < CHAINS; i++) {
		c[i].l = l;
		c[i].f = f;
		c[i].number = i;
		c[i].left = LINKS;
		c[i].thread = pthread_self();
		c[i].task.call = chain_write;
		loop_later(l, &c[i].task);
	}
	chains_left = CHAINS;
	while (!loop_idle(l)) {
		if (how && loop_fd(l) >= 0 && (how == 1 || rnd(2))) {
			if (!readable(loop_fd(l), 10000)) {
				stuck++;
				break;
			}
			count += step(l, false);
		} else {
			i = step(l, loop_fd(l) >= 0 || rnd(2));
			count += i;
			stuck += !i && loop_fd(l) >= 0;
		}
	}
	for (i = 0; i < CHAINS; i++)
		bad += c[i].bad;
	ok(!bad && !stuck && !chains_left, "%s, depth %u, way %u: %u chains bad, stuck %u times",
	   loop_engine(l), depth, how, bad, stuck);
	is_u64(count, CHAINS * (LINKS * 4 + 1), "each call is counted");
	ok(!step(l, true) && !step(l, false), "nothing is under way");
	file_close(f);
	loop_free(l);
}

static void loops(void)
{
	static const char *const engines[] = { "sync", "threads", "native", "io_uring", NULL };
	struct loop *l = NULL;
	unsigned i, how;

	ok(loop_new(&l, "none", 1, 1, &e) && e.code == EINVAL, "no such engine: %s", e.msg);
	for (i = 0; i < 5; i++) {
		for (how = 0; how < 3; how++) {
			chains(engines[i], 1, how);
			chains(engines[i], 8, how);
		}
	}
	loop_free(NULL);
}

int main(void)
{
	scratch_enter();
	pools();
	loops();
	return done_testing();
}
