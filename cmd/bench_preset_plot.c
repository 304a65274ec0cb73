// SPDX-License-Identifier: BSD-2-Clause
/*
 * Charts of published tables: what we have as lines over the size of the cache, or as bars over the names of
 * rows, and in the same colours the published points. Of several tables over sizes the first is drawn: they
 * are of different images.
 */
#include "bench_preset_plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"
#include "ui.h"

enum { MOST_SERIES = 16, MOST_POINTS = 32, LABEL = 96 };

struct drawing {
	const char *name[MOST_POINTS];		/* of rows, where these are no sizes */
	size_t names;
	struct plot_series series[MOST_SERIES];
	struct plot_point point[MOST_SERIES][MOST_POINTS];
	char label[MOST_SERIES][LABEL];
	size_t count;
};

/* The place of a row on the axis. */
static double place(struct drawing *d, const struct preset_table *table, const struct preset_cell *cell,
		    const struct bench_row *row)
{
	size_t i;

	if (table->sizes)
		return (double)row->l2_cache_size;
	for (i = 0; i < d->names && strcmp(d->name[i], cell->row); i++)
		;
	if (i == d->names && i < MOST_POINTS)
		d->name[d->names++] = cell->row;
	return (double)i;
}

/* A series of that name, made when it is new. NULL: there is no room. */
static struct plot_series *series(struct drawing *d, const char *label, bool published, unsigned like)
{
	struct plot_series *s;

	for (size_t i = 0; i < d->count; i++) {
		if (!strcmp(d->label[i], label))
			return &d->series[i];
	}
	if (d->count == MOST_SERIES)
		return NULL;
	s = &d->series[d->count];
	snprintf(d->label[d->count], LABEL, "%s", label);
	*s = (struct plot_series){ .label = d->label[d->count], .point = d->point[d->count],
				   .published = published, .like = like };
	d->count++;
	return s;
}

static void add_point(struct drawing *d, struct plot_series *s, double x, double y)
{
	if (s && s->count < MOST_POINTS)
		d->point[s - d->series][s->count++] = (struct plot_point){ x, y };
}

/* What the series of a cell is called. */
static void name_series(const struct preset_table *table, const struct preset_cell *cell, const char *what,
			char *label)
{
	bool titled = table->title && !table->sizes, column = *cell->column;

	snprintf(label, LABEL, "%s%s%s%s%s", titled ? table->title : "", titled ? ", " : "",
		 column ? cell->column : "", column ? ", " : "", what);
}

static void add_cell(struct drawing *d, const struct preset_table *table, const struct preset_cell *cell,
		     const struct bench_row *row)
{
	double x = place(d, table, cell, row);
	struct plot_series *here, *published;
	char label[LABEL];

	name_series(table, cell, "here", label);
	here = series(d, label, false, 0);
	add_point(d, here, x, row->iops);
	if (!here || cell->published <= 0 || cell->beside)
		return;
	name_series(table, cell, "published", label);
	published = series(d, label, true, 1 + (unsigned)(here - d->series));
	add_point(d, published, x, cell->published);
}

static bool is_left_out(const struct preset_cell *cell, const struct preset_how *how)
{
	return how->writeback && cell->writeback && strcmp(how->writeback, cell->writeback);
}

int preset_plot(const struct preset *p, const struct preset_thread *t, const struct preset_how *how,
		const struct bench_row *rows)
{
	struct drawing *d = calloc(1, sizeof(*d));
	char title[200], note[200];
	struct plot plot;
	int ret;

	if (!d) {
		ui_error("Out of memory");
		return -1;
	}
	for (unsigned i = 0; i < t->tables && (!i || !t->table[i].sizes); i++) {
		for (unsigned k = 0; k < t->table[i].cells; k++) {
			if (!is_left_out(&t->table[i].cell[k], how))
				add_cell(d, &t->table[i], &t->table[i].cell[k], rows++);
		}
	}
	snprintf(title, sizeof(title), "%s: %s", p->name, t->brief);
	snprintf(note, sizeof(note), how->real ? "on a disk of this machine" : "time of %s", t->model);
	plot = (struct plot){
		.title = title, .note = note,
		.x = { .label = t->table[0].head, .unit = t->table[0].sizes ? PLOT_SIZE : PLOT_NUMBER,
		       .name = t->table[0].sizes ? NULL : d->name, .names = d->names },
		.y = { .label = "requests a second" },
		.series = d->series, .count = d->count,
	};
	ret = plot_write(how->plot, &plot);
	free(d);
	return ret;
}
