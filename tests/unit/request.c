// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/image/request: many requests in flight over qcow2 images and chains of them, with caches of few
 * slices, against an array in memory. Requests in flight share clusters and tables all the time; some
 * overlap, and then nothing is known of the bytes that they are for, but all about those of others. Some are
 * given up, and some are in flight at the end.
 *
 *	request [SEED]
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/opts.h"
#include "image/request.h"
#include "io/file.h"
#include "io/loop.h"
#include "../qcheck.h"
#include "request_image.h"
#include "scratch.h"
#include "tap.h"

enum { SIZE = 4 << 20, LONGEST = 200 * 1024, DEPTH_MAX = 64, LAYERS_MAX = 5 };

struct world;

struct slot {
	struct qimg_io io;
	struct world *w;
	bool busy, gives_up;
	bool mixed;			/* overlaps with another one: nothing is known of the result */
	uint8_t buf[LONGEST];
};

/* One image and what it is to contain: in[i] is byte i, or, where it is unsure, also[i], or anything. */
enum { UNSURE = 1, ANYTHING };

struct world {
	uint64_t rnd;
	char name[64];
	struct qimg_image *img;
	uint64_t size;
	uint32_t cluster;
	uint8_t in[SIZE], also[SIZE], unsure[SIZE];
	struct slot slot[DEPTH_MAX];
	unsigned depth, in_flight, completed;
	bool closing;
	bool fails;			/* reads of the host may fail */
	bool churns;
	const char *aio;
	const char *fault;
	char what[300];
};

static const char *const kinds[] = { "read", "write", "compressed write", "zero", "discard", "flush" };

static uint64_t rnd(struct world *w, uint64_t below)
{
	w->rnd ^= w->rnd << 13;
	w->rnd ^= w->rnd >> 7;
	w->rnd ^= w->rnd << 17;
	return (w->rnd >> 11) % below;
}

__attribute__((format(printf, 2, 3))) static void fault(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->fault)
		return;
	va_start(ap, fmt);
	vsnprintf(w->what, sizeof(w->what), fmt, ap);
	va_end(ap);
	w->fault = w->what;
}

/* ---- what has to be true when a request has completed ---- */

static void check_read(struct world *w, uint64_t off, const uint8_t *buf, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++) {
		uint64_t at = off + i;

		if (buf[i] == w->in[at] || (w->unsure[at] == UNSURE && buf[i] == w->also[at]) ||
		    w->unsure[at] == ANYTHING)
			continue;
		fault(w, "byte %" PRIu64 " (of a read at %" PRIu64 "+%" PRIu64 ") is 0x%02x, not 0x%02x",
		      at, off, len, buf[i], w->in[at]);
		return;
	}
}

static void changed(struct world *w, const struct qimg_io *io, const uint8_t *buf, bool surely)
{
	for (uint64_t i = 0; i < io->len; i++) {
		uint64_t at = io->off + i;
		uint8_t new = buf ? buf[i] : 0;

		w->unsure[at] = surely ? 0 : w->unsure[at] ? ANYTHING : UNSURE;
		*(surely ? &w->in[at] : &w->also[at]) = new;
	}
}

static void submit_some(struct world *w);

static void completed(struct qimg_io *io)
{
	struct slot *s = io->user;
	struct world *w = s->w;
	bool plain = io->op == QIMG_IO_WRITE || io->op == QIMG_IO_WRITE_COMPRESSED;

	s->busy = false;
	w->in_flight--;
	w->completed++;
	if (io->code && !(io->code == ECANCELED && s->gives_up) && !(io->code == EIO && w->fails))
		fault(w, "a %s at %" PRIu64 "+%" PRIu64 " failed: %s", kinds[io->op], io->off, io->len,
		      io->error.msg);
	else if (io->op == QIMG_IO_READ && !io->code && !s->mixed)
		check_read(w, io->off, s->buf, io->len);
	else if (s->mixed && io->op != QIMG_IO_READ)
		memset(w->unsure + io->off, ANYTHING, io->len);
	else if (io->op != QIMG_IO_READ && io->op != QIMG_IO_FLUSH)
		changed(w, io, plain ? s->buf : NULL, !io->code && io->op != QIMG_IO_DISCARD);
	if (!w->closing && rnd(w, 3))
		submit_some(w);
}

