// SPDX-License-Identifier: BSD-2-Clause
/* lib/ops/workload: what the warm-up leaves out, what is told of each request, whose clock counts. */
#include "qimg.h"

#include <errno.h>
#include <string.h>

#include "scratch.h"
#include "tap.h"

enum { SIZE = 4 << 20, MOST = 100000 };

static struct qimg_error e;

struct seen {
	unsigned traced, writes, bad;
	uint64_t off[MOST];
	unsigned warmed, traced_then;
	struct qimg_image *img;
	struct qimg_cache_stats then;
};

static struct seen seen, other;

static void warmed(void *ctx)
{
	struct seen *s = ctx;

	s->warmed++;
	s->traced_then = s->traced;
	qimg_cache_stats(s->img, QIMG_CACHE_L2, &s->then);
}

static void trace(void *ctx, uint64_t off, uint64_t len, bool write)
{
	struct seen *s = ctx;

	s->bad += len != 4096 || off % 4096 || off >= SIZE;
	s->writes += write;
	if (s->traced < MOST)
		s->off[s->traced] = off;
	s->traced++;
}

static struct qimg_image *open_it(const char *options, unsigned flags)
{
	struct qimg_opts *o = qimg_opts_new();
	struct qimg_image *img = NULL;

	if (qimg_opts_parse(o, options, &e) || qimg_open(&img, "a.qcow2", "qcow2", o, flags, &e))
		diag("%s", e.msg);
	qimg_opts_free(o);
	return img;
}

static bool run(const char *options, struct qimg_workload w, struct seen *s, struct qimg_workload_result *r)
{
	struct qimg_image *img = open_it(options, w.write_percent ? QIMG_OPEN_WRITE : 0);
	bool good;

	memset(s, 0, sizeof(*s));
	s->img = w.image = img;
	w.warmed = warmed;
	w.trace = trace;
	w.ctx = s;
	good = img && !qimg_workload_run(&w, r, &e);
	if (img && qimg_close(img, &e))
		good = false;
	return good;
}

static bool make(void)
{
	static uint8_t buf[SIZE];
	struct qimg_opts *o = qimg_opts_new();
	struct qimg_creation *c = NULL;
	struct qimg_image *img;
	bool good;

	memset(buf, 7, sizeof(buf));
	good = !qimg_opts_parse(o, "size=4M,cluster_size=4k", &e) &&
	       !qimg_create_prepare(&c, "a.qcow2", "qcow2", o, 0, &e) && !qimg_create_run(c, NULL, &e);
	qimg_create_free(c);
	qimg_opts_free(o);
	img = good ? open_it("aio=sync", QIMG_OPEN_WRITE) : NULL;
	return img && !qimg_write(img, 0, buf, sizeof(buf), &e) && !qimg_close(img, &e);
}

static void test_warm_up(const char *engine, unsigned depth)
{
	struct qimg_workload w = { .order = QIMG_AT_RANDOM, .count = 1000, .warm_count = 300, .depth = depth,
				   .size = 4096, .seed = 2 };
	struct qimg_workload_result r;

	ok(run(engine, w, &seen, &r), "%s, depth %u: warm-up", engine, depth);
	is_u64(r.requests, 1000, "what comes after it counts");
	is_u64(r.warm_requests, 300, "it does not");
	is_u64(r.bytes, 4096000, "so do bytes");
	is_u64(seen.traced, 1300, "all are traced");
	is_u64(seen.bad, 0, "and are as they should be");
	is_u64(seen.warmed, 1, "its end is told once");
	is_u64(seen.traced_then, 300, "when these have ended, and before any other was sent");
	ok(seen.then.lookups >= 300 && seen.then.lookups <= 2 * UINT64_C(300),
	   "the counters are those of then (%" PRIu64 ")", seen.then.lookups);
	ok(r.p50 <= r.p95 && r.p95 <= r.p99 && r.p99 <= r.max && r.mean <= r.max, "latencies are in order");
	w.warm_count = 0;
	w.count = 1300;
	ok(run(engine, w, &other, &r) && !memcmp(seen.off, other.off, 1300 * sizeof(seen.off[0])),
	   "without it, the same requests");
	ok(other.warmed == 1 && !other.traced_then && !r.warm_requests, "and its end comes before all of them");
	w.count = 3;
	w.warm_count = 5;
	ok(run(engine, w, &seen, &r) && r.requests == 3 && r.warm_requests == 5 && seen.traced == 8,
	   "fewer than are in flight");
	w.count = 0;
	ok(run(engine, w, &seen, &r) && r.requests == 0 && seen.traced == 5 && seen.warmed == 1 && !r.max,
	   "a warm-up alone");
	w.warm_count = 0;
	ok(run(engine, w, &seen, &r) && r.requests == 0 && seen.traced == 0 && r.ns == 0, "nothing at all");
}

