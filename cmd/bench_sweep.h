/* SPDX-License-Identifier: BSD-2-Clause */
/* Cases from lists: one for each combination. */
#ifndef CMD_BENCH_SWEEP_H
#define CMD_BENCH_SWEEP_H

#include "bench_list.h"

struct bench_sweep {
	struct bench_list l2, entry, refcount, depth, cluster, hint;
	struct bench_texts aio, preallocation, format;
	char *more;			/* open options that the cases refer to, or NULL */
	/* Filled by bench_sweep_cases. */
	struct bench_case *cases;
	unsigned n;
};

/*
 * The cases that the lists make of *base, which is what they have in common: checked as far as that is possible
 * without measuring, at least one. -1 after a message; in any case to be freed. What the texts of the sweep
 * hold is used by the cases.
 */
int bench_sweep_cases(struct bench_sweep *s, const struct bench_case *base);
void bench_sweep_free(struct bench_sweep *s);

#endif