/* ---- making requests ---- */

/* mark: what they overlap with is mixed with them. */
static bool clashes(struct world *w, const struct qimg_io *io, bool mark)
{
	bool any = false;

	for (unsigned i = 0; i < w->depth && io->op != QIMG_IO_FLUSH; i++) {
		struct slot *s = &w->slot[i];

		if (!s->busy || s->io.op == QIMG_IO_FLUSH || s->io.off >= io->off + io->len ||
		    io->off >= s->io.off + s->io.len ||
		    (s->io.op == QIMG_IO_READ && io->op == QIMG_IO_READ))
			continue;
		any = true;
		s->mixed = s->mixed || mark;
	}
	return any;
}

static bool is_unsure(const struct world *w, const struct qimg_io *io)
{
	return io->len && (memchr(w->unsure + io->off, UNSURE, io->len) ||
			   memchr(w->unsure + io->off, ANYTHING, io->len));
}

static void choose(struct world *w, struct slot *s)
{
	static const enum qimg_io_op ops[] = { QIMG_IO_READ, QIMG_IO_READ, QIMG_IO_READ, QIMG_IO_READ,
					       QIMG_IO_WRITE, QIMG_IO_WRITE, QIMG_IO_WRITE, QIMG_IO_WRITE,
					       QIMG_IO_WRITE_COMPRESSED, QIMG_IO_ZERO, QIMG_IO_DISCARD,
					       QIMG_IO_FLUSH };
	/* Places are given up and given out again all the time. */
	static const enum qimg_io_op churn[] = { QIMG_IO_READ, QIMG_IO_READ, QIMG_IO_WRITE, QIMG_IO_WRITE,
						 QIMG_IO_WRITE, QIMG_IO_WRITE_COMPRESSED, QIMG_IO_DISCARD,
						 QIMG_IO_DISCARD, QIMG_IO_FLUSH, QIMG_IO_FLUSH };
	struct qimg_io *io = &s->io;
	uint64_t c = w->cluster;

	io->op = w->churns ? churn[rnd(w, ARRAY_SIZE(churn))] : ops[rnd(w, ARRAY_SIZE(ops))];
	io->flags = io->op == QIMG_IO_ZERO && rnd(w, 2) ? QIMG_ZERO_UNMAP : 0;
	io->off = rnd(w, w->size);
	io->len = 1 + rnd(w, rnd(w, 3) ? 2 * c : LONGEST);
	if (io->op == QIMG_IO_WRITE_COMPRESSED) {
		io->off = round_down(io->off, c);
		io->len = c;
	} else if (io->op == QIMG_IO_DISCARD) {
		io->off = round_down(io->off, c);
		io->len = round_up(io->len, c) > LONGEST ? c : round_up(io->len, c);
	} else if (rnd(w, 3) == 0) {
		io->off = round_down(io->off, 512);
	}
	io->len = min_u64(min_u64(io->len, LONGEST), w->size - io->off);
	if (io->op == QIMG_IO_FLUSH)
		io->off = io->len = 0;
}

static void submit_one(struct world *w, struct slot *s)
{
	struct qimg_io *io = &s->io;

	bool mix = rnd(w, w->churns ? 2 : 6) == 0;

	for (unsigned tries = 0; tries < 20; tries++) {
		choose(w, s);
		if ((mix || !clashes(w, io, false)) && (io->op != QIMG_IO_DISCARD || w->churns || !is_unsure(w, io)))
			break;
		io->len = 0;
		io->op = QIMG_IO_FLUSH;
	}
	s->mixed = clashes(w, io, true);
	s->gives_up = false;
	s->busy = true;
	s->w = w;
	io->buf = s->buf;
	io->user = s;
	io->done = completed;
	if (io->op == QIMG_IO_WRITE || io->op == QIMG_IO_WRITE_COMPRESSED) {
		bool noise = rnd(w, 2);
		uint64_t tag = rnd(w, 256);

		for (uint64_t i = 0; i < io->len; i++)
			s->buf[i] = noise ? rnd(w, 256) : tag + (i >> 9);
	} else {
		memset(s->buf, 0xa5, io->len);
	}
	w->in_flight++;
	qimg_submit(w->img, io);
}

