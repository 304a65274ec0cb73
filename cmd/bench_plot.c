// SPDX-License-Identifier: BSD-2-Clause
/*
 * Rows as a chart: requests a second over what a sweep varies, a line for each combination of the rest. Over
 * numbers where all rows have one, else over names. Published figures are drawn beside ours.
 */
#include "bench_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"
#include "ui.h"

enum { NAME = 256 };

struct chart {
	const struct bench_row *rows;
	unsigned n;
	bool in_series[BENCH_FIELDS];	/* what the lines differ in */
	enum bench_field x;
	bool numbers;			/* of x */
	char (*name)[NAME];		/* of the series; then of the places on x */
	char (*place)[NAME];
	const char **places;
	unsigned series, named;
	struct plot_series *list;
	struct plot_point *point;
};

/* ---- what goes where ---- */

static bool all_numbers(const struct chart *c, enum bench_field f)
{
	uint64_t number;

	for (unsigned i = 0; i < c->n; i++)
		if (!bench_field_number(&c->rows[i], f, &number))
			return false;
	return true;
}

static void choose_x(struct chart *c)
{
	static const enum bench_field numbers[] = {
		BENCH_L2, BENCH_ENTRY, BENCH_REFCOUNT, BENCH_DEPTH, BENCH_CLUSTER, BENCH_HINT,
	};
	static const enum bench_field words[] = {
		BENCH_LABEL, BENCH_PREALLOCATION, BENCH_FORMAT, BENCH_AIO, BENCH_OPTIONS, BENCH_CLUSTER, BENCH_L2,
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (bench_field_varies(c->rows, c->n, numbers[i]) && all_numbers(c, numbers[i])) {
			c->x = numbers[i];
			c->numbers = true;
			return;
		}
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		c->x = words[i];
		if (bench_field_varies(c->rows, c->n, words[i]))
			return;
	}
	c->x = BENCH_FORMAT;
}

