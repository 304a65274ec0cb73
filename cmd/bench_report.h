/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows for programs. */
#ifndef CMD_BENCH_REPORT_H
#define CMD_BENCH_REPORT_H

#include "bench.h"

enum { BENCH_CELL = 96 };

const char *bench_field_name(enum bench_field f);
/* As text; "-": the row has none. Cut to BENCH_CELL. Returns cell. */
const char *bench_field_text(const struct bench_row *row, enum bench_field f, char *cell);
/* As a number; false: it is none, or the row has none. */
bool bench_field_number(const struct bench_row *row, enum bench_field f, uint64_t *number);
/* Whether the rows differ in it. */
bool bench_field_varies(const struct bench_row *rows, unsigned n, enum bench_field f);

double bench_per_op(const struct bench_row *row, uint64_t n);
double bench_bytes_per_second(const struct bench_row *row);
void bench_report_json(const struct bench_row *rows, unsigned n);
void bench_report_csv(const struct bench_row *rows, unsigned n);

#endif