static void submit_some(struct world *w)
{
	for (unsigned i = 0; i < w->depth; i++)
		if (!w->slot[i].busy && rnd(w, 4))
			submit_one(w, &w->slot[i]);
}

static void give_up_some(struct world *w)
{
	struct slot *s = &w->slot[rnd(w, w->depth)];

	if (!s->busy || s->gives_up || (s->io.op != QIMG_IO_READ && is_unsure(w, &s->io)))
		return;
	s->gives_up = true;
	qimg_cancel(w->img, &s->io);
	qimg_cancel(w->img, &s->io);
}

/* As an event loop does, or by waiting in the library. */
static void make_progress(struct world *w, bool by_fd)
{
	struct pollfd p = { .fd = by_fd ? qimg_poll_fd(w->img) : -1, .events = POLLIN };
	unsigned before = w->completed;

	if (p.fd >= 0) {
		int timeout = qimg_poll_timeout(w->img);

		if (poll(&p, 1, timeout < 0 ? 20000 : timeout) == 0 && timeout < 0)
			fault(w, "20 seconds without progress, with %u requests in flight", w->in_flight);
		qimg_poll(w->img, false);
	} else if (w->in_flight) {
		qimg_poll(w->img, true);
		if (w->completed == before)
			fault(w, "qimg_poll came back and nothing had completed");
	}
}

static void drain(struct world *w, bool by_fd)
{
	bool was = w->closing;

	w->closing = true;
	while (w->in_flight && !w->fault)
		make_progress(w, by_fd);
	if (!w->fault && qimg_poll(w->img, false))
		fault(w, "requests are counted when none is in flight");
	w->closing = was;
}

/* ---- images ---- */

/* A chain below w->name, with data in each layer that the one above does not wholly cover. */
static bool make_chain(struct world *w, unsigned layers, const char *more)
{
	char below[80] = "", name[80];
	struct qimg_error e = { 0 };

	for (unsigned l = 0; l < layers; l++) {
		bool top = l == layers - 1;
		struct qimg_image *img;

		snprintf(name, sizeof(name), top ? "%s" : "%s.%u", w->name, l);
		if (!create(name, *below ? below : NULL, w->size, w->cluster, more))
			return false;
		snprintf(below, sizeof(below), "%s", name);
		if (top)
			break;
		img = open_chain(name, l + 1, false, NULL, QIMG_OPEN_WRITE, &e);
		for (unsigned i = 0; img && i < 30; i++) {
			uint64_t off = round_down(rnd(w, w->size), 512);
			uint64_t len = min_u64(1 + rnd(w, 6 * w->cluster), w->size - off);

			memset(w->in + off, rnd(w, 256), len);
			if (qimg_write(img, off, w->in + off, len, &e) < 0)
				break;
		}
		if (!img || e.code || qimg_close(img, &e) < 0) {
			diag("%s: %s", name, e.msg);
			return false;
		}
	}
	return true;
}

static void judge_run(void *ctx, uint64_t guest, uint64_t len, enum qcheck_kind kind, const uint8_t *bytes)
{
	struct world *w = ctx;

	len = min_u64(len, w->size - guest);
	if (kind == QCHECK_DATA && bytes)
		check_read(w, guest, bytes, len);
}

