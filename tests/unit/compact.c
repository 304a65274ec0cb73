// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/qcow2/compact: what it gives back is what it was given, bit for bit, and only while it is true; its
 * memory stays within the budget.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "qcow2/compact.h"
#include "scratch.h"
#include "tap.h"

enum { MOST_SLICE = 65536, SLICES = 200 };

static uint64_t seed = 5;
static struct qimg_error e;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* runs of numbers in each lane, with steps of any kind. */
static void make(uint8_t *data, uint32_t size, unsigned lanes, uint32_t runs)
{
	static const uint64_t steps[] = { 0, 1, 512, 65536, UINT32_MAX, UINT64_C(1) << 32, UINT64_MAX };
	uint32_t count = size / 8 / lanes;

	for (unsigned lane = 0; lane < lanes; lane++) {
		uint64_t word = rnd(UINT64_MAX), step = steps[rnd(5)];

		for (uint32_t i = 0; i < count; i++, word += step) {
			if (i && rnd(count) < runs - 1) {
				word = rnd(2) ? 0 : rnd(UINT64_MAX);
				step = steps[rnd(ARRAY_SIZE(steps))];
			}
			be64_put(data + (i * lanes + lane) * 8, word);
		}
	}
}

/* Slices of one size, from a single run to as many as do not pay. */
static void round_trips(uint32_t size, unsigned lanes)
{
	static uint8_t in[MOST_SLICE], out[MOST_SLICE];
	struct compact *c = NULL;
	unsigned kept = 0, refused = 0, wrong = 0;

	if (!ok(!compact_open(&c, size, lanes, 1 << 20, &e), "slices of %u bytes, %u lanes", size, lanes))
		return;
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t off = (uint64_t)rnd(1 << 20) * size;

		make(in, size, lanes, 1 + (uint32_t)rnd(2 + size / 128 / lanes));
		compact_kill(c, off);
		compact_add(c, off, in);
		memset(out, 0xaa, size);
		if (!compact_get(c, off, out)) {
			refused++;
			wrong += compact_has(c, off);
			continue;
		}
		kept++;
		wrong += memcmp(in, out, size) != 0;
	}
	ok(kept > 5 && refused > 20, "%u of them are kept, %u are not", kept, refused);
	is_u64(wrong, 0, "what is kept is what it was");
	compact_close(c);
}

/* The rule by which slices are kept: at most an eighth of their size. */
static void limit(void)
{
	static uint8_t in[4096], out[4096];
	struct compact *c = NULL;

	if (!ok(!compact_open(&c, 4096, 1, 1 << 20, &e), "slices of 4096 bytes"))
		return;
	/* A pair that grows by one, 32 times; then the rest as one more. */
	for (unsigned runs = 32; runs <= 33; runs++) {
		for (unsigned i = 0; i < 512; i++)
			be64_put(in + i * 8, min_u64(i / 2, runs - 1) * 1000000 + (i < 2 * runs ? i % 2 : i));
		for (unsigned i = 2 * (runs - 1); i < 512; i++)
			be64_put(in + i * 8, (runs - 1) * 1000000 + i);
		compact_add(c, runs * 4096, in);
		ok(compact_get(c, runs * 4096, out) == (runs == 32), "%u runs are %s", runs,
		   runs == 32 ? "kept" : "too many");
	}
	compact_close(c);
}

static void budget(void)
{
	static uint8_t in[4096], out[4096];
	struct compact *c = NULL;
	unsigned found = 0, over = 0;

	if (!ok(!compact_open(&c, 4096, 2, 16 << 10, &e), "a budget of 16 KiB"))
		return;
	for (unsigned i = 0; i < 5000; i++) {
		make(in, 4096, 2, 1);
		compact_add(c, (uint64_t)i * 4096, in);
		over += compact_bytes(c) > 16 << 10;
		/* One is asked for all the time. */
		found += i >= 10 && compact_get(c, 7 * 4096, out);
	}
	is_u64(over, 0, "is never exceeded");
	is_u64(found, 4990, "what is used stays");
	found = 0;
	for (unsigned i = 0; i < 5000; i++)
		found += compact_has(c, (uint64_t)i * 4096);
	ok(found > 100 && found < 300, "%u slices of 4 KiB stay in 16 KiB", found);
	compact_clean(c);
	ok(compact_has(c, 7 * 4096) && !compact_has(c, 4998 * 4096), "cleaning drops what nobody has used");
	compact_clean(c);
	ok(!compact_has(c, 7 * 4096) && !compact_bytes(c), "and then the rest");
	compact_close(c);
}

static void random_steps(void)
{
	static uint8_t want[SLICES][512], out[512];
	static bool there[SLICES];
	struct compact *c = NULL;
	unsigned wrong = 0, hits = 0;

	if (!ok(!compact_open(&c, 512, 1, 8192, &e), "slices of 512 bytes in 8 KiB"))
		return;
	for (unsigned i = 0; i < 200000; i++) {
		uint32_t n = (uint32_t)rnd(SLICES);

		switch (rnd(4)) {
		case 0:
			compact_kill(c, n * 512);
			make(want[n], 512, 1, 1 + (uint32_t)rnd(4));
			there[n] = false;
			break;
		case 1:
			compact_add(c, n * 512, want[n]);
			there[n] = true;
			break;
		default:
			if (!compact_get(c, n * 512, out))
				break;
			hits++;
			wrong += !there[n] || memcmp(out, want[n], 512);
		}
		if (rnd(10000) == 0)
			compact_clean(c);
	}
	is_u64(wrong, 0, "200000 steps agree with the array");
	ok(hits > 1000, "%u slices were made again", hits);
	compact_close(c);
}

int main(void)
{
	for (uint32_t size = 512; size <= MOST_SLICE; size *= 2) {
		round_trips(size, 1);
		round_trips(size, 2);
	}
	limit();
	budget();
	random_steps();
	return done_testing();
}
