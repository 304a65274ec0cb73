// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/qcow2/cache: random operations against a plain array, with reads and writes that fail: a failed
 * load leaves nothing behind, a failed write keeps the slice dirty, a pinned slice stays in its place.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"
#include "qcow2/cache.h"
#include "qcow2/writeback.h"
#include "tap.h"

#define SLICE 512
#define SLICES 64

static uint8_t want[SLICES][SLICE];	/* what the cache must say */
static uint8_t disk[SLICES][SLICE];	/* what has reached the file */
static uint64_t seed = 42;
static int fail_read, fail_write;	/* one in so many; 0: none */
static unsigned failures, cleanings;
static struct qimg_error e;
static struct file *scratch;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static int inject(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		  uint64_t len)
{
	int chance = op == FILE_OP_READ ? fail_read : op == FILE_OP_WRITE ? fail_write : 0;

	(void)ctx;
	(void)f;
	if (chance && !rnd((uint64_t)chance)) {
		failures++;
		return EIO;
	}
	if (op == FILE_OP_WRITE)
		memcpy(disk[off / SLICE], buf, len);
	return 0;
}

static struct cache *cache;

static int write_dirty(struct file *f, struct qimg_error *err)
{
	struct writeback wb = { .buf = NULL };
	int ret;

	while ((ret = writeback_slices(&wb, cache, err)) == 1) {
		ret = file_write(f, wb.off, wb.buf, wb.len, err);
		writeback_slices_done(&wb, cache, ret < 0 ? err->code : 0);
		if (ret < 0)
			break;
	}
	writeback_free(&wb);
	return ret;
}

static int clean(void *owner, struct slice *victim, struct wait *w, struct qimg_error *err)
{
	cleanings++;
	(void)w;
	/* Either way is allowed: the victim alone, or everything that is dirty. */
	return rnd(2) ? cache_write(cache, victim, err) : write_dirty(owner, err);
}

/* Looks at, changes or forgets one slice. false: something was not as it must be. */
static bool step(bool may_fail)
{
	uint32_t n = (uint32_t)rnd(SLICES);
	struct slice *s;

	switch (rnd(12)) {
	case 0:
		return !write_dirty(scratch, &e) || may_fail;
	case 1:
		cache_forget(cache, (uint64_t)n * SLICE, SLICE);
		memcpy(want[n], disk[n], SLICE);	/* what was not written is gone */
		return true;
	default:
		break;
	}
	if (cache_get(cache, (uint64_t)n * SLICE, &s, NULL, &e) < 0)
		return may_fail && e.code == EIO;
	if (memcmp(s->data, want[n], SLICE)) {
		cache_put(cache, s);
		return false;
	}
	if (rnd(3)) {
		want[n][rnd(SLICE)] = (uint8_t)rnd(256);
		memcpy(s->data, want[n], SLICE);
		cache_dirty(cache, s);
	}
	cache_put(cache, s);
	return true;
}

static void random_steps(struct file *f, uint32_t slots)
{
	unsigned bad = 0;

	cache = NULL;
	if (!ok(!cache_open(&cache, f, SLICE, slots, clean, scratch, &e), "a cache of %u slices opens",
		slots))
		return;
	failures = cleanings = 0;
	for (unsigned i = 0; i < 100000; i++)
		bad += !step(false);
	is_u64(bad, 0, "%u slices: 100000 steps agree with the array", slots);
	ok(cleanings, "%u slices: dirty slices were evicted on the way", slots);

	fail_read = 20;
	fail_write = 15;
	for (unsigned i = 0; i < 100000; i++)
		bad += !step(true);
	fail_read = fail_write = 0;
	is_u64(bad, 0, "%u slices: the same with loads and writes that fail", slots);
	ok(failures > 100, "%u slices: %u of them did", slots, failures);

	ok(!write_dirty(scratch, &e) && !cache_any_dirty(cache), "%u slices: all is written", slots);
	is_mem(disk, want, sizeof(want), "%u slices: the file has what the array has", slots);
	cache_close(cache);
}

