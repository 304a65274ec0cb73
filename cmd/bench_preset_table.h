/* SPDX-License-Identifier: BSD-2-Clause */
/* Published tables as data: measured cell by cell, and printed and drawn beside what was published. */
#ifndef CMD_BENCH_PRESET_TABLE_H
#define CMD_BENCH_PRESET_TABLE_H

#include "bench_preset.h"

enum preset_what { PRESET_RANDOM_READS, PRESET_READS, PRESET_RANDOM_WRITES };	/* READS: in order */

/* One figure. What is 0 or NULL is not given. */
struct preset_cell {
	const char *row, *column;	/* column: "" where there is one */
	double published;		/* requests a second */
	bool beside;			/* that is another row's or column's, to compare with */
	uint64_t l2_cache_size;
	uint64_t l2_cache_entry_size;
	unsigned depth, metadata_depth;
	const char *file_direct;	/* a second level in a file, with this l2-cache-file-direct */
	const char *writeback;		/* metadata-writeback */
	bool compact;			/* l2-cache-compact: nothing that was measured then had that */
	const char *more;		/* further open options */
	bool buffered;			/* the image is read through the page cache where others bypass it */
};

/* Cells are ordered by row; each row has one in each column. */
struct preset_table {
	const char *title;		/* of the tables of several one, or NULL */
	const char *head;		/* of the column of rows */
	bool sizes;			/* rows are sizes of the L2 cache: the axis of a plot */
	const struct preset_cell *cell;
	unsigned cells;
	uint64_t cluster_size;		/* 0: the thread's */
	enum preset_what what;
	uint64_t warm, count;		/* requests */
};

/* What has been published together. */
struct preset_thread {
	const char *title, *brief;	/* brief: for a plot */
	const char *published;		/* by whom, and where */
	const char *model;		/* the engine */
	const char *assumed;		/* of what is not known, lines divided by '\n'; or NULL */
	uint64_t size, cluster_size;	/* of the image */
	const char *preallocation;	/* on a model; data is on the disk where it is real. NULL: off, on both */
	bool cold;			/* also on a model, the image bypasses the page cache and starts outside */
	const struct preset_table *table;
	unsigned tables;
};

/* The lines above the tables. */
void preset_print_head(const struct preset *p, const struct preset_thread *t, const struct preset_how *how);
/*
 * Measures the cells of a table, prints it as preset.run is to do. A cell that how->writeback leaves out
 * has no row. The rows are rows->row[*first] and all behind it.
 */
int preset_table_run(const struct preset *p, const struct preset_thread *t, const struct preset_table *table,
		     const struct preset_how *how, struct preset_rows *rows, unsigned *first);
/* Prints the rows of all its cells; how may leave some out. */
void preset_table_print(const struct preset_table *table, const struct preset_how *how,
			const struct bench_row *rows);
/* All tables of the thread, and the plot. */
int preset_thread_run(const struct preset *p, const struct preset_thread *t, const struct preset_how *how,
		      struct preset_rows *rows);
/* "20G": an exact size in short. Returns buf. */
char *preset_size(uint64_t bytes, char *buf, size_t len);

#endif
