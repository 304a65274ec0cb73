// SPDX-License-Identifier: BSD-2-Clause
/*
 * The metadata caches of open images, through the public interface: a second level in a file, memory
 * that is given back by time, loads in flight, no caching at all.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/bytes.h"
#include "io/pages.h"
#include "request_image.h"
#include "scratch.h"
#include "tap.h"

static struct qimg_error e;
static unsigned warnings;
static char warning[1020];

static void on_warning(void *ctx, const char *msg)
{
	(void)ctx;
	warnings++;
	snprintf(warning, sizeof(warning), "%s", msg);
}

static struct qimg_image *open_with(const char *name, const char *options, unsigned flags)
{
	struct qimg_opts *o = qimg_opts_new();
	struct qimg_image *img = NULL;

	if (qimg_opts_parse(o, options, &e) < 0 || qimg_open(&img, name, "qcow2", o, flags, &e) < 0) {
		diag("%s: %s", name, e.msg);
		img = NULL;
	}
	qimg_opts_free(o);
	return img;
}

static struct qimg_cache_stats stats(struct qimg_image *img)
{
	struct qimg_cache_stats s;

	qimg_cache_stats(img, QIMG_CACHE_L2, &s);
	return s;
}

/* Looks at each piece of the mapping. */
static bool map_all(struct qimg_image *img, uint64_t step)
{
	struct qimg_extent x;

	for (uint64_t at = 0; at < qimg_size(img); at += step)
		if (qimg_map(img, at, 512, &x, &e) < 0)
			return false;
	return true;
}

/* ---- the second level ---- */

enum { CLUSTER = 4096, SIZE = 64 << 20, DEPTH = 32, REQUESTS = 3000 };

static uint64_t seed = 5;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static uint8_t model[SIZE / CLUSTER];	/* each cluster is full of it */
static unsigned bad, left;

static struct one {
	struct qimg_io io;
	uint8_t buf[CLUSTER];
	bool busy;
} one[DEPTH];

static struct qimg_image *under_test;

static void next(struct one *o);

static void completed(struct qimg_io *io)
{
	struct one *o = io->user;

	o->busy = false;
	if (io->code) {
		bad++;
		diag("%s", io->error.msg);
	}
	for (unsigned i = 0; io->op == QIMG_IO_READ && i < CLUSTER; i++)
		if (o->buf[i] != model[io->off / CLUSTER]) {
			bad++;
			break;
		}
	next(o);
}

/* A read, or rarely a write, of a cluster that nobody else is at. */
static void next(struct one *o)
{
	uint64_t n;
	unsigned i;

	if (!left)
		return;
	left--;
	do {
		n = rnd(SIZE / CLUSTER);
		for (i = 0; i < DEPTH && !(one[i].busy && one[i].io.off == n * CLUSTER); i++)
			;
	} while (i < DEPTH);
	o->busy = true;
	o->io = (struct qimg_io){ .op = rnd(8) ? QIMG_IO_READ : QIMG_IO_WRITE, .off = n * CLUSTER,
				  .len = CLUSTER, .buf = o->buf, .done = completed, .user = o };
	if (o->io.op == QIMG_IO_WRITE) {
		model[n] = (uint8_t)(1 + rnd(255));
		memset(o->buf, model[n], CLUSTER);
	}
	qimg_submit(under_test, &o->io);
}

static void random_io(struct qimg_image *img)
{
	under_test = img;
	bad = 0;
	left = REQUESTS;
	for (unsigned i = 0; i < DEPTH; i++)
		next(&one[i]);
	while (qimg_poll(img, true))
		;
}

static void check_content(struct qimg_image *img, const char *what)
{
	uint8_t buf[CLUSTER];

	bad = 0;
	for (uint64_t n = 0; n < SIZE / CLUSTER; n++)
		bad += qimg_read(img, n * CLUSTER, buf, CLUSTER, &e) < 0 || buf[0] != model[n] ||
		       buf[CLUSTER - 1] != model[n];
	is_u64(bad, 0, "%s: all of it is as it must be", what);
}

