// SPDX-License-Identifier: BSD-2-Clause
/*
 * Random small writes by how much of the image was there before: nothing, its tables, its space, or all of
 * it, written. Which of them is fast, and how much, is a matter of the file system and of its disk, so
 * that there is no model: it is measured here, by direct I/O.
 *
 * The image is small, and as many requests are sent as it has clusters: about two of three clusters are
 * written to, and what a request takes is not yet what a full image takes.
 */
#include "bench_preset_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"
#include "ui.h"

#define SIZE (UINT64_C(1) << 30)
#define CLUSTER 65536U
#define DEPTH 32U
#define RUNS 5U

enum { FIGURES = 2 };

/* What a row is. The figures are those with threads and native. */
struct kind {
	const char *format, *row, *preallocation, *more;
	uint64_t hint;			/* BENCH_DEFAULT: that of the format */
	bool hints;			/* only where the file system has such hints */
	double published[FIGURES];
};

#define QCOW2(row, preallocation, more, threads, native)						\
	{ "qcow2", row, preallocation, more, BENCH_DEFAULT, false, { threads, native } }
#define RAW(row, preallocation, hint, hints, threads, native)						\
	{ "raw", row, preallocation, NULL, hint, hints, { threads, native } }

static const struct kind kinds[] = {
	QCOW2("off, ZERO_RANGE", "off", "cow-zero-range=on", 8139, 7649),
	QCOW2("off, zeros written", "off", "cow-zero-range=off", 2965, 2779),
	QCOW2("off, auto", "off", "cow-zero-range=auto", 0, 0),
	QCOW2("metadata", "metadata", NULL, 7768, 8265),
	QCOW2("falloc", "falloc", NULL, 7742, 7956),
	QCOW2("full", "full", NULL, 41389, 56668),
	RAW("off", "off", BENCH_DEFAULT, false, 7647, 7928),
	RAW("off, hint 0", "off", 0, true, 7647, 7928),
	RAW("off, hint 64K", "off", 65536, true, 0, 0),
	RAW("falloc", "falloc", BENCH_DEFAULT, false, 7662, 7856),
	RAW("full", "full", BENCH_DEFAULT, false, 45224, 58627),
};

static const char *const engines[] = { "threads", "native", "io_uring" };

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), ENGINES = sizeof(engines) / sizeof(engines[0]) };

struct prealloc {
	const struct preset *p;
	const struct preset_how *how;
	struct preset_rows *rows;
	struct qimg_abilities can;
	uint64_t size, count;
	unsigned runs, columns;
	const char *engine[ENGINES];	/* of the columns */
	unsigned figure[ENGINES];	/* which published one is theirs; FIGURES: none */
	/* The kinds that are measured, and their cells. */
	const struct kind *kind[KINDS];
	unsigned kinds;
	struct preset_cell cell[KINDS * ENGINES];
	unsigned first;			/* row of the first cell */
};

/* ---- measuring ---- */

static bool is_possible(const struct prealloc *m, const struct kind *k)
{
	if (k->hints && !m->can.extent_size_hints)
		return false;
	/* A raw image is what it is asked for, or none. */
	return m->can.reserves || strcmp(k->format, "raw") || strcmp(k->preallocation, "falloc");
}

static double published(const struct prealloc *m, const struct kind *k, unsigned column)
{
	return m->figure[column] < FIGURES ? k->published[m->figure[column]] : 0;
}

static const char *reserved_by(const struct prealloc *m)
{
	return m->can.reserves ? "fallocate" : "writing zeros";
}

static int make_case(const struct prealloc *m, const struct kind *k, unsigned column, struct bench_case *c)
{
	bench_case_init(c);
	c->preset = m->p->name;
	c->label = preset_text(m->rows, "%s, %s, %s", k->format, k->row, m->engine[column]);
	c->published = published(m, k, column);
	c->scratch.folder = m->how->folder;
	c->scratch.format = k->format;
	c->scratch.size = m->size;
	c->scratch.preallocation = k->preallocation;
	if (!strcmp(k->preallocation, "falloc"))
		c->scratch.preallocated_by = reserved_by(m);
	c->scratch.extent_size_hint = k->hint;
	c->how.cache = "none";
	c->how.flags |= QIMG_OPEN_DIRECT;
	c->aio = m->engine[column];
	c->more = k->more;
	c->work.write_percent = 100;
	c->work.pattern = 0xa5;
	c->work.depth = DEPTH;
	c->work.count = m->count;
	/* What was full stays so; the others have to be made anew. */
	c->keep = !strcmp(k->preallocation, "full");
	c->runs = m->runs;
	return c->label ? 0 : -1;
}

