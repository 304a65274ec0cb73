// SPDX-License-Identifier: BSD-2-Clause
/*
 * A picture of an image.
 *
 * The picture is a grid of cells, each of which shows one kind of storage. How far up the files go is known only
 * when all was seen: when a run lies above the grid, its rows come to stand for twice as much. Below it a strip
 * shows of each column how much of it is what.
 */
#include "map_plot.h"

#include <stdlib.h>
#include <string.h>

#include "plot_axis.h"
#include "plot_svg.h"
#include "ui.h"

enum { COLUMNS = 368, ROWS = 200, CELL = 2, DEPTHS = 6 };

#define LEFT 76
#define TOP 62
#define WIDTH (LEFT + COLUMNS * CELL + 40)
#define VALUES 60		/* so many are not marked one by one */
#define STRIP_GAP 10
#define STRIP 28
#define LETTER 12.0
#define LINE 20.0
#define FIRST_TOP (UINT64_C(1) << 20)

/* What is where: data of the images of the chain, from the top down, then what has no data as it is. */
enum { PACKED = DEPTHS, RESERVED, NO_PLACE, KINDS };

static const char *const colours[KINDS] = {
	"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f6000", "#404040", "#56b4e9", "#bdbdbd", "#e8e8e8",
};

struct map_plot {
	uint64_t start, end;		/* of the disk */
	uint64_t top;			/* host offset above the grid: ROWS times a power of two */
	uint64_t highest;		/* behind all that was seen */
	uint8_t cell[ROWS][COLUMNS];	/* 1 + kind; 0: nothing */
	double part[COLUMNS][KINDS];	/* bytes */
	uint64_t bytes[KINDS];
	char *file[DEPTHS];		/* names, as far as they are known */
};

struct map_plot *map_plot_new(uint64_t start, uint64_t end)
{
	struct map_plot *p = calloc(1, sizeof(*p));

	if (!p) {
		ui_error("Out of memory");
		return NULL;
	}
	p->start = start;
	p->end = end;
	p->top = FIRST_TOP / ROWS * ROWS;
	return p;
}

void map_plot_free(struct map_plot *p)
{
	for (size_t i = 0; p && i < DEPTHS; i++)
		free(p->file[i]);
	free(p);
}

/* ---- filling the grid ---- */

/* Of two kinds in one cell the one that says more is shown: data before reserved space, the top before others. */
static uint8_t prior(uint8_t a, uint8_t b)
{
	if (!a || !b)
		return a ? a : b;
	return a < b ? a : b;
}

static void fold(struct map_plot *p)
{
	for (size_t r = 0; r < ROWS; r++)
		for (size_t i = 0; i < COLUMNS; i++)
			p->cell[r][i] = 2 * r + 1 < ROWS ? prior(p->cell[2 * r][i], p->cell[2 * r + 1][i]) : 0;
	p->top *= 2;
}

static unsigned kind_of(const struct qimg_extent *x)
{
	if (x->kind == QIMG_PACKED)
		return PACKED;
	if (x->kind == QIMG_DATA && !x->sparse)
		return x->depth < DEPTHS ? x->depth : DEPTHS - 1;
	return x->host_valid ? RESERVED : NO_PLACE;
}

/* Where a column begins. */
static uint64_t column_start(const struct map_plot *p, uint64_t column)
{
	return p->start + (uint64_t)((double)(p->end - p->start) * (double)column / COLUMNS);
}

static uint64_t column_of(const struct map_plot *p, uint64_t off)
{
	uint64_t i = (uint64_t)((double)(off - p->start) * COLUMNS / (double)(p->end - p->start));

	return i < COLUMNS ? i : COLUMNS - 1;
}

/* The part of a run that is in one column. */
static void add_part(struct map_plot *p, uint64_t column, unsigned kind, const struct qimg_extent *x, uint64_t from,
		     uint64_t to)
{
	uint64_t unit = p->top / ROWS, low, high;

	p->part[column][kind] += (double)(to - from);
	if (kind == NO_PLACE)
		return;
	/* Compressed data takes less: only where it begins is known. */
	low = x->host + (kind == PACKED ? 0 : from - x->start);
	high = kind == PACKED ? low + 1 : low + (to - from);
	for (uint64_t row = low / unit; row <= (high - 1) / unit; row++)
		p->cell[row][column] = prior(p->cell[row][column], (uint8_t)(kind + 1));
}