static void second_level(const char *aio)
{
	struct qimg_image *img;
	char options[200];

	memset(model, 0, sizeof(model));
	if (!ok(create("second", NULL, SIZE, CLUSTER, "preallocation=metadata"), "%s: an image", aio))
		return;
	snprintf(options, sizeof(options), "l2-cache-size=8k,l2-cache-entry-size=512,l2-cache-file=.,"
		 "l2-cache-file-direct=off,aio=%s", aio);
	img = open_with("second", options, QIMG_OPEN_WRITE | QIMG_OPEN_NO_FLUSH |
			(strcmp(aio, "native") ? 0 : QIMG_OPEN_DIRECT));
	if (!img) {
		skip("%s: %s", aio, e.msg);
		return;
	}
	warnings = 0;
	random_io(img);
	is_u64(bad, 0, "%s: %u requests at a time, nothing wrong", aio, DEPTH);
	ok(stats(img).second_hits > stats(img).loads / 4 || !tap_plain_caches,
	   "%s: %u of %u loads came from the file", aio, (unsigned)stats(img).second_hits,
	   (unsigned)stats(img).loads);
	ok((stats(img).file_bytes > 64 << 10 || !tap_plain_caches) && stats(img).file_bytes <= 128 << 10,
	   "%s: of %u bytes", aio, (unsigned)stats(img).file_bytes);
	ok(!warnings && sh("test $(ls -A | wc -l) = 1"), "%s: no warning, no other file", aio);
	check_content(img, aio);
	ok(!qimg_close(img, &e), "%s: closes", aio);
	img = open_with("second", "driver=qcow2", 0);
	if (img)
		check_content(img, aio);
	qimg_close(img, &e);
	sh("rm second");
}

static void full_device(void)
{
	struct qimg_image *img;

	memset(model, 0, sizeof(model));
	if (!tap_plain_caches || !scratch_mount("tmpfs", "small", 1) ||
	    !sh("dd if=/dev/zero of=small/fill bs=4k count=250")) {
		skip("no file system can be mounted");
		return;
	}
	create("second", NULL, SIZE, CLUSTER, "preallocation=metadata");
	img = open_with("second", "l2-cache-size=8k,l2-cache-entry-size=512,l2-cache-file=small/cache,"
			"l2-cache-file-direct=off,aio=threads", QIMG_OPEN_WRITE | QIMG_OPEN_NO_FLUSH);
	if (!ok(img, "a file system with little room"))
		return;
	warnings = 0;
	random_io(img);
	is_u64(bad, 0, "nothing wrong when it is full");
	ok(warnings == 1, "one warning: %s", warning);
	is_u64(stats(img).file_bytes, 0, "the second level has been given up");
	ok(sh("dd if=/dev/zero of=small/more bs=4k count=5"), "and its room is free again");
	check_content(img, "then");
	ok(!qimg_close(img, &e), "closes");
	sh("rm second small/*");
}

/* ---- memory by time ---- */

enum { WANTED = 16 << 20 };		/* bytes of L2 tables */

static void wait_for_timer(struct qimg_image *img, unsigned ms)
{
	struct timespec nap = { .tv_nsec = 20000000 };

	for (unsigned i = 0; i < ms / 20; i++) {
		nanosleep(&nap, NULL);
		if (qimg_poll_timeout(img) == 0)
			qimg_poll(img, false);
	}
}

static void by_time(void)
{
	/* A table of 4 KiB maps 2 MiB. */
	const uint64_t span = CLUSTER / 8 * CLUSTER, size = WANTED / CLUSTER * span;
	struct qimg_image *img, *base;
	bool tells = tap_memory_tells && tap_plain_caches;
	int64_t before, full, after;

	if (!ok(create("base", NULL, size, CLUSTER, "preallocation=metadata") &&
		create("top", "base", size, CLUSTER, NULL), "a chain"))
		return;
	img = open_with("top", "driver=qcow2", 0);
	ok(img && qimg_poll_timeout(img) > 590000 && qimg_poll_timeout(img) <= 600000,
	   "by default it is time after 600 s");
	qimg_close(img, &e);
	img = open_with("top", "cache-clean-interval=0,backing.cache-clean-interval=0", 0);
	ok(img && qimg_poll_timeout(img) == -1, "0 is never");
	qimg_close(img, &e);
	before = (int64_t)pages_resident();
	img = open_with("top", "cache-clean-interval=0,backing.cache-clean-interval=1", 0);
	if (!ok(img && map_all(img, span), "it is read"))
		return;
	base = qimg_backing(img);
	full = (int64_t)pages_resident() - before;
	ok(stats(base).ram_bytes >= WANTED || !tap_plain_caches, "the lower image has %u KiB in memory",
	   (unsigned)(stats(base).ram_bytes >> 10));
	ok(qimg_poll_timeout(img) >= 0 && qimg_poll_timeout(img) <= 1000, "it is time within a second");
	wait_for_timer(img, 2500);
	after = (int64_t)pages_resident() - before;
	ok(stats(base).ram_bytes == 0 || !tap_plain_caches, "what was not touched for a second is gone");
	ok(stats(base).expired >= (tap_plain_caches ? WANTED / CLUSTER : 2), "%u slices of it",
	   (unsigned)stats(base).expired);
	if (full < WANTED || !tells)
		skip("%d KiB, then %d KiB in memory", (int)(full >> 10), (int)(after >> 10));
	else
		ok(full - after > WANTED * 9 / 10, "of %d KiB resident memory %d KiB are left", (int)(full >> 10),
		   (int)(after >> 10));
	ok(map_all(img, span), "it can be read again");
	qimg_close(img, &e);
	sh("rm base top");
}