/* The closed image: nothing leaked, all of it there. */
static void judge(struct world *w)
{
	int fd = open(w->name, O_RDONLY);
	struct qcheck_buf file = { NULL, 0 };
	struct qcheck q;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		fault(w, "the file cannot be opened");
		return;
	}
	file.len = st.st_size;
	file.p = mmap(NULL, file.len, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file.p == MAP_FAILED || !qcheck_open(&q, file, (struct qcheck_buf){ NULL, 0 })) {
		fault(w, "the file does not open");
		return;
	}
	qcheck_refs(&q);
	qcheck_walk(&q, 0, judge_run, w);
	if (qcheck_corruptions(&q) || (!w->fails && (q.count[QCHECK_LEAK] || q.count[QCHECK_UNMARKED])))
		fault(w, "second reader: %.200s", q.text);
	qcheck_close(&q);
	munmap((void *)file.p, file.len);
}

static void read_all(struct world *w)
{
	struct qimg_error e = { 0 };
	uint8_t *all = malloc(w->size);

	if (qimg_read(w->img, 0, all, w->size, &e) < 0)
		fault(w, "reading all of it: %s", e.msg);
	else
		check_read(w, 0, all, w->size);
	free(all);
}

/* Reads of the host that fail, one of so many; with an engine that has no threads. */
static _Thread_local unsigned fail_reads, reads;

static int fail_some(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		     uint64_t len)
{
	(void)ctx;
	(void)f;
	(void)off;
	(void)buf;
	(void)len;
	return op == FILE_OP_READ && fail_reads && ++reads % fail_reads == 0 ? EIO : 0;
}

struct plan {
	const char *aio;
	bool churns;
	bool second;			/* level of the L2 caches */
	unsigned fails;
	unsigned layers, depth, flags, rounds;
	const char *options;
};

static const char *run_world(struct world *w, const struct plan *p)
{
	struct qimg_error e = { 0 };
	bool by_fd;

	w->cluster = 512 << rnd(w, 8);
	if (p->options && strstr(p->options, "extended"))
		w->cluster = 16384;
	w->size = round_down(SIZE / 2 + rnd(w, SIZE / 2), 512);
	w->depth = p->depth;
	w->aio = p->aio;
	w->fails = p->fails;
	w->churns = p->churns;
	if (!make_chain(w, p->layers, p->options))
		return "the images cannot be made";
	for (unsigned session = 0; session < 3 && !w->fault; session++) {
		w->img = open_chain(w->name, p->layers, p->second, p->aio, QIMG_OPEN_WRITE | p->flags, &e);
		if (!w->img) {
			fault(w, "%s", e.msg);
			break;
		}
		w->closing = false;
		by_fd = rnd(w, 2);
		for (unsigned round = 0; round < p->rounds && !w->fault; round++) {
			fail_reads = p->fails;
			submit_some(w);
			if (rnd(w, 4) == 0)
				give_up_some(w);
			if (w->in_flight)
				make_progress(w, by_fd);
			if (rnd(w, 100) == 0) {
				drain(w, by_fd);
				fail_reads = 0;
				read_all(w);
			}
		}
		w->closing = true;
		if (rnd(w, 2))
			drain(w, by_fd);
		if (w->in_flight && p->fails)
			drain(w, by_fd);
		fail_reads = 0;
		if (qimg_close(w->img, &e) < 0)
			fault(w, "closing: %s", e.msg);
		if (w->in_flight)
			fault(w, "closed with %u requests not completed", w->in_flight);
		if (!w->fault)
			judge(w);
	}
	if (!w->fault) {
		w->img = open_chain(w->name, p->layers, p->second, NULL, 0, &e);
		if (w->img) {
			read_all(w);
			qimg_close(w->img, &e);
		} else {
			fault(w, "%s", e.msg);
		}
	}
	return w->fault;
}

static uint64_t first_seed = 1;

static struct world *world_new(const char *name, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));

	w->rnd = (first_seed + seed) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	snprintf(w->name, sizeof(w->name), "%s", name);
	return w;
}

static void test_plan(const struct plan *p, uint64_t seed, const char *what)
{
	struct world *w = world_new("image", seed);
	const char *bad = run_world(w, p);

	ok(!bad, "%s, depth %u, %u images%s%s%s", p->aio ? p->aio : "no engine named", p->depth, p->layers,
	   p->options ? ", " : "", p->options ? p->options : "", what);
	if (bad)
		diag("cluster size %u: %s", w->cluster, bad);
	free(w);
}

