/* SPDX-License-Identifier: BSD-2-Clause */
/* `qimg bench --replay`: requests from a file. */
#ifndef CMD_BENCH_REPLAY_H
#define CMD_BENCH_REPLAY_H

#include "bench.h"

/*
 * Loads the recording into w, and what that says of reads and writes; rw: --rw was given, which is an
 * error when the recording does. -1 after a message.
 */
int bench_replay(const char *path, bool rw, struct qimg_workload *w);
void bench_replay_free(struct qimg_workload *w);
/* Of a scratch disk for w, when nothing is said: at least 1 GiB. */
uint64_t bench_replay_size(const struct qimg_workload *w);

#endif
