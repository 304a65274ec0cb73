/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of a preset as a chart. */
#ifndef CMD_BENCH_PRESET_PLOT_H
#define CMD_BENCH_PRESET_PLOT_H

#include "bench_preset_table.h"

/* rows: of all cells of the thread that how->writeback does not leave out. -1 after a message. */
int preset_plot(const struct preset *p, const struct preset_thread *t, const struct preset_how *how,
		const struct bench_row *rows);

#endif
