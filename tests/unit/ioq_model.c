// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/io/ioq_model: the I/O is done; the clock goes as the device would, and comes to the figures that
 * the models are made after.
 */
#include <errno.h>

#include "base/error.h"
#include "io/file.h"
#include "io/ioq.h"
#include "io/loop.h"
#include "io/unnamed.h"
#include "scratch.h"
#include "tap.h"

#define KIB ((uint64_t)1024)
#define GIB (KIB * KIB * KIB)

static struct qimg_error e;
static struct file *f;
static uint8_t buf[65536];

/* ns for one request alone. */
static uint64_t take(struct ioq *q, enum ioq_op op, uint64_t off, uint64_t len, unsigned flags)
{
	struct ioq_req r = {
		.op = op, .file = f, .off = off, .buf = buf, .len = len, .flags = flags
	};
	uint64_t before = ioq_model_now(q);

	return ioq_run(q, &r, &e) ? UINT64_MAX : ioq_model_now(q) - before;
}

static bool near(double got, double want, double percent)
{
	bool is = got > want * (1 - percent / 100) && got < want * (1 + percent / 100);

	if (!is)
		diag("got %.1f, want %.1f", got, want);
	return is;
}

static double per_second(double ns)
{
	return 1e9 / ns;
}

static void cache_sizes_2015(void)
{
	static const struct {
		double part, iops;
	} rows[] = { { 16 / 40., 5100 }, { 24 / 40., 7300 }, { 32 / 40., 12700 }, { 1, 63600 } };
	struct ioq *q = NULL;
	double hit, miss;
	unsigned i;

	ok(!ioq_new(&q, "model=ssd-2015", 8, &e), "model=ssd-2015");
	is_str(ioq_engine_name(q), "model=ssd-2015", "tells its name");
	is_i64(ioq_fd(q), -1, "has no descriptor");
	hit = (double)take(q, IOQ_READ, 7 * 4096, 4096, 0);
	miss = (double)take(q, IOQ_READ, 1 << 20, 65536, IOQ_METADATA);
	for (i = 0; i < 4; i++)
		ok(near(per_second(hit + (1 - rows[i].part) * miss), rows[i].iops, 3),
		   "%.0f a second", rows[i].iops);
	ioq_free(q);
}

static void entry_sizes_2018(void)
{
	static const struct {
		unsigned entry;
		double part, iops;
	} rows[] = { { 4, 0.2, 6545 },	{ 16, 0.2, 5177 }, { 64, 0.2, 2718 }, { 4, 0.6, 12045 },
		     { 16, 0.6, 9798 }, { 64, 0.6, 5326 }, { 4, 1, 55680 },   { 64, 1, 57355 } };
	struct ioq *q = NULL;
	double ns;
	unsigned i;

	ok(!ioq_new(&q, "model=ssd-2018", 1, &e), "model=ssd-2018");
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ns = (double)take(q, IOQ_READ, 0, 4096, 0) +
		     (1 - rows[i].part) *
			     (double)take(q, IOQ_READ, 1 << 20, rows[i].entry * KIB, IOQ_METADATA);
		ok(near(per_second(ns), rows[i].iops, 12), "%.0f a second", rows[i].iops);
	}
	ioq_free(q);
}

static void disk_2016(void)
{
	struct ioq *q = NULL;
	uint64_t ns = 0;
	unsigned i;

	ok(!ioq_new(&q, "model=hdd-2016", 4, &e), "model=hdd-2016");
	for (i = 0; i < 100; i++)
		ns += take(q, IOQ_READ, i * 7 * 4096 % GIB, 4096, 0);
	ok(near(per_second((double)ns / 100), 99, 1), "random reads");
	for (i = 0, ns = 0; i < 100; i++)
		ns += take(q, IOQ_READ, i * 7 * 4096, 4096, 0) +
		      take(q, IOQ_READ, GIB + i * 99 * 4096, 4096, IOQ_METADATA);
	ok(near(per_second((double)ns / 100), 49.5, 1), "random reads with a table for each");
	take(q, IOQ_READ, 0, 4096, 0);
	for (i = 1, ns = 0; i <= 100; i++)
		ns += take(q, IOQ_READ, i * 4096, 4096, 0);
	ok(near(per_second((double)ns / 100), 21000, 1), "sequential reads");
	take(q, IOQ_READ, GIB, 4096, IOQ_METADATA);
	take(q, IOQ_READ, 0, 4096, 0);
	for (i = 1, ns = 0; i <= 100; i++)
		ns += take(q, IOQ_READ, GIB, 4096, IOQ_METADATA) +
		      take(q, IOQ_READ, i * 4096, 4096, 0);
	ok(near(per_second((double)ns / 100), 14000, 1),
	   "sequential reads with the same table again and again");
	ioq_free(q);
}

