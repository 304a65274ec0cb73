// SPDX-License-Identifier: BSD-2-Clause
/* lib/io/loop: one request that is waited for, beside others whose turn comes later. */
#include <poll.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/file.h"
#include "io/loop.h"
#include "scratch.h"
#include "tap.h"

enum { SIZE = 64 << 10, OTHERS = 8, PIECE = 4096 };

static struct qimg_error e;
static uint8_t content[SIZE];
static unsigned called;

struct read {
	struct loop_io io;
	uint8_t buf[PIECE];
	bool good, done;
};

static void ended(struct loop_io *io)
{
	struct read *r = (struct read *)io;

	called++;
	r->done = true;
	r->good = !io->req.code && !memcmp(r->buf, content + io->req.off, PIECE);
}

static void set(struct read *r, struct file *f, uint64_t off)
{
	memset(r, 0, sizeof(*r));
	r->io.req = (struct ioq_req){ .op = IOQ_READ, .file = f, .off = off, .buf = r->buf, .len = PIECE };
	r->io.done = ended;
}

static bool becomes_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 10000) == 1;
}

static void one_engine(const char *engine, struct file *f)
{
	static struct read other[OTHERS], one;
	struct loop *l = NULL;
	unsigned good = 0, bad = 0;

	if (loop_new(&l, engine, 4, 1, &e) < 0) {
		skip("%s: %s", engine, e.msg);
		return;
	}
	for (unsigned round = 0; round < 50; round++) {
		called = 0;
		for (unsigned i = 0; i < OTHERS; i++) {
			set(&other[i], f, i * PIECE);
			loop_io(l, &other[i].io);
		}
		set(&one, f, (OTHERS + round % 8) * PIECE);
		loop_io(l, &one.io);
		/* Waited for without being called: it has happened, and every done comes from a step. */
		loop_await(l, &one.io);
		bad += called || one.io.req.code || loop_idle(l) ||
		       memcmp(one.buf, content + one.io.req.off, PIECE) ||
		       (loop_fd(l) >= 0 && !becomes_readable(loop_fd(l)));
		loop_await(l, &other[round % OTHERS].io);
		bad += called || other[round % OTHERS].io.req.code ||
		       memcmp(other[round % OTHERS].buf, content + round % OTHERS * PIECE, PIECE);
		loop_await(l, &other[round % OTHERS].io);
		while (loop_step(l, true))
			;
		good += one.good;
		for (unsigned i = 0; i < OTHERS; i++)
			good += other[i].good;
		bad += called != OTHERS + 1 || !loop_idle(l);
	}
	is_u64(good, 50 * (OTHERS + 1), "%s: all have read what is there", engine);
	is_u64(bad, 0, "%s: nothing was called while some were waited for, all afterwards", engine);
	loop_free(l);
}

int main(void)
{
	static const char *const engines[] = { "sync", "threads", "io_uring", "native" };
	struct file *f = NULL;

	scratch_enter();
	for (unsigned i = 0; i < SIZE; i++)
		content[i] = (uint8_t)(i * 7 + (i >> 8));
	if (!ok(!file_open(&f, "file", FILE_WRITE | FILE_CREATE, &e) && !file_write(f, 0, content, SIZE, &e),
		"a file"))
		return done_testing();
	for (unsigned i = 0; i < ARRAY_SIZE(engines); i++)
		one_engine(engines[i], f);
	file_close(f);
	return done_testing();
}
