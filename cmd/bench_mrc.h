/* SPDX-License-Identifier: BSD-2-Clause */
/* `qimg bench --mrc`: which L2 cache a workload needs, without doing it. */
#ifndef CMD_BENCH_MRC_H
#define CMD_BENCH_MRC_H

#include "bench.h"

/*
 * Says it of each case; of cases that differ only in what makes no difference, once. No I/O is done but
 * reading the header of an image. quiet: without text for people. -1 after a message.
 */
int bench_mrc(const struct bench_case *c, unsigned n, enum bench_form form, bool quiet);

#endif