static bool works(const char *aio)
{
	struct qimg_error e;
	struct qimg_image *img;

	if (!create("probe", NULL, 1 << 20, 65536, NULL))
		return false;
	img = open_image("probe", aio, 0, &e);
	if (!img) {
		skip("engine '%s': %s", aio, e.msg);
		return false;
	}
	qimg_close(img, &e);
	return true;
}

struct alone {
	struct world *w;
	struct plan p;
};

static void *one_thread(void *arg)
{
	struct alone *alone = arg;

	run_world(alone->w, &alone->p);
	return NULL;
}

/* Each with its own loop, compressing workers, and engine; one that syncs, one that does not. */
static void test_two_threads(const char *first, const char *second, uint64_t seed)
{
	struct world *a = world_new("first", seed), *b = world_new("second", seed + 1);
	struct alone alone[2] = {
		{ a, { .aio = first, .layers = 2, .depth = 16, .rounds = 60, .flags = QIMG_OPEN_NO_FLUSH } },
		{ b, { .aio = second, .layers = 1, .depth = 24, .rounds = 60 } },
	};
	pthread_t ta, tb;

	pthread_create(&ta, NULL, one_thread, &alone[0]);
	pthread_create(&tb, NULL, one_thread, &alone[1]);
	pthread_join(ta, NULL);
	pthread_join(tb, NULL);
	ok(!a->fault && !b->fault, "two images in two threads, %s and %s: %s", first, second,
	   a->fault ? a->fault : b->fault ? b->fault : "fine");
	free(a);
	free(b);
}

/* ---- single rules ---- */

static void count_done(struct qimg_io *io)
{
	++*(unsigned *)io->user;
}

/*
 * Some transfers take much longer than others: for the whole program, with an engine that has threads.
 * Only so is a place that was given up too early written to by somebody else in between.
 */
static unsigned naps, transfers;

static void nap(void)
{
	if (naps && __atomic_add_fetch(&transfers, 1, __ATOMIC_RELAXED) % naps == 0)
		usleep(8000);
}

ssize_t pread(int fd, void *buf, size_t n, off_t off)
{
	nap();
	return syscall(SYS_pread64, fd, buf, n, off);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t off)
{
	nap();
	return syscall(SYS_pwrite64, fd, buf, n, off);
}

ssize_t preadv2(int fd, const struct iovec *v, int count, off_t off, int flags)
{
	if (naps && flags) {
		errno = EAGAIN;
		return -1;
	}
	return syscall(SYS_preadv2, fd, v, count, off, 0, flags);
}

static void test_order(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct plan p = { .aio = "threads", .rounds = 200, .depth = 48, .layers = 1 + (i & 1), .churns = true,
				  .flags = QIMG_OPEN_NO_FLUSH | QIMG_OPEN_UNMAP };

		naps = 5 + 3 * i;
		test_plan(&p, 90 + i, ", transfers that take their time");
	}
	naps = 0;
}

