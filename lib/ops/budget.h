/* SPDX-License-Identifier: BSD-2-Clause */
/* How much is under way at once: bounded in pieces, workers and bytes, whatever the image. */
#ifndef OPS_BUDGET_H
#define OPS_BUDGET_H

#include <stddef.h>
#include <stdint.h>

struct copy;

struct budget {
	size_t piece;		/* bytes of one: a power of two, and a multiple of the unit */
	unsigned pieces;
	unsigned workers;
	unsigned wanted;	/* workers, had there been memory */
};

/* unit: in which the copy tells data and zeros apart. */
void budget_make(struct budget *b, const struct copy *c, uint64_t unit);

#endif
