// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/qcow2/cache with a second level, with what leaves it kept in compact form, with loads that are waited
 * for and end in any order, and in the company of other caches of a chain: random operations against a plain
 * array. Reads and writes fail, the second level's file is changed behind its back, clusters get a new
 * meaning while loads of them are under way.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/allowance.h"
#include "image/driver.h"
#include "image/image.h"
#include "io/file.h"
#include "io/pages.h"
#include "qcow2/cache.h"
#include "qcow2/second.h"
#include "qcow2/writeback.h"
#include "scratch.h"
#include "tap.h"

enum { SLICE = 512, SLICES = 64, LOADS = 8 };

static uint8_t want[SLICES][SLICE];	/* what the cache must say */
static uint8_t disk[SLICES][SLICE];	/* what has reached the file */
static uint64_t seed = 11;
static unsigned fail_read, fail_write, spoil;	/* one in so many; 0: none */
static unsigned failures, warnings;
static struct file *image;
static struct cache *cache;
static struct second *second;
static struct qimg_error e;

/* Loads that have been asked for. */
static struct asked {
	struct wait w;
	uint64_t off;
	bool on, under_way;
} asked[LOADS];

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static void on_warning(void *ctx, const char *msg)
{
	(void)ctx;
	(void)msg;
	warnings++;
}

static int inject(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		  uint64_t len)
{
	unsigned chance = op == FILE_OP_READ ? fail_read : op == FILE_OP_WRITE && f == image ? fail_write : 0;

	(void)ctx;
	if (chance && !rnd(chance)) {
		failures++;
		return EIO;
	}
	if (f == image && op == FILE_OP_WRITE)
		memcpy(disk[off / SLICE], buf, len);
	return 0;
}

static int write_dirty(void)
{
	struct writeback wb = { .buf = NULL };
	int ret;

	while ((ret = writeback_slices(&wb, cache, &e)) == 1) {
		ret = file_write(image, wb.off, wb.buf, wb.len, &e);
		writeback_slices_done(&wb, cache, ret < 0 ? e.code : 0);
		if (ret < 0)
			break;
	}
	writeback_free(&wb);
	return ret;
}

static int clean(void *owner, struct slice *victim, struct wait *w, struct qimg_error *err)
{
	(void)owner;
	(void)w;
	return rnd(2) ? cache_write(cache, victim, err) : write_dirty();
}

/* Ends one of the loads under way. */
static void end_load(void)
{
	struct asked *a = &asked[rnd(LOADS)];

	if (!a->under_way)
		return;
	a->under_way = false;
	a->w.done(&a->w, file_read(a->w.file, a->w.off, a->w.buf, a->w.len, &e) < 0 ? EIO : 0);
}

static void end_all_loads(void)
{
	for (struct asked *a = asked; a < asked + LOADS; a++) {
		if (a->under_way)
			a->w.done(&a->w, 0);
		a->on = a->under_way = false;
	}
}

/* Pins a slice, in one of two ways. 0, -1, MAP_WAIT: not yet. */
static int get(uint64_t off, struct slice **s)
{
	struct asked *a = &asked[rnd(LOADS)];
	int ret;

	if (rnd(3) == 0)
		return cache_get(cache, off, s, NULL, &e);
	if (a->under_way)
		return MAP_WAIT;
	if (!a->on || rnd(10) == 0)	/* some never come back for it */
		*a = (struct asked){ .off = off, .on = true };
	ret = cache_get(cache, a->off, s, &a->w, &e);
	if (ret == MAP_WAIT)
		a->under_way = a->w.op == WAIT_READ;
	else
		a->on = false;
	return ret;
}

/* The second level's file in somebody else's hands. */
static void spoil_some(void)
{
	struct file *f = second_file(second);
	uint64_t size = file_size(f);
	uint8_t byte = (uint8_t)rnd(256);

	if (!size)
		return;
	if (rnd(8))
		file_write(f, rnd(size), &byte, 1, &e);
	else
		file_truncate(f, rnd(size), &e);
}

