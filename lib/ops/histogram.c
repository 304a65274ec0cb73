// SPDX-License-Identifier: BSD-2-Clause
/*
 * Values below 128 have a slot each; above, each power of two is divided into 64 steps, of which the
 * widest is 1/64 of the values in it.
 */
#include "ops/histogram.h"

#include "base/bytes.h"

static unsigned slot_of(uint64_t v)
{
	unsigned shift;

	if (v < 2 * HISTOGRAM_STEPS)
		return (unsigned)v;
	shift = 63 - (unsigned)__builtin_clzll(v) - 6;
	return shift * HISTOGRAM_STEPS + (unsigned)(v >> shift);
}

/* The largest value of a slot. */
static uint64_t end_of(unsigned slot)
{
	unsigned shift;

	if (slot < 2 * HISTOGRAM_STEPS)
		return slot;
	shift = slot / HISTOGRAM_STEPS - 1;
	return (((uint64_t)(slot - shift * HISTOGRAM_STEPS) + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t v)
{
	h->slot[slot_of(v)]++;
	h->count++;
	h->sum += v;
	h->max = max_u64(h->max, v);
}

uint64_t histogram_at(const struct histogram *h, unsigned per_mille)
{
	uint64_t rank = (h->count * per_mille + 999) / 1000, seen = 0;

	for (unsigned i = 0; i < HISTOGRAM_SLOTS; i++) {
		seen += h->slot[i];
		if (h->slot[i] && seen >= rank)
			return min_u64(end_of(i), h->max);
	}
	return h->max;
}

uint64_t histogram_mean(const struct histogram *h)
{
	return h->count ? h->sum / h->count : 0;
}
