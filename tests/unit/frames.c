// SPDX-License-Identifier: BSD-2-Clause
/* lib/qcow2/frames: frames never overlap, and what is given back leaves memory. */
#include <stdlib.h>

#include "base/error.h"
#include "io/pages.h"
#include "qcow2/frames.h"
#include "tap.h"

#define MOST 2000

static struct qimg_error e;
static uint64_t seed = 3;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static struct frame fr[MOST];
static uint32_t mark[MOST];

static void random_use(uint32_t size)
{
	struct frames *f = NULL;
	uint32_t live = 0;
	unsigned bad = 0;

	if (!ok(!frames_open(&f, size, &e), "%u bytes: opens", size))
		return;
	memset(fr, 0, sizeof(fr));
	for (uint32_t i = 0; i < 40000; i++) {
		uint32_t n = (uint32_t)rnd(64 * 1024 * 1024 / size < MOST ? 64 * 1024 * 1024 / size : MOST);

		if (fr[n].data) {
			bad += memcmp(fr[n].data, &mark[n], 4) || memcmp(fr[n].data + size - 4, &mark[n], 4);
			frames_put(f, &fr[n], rnd(2));
			bad += fr[n].data != NULL;
			live--;
		} else if (!frames_get(f, &fr[n], &e)) {
			mark[n] = i;
			memcpy(fr[n].data, &i, 4);
			memcpy(fr[n].data + size - 4, &i, 4);
			bad += (uintptr_t)fr[n].data % (size < 4096 ? size : 4096) != 0;
			live++;
		} else {
			bad++;
		}
		if (rnd(500) == 0)
			frames_trim(f);
		bad += frames_bytes(f) < (uint64_t)live * size;
	}
	is_u64(bad, 0, "%u bytes: nobody else writes there, and the count covers them", size);
	for (uint32_t n = 0; n < MOST; n++)
		if (fr[n].data)
			frames_put(f, &fr[n], false);
	ok(frames_bytes(f) > 0, "%u bytes: %u KiB stay at hand", size, (unsigned)(frames_bytes(f) >> 10));
	frames_trim(f);
	is_u64(frames_bytes(f), 0, "%u bytes: until they are given back", size);
	frames_close(f);
}

static void given_back(uint32_t size)
{
	uint32_t count = (32u << 20) / size;
	struct frame *many = calloc(count, sizeof(*many));
	int64_t before, full, after;
	struct frames *f = NULL;

	if (!ok(many && !frames_open(&f, size, &e), "%u bytes: opens", size))
		goto out;
	memset(many, 1, count * sizeof(*many));
	before = (int64_t)pages_resident();
	for (uint32_t i = 0; i < count; i++)
		if (!frames_get(f, &many[i], &e))
			memset(many[i].data, 1, size);
	full = (int64_t)pages_resident() - before;
	is_u64(frames_bytes(f), 32 << 20, "%u bytes: 32 MiB are taken", size);
	for (uint32_t i = 0; i < count; i++)
		frames_put(f, &many[i], true);
	after = (int64_t)pages_resident() - before;
	if (!tap_memory_tells || full < 30 << 20)
		skip("memory is not counted here");
	else
		ok(full < 34 << 20 && after < 2 << 20, "%u bytes: %d KiB more are resident with them, %d afterwards",
		   size, (int)(full >> 10), (int)(after >> 10));
	is_u64(frames_bytes(f), 0, "%u bytes: nothing is taken any more", size);
	frames_close(f);
out:
	free(many);
}

int main(void)
{
	random_use(512);
	random_use(2048);
	random_use(4096);
	random_use(65536);
	random_use(2 << 20);
	given_back(512);
	given_back(4096);
	given_back(65536);
	return done_testing();
}