static int measure(struct prealloc *m)
{
	unsigned n = m->kinds * m->columns;
	struct bench_case *c = calloc(n, sizeof(*c));
	int ret = 0;

	if (!c) {
		ui_error("Out of memory");
		return -1;
	}
	for (unsigned i = 0; i < n && !ret; i++) {
		const struct kind *k = m->kind[i / m->columns];

		ret = make_case(m, k, i % m->columns, &c[i]);
		m->cell[i] = (struct preset_cell){ .row = k->row, .column = m->engine[i % m->columns],
						   .published = c[i].published };
	}
	if (!ret)
		ret = preset_measure(m->rows, c, n, &m->first);
	free(c);
	return ret;
}

/* ---- the tables ---- */

static bool is_raw(const struct kind *k)
{
	return !strcmp(k->format, "raw");
}

static void print_table(const struct prealloc *m, bool raw)
{
	struct preset_table table = { .title = raw ? "raw" : "qcow2", .head = "preallocation" };
	unsigned from = 0;

	while (is_raw(m->kind[from]) != raw)
		from++;
	while (from + table.cells < m->kinds && is_raw(m->kind[from + table.cells]) == raw)
		table.cells++;
	table.cell = m->cell + (size_t)from * m->columns;
	table.cells *= m->columns;
	preset_table_print(&table, m->how, m->rows->row + m->first + (size_t)from * m->columns);
}

/* Requests a second in a row; 0: there is none. */
static double iops(const struct prealloc *m, const char *format, const char *row, unsigned column)
{
	for (unsigned i = 0; i < m->kinds; i++)
		if (!strcmp(m->kind[i]->format, format) && !strcmp(m->kind[i]->row, row))
			return m->rows->row[m->first + i * m->columns + column].iops;
	return 0;
}

/* The best of a format, `full` apart. */
static double best(const struct prealloc *m, const char *format, unsigned column)
{
	double most = 0;

	for (unsigned i = 0; i < m->kinds; i++) {
		double v = m->rows->row[m->first + i * m->columns + column].iops;

		if (!strcmp(m->kind[i]->format, format) && strcmp(m->kind[i]->row, "full") && v > most)
			most = v;
	}
	return most;
}

static void print_ratio(double a, double b)
{
	if (a > 0 && b > 0)
		printf("  %9.2f", a / b);
	else
		printf("  %9s", "-");
}

static void print_ratios(const struct prealloc *m)
{
	static const char *const formats[] = { "qcow2", "raw" };

	printf("\n%-42s", "ratios here");
	for (unsigned i = 0; i < m->columns; i++)
		printf("  %9s", m->engine[i]);
	for (unsigned f = 0; f < 2; f++) {
		printf("\n%s%-*s", formats[f], (int)(42 - strlen(formats[f])), ": full to the fastest other one");
		for (unsigned i = 0; i < m->columns; i++)
			print_ratio(iops(m, formats[f], "full", i), best(m, formats[f], i));
	}
	printf("\n%-42s", "qcow2: zeros written to ZERO_RANGE");
	for (unsigned i = 0; i < m->columns; i++)
		print_ratio(iops(m, "qcow2", "off, zeros written", i), iops(m, "qcow2", "off, ZERO_RANGE", i));
	printf("\n%-42s", "full: qcow2 to raw");
	for (unsigned i = 0; i < m->columns; i++)
		print_ratio(iops(m, "qcow2", "full", i), iops(m, "raw", "full", i));
	printf("\n");
}