static void pins(struct file *f)
{
	struct slice *a = NULL, *b = NULL, *c = NULL;
	struct cache *two;
	uint8_t *where;

	if (!ok(!cache_open(&two, f, SLICE, 2, clean, scratch, &e), "a cache of two slices opens"))
		return;
	cache = two;
	ok(!cache_get(two, 0, &a, NULL, &e) && !cache_get(two, SLICE, &b, NULL, &e), "both can be pinned");
	where = a->data;
	ok(cache_get(two, 2 * SLICE, &c, NULL, &e) < 0 && e.code == EBUSY, "a third is an error then");
	cache_put(two, b);
	ok(!cache_get(two, 2 * SLICE, &c, NULL, &e) && c->off == 2 * SLICE, "one that is free gives way");
	ok(a->off == 0 && a->data == where && !memcmp(a->data, disk[0], SLICE),
	   "the pinned one stayed in its place");
	ok(!cache_get(two, 0, &b, NULL, &e) && a == b, "a second pin is on the same slice");
	is_u64(cache_stats(two)->hits, 1, "which was a hit");
	cache_put(two, a);
	cache_put(two, b);
	cache_put(two, c);
	cache_close(two);
}

/* What happens to slices between the copy that is written and the end of that write. */
static void changes_under_way(struct file *f)
{
	struct writeback wb = { .buf = NULL };
	struct cache *c;
	struct slice *s[3];

	if (!ok(!cache_open(&c, f, SLICE, 8, clean, f, &e), "a cache of eight slices opens"))
		return;
	for (unsigned i = 0; i < 3; i++) {
		ok(!cache_get(c, i * SLICE, &s[i], NULL, &e), "slice %u is there", i);
		s[i]->data[0] = 1;
		cache_dirty(c, s[i]);
		cache_put(c, s[i]);
	}
	is_u64((uint64_t)writeback_slices(&wb, c, &e), 1, "there is something to write");
	is_u64(wb.len, 3 * SLICE, "all three in one piece");
	s[1]->data[0] = 2;
	cache_dirty(c, s[1]);
	ok(wb.buf[SLICE] == 1, "a change does not reach the piece");
	cache_forget(c, 2 * SLICE, SLICE);
	writeback_slices_done(&wb, c, 0);
	ok(!s[0]->dirty, "the slice that nothing happened to is clean");
	ok(s[1]->dirty, "the one that was changed is not");
	ok(!cache_has(c, 2 * SLICE), "the one that was forgotten stays so");
	ok(!writeback_slices(&wb, c, &e), "that was all for this time");
	writeback_free(&wb);
	is_u64((uint64_t)writeback_slices(&wb, c, &e), 1, "the next time there is one");
	is_u64(wb.len, SLICE, "the changed one");
	writeback_slices_done(&wb, c, EIO);
	ok(s[1]->dirty, "which stays dirty when the write fails");
	writeback_free(&wb);
	is_u64((uint64_t)writeback_slices(&wb, c, &e), 1, "and is written again");
	writeback_slices_done(&wb, c, 0);
	writeback_free(&wb);
	ok(!cache_any_dirty(c), "then nothing is dirty");
	cache_close(c);
}

int main(void)
{
	struct file_hook hook = { inject, NULL };
	char path[] = "cache-test-XXXXXX";
	int fd = mkstemp(path);
	struct file *f;

	if (!ok(fd >= 0 && !file_open(&f, path, FILE_WRITE, &e), "scratch file opens"))
		return done_testing();
	close(fd);
	unlink(path);
	ok(!file_write(f, 0, disk, sizeof(disk), &e), "scratch file is filled");
	scratch = f;
	file_set_hook(&hook);
	random_steps(f, 2);
	random_steps(f, 7);
	random_steps(f, 20);
	pins(f);
	if (tap_plain_caches)
		changes_under_way(f);
	file_set_hook(NULL);
	file_close(f);
	return done_testing();
}