/* The layout is that of the order of submission, whatever each request has to wait for. */
static uint64_t packed_layout(const char *name, const char *aio, unsigned depth)
{
	struct world *w = world_new(name, depth);
	struct qimg_error e = { 0 };
	uint64_t sum = 0;
	struct stat st;
	uint8_t *file;
	int fd;

	w->cluster = 4096;
	w->size = SIZE;
	create(name, NULL, SIZE, w->cluster, NULL);
	w->img = open_image(name, aio, QIMG_OPEN_WRITE, &e);
	w->depth = depth;
	w->closing = true;
	for (uint64_t c = 0; w->img && c < SIZE / w->cluster; c++) {
		struct slot *s = NULL;

		while (!s) {
			for (unsigned i = 0; i < w->depth && !s; i++)
				if (!w->slot[i].busy)
					s = &w->slot[i];
			if (!s)
				qimg_poll(w->img, true);
		}
		s->io = (struct qimg_io){ .op = QIMG_IO_WRITE_COMPRESSED, .off = c * w->cluster,
					  .len = w->cluster, .buf = s->buf, .done = completed, .user = s };
		for (unsigned i = 0; i < w->cluster; i++)
			s->buf[i] = c % 5 ? c * i >> 7 : (c * 7919 + i) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
		if (c % 5 == 1) {	/* already compressed, as convert does it */
			s->io.op = (enum qimg_io_op)REQUEST_PACKED;
			s->io.len = 100 + c;
			s->io.done = count_done;
			s->io.user = &w->completed;
			qimg_submit(w->img, &s->io);
			while (request_count(w->img) > w->in_flight)
				qimg_poll(w->img, true);
			continue;
		}
		s->busy = true;
		s->w = w;
		w->in_flight++;
		qimg_submit(w->img, &s->io);
	}
	while (w->img && w->in_flight)
		qimg_poll(w->img, true);
	if (!w->img || qimg_close(w->img, &e) < 0 || w->fault)
		diag("%s", w->fault ? w->fault : e.msg);
	fd = open(name, O_RDONLY);
	fstat(fd, &st);
	file = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	for (off_t i = 0; i < st.st_size; i++)
		sum = sum * 31 + file[i];
	munmap(file, st.st_size);
	close(fd);
	free(w);
	return sum;
}

static void test_layout(void)
{
	uint64_t first = packed_layout("packed", NULL, 1);

	is_u64(packed_layout("packed", NULL, 16), first, "compressed writes lie in the order of submission");
	if (!works("threads"))
		return;
	for (unsigned depth = 1; depth <= 64; depth *= 4)
		is_u64(packed_layout("packed", "threads", depth), first, "the same with threads, depth %u", depth);
}

int main(int argc, char **argv)
{
	static const char *const engines[] = { NULL, "sync", "threads", "io_uring", "native" };
	static const unsigned depths[] = { 1, 4, 16, 64 };
	static const struct file_hook hook = { .call = fail_some };

	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 0);
	scratch_enter();
	for (unsigned i = 0; i < ARRAY_SIZE(engines); i++) {
		struct plan p = { .aio = engines[i], .rounds = 120 };

		if (engines[i] && !works(engines[i]))
			continue;
		for (unsigned d = 0; d < ARRAY_SIZE(depths); d++) {
			p.depth = depths[d];
			p.layers = d % 2 ? LAYERS_MAX : 1;
			p.flags = d == 1 ? 0 : d == 2 ? QIMG_OPEN_UNMAP | QIMG_OPEN_NO_FLUSH : QIMG_OPEN_NO_FLUSH;
			test_plan(&p, 10 * i + d, "");
		}
		p.second = true;
		test_plan(&p, 10 * i + 6, ", with a second level");
		p.options = "extended_l2=on";
		p.depth = 32;
		p.layers = 2;
		p.flags = QIMG_OPEN_UNMAP | QIMG_OPEN_NO_FLUSH;
		test_plan(&p, 10 * i + 7, "");
		p.second = false;
		p.options = "compression_type=zstd,lazy_refcounts=on";
		p.flags = QIMG_OPEN_WRITETHROUGH | QIMG_OPEN_NO_FLUSH;
		test_plan(&p, 10 * i + 8, ", writethrough");
	}
	file_set_hook(&hook);
	for (unsigned d = 0; d < ARRAY_SIZE(depths); d++) {
		struct plan p = { .rounds = 120, .depth = depths[d], .layers = 1 + 2 * (d & 1),
				  .fails = 20 + 10 * d, .flags = QIMG_OPEN_NO_FLUSH };

		p.second = d & 1;
		test_plan(&p, 80 + d, ", with failing reads");
	}
	file_set_hook(NULL);
	if (works("threads"))
		test_order();
	for (unsigned i = 1; i < ARRAY_SIZE(engines); i++) {
		if (works(engines[i]) && works(engines[i % 4 + 1])) {
			test_two_threads(engines[i], engines[i], 100 + 10 * i);
			test_two_threads(engines[i], engines[i % 4 + 1], 105 + 10 * i);
		}
	}
	test_layout();
	return done_testing();
}