/* The model's device: 15.72 us for a unit of data, one after the other. */
static void test_model(void)
{
	struct qimg_workload w = { .order = QIMG_AT_RANDOM, .count = 20000, .warm_count = 2000, .depth = 16,
				   .size = 4096, .seed = 2 };
	struct qimg_workload_result r, again;
	static const char options[] = "aio=model=ssd-2015";

	ok(run(options, w, &seen, &r) && r.virtual_time, "a model's time is virtual");
	is_u64(r.requests, 20000, "all have ended");
	is_u64(r.ns, UINT64_C(20000) * 15720, "with all tables at hand 63,600 a second, to the ns");
	ok(run(options, w, &seen, &again) && again.ns == r.ns && again.p99 == r.p99 && again.mean == r.mean,
	   "and the same once more");
	w.count = 0;
	w.run_ns = 100000000;
	w.warm_count = 0;
	w.warm_ns = 50000000;
	ok(run(options, w, &seen, &r), "for a time");
	ok(r.ns >= 100000000 && r.ns < 100000000 + 17 * 15720, "which is the model's (%" PRIu64 " ns)", r.ns);
	ok(r.warm_ns >= 50000000 && r.warm_ns < 50000000 + 17 * 15720, "so is that of the warm-up (%" PRIu64 " ns)",
	   r.warm_ns);
	/* Each start waits for a table: four in a row begin one after the other, and end together. */
	w = (struct qimg_workload){ .order = QIMG_IN_STEPS, .count = 4, .depth = 4, .size = 4096, .step = 256 << 10 };
	ok(run("aio=model=ssd-2015,metadata-depth=1,l2-cache-entry-size=512", w, &seen, &r),
	   "loads that are waited for");
	ok(r.mean * 6 < r.max * 5 && r.max, "a request begins when it is submitted (%" PRIu64 " of %" PRIu64 ")",
	   r.mean, r.max);
	ok(run("aio=sync", (struct qimg_workload){ .order = QIMG_IN_STEPS, .count = 10, .depth = 1, .size = 4096,
						   .step = 4096 }, &seen, &r) && !r.virtual_time && r.ns,
	   "that of others is real");
}

/* None of those that the warm-up has in flight when its time is over. */
static void test_fewer_than_in_flight(const char *engine)
{
	struct qimg_workload w = { .order = QIMG_AT_RANDOM, .count = 10, .warm_ns = 20000000, .depth = 64,
				   .size = 4096, .seed = 2 };
	struct qimg_workload_result r;

	ok(run(engine, w, &seen, &r), "%s: 10 requests after a warm-up of 64 in flight", engine);
	is_u64(r.requests, 10, "are measured");
	is_u64(seen.traced - seen.traced_then, 10, "and were sent after it");
	is_u64(r.warm_requests, seen.traced_then, "all before belong to it");
	ok(r.warm_ns >= 20000000 && r.max <= r.ns, "nothing took longer than all of it (%" PRIu64 " of %" PRIu64 ")",
	   r.max, r.ns);
	if (r.virtual_time)
		is_u64(r.ns, UINT64_C(10) * 15720, "which is the time of 10 on this device");
	w.count = 0;
	w.run_ns = 5000000;
	ok(run(engine, w, &seen, &r) && r.requests == seen.traced - seen.traced_then && r.ns >= 5000000,
	   "for a time: all that are sent after it");
	w.write_percent = 100;
	w.pattern = 7;
	w.flush_interval = 64;
	ok(run(engine, w, &seen, &r) && r.writes == seen.traced - seen.traced_then, "with flushes, too");
}