static void series_name(const struct chart *c, const struct bench_row *row, char *name)
{
	char cell[BENCH_CELL], part[2 * BENCH_CELL];
	size_t len = 0;

	name[0] = 0;
	for (unsigned f = 0; f < BENCH_FIELDS; f++) {
		const char *head = bench_field_name((enum bench_field)f);

		if (!c->in_series[f])
			continue;
		/* Words speak for themselves. */
		if (f == BENCH_LABEL || f >= BENCH_FORMAT)
			head = "";
		snprintf(part, sizeof(part), "%s%s%s%s", len ? ", " : "", head, *head ? " " : "",
			 bench_field_text(row, (enum bench_field)f, cell));
		if (len + strlen(part) >= NAME)
			break;
		strcpy(name + len, part);
		len += strlen(part);
	}
	if (!len)
		snprintf(name, NAME, "IOPS");
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* How many different places the rows have, by the lines they are in and by x. */
static unsigned count_places(struct chart *c)
{
	char name[NAME], cell[BENCH_CELL];
	unsigned distinct = 1;

	for (unsigned i = 0; i < c->n; i++) {
		series_name(c, &c->rows[i], name);
		snprintf(c->name[i], NAME, "%.200s/%s", name, bench_field_text(&c->rows[i], c->x, cell));
	}
	qsort(c->name, c->n, sizeof(*c->name), by_text);
	for (unsigned i = 1; i < c->n; i++)
		distinct += strcmp(c->name[i - 1], c->name[i]) != 0;
	memset(c->name, 0, c->n * sizeof(*c->name));
	return distinct;
}

/* What follows from the rest is left out: sizes of entries from those of caches, say. */
static void choose_series(struct chart *c)
{
	static const enum bench_field by_worth[] = {
		BENCH_LABEL, BENCH_REFCOUNT, BENCH_ENTRY, BENCH_L2, BENCH_CLUSTER, BENCH_HINT,
		BENCH_METADATA_DEPTH, BENCH_OPTIONS, BENCH_AIO, BENCH_DEPTH, BENCH_PREALLOCATION, BENCH_FORMAT,
	};
	unsigned places;

	for (unsigned f = 0; f < BENCH_FIELDS; f++)
		c->in_series[f] = f != c->x && bench_field_varies(c->rows, c->n, (enum bench_field)f);
	places = count_places(c);
	for (size_t i = 0; i < sizeof(by_worth) / sizeof(by_worth[0]); i++) {
		if (!c->in_series[by_worth[i]])
			continue;
		c->in_series[by_worth[i]] = false;
		c->in_series[by_worth[i]] = count_places(c) < places;
	}
}

/* ---- points ---- */

static unsigned find(char (*names)[NAME], unsigned *n, const char *name)
{
	unsigned i;

	for (i = 0; i < *n && strcmp(names[i], name); i++)
		;
	if (i == *n) {
		snprintf(names[i], NAME, "%s", name);
		++*n;
	}
	return i;
}

static double x_of(struct chart *c, const struct bench_row *row)
{
	char cell[BENCH_CELL];
	uint64_t number = 0;
	unsigned i;

	if (c->numbers) {
		bench_field_number(row, c->x, &number);
		return (double)number;
	}
	i = find(c->place, &c->named, bench_field_text(row, c->x, cell));
	c->places[i] = c->place[i];
	return i;
}

/* Its points lie one behind the other, those of a name together. */
static void add_points(struct chart *c, unsigned which, bool published, size_t *used)
{
	struct plot_series *s = &c->list[c->series];
	char name[NAME];

	s->point = &c->point[*used];
	s->label = c->name[which];
	s->published = published;
	for (unsigned i = 0; i < c->n; i++) {
		const struct bench_row *row = &c->rows[i];
		double y = published ? row->c.published : row->iops;

		series_name(c, row, name);
		if (strcmp(name, c->name[which]) || (published && y <= 0))
			continue;
		c->point[*used] = (struct plot_point){ x_of(c, row), y };
		++*used;
		s->count++;
	}
	if (s->count)
		c->series++;
}

static void fill(struct chart *c)
{
	char name[NAME], label[NAME];
	unsigned named = 0, ours;
	size_t used = 0;

	for (unsigned i = 0; i < c->n; i++) {
		series_name(c, &c->rows[i], name);
		find(c->name, &named, name);
	}
	for (unsigned i = 0; i < named; i++)
		add_points(c, i, false, &used);
	ours = c->series;
	for (unsigned i = 0; i < ours; i++) {
		unsigned before = c->series;

		add_points(c, i, true, &used);
		if (c->series == before)
			continue;
		snprintf(label, sizeof(label), "%.200s, published", c->list[i].label);
		strcpy(c->name[named + i], label);
		c->list[before].label = c->name[named + i];
		c->list[before].like = i + 1;
	}
}

static void free_chart(struct chart *c)
{
	free(c->name);
	free(c->place);
	free(c->places);
	free(c->list);
	free(c->point);
}

/* What all rows have in common, as far as it is worth a line. */
static void describe(const struct chart *c, char *note, size_t len)
{
	const struct bench_row *row = &c->rows[0];
	char size[UI_SIZE_LEN], cell[BENCH_CELL];
	bool one_format = !bench_field_varies(c->rows, c->n, BENCH_FORMAT);
	bool one_aio = !bench_field_varies(c->rows, c->n, BENCH_AIO);

	snprintf(note, len, "%.100s%s%s%s%s%s%s", row->c.file ? row->c.file : "a disk of ",
		 row->c.file ? "" : ui_size(row->size, size, sizeof(size)), one_format ? ", " : "",
		 one_format ? row->format : "", one_aio ? ", " : "",
		 one_aio ? bench_field_text(row, BENCH_AIO, cell) : "",
		 row->result.virtual_time ? "" : ", measured");
}

int bench_plot(const char *path, const char *title, const struct bench_row *rows, unsigned n)
{
	struct chart c = { .rows = rows, .n = n };
	char standard[128], note[256];
	struct plot p;
	int ret = -1;

	c.name = calloc(2 * (size_t)n, sizeof(*c.name));
	c.place = calloc(n, sizeof(*c.place));
	c.places = calloc(n, sizeof(*c.places));
	c.list = calloc(2 * (size_t)n, sizeof(*c.list));
	c.point = calloc(2 * (size_t)n, sizeof(*c.point));
	if (!c.name || !c.place || !c.places || !c.list || !c.point) {
		ui_error("Out of memory");
		goto out;
	}
	choose_x(&c);
	choose_series(&c);
	fill(&c);
	snprintf(standard, sizeof(standard), "%s, %" PRIu64 " bytes a request", bench_rw(&rows[0].c),
		 rows[0].c.work.size);
	describe(&c, note, sizeof(note));
	p = (struct plot){
		.title = title ? title : standard,
		.note = note,
		.x = { .label = bench_field_name(c.x),
		       .unit = c.x == BENCH_DEPTH ? PLOT_NUMBER : PLOT_SIZE,
		       .name = c.numbers ? NULL : c.places, .names = c.numbers ? 0 : c.named },
		.y = { .label = "IOPS" },
		.series = c.list,
		.count = c.series,
	};
	ret = plot_write(path, &p);
out:
	free_chart(&c);
	return ret;
}
