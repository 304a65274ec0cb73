/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Caches of many sizes at the same time, as a model without content: which accesses would be hits. They
 * choose what leaves them as the metadata caches do (qcow2/cache.c): by a clock hand and one bit of
 * reference.
 */
#ifndef OPS_CLOCK_H
#define OPS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct clock_hands;
struct qimg_error;

enum { CLOCK_MOST = 64 };		/* sizes at the same time */

/* Sizes are in pieces, each at least 1. */
int clock_open(struct clock_hands **c, const uint64_t *size, unsigned sizes, struct qimg_error *e);
void clock_close(struct clock_hands *c);	/* NULL is allowed */
/*
 * Piece `id` is accessed; ids are small numbers, given as pieces come up. `count`: a hit counts. -1:
 * there is no memory.
 */
int clock_access(struct clock_hands *c, uint32_t id, bool count, struct qimg_error *e);
uint64_t clock_hits(const struct clock_hands *c, unsigned i);	/* of the i-th size */

#endif