void map_plot_add(struct map_plot *p, const struct qimg_extent *x)
{
	unsigned kind = kind_of(x);
	uint64_t end = x->start + x->len, host_end = x->host + (kind == PACKED ? 1 : x->len);

	if (!x->len)
		return;
	p->bytes[kind] += x->len;
	if (kind < DEPTHS && x->path && !p->file[kind])
		p->file[kind] = strdup(x->path);
	if (kind != NO_PLACE) {
		while (host_end > p->top)
			fold(p);
		if (host_end > p->highest)
			p->highest = host_end;
	}
	for (uint64_t at = x->start, i = column_of(p, at), next; at < end; at = next, i++) {
		next = i + 1 < COLUMNS ? column_start(p, i + 1) : end;
		if (next > end)
			next = end;
		if (next > at)
			add_part(p, i < COLUMNS ? i : COLUMNS - 1, kind, x, at, next);
		else
			next = at;
	}
}

/* ---- drawing ---- */

static void begin(FILE *f, const struct map_plot *p, const char *image, double height)
{
	char title[600], parts[2][AXIS_LABEL];

	snprintf(title, sizeof(title), "Where the disk of %s is", image);
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"", f);
	svg_attr(f, "width", WIDTH);
	svg_attr(f, "height", height);
	fprintf(f, " viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"title\">\n", WIDTH, (int)height);
	fputs("<title id=\"title\">", f);
	svg_text(f, title, SIZE_MAX);
	fputs("</title>\n<style>text { font: 12px sans-serif; fill: #222 } .head { font: bold 16px sans-serif }\n"
	      ".grid { stroke: #ddd } .frame { fill: none; stroke: #555 }</style>\n"
	      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", f);
	svg_label(f, WIDTH / 2.0, 26, 16, WIDTH - 40, " class=\"head\" text-anchor=\"middle\"", title);
	snprintf(title, sizeof(title), "disk %s, up to %s in a file",
		 axis_label(PLOT_SIZE, (double)(p->end - p->start), parts[0]),
		 axis_label(PLOT_SIZE, (double)p->highest, parts[1]));
	svg_label(f, WIDTH / 2.0, 48, LETTER, WIDTH - 40, " text-anchor=\"middle\"", title);
}

static void draw_axes(FILE *f, const struct map_plot *p, double bottom, double rows)
{
	const struct plot_axis size = { .scale = PLOT_LINEAR, .unit = PLOT_SIZE };
	double start = (double)p->start, len = (double)(p->end - p->start), x_values[VALUES];
	double y_values[2] = { 0, (double)p->top * rows / ROWS };
	struct axis x, y;
	char buf[AXIS_LABEL];

	for (size_t i = 0; i < VALUES; i++)
		x_values[i] = start + len * (double)i / (VALUES - 1);
	axis_init(&x, &size, x_values, VALUES, LEFT, LEFT + COLUMNS * CELL, true);
	axis_init(&y, &size, y_values, 2, TOP + rows * CELL, TOP, false);
	for (unsigned i = 0; i < y.ticks; i++) {
		double at = TOP + rows * CELL - y.tick[i] / y_values[1] * rows * CELL;

		if (at < TOP - 0.5)
			continue;
		svg_line(f, "grid", LEFT, at, LEFT + COLUMNS * CELL, at);
		svg_label(f, LEFT - 8, at + 4, LETTER, LEFT, " text-anchor=\"end\"", axis_tick(&y, i, buf));
	}
	for (unsigned i = 0; i < x.ticks; i++) {
		double at = LEFT + (x.tick[i] - start) / len * COLUMNS * CELL;

		svg_line(f, "grid", at, TOP, at, bottom);
		svg_label(f, at, bottom + 18, LETTER, 100, " text-anchor=\"middle\"", axis_tick(&x, i, buf));
	}
	svg_label(f, LEFT + COLUMNS * CELL / 2.0, bottom + 36, LETTER, WIDTH, " text-anchor=\"middle\"",
		  "offset on the disk");
	fprintf(f, "<text text-anchor=\"middle\" transform=\"translate(18 %d) rotate(-90)\">offset in the file"
		"</text>\n", (int)(TOP + rows * CELL / 2));
}