static void print(const struct prealloc *m)
{
	char size[32];

	printf("%s: Random writes of 4K by preallocation\n", m->p->name);
	printf("Published: A. Garcia, 'Re: [PATCH 0/1] qcow2: Skip copy-on-write when allocating a zero cluster',\n"
	       "    qemu-block, August 2020, on XFS\n");
	preset_size(m->size, size, sizeof(size));
	printf("Here: this machine's disk, past the page cache, %s; %s, clusters of %uK;\n"
	       "    %" PRIu64 " requests, %u at a time; the median of %u\n",
	       m->can.file_system ? m->can.file_system : "a file system of unknown kind", size, CLUSTER / 1024,
	       m->count, DEPTH, m->runs);
	printf("Space is reserved by %s, ranges are cleared by %s\n", reserved_by(m), m->can.zeroes);
	print_table(m, false);
	print_table(m, true);
	print_ratios(m);
}

/* ---- the plot ---- */

/* Bars over the rows, one for each format and engine, with the published figures. */
static int draw(const struct prealloc *m)
{
	enum { MOST = 4 * ENGINES };
	const char *names[KINDS];
	struct plot_point point[MOST][KINDS];
	struct plot_series series[MOST];
	char label[MOST][64], title[128];
	struct plot plot = {
		.title = "Random writes of 4K by preallocation", .note = title, .y = { .label = "IOPS" },
		.x = { .label = "preallocation", .name = names }, .series = series,
	};

	snprintf(title, sizeof(title), "%s, direct I/O, %u requests at a time",
		 m->can.file_system ? m->can.file_system : "unknown file system", DEPTH);
	for (unsigned s = 0; s < 2 * m->columns; s++) {
		unsigned column = s / 2, told = 0;
		bool theirs = s % 2;

		if (theirs && m->figure[column] == FIGURES)
			continue;
		for (unsigned i = 0; i < m->kinds; i++) {
			double v = theirs ? published(m, m->kind[i], column) :
				   m->rows->row[m->first + i * m->columns + column].iops;

			if (v > 0)
				point[plot.count][told++] = (struct plot_point){ i, v };
		}
		snprintf(label[plot.count], sizeof(label[0]), "%s%s", m->engine[column], theirs ? ", published" : "");
		series[plot.count] = (struct plot_series){
			.label = label[plot.count], .point = point[plot.count], .count = told,
			.published = theirs, .like = theirs ? (unsigned)plot.count : 0,
		};
		plot.count++;
	}
	for (unsigned i = 0; i < m->kinds; i++) {
		names[i] = preset_text(m->rows, "%s: %s", m->kind[i]->format, m->kind[i]->row);
		if (!names[i])
			return -1;
	}
	plot.x.names = m->kinds;
	return plot_write(m->how->plot, &plot);
}

/* ---- all of it ---- */

static void choose(struct prealloc *m)
{
	for (unsigned i = 0; i < ENGINES; i++) {
		if (m->how->aio && strcmp(m->how->aio, engines[i]))
			continue;
		m->figure[m->columns] = i < FIGURES ? i : FIGURES;
		m->engine[m->columns++] = engines[i];
	}
	for (unsigned i = 0; i < KINDS; i++)
		if (is_possible(m, &kinds[i]))
			m->kind[m->kinds++] = &kinds[i];
}

static int run(const struct preset *p, const struct preset_how *how, struct preset_rows *rows)
{
	struct prealloc m = {
		.p = p, .how = how, .rows = rows, .size = how->size == BENCH_DEFAULT ? SIZE : how->size,
		.runs = how->runs ? how->runs : RUNS,
	};
	struct qimg_error e;

	m.count = how->count ? how->count : (m.size + CLUSTER - 1) / CLUSTER;
	if (qimg_abilities(how->folder, &m.can, &e)) {
		ui_error("%s", e.msg);
		return -1;
	}
	if (!m.can.direct) {
		ui_error("The preset '%s' is about direct I/O, which there is not in this folder: name another one "
			 "with --scratch", p->name);
		return -1;
	}
	choose(&m);
	if (!m.columns) {
		ui_error("The preset '%s' is about threads, native and io_uring, not about '%s'", p->name, how->aio);
		return -1;
	}
	if (measure(&m))
		return -1;
	if (how->form == BENCH_HUMAN && !how->quiet)
		print(&m);
	return how->plot ? draw(&m) : 0;
}

const struct preset preset_preallocation = {
	.name = "preallocation", .summary = "Random writes by what was there before", .real_only = true,
	.counts = true, .draws = true, .run = run,
};