/* Like the entries of clusters that lie one behind the other, with a break somewhere. */
static void make_runs(uint8_t *table)
{
	uint64_t word = rnd(UINT64_MAX), step = rnd(3) * 65536;

	for (unsigned i = 0; i < SLICE / 8; i++) {
		if (!rnd(SLICE / 8))
			word = rnd(2) ? 0 : rnd(UINT64_MAX);
		be64_put(table + i * 8, word);
		word += step;
	}
}

/* false: something was not as it must be. */
static bool step(bool may_fail)
{
	uint32_t n = (uint32_t)rnd(SLICES);
	uint8_t table[SLICE];
	struct slice *s;
	int ret;

	if (second && spoil && rnd(spoil) == 0)
		spoil_some();
	switch (rnd(16)) {
	case 0:
		return !write_dirty() || may_fail;
	case 1:
		cache_forget(cache, (uint64_t)n * SLICE, SLICE);
		memset(table, (int)rnd(256), SLICE);
		/* Another table may get the cluster. */
		ret = rnd(2) ? file_write(image, (uint64_t)n * SLICE, table, SLICE, &e) : 0;
		memcpy(want[n], disk[n], SLICE);
		return !ret || may_fail;
	case 2:
	case 3:
	case 4:
		end_load();
		return true;
	case 5:
		if (rnd(100) == 0)
			cache_clean(cache, cache_clean(cache, 0, 1000), 1000);
		return true;
	default:
		break;
	}
	ret = get((uint64_t)n * SLICE, &s);
	if (ret == MAP_WAIT)
		return true;
	if (ret < 0)
		return may_fail && e.code == EIO;
	n = (uint32_t)(s->off / SLICE);
	ret = memcmp(s->data, want[n], SLICE);
	if (!ret && rnd(3) == 0) {
		if (rnd(2))
			make_runs(want[n]);
		else
			want[n][rnd(SLICE)] = (uint8_t)rnd(256);
		memcpy(s->data, want[n], SLICE);
		cache_dirty(cache, s);
	}
	cache_put(cache, s);
	return !ret;
}

static void random_steps(uint32_t slots, uint32_t level_two, uint32_t depth, uint64_t compact)
{
	struct second_options o = { .path = "second", .size = (uint64_t)level_two * SLICE };
	struct second_stats st = { .hits = 0 };
	struct qimg_image img = { .name = NULL };
	unsigned bad = 0;
	char what[100];

	snprintf(what, sizeof(what), "%u slices, %u in a file, depth %u, %u bytes compact", slots, level_two,
		 depth, (unsigned)compact);
	second = NULL;
	memset(asked, 0, sizeof(asked));
	memcpy(want, disk, sizeof(want));
	if (!ok(!allowance_new(&img, &e) && !cache_open(&cache, image, SLICE, slots, clean, NULL, &e),
		"%s: opens", what))
		return;
	cache_share(cache, &img);
	cache_set_depth(cache, depth);
	if (level_two && second_open(&second, NULL, &o, SLICE, SLICES, &e) == 0)
		cache_set_second(cache, second);
	if (compact)
		ok(!cache_keep_compact(cache, compact & 1 ? 2 : 1, compact, &e), "%s: keeps what leaves it", what);
	failures = warnings = 0;
	for (unsigned i = 0; i < 100000; i++)
		bad += !step(false);
	is_u64(bad, 0, "%s: 100000 steps agree with the array", what);
	if (second)
		ok(cache_stats(cache)->second_hits > 100 && cache_stats(cache)->second_bytes > 0 &&
		   cache_stats(cache)->second_bytes <= (uint64_t)level_two * SLICE,
		   "%s: %u loads came from the file", what, (unsigned)cache_stats(cache)->second_hits);
	if (compact)
		ok(cache_stats(cache)->compact_hits > 100, "%s: %u were made again", what,
		   (unsigned)cache_stats(cache)->compact_hits);
	fail_read = 50;
	fail_write = 15;
	spoil = 2000;
	for (unsigned i = 0; i < 100000; i++)
		bad += !step(true);
	fail_read = fail_write = spoil = 0;
	is_u64(bad, 0, "%s: the same when reads and writes fail and the file is changed", what);
	ok(failures > 100, "%s: %u of them did", what, failures);
	if (second)
		second_get_stats(second, &st);
	ok(warnings == (st.given_up ? 1 : 0), "%s: with %u warnings", what, warnings);
	end_all_loads();
	ok(!write_dirty() && !cache_any_dirty(cache), "%s: all is written", what);
	is_mem(disk, want, sizeof(want), "%s: the file has what the array has", what);
	ok(allowance_used(&img) >= 2 * SLICE && allowance_used(&img) <= (uint64_t)slots * SLICE,
	   "%s: %u bytes are accounted for", what, (unsigned)allowance_used(&img));
	cache_close(cache);
	is_u64(allowance_used(&img), 0, "%s: and none afterwards", what);
	second_close(second);
	allowance_free(&img);
}

