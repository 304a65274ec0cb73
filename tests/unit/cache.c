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
#include "tap.h"

#define SLICE 512
#define SLICES 64

static uint8_t want[SLICES][SLICE];	/* what the cache must say */
static uint8_t disk[SLICES][SLICE];	/* what has reached the file */
static uint64_t seed = 42;
static int fail_read, fail_write;	/* one in so many; 0: none */
static unsigned failures, cleanings;
static struct qimg_error e;

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
	if (op == FILE_OP_WRITE && len == SLICE)
		memcpy(disk[off / SLICE], buf, SLICE);
	return 0;
}

static struct cache *cache;

static int clean(void *owner, struct slice *victim, struct qimg_error *err)
{
	cleanings++;
	/* Either way is allowed: the victim alone, or everything that is dirty. */
	(void)owner;
	return rnd(2) ? cache_write(cache, victim, err) : cache_write_dirty(cache, err);
}

/* Looks at, changes or forgets one slice. false: something was not as it must be. */
static bool step(bool may_fail)
{
	uint32_t n = (uint32_t)rnd(SLICES);
	struct slice *s;

	switch (rnd(12)) {
	case 0:
		return !cache_write_dirty(cache, &e) || may_fail;
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
	if (!ok(!cache_open(&cache, f, SLICE, slots, clean, NULL, &e), "a cache of %u slices opens",
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

	ok(!cache_write_dirty(cache, &e) && !cache_any_dirty(cache), "%u slices: all is written", slots);
	is_mem(disk, want, sizeof(want), "%u slices: the file has what the array has", slots);
	cache_close(cache);
}

static void pins(struct file *f)
{
	struct slice *a = NULL, *b = NULL, *c = NULL;
	struct cache *two;
	uint8_t *where;

	if (!ok(!cache_open(&two, f, SLICE, 2, clean, NULL, &e), "a cache of two slices opens"))
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
	file_set_hook(&hook);
	random_steps(f, 2);
	random_steps(f, 7);
	random_steps(f, 20);
	pins(f);
	file_set_hook(NULL);
	file_close(f);
	return done_testing();
}
