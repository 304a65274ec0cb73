// SPDX-License-Identifier: BSD-2-Clause
/* lib/ops/histogram against a sorted list. */
#include "ops/histogram.h"

#include <stdlib.h>

#include "tap.h"

enum { N = 20000 };

static struct histogram h;
static uint64_t value[N];

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int main(void)
{
	static const unsigned per_mille[] = { 1, 250, 500, 950, 990, 999, 1000 };
	uint64_t seed = 7, sum = 0, low = 0, high = 0;

	is_u64(histogram_at(&h, 500), 0, "nothing at all: 0");
	is_u64(histogram_mean(&h), 0, "and a mean of 0");
	for (unsigned i = 0; i < N; i++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		value[i] = (seed >> 8) >> (i % 50);	/* of all sizes */
		if (i < 300)
			value[i] = i;
		histogram_add(&h, value[i]);
		sum += value[i];
	}
	qsort(value, N, sizeof(value[0]), by_value);
	is_u64(h.count, N, "all are counted");
	is_u64(h.max, value[N - 1], "the largest is exact");
	is_u64(histogram_mean(&h), sum / N, "so is the mean");
	for (unsigned i = 0; i < sizeof(per_mille) / sizeof(per_mille[0]); i++) {
		uint64_t rank = ((uint64_t)N * per_mille[i] + 999) / 1000;
		uint64_t want = value[rank - 1], got = histogram_at(&h, per_mille[i]);

		low += got < want;
		high += got > want + want / 50;
	}
	is_u64(low, 0, "no percentile is below what it must be");
	is_u64(high, 0, "and none above it by more than 2 %%");
	histogram_add(&h, UINT64_MAX);
	is_u64(histogram_at(&h, 1000), UINT64_MAX, "the largest number of all has a place");
	return done_testing();
}
