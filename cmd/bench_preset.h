/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Presets of bench: measurements that others have published, made again. Each is a table of cells, most
 * of them a case with the published figure, and what has to be said about it.
 */
#ifndef CMD_BENCH_PRESET_H
#define CMD_BENCH_PRESET_H

#include "bench.h"

/* What the command line says. */
struct preset_how {
	bool real;			/* on this machine's disk, not on a model */
	const char *aio;		/* real: the engine, NULL: a preset's own */
	const char *folder;		/* of scratch images, or NULL */
	uint64_t size;			/* of the disk; BENCH_DEFAULT: as published */
	const char *writeback;		/* rows with another metadata-writeback are left out; NULL: none are */
	enum bench_form form;
	bool quiet;
	const char *plot;		/* a file to draw into, or NULL */
	/* 0: a preset's own; only for those that say so. */
	uint64_t count;
	unsigned runs;
};

/* What presets have measured, in this order; the strings that cases point to live as long. */
struct preset_rows {
	struct bench_row *row;
	unsigned n, room;
	char **text;
	unsigned texts;
};

struct preset {
	const char *name;
	const char *summary;		/* one line, for --preset=help */
	bool draws;			/* run draws how->plot; else the rows are drawn as those of a sweep */
	bool real_only;			/* no model knows about it: without how->real it is not called */
	bool counts;			/* how->count and how->runs are for it, too */
	/*
	 * Measures, adds to rows, and prints what it has found when how->form is BENCH_HUMAN and not
	 * how->quiet. -1 after a message.
	 */
	int (*run)(const struct preset *p, const struct preset_how *how, struct preset_rows *rows);
};

/* In the order of `all`; a NULL ends the list. */
extern const struct preset *const presets[];
extern const struct preset preset_l2_size, preset_l2_entry_size, preset_l2_rounding, preset_l2_on_disk;
extern const struct preset preset_chain, preset_preallocation;

/* Runs "NAME,NAME..." (or "all", "help"). The exit status. */
int preset_main(const char *names, const struct preset_how *how);

/*
 * Measures the cases and adds a row for each; the first new one is rows->row[*first]. -1 after a message.
 */
int preset_measure(struct preset_rows *rows, const struct bench_case *c, unsigned n, unsigned *first);
/* A further row, which is empty. NULL after a message. */
struct bench_row *preset_row(struct preset_rows *rows);
/* printf into a string that lives as long as rows; NULL after a message. */
char *preset_text(struct preset_rows *rows, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
