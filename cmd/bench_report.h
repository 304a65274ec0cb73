/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows for programs. */
#ifndef CMD_BENCH_REPORT_H
#define CMD_BENCH_REPORT_H

#include "bench.h"

double bench_per_op(const struct bench_row *row, uint64_t n);
double bench_bytes_per_second(const struct bench_row *row);
void bench_report_json(const struct bench_row *rows, unsigned n);
void bench_report_csv(const struct bench_row *rows, unsigned n);

#endif