/* ---- a chain ---- */

enum { CHAIN = 20, TABLES = 64, TABLE = 65536 };

/* Each of 20 images has 4 MiB of tables, and all of them are looked at for what is in the lowest one. */
static void chain(void)
{
	const uint64_t span = UINT64_C(512) << 20, size = TABLES * span;
	struct qimg_image *img = NULL;
	char name[20] = "", below[20];
	uint8_t buf[512] = { 1 };
	struct qimg_extent x;
	uint64_t used = 0, sum;
	int64_t before, most = 0, now;
	bool good = true;

	for (unsigned i = 0; i < CHAIN && good; i++) {
		snprintf(below, sizeof(below), "%s", name);
		snprintf(name, sizeof(name), "chain%u", i);
		good = create(name, i ? below : NULL, size, TABLE, NULL);
		img = good ? open_with(name, "driver=qcow2", QIMG_OPEN_WRITE | QIMG_OPEN_NO_FLUSH) : NULL;
		for (unsigned t = 0; img && good && t < TABLES; t++)
			good = qimg_write(img, t * span + (uint64_t)i * TABLE, buf, 512, &e) == 0;
		good = good && img && !qimg_close(img, &e);
	}
	img = good ? open_with(name, "driver=qcow2", 0) : NULL;
	if (!ok(img, "a chain of %u images", CHAIN))
		return;
	before = (int64_t)pages_resident();
	for (unsigned n = 0; n < 2 * TABLES && good; n++) {
		good = qimg_map(img, n % TABLES * span, 512, &x, &e) == 0 && x.depth == CHAIN - 1;
		now = (int64_t)pages_resident() - before;
		most = now > most ? now : most;
		sum = 0;
		for (struct qimg_image *i = img; i; i = qimg_backing(i))
			sum += stats(i).ram_bytes;
		used = sum > used ? sum : used;
	}
	ok(good, "which is read down to the lowest one");
	ok(used <= 38 << 20 && (used >= 30 << 20 || !tap_plain_caches), "takes %u KiB for %u KiB of tables",
	   (unsigned)(used >> 10), CHAIN * TABLES * TABLE >> 10);
	ok(most <= 42 << 20 || !tap_memory_tells, "%d KiB by the system's count", (int)(most >> 10));
	qimg_close(img, &e);
	sh("rm chain*");
}

/* ---- loads ---- */

static void depth_and_off(void)
{
	struct qimg_image *img;
	uint64_t loads;

	memset(model, 0, sizeof(model));
	create("depth", NULL, SIZE, CLUSTER, "preallocation=metadata");
	for (unsigned depth = 1; depth <= 4; depth++) {
		char options[100];

		snprintf(options, sizeof(options), "l2-cache-size=1k,l2-cache-entry-size=512,metadata-depth=%u,"
			 "aio=threads", depth);
		img = open_with("depth", options, QIMG_OPEN_WRITE | QIMG_OPEN_NO_FLUSH);
		if (!ok(img, "at most %u loads at a time", depth))
			return;
		random_io(img);
		is_u64(bad, 0, "depth %u: nothing wrong", depth);
		qimg_close(img, &e);
	}
	img = open_with("depth", "metadata-cache=off,aio=threads", QIMG_OPEN_WRITE | QIMG_OPEN_NO_FLUSH);
	if (!ok(img, "no caching"))
		return;
	random_io(img);
	is_u64(bad, 0, "nothing wrong");
	qimg_close(img, &e);
	img = open_with("depth", "metadata-cache=off", 0);
	if (!img)
		return;
	loads = stats(img).loads;
	check_content(img, "without caching");
	ok(stats(img).loads - loads >= SIZE / CLUSTER, "with a load for each of %u reads: %u", SIZE / CLUSTER,
	   (unsigned)(stats(img).loads - loads));
	ok(stats(img).ram_bytes <= 2 << 20, "and hardly anything in memory");
	qimg_close(img, &e);
	sh("rm depth");
}

int main(void)
{
	static const char *const engines[] = { "sync", "threads", "io_uring", "native" };

	scratch_enter();
	qimg_set_warning_handler(on_warning, NULL);
	for (unsigned i = 0; i < ARRAY_SIZE(engines); i++)
		second_level(engines[i]);
	full_device();
	by_time();
	chain();
	depth_and_off();
	return done_testing();
}