/* All cells of one kind are one path of strokes to the right. */
static void draw_cells(FILE *f, const struct map_plot *p, unsigned kind, double rows)
{
	bool any = false;

	for (size_t r = 0; r < ROWS; r++) {
		for (size_t i = 0, n; i < COLUMNS; i += n) {
			for (n = 0; i + n < COLUMNS && p->cell[r][i + n] == kind + 1; )
				n++;
			if (!n) {
				n = 1;
				continue;
			}
			fprintf(f, "%sM%d %dh%d", any ? "" : "<path d=\"", (int)(LEFT + i * CELL),
				(int)(TOP + (rows - 1 - (double)r) * CELL + CELL / 2.0), (int)(n * CELL));
			any = true;
		}
	}
	if (any)
		fprintf(f, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%d\"/>\n", colours[kind], CELL);
}

/* How much of each column is what, from the bottom up. */
static void draw_strip(FILE *f, const struct map_plot *p, double top)
{
	double low[COLUMNS] = { 0 };

	for (unsigned kind = 0; kind < KINDS; kind++) {
		bool any = false;

		for (size_t i = 0; i < COLUMNS; i++) {
			uint64_t all = column_start(p, i + 1) - column_start(p, i);
			double height = all ? p->part[i][kind] / (double)all * STRIP : 0;

			if (height < 0.01)
				continue;
			fprintf(f, "%sM%d ", any ? "" : "<path d=\"", (int)(LEFT + i * CELL + CELL / 2));
			svg_number(f, top + STRIP - low[i]);
			fputs("v", f);
			svg_number(f, -height);
			low[i] += height;
			any = true;
		}
		if (any)
			fprintf(f, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%d\"/>\n", colours[kind], CELL);
	}
	fprintf(f, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, (int)top,
		COLUMNS * CELL, STRIP);
}

static void draw_legend(FILE *f, const struct map_plot *p, double y)
{
	static const char *const names[KINDS] = {
		[PACKED] = "compressed (where it begins)", [RESERVED] = "zeros, with their place reserved",
		[NO_PLACE] = "zeros, nowhere",
	};
	char text[600], size[AXIS_LABEL];
	unsigned shown = 0;

	for (unsigned kind = 0; kind < KINDS; kind++) {
		unsigned line = shown / 2;
		double x = LEFT + shown % 2 * (COLUMNS * CELL / 2.0), at = y + LINE * line;

		if (!p->bytes[kind])
			continue;
		axis_label(PLOT_SIZE, (double)p->bytes[kind], size);
		if (kind < DEPTHS)
			snprintf(text, sizeof(text), "%s: data in %s%s", size, p->file[kind] ? p->file[kind] : "a file",
				 kind == DEPTHS - 1 ? " and below" : "");
		else
			snprintf(text, sizeof(text), "%s: %s", size, names[kind]);
		fprintf(f, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\" stroke=\"#555\"/>\n", (int)x,
			(int)at - 10, colours[kind]);
		svg_label(f, x + 20, at, LETTER, COLUMNS * CELL / 2.0 - 30, "", text);
		shown++;
	}
}

static void render(FILE *f, const struct map_plot *p, const char *image)
{
	uint64_t used = p->highest ? (p->highest - 1) / (p->top / ROWS) + 1 : 1;
	unsigned lines = 1;
	double rows = (double)used, bottom = TOP + rows * CELL + STRIP_GAP + STRIP;

	/* Two kinds to a line of the legend. */
	for (unsigned kind = 0; kind < KINDS; kind++)
		lines += p->bytes[kind] != 0;
	lines /= 2;
	begin(f, p, image, bottom + 64 + LINE * lines);
	if (p->end > p->start) {
		draw_axes(f, p, bottom, rows);
		for (unsigned kind = KINDS; kind-- > 0; )
			draw_cells(f, p, kind, rows);
	}
	fprintf(f, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, TOP, COLUMNS * CELL,
		(int)(rows * CELL));
	draw_strip(f, p, bottom - STRIP);
	draw_legend(f, p, bottom + 62);
	fputs("</svg>\n", f);
}

int map_plot_write(const struct map_plot *p, const char *path, const char *image)
{
	struct qimg_error e;
	char *data = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&data, &len);
	int ret;

	if (!f) {
		ui_error("Out of memory");
		return -1;
	}
	render(f, p, image);
	ret = ferror(f) | fclose(f) ? -1 : 0;
	if (ret) {
		ui_error("Out of memory");
	} else {
		ret = qimg_save_file(path, data, len, &e);
		if (ret)
			ui_error("%s", e.msg);
	}
	free(data);
	return ret;
}