static void misses_2019(void)
{
	struct ioq *q = NULL;
	double hit, miss;

	ok(!ioq_new(&q, "model=thin-2019", 1, &e), "model=thin-2019");
	hit = (double)take(q, IOQ_WRITE, 0, 4096, 0);
	miss = (double)take(q, IOQ_WRITE, 1 << 20, 65536, IOQ_METADATA) +
	       (double)take(q, IOQ_SYNC, 0, 0, 0) +
	       (double)take(q, IOQ_READ, 2 << 20, 65536, IOQ_METADATA);
	ok(near(per_second(hit), 16000, 1), "random writes, all tables at hand");
	ok(near(per_second(hit + 0.293 * miss), 500, 2), "one table short");
	ioq_free(q);
}

static void many_at_once(void)
{
	struct ioq_req r[9], *back;
	struct ioq *q = NULL;
	uint64_t one, before;
	unsigned i, n = 0;

	ioq_new(&q, "model=ssd-2015", 9, &e);
	one = take(q, IOQ_READ, 1 << 20, 65536, IOQ_METADATA);
	before = ioq_model_now(q);
	for (i = 0; i < 9; i++) {
		r[i] = (struct ioq_req){ .op = IOQ_READ,
					 .file = f,
					 .off = i << 20,
					 .buf = buf,
					 .len = i < 8 ? 65536 : 4096,
					 .flags = i < 8 ? IOQ_METADATA : 0 };
		ioq_submit(q, &r[i]);
	}
	is_u64(ioq_model_now(q), before, "the clock stands while nothing is reaped");
	ok(!ioq_poll(q), "who asks may have more to start");
	ok(ioq_poll(q) == &r[8], "what is done first comes first");
	ok(ioq_model_now(q) > before && ioq_model_now(q) < before + one, "and takes its time");
	while ((back = ioq_reap(q)))
		n += !back->code;
	ok(n == 8 && ioq_model_now(q) == before + one, "eight tables at once take as long as one");
	before = ioq_model_now(q);
	r[0] = (struct ioq_req){ .op = IOQ_DISCARD, .file = f, .off = 0, .len = 4096 };
	ok(!ioq_run(q, &r[0], &e) && ioq_model_now(q) > before, "discards take time");
	r[0].op = IOQ_ZERO;
	r[0].len = UINT64_MAX;
	ok(ioq_run(q, &r[0], &e) && e.code == EFBIG, "errors are reported: %s", e.msg);
	ioq_free(q);
}

/* What an image does with its file without the queue, as tables that a caller waits for. */
static void without_the_queue(void)
{
	struct ioq *q = NULL, *other = NULL;
	struct file *g = NULL;
	uint64_t table, data, before;
	struct ioq_req r;

	ioq_new(&q, "model=ssd-2018", 4, &e);
	table = take(q, IOQ_READ, 3 << 20, 65536, IOQ_METADATA);
	data = take(q, IOQ_READ, 0, 4096, 0);
	before = ioq_model_now(q);
	ok(!file_read(f, 1 << 20, buf, 65536, &e) && ioq_model_now(q) - before == table,
	   "a table that is read at once costs what it costs in the queue");
	r = (struct ioq_req){ .op = IOQ_READ, .file = f, .off = 4096, .buf = buf, .len = 4096 };
	before = ioq_model_now(q);
	ioq_submit(q, &r);
	ok(!file_read(f, 2 << 20, buf, 65536, &e) && ioq_reap(q) == &r &&
		   ioq_model_now(q) - before == table + data,
	   "it starts when the owner has the data");
	r.flags = IOQ_METADATA;
	r.len = 65536;
	before = ioq_model_now(q);
	ioq_submit(q, &r);
	ok(!file_read(f, 2 << 20, buf, 65536, &e) && ioq_reap(q) == &r &&
		   ioq_model_now(q) - before == table,
	   "what the device has meanwhile is done meanwhile");
	before = ioq_model_now(q);
	ok(!file_write(f, 1 << 20, buf, 65536, &e) && ioq_model_now(q) - before == table,
	   "so does one that is written");
	before = ioq_model_now(q);
	ok(!file_sync(f, &e) && ioq_model_now(q) - before == 1000000, "and a sync");
	ok(!file_open(&g, "file", FILE_NO_SYNC, &e), "a file that is not synced");
	r = (struct ioq_req){ .op = IOQ_SYNC, .file = g };
	before = ioq_model_now(q);
	ok(!ioq_run(q, &r, &e) && !file_sync(g, &e) && ioq_model_now(q) - before == 2000000,
	   "takes the time of the model");
	file_close(g);
	before = ioq_model_now(q);
	ok(!file_open(&g, "file", 0, &e) && !file_read(g, 0, buf, 4096, &e) &&
		   ioq_model_now(q) == before,
	   "a file that the queue has not seen is not counted");
	file_close(g);
	ok(!ioq_new(&other, "model=ssd-2018", 4, &e) && take(other, IOQ_READ, 0, 4096, 0) == data &&
		   !file_read(f, 0, buf, 65536, &e) && ioq_model_now(q) == before &&
		   ioq_model_now(other) == data + table,
	   "the queue that has had it last counts");
	ioq_free(other);
	ok(!file_read(f, 0, buf, 65536, &e) && ioq_model_now(q) == before, "when that is gone, none");
	ioq_free(q);
}

