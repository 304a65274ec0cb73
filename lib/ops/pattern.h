/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which requests a workload consists of, one after the other. They depend on the workload and the size of
 * the disk alone, so that a run, its repetition, and a prediction that does no I/O see the same.
 */
#ifndef OPS_PATTERN_H
#define OPS_PATTERN_H

#include "qimg.h"

/* Numbers that are distributed by Zipf's law, from 0, the most likely, to n - 1. */
struct zipf {
	double theta;			/* the exponent */
	double low, high;		/* of the integral, between which it is inverted */
	double sure;			/* so near to a number needs no further look */
	uint64_t n;
};

struct pattern {
	const struct qimg_workload *w;
	uint64_t disk;			/* its size */
	uint64_t blocks;		/* AT_RANDOM, ZIPF */
	uint64_t next;			/* IN_STEPS: offset; RECORDED: number */
	uint64_t random;		/* state of the generator */
	struct zipf zipf;
	uint64_t key[4];		/* of the permutation */
	unsigned half;			/* bits of half a number in it */
};

struct pattern_request {
	uint64_t off, len;
	bool write;
};

/* Checks where w goes on a disk of that size, for messages called `name`. w is kept. Nothing to be freed. */
int pattern_open(struct pattern *p, const struct qimg_workload *w, uint64_t disk, const char *name,
		 struct qimg_error *e);
void pattern_next(struct pattern *p, struct pattern_request *r);
uint64_t pattern_longest(const struct pattern *p);	/* of all requests, in bytes */

/* ---- inside, for tests ---- */

uint64_t pattern_random(uint64_t *state);
void pattern_zipf_init(struct zipf *z, double theta, uint64_t n);	/* n > 0 */
uint64_t pattern_zipf(const struct zipf *z, uint64_t *state);
/* The place of number i in a permutation of the numbers below p->blocks. */
uint64_t pattern_permute(const struct pattern *p, uint64_t i);

#endif