/* ---- time ---- */

static struct cache *filled(uint32_t slots)
{
	struct slice *s;
	struct cache *c = NULL;

	if (cache_open(&c, image, SLICE, slots, clean, NULL, &e) < 0)
		return NULL;
	cache_clean(c, 4000, 1000);
	for (uint32_t n = 0; n < slots; n++)
		if (!cache_get(c, (uint64_t)n * SLICE, &s, NULL, &e))
			cache_put(c, s);
	return c;
}

static void by_time(void)
{
	struct cache *c = filled(40);
	struct slice *s, *kept = NULL;
	uint64_t full, at;

	if (!ok(c, "a cache of 40 slices is filled"))
		return;
	cache = c;
	full = cache_stats(c)->bytes;
	ok(full >= 40 * SLICE, "%u bytes are in memory", (unsigned)full);
	is_u64(cache_clean(c, 4999, 1000), 5000, "it is to be called a second after the first call");
	at = cache_clean(c, 6000, 1000);
	is_u64(at, 7000, "and a second after that");
	is_u64(cache_stats(c)->cleaned, 0, "what has been used in the last one stays");
	for (uint32_t n = 0; n < 5; n++)
		if (!cache_get(c, n * SLICE, &s, NULL, &e))
			cache_put(c, s);
	ok(!cache_get(c, 10 * SLICE, &s, NULL, &e) && !cache_get(c, 11 * SLICE, &kept, NULL, &e),
	   "two more are used, one of them for longer");
	cache_dirty(c, s);
	cache_put(c, s);
	cache_clean(c, 7000, 1000);
	is_u64(cache_stats(c)->cleaned, 33, "what was not touched for a second is gone");
	cache_clean(c, 8000, 1000);
	is_u64(cache_stats(c)->cleaned, 38, "and a second later the rest");
	ok(cache_has(c, 10 * SLICE) && cache_any_dirty(c), "but for what has not been written");
	ok(cache_has(c, 11 * SLICE) && kept->data, "and for what is in use");
	ok(cache_stats(c)->bytes < full / 2, "%u bytes are still in memory", (unsigned)cache_stats(c)->bytes);
	cache_put(c, kept);
	ok(!write_dirty(), "it is written");
	cache_clean(c, 9000, 1000);
	cache_clean(c, 10000, 1000);
	is_u64(cache_stats(c)->bytes, 0, "then nothing at all is");
	ok(!cache_get(c, 7 * SLICE, &s, NULL, &e) && !memcmp(s->data, disk[7], SLICE), "and all can be had again");
	cache_put(c, s);
	cache_close(c);
}

static void off(void)
{
	struct cache *c = filled(10);
	struct slice *s = NULL;
	unsigned loads;

	if (!ok(c, "a cache of 10 slices is filled"))
		return;
	cache = c;
	cache_set_off(c);
	loads = (unsigned)cache_stats(c)->loads;
	for (unsigned i = 0; i < 10; i++) {
		if (cache_get(c, 12 * SLICE, &s, NULL, &e))
			break;
		cache_put(c, s);
	}
	is_u64(cache_stats(c)->loads, loads + 10, "without caching each of ten lookups loads");
	if (!cache_get(c, 12 * SLICE, &s, NULL, &e))
		cache_dirty(c, s);
	cache_put(c, s);
	ok(cache_has(c, 12 * SLICE), "what is dirty stays");
	ok(!write_dirty() && !cache_get(c, 12 * SLICE, &s, NULL, &e), "until it has been written");
	cache_put(c, s);
	ok(!cache_has(c, 12 * SLICE), "and is used once more");
	cache_close(c);
}