/* The second level of a cache. */
static void files_without_a_name(void)
{
	uint64_t slow, fast = 0, memory = 0;
	struct file *g = NULL;
	struct ioq *q = NULL;
	struct ioq_req r;

	ioq_new(&q, "model=hdd-2016", 4, &e);
	slow = take(q, IOQ_READ, GIB, 65536, IOQ_METADATA);
	r = (struct ioq_req){ .op = IOQ_READ, .buf = buf, .len = 65536, .flags = IOQ_METADATA };
	for (unsigned i = 0; i < 2; i++) {
		ok(!unnamed_open(&g, ".", i ? 0 : FILE_DIRECT, &e), "a file without a name");
		r.file = g;
		memory = ioq_model_now(q);
		ok(!ioq_run(q, &r, &e), "is read");
		memory = ioq_model_now(q) - memory;
		if (!i)
			fast = memory;
		file_close(g);
	}
	ok(fast < slow / 20, "it is on another device: %" PRIu64 " us, not %" PRIu64, fast / 1000, slow / 1000);
	ok(memory < fast / 5, "or, not to pass by the page cache, in memory: %" PRIu64 " us", memory / 1000);
	ioq_free(q);
}

static void real(void)
{
	uint8_t out[100], in[100] = { 0 };
	struct loop *l = NULL;
	struct ioq *q = NULL;
	const char *source;
	unsigned i;

	memset(out, 0x5a, sizeof(out));
	for (i = 0; ioq_model(i, &source); i++) {
		struct ioq_req w = {
			.op = IOQ_WRITE, .file = f, .off = 12345, .buf = out, .len = 100
		};
		struct ioq_req r = {
			.op = IOQ_READ, .file = f, .off = 12345, .buf = in, .len = 100
		};

		ok(!ioq_new(&q, ioq_model(i, &source), 3, &e) && strlen(source) > 10, "%s: %s",
		   ioq_model(i, &source), source);
		out[i] = (uint8_t)i;
		ok(!ioq_run(q, &w, &e) && !ioq_run(q, &r, &e) && !memcmp(in, out, 100), "does it");
		ioq_free(q);
	}
	ok(ioq_new(&q, "model=abacus", 1, &e) && e.code == EINVAL, "%s", e.msg);
	ok(!ioq_new(&q, "sync", 1, &e) && ioq_model_now(q) == 0, "other engines have no clock");
	ioq_free(q);
	ok(!loop_new(&l, "model=hdd-2016", 4, 1, &e) && !loop_model_now(l),
	   "a loop has the clock of its engine");
	loop_free(l);
}

int main(void)
{
	scratch_enter();
	ok(!file_open(&f, "file", FILE_WRITE | FILE_CREATE, &e) && !file_truncate(f, 3 * GIB, &e),
	   "a file");
	cache_sizes_2015();
	entry_sizes_2018();
	disk_2016();
	misses_2019();
	many_at_once();
	without_the_queue();
	files_without_a_name();
	real();
	file_close(f);
	return done_testing();
}
