/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts of values over many powers of two, in steps of less than 2 % of the value. */
#ifndef OPS_HISTOGRAM_H
#define OPS_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_STEPS = 64, HISTOGRAM_SLOTS = (64 - 5) * HISTOGRAM_STEPS };

struct histogram {		/* all zeros: empty */
	uint64_t slot[HISTOGRAM_SLOTS];
	uint64_t count, sum, max;
};

void histogram_add(struct histogram *h, uint64_t v);
/* The value that `per_mille` of all values do not exceed, rounded up to the end of its step; 0: empty. */
uint64_t histogram_at(const struct histogram *h, unsigned per_mille);
uint64_t histogram_mean(const struct histogram *h);

#endif