/* ---- a chain ---- */

enum { BIG = 65536, CHAIN = 20, EACH = 1280 };

static int never(void *owner, struct slice *victim, struct wait *w, struct qimg_error *err)
{
	(void)owner;
	(void)victim;
	(void)w;
	return error_set(err, EIO, "nothing is dirty");
}

/* All of a chain of 20 is read, one image after the other and all together. */
static void chain(void)
{
	static struct qimg_image img[CHAIN];
	struct cache *c[CHAIN] = { NULL };
	struct file *f = NULL;
	int64_t before, most = 0;
	uint64_t used = 0, bytes, least = 0;
	struct slice *s;
	unsigned bad = 0;

	if (!ok(!file_open(&f, "big", FILE_WRITE | FILE_CREATE, &e) &&
		!file_truncate(f, (uint64_t)BIG * EACH, &e), "a file"))
		return;
	for (unsigned i = 0; i < CHAIN; i++) {
		if (allowance_new(&img[i], &e) || cache_open(&c[i], f, BIG, 4096, never, NULL, &e))
			return;
		cache_share(c[i], &img[i]);
		if (i)
			allowance_share(&img[0], &img[i]);
	}
	before = (int64_t)pages_resident();
	for (unsigned i = 0; i < 2 * CHAIN * EACH; i++) {
		unsigned n = i < CHAIN * EACH ? i / EACH : i % CHAIN;
		uint64_t off = i < CHAIN * EACH ? i % EACH : i / CHAIN % EACH;

		if (cache_get(c[n], off * BIG, &s, NULL, &e)) {
			bad++;
			continue;
		}
		cache_put(c[n], s);
		if (i % 128)
			continue;
		if ((int64_t)pages_resident() - before > most)
			most = (int64_t)pages_resident() - before;
		bytes = 0;
		for (unsigned j = 0; j < CHAIN; j++)
			bytes += cache_stats(c[j])->bytes;
		if (bytes > used)
			used = bytes;
		if (i == CHAIN * EACH - 128)
			least = cache_stats(c[CHAIN - 1])->bytes;
	}
	is_u64(bad, 0, "a chain of 20 images is read");
	ok(used <= ALLOWANCE_BYTES + 4 * CHAIN * BIG, "with %u KiB of memory by its own count",
	   (unsigned)(used >> 10));
	ok(!tap_memory_tells || most < 40 << 20, "and %d KiB by the system's", (int)(most >> 10));
	ok(least > 24 << 20, "of which the last one had %u KiB while it alone was read", (unsigned)(least >> 10));
	for (unsigned i = 0; i < CHAIN; i++)
		bad += cache_stats(c[i])->bytes < 2 * BIG;
	is_u64(bad, 0, "each has two slices at least");
	for (unsigned i = 0; i < CHAIN; i++) {
		cache_close(c[i]);
		allowance_free(&img[i]);
	}
	file_close(f);
}

int main(void)
{
	struct file_hook hook = { inject, NULL };

	scratch_enter();
	qimg_set_warning_handler(on_warning, NULL);
	if (!ok(!file_open(&image, "image", FILE_WRITE | FILE_CREATE, &e), "scratch file opens"))
		return done_testing();
	ok(!file_write(image, 0, disk, sizeof(disk), &e), "scratch file is filled");
	file_set_hook(&hook);
	random_steps(2, 0, 0, 0);
	random_steps(2, 1, 0, 0);
	random_steps(2, 20, 3, 0);
	random_steps(7, 1, 0, 0);
	random_steps(7, SLICES, 0, 0);
	random_steps(20, 30, 2, 0);
	random_steps(2, 0, 0, 1500);
	random_steps(7, 0, 1, 8192);
	random_steps(20, 0, 0, 2001);
	random_steps(7, 30, 3, 1501);
	if (tap_plain_caches)
		by_time();
	off();
	file_set_hook(NULL);
	if (tap_plain_caches)
		chain();
	file_close(image);
	return done_testing();
}