/* Holes take no time on a model: a run for a time would last for ever. */
static void test_standstill(void)
{
	struct qimg_opts *o = qimg_opts_new();
	struct qimg_creation *c = NULL;
	struct qimg_workload w = { .order = QIMG_AT_RANDOM, .run_ns = 1, .depth = 4, .size = 4096 };
	struct qimg_workload_result r;
	struct qimg_image *img = NULL;

	ok(!qimg_opts_set(o, "size", "1M", &e) && !qimg_create_prepare(&c, "empty.qcow2", "qcow2", o, 0, &e) &&
		   !qimg_create_run(c, NULL, &e) && !qimg_opts_parse(o, "aio=model=ssd-2015", &e), "an empty image");
	qimg_create_free(c);
	qimg_opts_free(o);
	o = qimg_opts_new();
	ok(!qimg_opts_set(o, "aio", "model=ssd-2015", &e) &&
		   !qimg_open(&img, "empty.qcow2", "qcow2", o, 0, &e), "is opened");
	qimg_opts_free(o);
	w.image = img;
	ok(qimg_workload_run(&w, &r, &e) == -1 && strstr(e.msg, "no time"), "is not read for ever");
	diag("%s", e.msg);
	w.run_ns = 0;
	w.count = 100;
	ok(!qimg_workload_run(&w, &r, &e) && r.requests == 100 && r.ns == 0, "but a number of times");
	qimg_close(img, &e);
}

static void test_writes(void)
{
	struct qimg_workload w = { .order = QIMG_ZIPF, .theta = 0.8, .count = 2000, .warm_count = 100, .depth = 8,
				   .size = 4096, .seed = 2, .write_percent = 50, .pattern = 9,
				   .flush_interval = 100 };
	struct qimg_workload_result r;
	unsigned nines = 0, bad = 0;
	struct qimg_image *img;
	static uint8_t buf[SIZE];

	ok(run("aio=threads", w, &seen, &r), "a mixture");
	ok(seen.writes > 950 && seen.writes < 1150, "half of it writes (%u)", seen.writes);
	ok(r.writes <= seen.writes && r.writes + 100 >= seen.writes, "of which those after the warm-up count");
	img = open_it("aio=sync", 0);
	ok(img && !qimg_read(img, 0, buf, sizeof(buf), &e), "is read back");
	for (unsigned i = 0; i < SIZE; i++) {
		nines += buf[i] == 9;
		bad += buf[i] != 9 && buf[i] != 7;
	}
	ok(nines && nines % 4096 == 0 && !bad, "all of the writes have written the pattern, and nothing else");
	qimg_close(img, &e);
}

static void test_recorded(void)
{
	struct qimg_workload w = { .order = QIMG_RECORDED, .count = 7, .depth = 2 };
	struct qimg_recording *rec = NULL;
	struct qimg_workload_result r;
	FILE *f = fopen("rec", "w");

	fprintf(f, "0 4096\n1000 10000\n4190208 4096\n");
	fclose(f);
	ok(!qimg_recording_load(&rec, "rec", &e), "a recording");
	w.recording = rec;
	ok(run("aio=sync", w, &seen, &r), "is played");
	is_u64(r.bytes, 3 * 4096 + 2 * 10000 + 2 * 4096, "twice and a third, in lengths that vary");
	ok(seen.off[0] == 0 && seen.off[1] == 1000 && seen.off[3] == 0 && seen.off[6] == 0, "in its order");
	qimg_recording_free(rec);
	f = fopen("rec", "w");
	fprintf(f, "0 4096\n4190208 4097\n");
	fclose(f);
	ok(!qimg_recording_load(&rec, "rec", &e), "one that goes beyond the end");
	w.recording = rec;
	ok(!run("aio=sync", w, &seen, &r) && strstr(e.msg, "Line 2 ") && !seen.traced, "is refused before it begins");
	qimg_recording_free(rec);
	w.order = QIMG_AT_RANDOM;
	w.size = 4096;
	w.depth = 0;
	ok(!run("aio=sync", w, &seen, &r), "so is a depth of 0");
}

int main(void)
{
	scratch_enter();
	if (!ok(make(), "an image")) {
		diag("%s", e.msg);
		return done_testing();
	}
	test_warm_up("aio=sync", 1);
	test_warm_up("aio=threads", 64);
	test_warm_up("aio=model=ssd-2018", 8);
	test_fewer_than_in_flight("aio=threads");
	test_fewer_than_in_flight("aio=model=ssd-2015");
	test_model();
	test_standstill();
	test_writes();
	test_recorded();
	return done_testing();
}
