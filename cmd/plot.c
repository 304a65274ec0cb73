// SPDX-License-Identifier: BSD-2-Clause
/*
 * Charts as SVG.
 *
 * The plot has a fixed size; what stands around it is laid out by the width that texts may have. Texts that
 * do not fit are cut, and then have all of it as a title, which viewers show as a hint. Each mark has a
 * title with its values, and the description of the document has all of them, as far as they are not too
 * many. Colours can be told apart by the colour-blind; from the ninth series on lines are dashed.
 */
#include "plot.h"

#include <stdlib.h>
#include <string.h>

#include "plot_axis.h"
#include "plot_svg.h"
#include "qimg.h"
#include "ui.h"

#define WIDTH 800.0
#define PLOT_TOP 62.0
#define PLOT_HEIGHT 340.0
#define PLOT_RIGHT (WIDTH - 24)
#define INSET 14.0		/* the ends of a numeric x axis stay off the frame */
#define LETTER 12.0
#define LEGEND_LINE 20.0
#define LEGEND_MARK 34.0	/* room before the text */
#define MOST_NAME 26		/* letters of a name under the plot */
#define MARKS 60		/* a line of more points has no marks */
#define DESCRIBED 200		/* points that the description tells */
#define BARS_FAR_APART 200.0

static const char *const colours[] = {
	"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f6000", "#56b4e9", "#404040", "#8b1a8b",
};
static const char *const dashes[] = { NULL, "7 4", "2 3", "10 3 2 3" };
enum { COLOURS = sizeof(colours) / sizeof(*colours), DASHES = sizeof(dashes) / sizeof(*dashes) };

struct chart {
	FILE *f;
	const struct plot *p;
	struct axis x, y;
	double left, bottom;		/* of the plot */
	double labels;			/* height of what is under it */
	double slot;			/* room of a name */
	bool tilted;			/* names do not fit side by side */
	size_t name_step;		/* every so many-th name is shown */
	size_t bars;			/* series that have a place of their own in a slot */
	bool columns;			/* over names: bars, else marks */
};

/* ---- looks of a series ---- */

/* Which colour, shape and so on: those that look like another one do not count. */
static size_t looks(const struct plot *p, size_t i)
{
	size_t of = p->series[i].like ? p->series[i].like - 1 : i, n = 0;

	for (size_t j = 0; j < of; j++)
		n += !p->series[j].like;
	return n;
}

static const char *colour(const struct plot *p, size_t i)
{
	return colours[looks(p, i) % COLOURS];
}

static const char *dash(const struct plot *p, size_t i)
{
	return dashes[looks(p, i) / COLOURS % DASHES];
}

/* What a shape begins with: to be ended by the caller. shape: NULL: a circle. Hollow ones are larger. */
static void begin_shape(FILE *f, const char *shape, const char *class, bool hollow, double x, double y)
{
	if (!shape) {
		fprintf(f, "<circle class=\"%s\" r=\"%s\"", class, hollow ? "7.2" : "4.5");
		svg_attr(f, "cx", x);
		svg_attr(f, "cy", y);
		return;
	}
	fprintf(f, "<path class=\"%s%s\" transform=\"translate(", class, hollow ? " ring" : "");
	svg_number(f, x);
	fputc(' ', f);
	svg_number(f, y);
	fprintf(f, ")%s\" d=\"%s\"", hollow ? " scale(1.7)" : "", shape);
}

/*
 * The mark of a series with its middle at x, y; `title` is what it stands for, or NULL. Hollow ones hide nothing:
 * no fill, and over bars, which may have their colour, a white line under their own.
 */
static void mark(const struct chart *c, size_t i, double x, double y, const char *title)
{
	const struct plot *p = c->p;
	FILE *f = c->f;
	static const char *const shapes[] = {
		NULL, "M-4.5 -4.5H4.5V4.5H-4.5Z", "M0 -5.5L5.5 4.5H-5.5Z", "M0 -6L6 0L0 6L-6 0Z",
		"M0 5.5L5.5 -4.5H-5.5Z",
	};
	bool hollow = p->series[i].published;
	const char *shape = shapes[looks(p, i) % (sizeof(shapes) / sizeof(*shapes))];

	if (hollow && c->columns) {
		begin_shape(f, shape, "halo", hollow, x, y);
		fputs(" fill=\"none\" stroke=\"#fff\"/>\n", f);
	}
	begin_shape(f, shape, "mark", hollow, x, y);
	fprintf(f, " fill=\"%s\" stroke=\"%s\"", hollow ? "none" : colour(p, i), colour(p, i));
	if (!title) {
		fputs("/>\n", f);
		return;
	}
	fputc('>', f);
	svg_title(f, title);
	fprintf(f, "</%s>\n", shape ? "path" : "circle");
}

/* A value in full, as far as that is readable. */
static char *in_full(enum plot_unit unit, double v, char *buf)
{
	if (unit == PLOT_SIZE || v >= 1e15 || v <= -1e15 || (v < 0.01 && v > -0.01))
		return axis_label(unit, v, buf);
	return axis_number(v, v < 10 && v > -10 ? 4 : 1, buf);
}

/* "measured: 1.5M, 7300" */
static void point_text(const struct plot *p, size_t i, const struct plot_point *at, char *buf, size_t len)
{
	char x[AXIS_LABEL], y[AXIS_LABEL];

	snprintf(buf, len, "%s: %s, %s", p->series[i].label, p->x.name ? p->x.name[(size_t)at->x] :
		 in_full(p->x.unit, at->x, x), in_full(p->y.unit, at->y, y));
}

/* ---- checks ---- */

static int check_point(const struct plot *p, const struct plot_series *s, const struct plot_point *at)
{
	const double value[] = { at->x, at->y };
	const struct plot_axis *axis[] = { &p->x, &p->y };

	for (unsigned i = 0; i < 2; i++) {
		if (!(value[i] >= -AXIS_MOST && value[i] <= AXIS_MOST)) {
			ui_error("'%s' has a value that cannot be drawn", s->label);
			return -1;
		}
		if (axis[i]->scale == PLOT_LOG && value[i] < AXIS_LEAST) {
			ui_error("'%s' has the value %g, for which a logarithmic axis has no place",
				 s->label, value[i]);
			return -1;
		}
	}
	if (p->x.name && (at->x < 0 || at->x >= (double)p->x.names || at->x != (double)(size_t)at->x)) {
		ui_error("'%s' has a point at the name %g of %zu", s->label, at->x, p->x.names);
		return -1;
	}
	return 0;
}

static int check(const struct plot *p)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct plot_series *s = &p->series[i];

		if (s->like > p->count) {
			ui_error("'%s' looks like a series that is not there", s->label);
			return -1;
		}
		for (size_t j = 0; j < s->count; j++)
			if (check_point(p, s, &s->point[j]) < 0)
				return -1;
	}
	return 0;
}

/* ---- layout ---- */

/* All values of one axis, to be freed. NULL after a message. */
static double *values(const struct plot *p, bool y, size_t *n)
{
	size_t all = 0;
	double *v;

	for (size_t i = 0; i < p->count; i++)
		all += p->series[i].count;
	v = malloc((all ? all : 1) * sizeof(*v));
	*n = 0;
	if (!v) {
		ui_error("Out of memory");
		return NULL;
	}
	for (size_t i = 0; i < p->count; i++)
		for (size_t j = 0; j < p->series[i].count; j++)
			v[(*n)++] = y ? p->series[i].point[j].y : p->series[i].point[j].x;
	return v;
}

static double widest_tick(const struct axis *a)
{
	double widest = 0;
	char buf[AXIS_LABEL];

	for (unsigned i = 0; i < a->ticks; i++) {
		double width = axis_text_width(axis_tick(a, i, buf), LETTER);

		widest = width > widest ? width : widest;
	}
	return widest;
}

/* Names under the plot: side by side, tilted, or tilted and not all of them. */
static void lay_names(struct chart *c)
{
	const struct plot *p = c->p;
	double widest = 0;

	for (size_t i = 0; i < p->x.names; i++) {
		double width = axis_text_width(p->x.name[i], LETTER);

		widest = width > widest ? width : widest;
	}
	c->slot = (PLOT_RIGHT - c->left) / (double)(p->x.names ? p->x.names : 1);
	c->name_step = 1;
	c->labels = 24;
	c->tilted = widest + 8 > c->slot;
	if (c->tilted) {
		double most = MOST_NAME * 0.64 * LETTER;

		/* The sine of 35 degrees is 0.57, and most fonts are less wide than was reckoned with. */
		c->labels = 16 + (widest < most ? widest : most) * 0.5;
		while ((double)c->name_step * c->slot < LETTER * 1.6)
			c->name_step++;
	}
	for (size_t i = 0; i < p->count; i++)
		c->bars += !p->series[i].published;
}

static void lay_bars(struct chart *c, struct plot_axis *y, const double *v, size_t n)
{
	double lo = n ? v[0] : 0, hi = lo;

	for (size_t i = 1; i < n; i++) {
		lo = v[i] < lo ? v[i] : lo;
		hi = v[i] > hi ? v[i] : hi;
	}
	/* The length of a bar tells something only when it starts at 0. */
	if (y->scale == PLOT_AUTO)
		y->scale = lo > 0 && hi > lo * BARS_FAR_APART ? PLOT_LOG : PLOT_LINEAR;
	c->columns = y->scale == PLOT_LINEAR;
}

static int lay_out(struct chart *c)
{
	const struct plot *p = c->p;
	struct plot_axis y = p->y;
	size_t n;
	double *v = values(p, true, &n);

	if (!v)
		return -1;
	c->bottom = PLOT_TOP + PLOT_HEIGHT;
	if (p->x.name)
		lay_bars(c, &y, v, n);
	axis_init(&c->y, &y, v, n, c->bottom, PLOT_TOP, false);
	free(v);
	c->left = 44 + widest_tick(&c->y);
	c->labels = 24;
	if (p->x.name) {
		lay_names(c);
		return 0;
	}
	v = values(p, false, &n);
	if (!v)
		return -1;
	axis_init(&c->x, &p->x, v, n, c->left + INSET, PLOT_RIGHT - INSET, true);
	free(v);
	return 0;
}

/* The middle of what series i has over a name. */
static double bar_at(const struct chart *c, size_t i, double name, double *width)
{
	size_t of = c->p->series[i].like ? c->p->series[i].like - 1 : i, place = 0;

	*width = c->slot * 0.8 / (double)(c->bars ? c->bars : 1);
	if (c->p->series[of].published)
		return c->left + c->slot * (name + 0.5);
	for (size_t j = 0; j < of; j++)
		place += !c->p->series[j].published;
	return c->left + c->slot * (name + 0.1) + *width * ((double)place + 0.5);
}

/* ---- drawing ---- */

static void draw_y_axis(const struct chart *c)
{
	FILE *f = c->f;
	char buf[AXIS_LABEL];

	for (unsigned i = 0; i < c->y.ticks; i++) {
		double y = axis_at(&c->y, c->y.tick[i]);

		svg_line(f, "grid", c->left, y, PLOT_RIGHT, y);
		svg_label(f, c->left - 8, y + 4, LETTER, WIDTH, " class=\"y tick\" text-anchor=\"end\"",
		      axis_tick(&c->y, i, buf));
	}
	fputs("<g transform=\"translate(18 ", f);
	svg_number(f, PLOT_TOP + PLOT_HEIGHT / 2);
	fputs(") rotate(-90)\">", f);
	svg_label(f, 0, 0, LETTER, PLOT_HEIGHT, " text-anchor=\"middle\"", c->p->y.label);
	fputs("</g>\n", f);
}

static void draw_name(const struct chart *c, size_t i)
{
	double x = c->left + c->slot * ((double)i + 0.5), most = MOST_NAME * 0.64 * LETTER;
	const char *name = c->p->x.name[i];

	if (!c->tilted) {
		svg_label(c->f, x, c->bottom + 18, LETTER, WIDTH, " class=\"x tick\" text-anchor=\"middle\"", name);
		return;
	}
	fputs("<g transform=\"translate(", c->f);
	svg_number(c->f, x + 4);
	fputc(' ', c->f);
	svg_number(c->f, c->bottom + 14);
	fputs(") rotate(-35)\">", c->f);
	/* The first ones must not leave the picture; the cosine is 0.82. */
	svg_label(c->f, 0, 0, LETTER, x / 0.82 < most ? x / 0.82 : most, " class=\"x tick\" text-anchor=\"end\"", name);
	fputs("</g>\n", c->f);
}

static void draw_x_axis(const struct chart *c)
{
	double width = PLOT_RIGHT - c->left;
	char buf[AXIS_LABEL];

	for (size_t i = 0; c->p->x.name && i < c->p->x.names; i += c->name_step)
		draw_name(c, i);
	for (unsigned i = 0; i < c->x.ticks; i++) {
		double x = axis_at(&c->x, c->x.tick[i]);

		svg_line(c->f, "grid", x, PLOT_TOP, x, c->bottom);
		svg_label(c->f, x, c->bottom + 18, LETTER, WIDTH, " class=\"x tick\" text-anchor=\"middle\"",
		      axis_tick(&c->x, i, buf));
	}
	fputs("<rect class=\"frame\"", c->f);
	svg_attr(c->f, "x", c->left);
	svg_attr(c->f, "y", PLOT_TOP);
	svg_attr(c->f, "width", width);
	svg_attr(c->f, "height", PLOT_HEIGHT);
	fputs("/>\n", c->f);
	svg_label(c->f, c->left + width / 2, c->bottom + c->labels + 16, LETTER, width,
	      " text-anchor=\"middle\"", c->p->x.label);
}

static int by_x(const void *a, const void *b)
{
	const struct plot_point *p = a, *q = b;

	return p->x != q->x ? (p->x < q->x ? -1 : 1) : 0;
}

static void draw_line(const struct chart *c, size_t i, const struct plot_point *at)
{
	const struct plot_series *s = &c->p->series[i];

	fprintf(c->f, "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\"", colour(c->p, i));
	if (dash(c->p, i))
		fprintf(c->f, " stroke-dasharray=\"%s\"", dash(c->p, i));
	fputs(" points=\"", c->f);
	for (size_t j = 0; j < s->count; j++) {
		if (j)
			fputc(' ', c->f);
		svg_number(c->f, axis_at(&c->x, at[j].x));
		fputc(',', c->f);
		svg_number(c->f, axis_at(&c->y, at[j].y));
	}
	fputs("\"/>\n", c->f);
}

/* Numeric x: a line and marks. */
static int draw_curve(const struct chart *c, size_t i)
{
	const struct plot_series *s = &c->p->series[i];
	struct plot_point *at;
	char buf[512];

	if (!s->count)
		return 0;
	at = malloc(s->count * sizeof(*at));
	if (!at) {
		ui_error("Out of memory");
		return -1;
	}
	memcpy(at, s->point, s->count * sizeof(*at));
	qsort(at, s->count, sizeof(*at), by_x);
	if (!s->published && s->count > 1)
		draw_line(c, i, at);
	for (size_t j = 0; j < s->count && (s->published || s->count <= MARKS); j++) {
		point_text(c->p, i, &at[j], buf, sizeof(buf));
		mark(c, i, axis_at(&c->x, at[j].x), axis_at(&c->y, at[j].y), buf);
	}
	free(at);
	return 0;
}

static void draw_bar(const struct chart *c, size_t i, double x, double top, double width, double height,
		     const char *title)
{
	fputs("<rect class=\"bar\"", c->f);
	svg_attr(c->f, "x", x);
	svg_attr(c->f, "y", top);
	svg_attr(c->f, "width", width);
	svg_attr(c->f, "height", height);
	fprintf(c->f, " fill=\"%s\"%s stroke=\"%s\">", colour(c->p, i), dash(c->p, i) ?
		" fill-opacity=\"0.4\"" : "", colour(c->p, i));
	svg_title(c->f, title);
	fputs("</rect>\n", c->f);
}

/* Over names: bars, or marks where they are published or the axis does not start at 0. */
static void draw_over_names(const struct chart *c, size_t i)
{
	const struct plot_series *s = &c->p->series[i];
	double zero = axis_at(&c->y, c->y.lo > 0 ? c->y.lo : c->y.hi < 0 ? c->y.hi : 0);
	char buf[512];

	for (size_t j = 0; j < s->count; j++) {
		double width, x = bar_at(c, i, s->point[j].x, &width), y = axis_at(&c->y, s->point[j].y);

		point_text(c->p, i, &s->point[j], buf, sizeof(buf));
		if (!s->published && c->columns)
			draw_bar(c, i, x - width * 0.46, y < zero ? y : zero, width * 0.92,
				 y < zero ? zero - y : y - zero, buf);
		else
			mark(c, i, x, y, buf);
	}
}

/* As wide columns as the widest label needs. */
static size_t legend_columns(const struct plot *p, double *width)
{
	double widest = 0, all = WIDTH - 48;

	for (size_t i = 0; i < p->count; i++) {
		double w = axis_text_width(p->series[i].label, LETTER) + LEGEND_MARK + 16;

		widest = w > widest ? w : widest;
	}
	*width = widest < all ? widest : all;
	return *width > 0 ? (size_t)(all / *width) : 1;
}

static void draw_legend_mark(const struct chart *c, size_t i, double x, double y)
{
	bool names = c->p->x.name, published = c->p->series[i].published;

	if (names && c->columns && !published) {
		draw_bar(c, i, x + 7, y - 6, 12, 12, c->p->series[i].label);
		return;
	}
	if (!names && !published) {
		fprintf(c->f, "<line stroke-width=\"2\" stroke=\"%s\"", colour(c->p, i));
		if (dash(c->p, i))
			fprintf(c->f, " stroke-dasharray=\"%s\"", dash(c->p, i));
		svg_attr(c->f, "x1", x);
		svg_attr(c->f, "y1", y);
		svg_attr(c->f, "x2", x + 26);
		svg_attr(c->f, "y2", y);
		fputs("/>\n", c->f);
	}
	mark(c, i, x + 13, y, NULL);
}

static void draw_legend(const struct chart *c, double top)
{
	double width;
	size_t columns = legend_columns(c->p, &width);

	fputs("<g class=\"legend\">\n", c->f);
	for (size_t i = 0; i < c->p->count; i++) {
		size_t row = i / columns;
		double x = 24 + width * (double)(i % columns), y = top + LEGEND_LINE * (double)row;

		draw_legend_mark(c, i, x, y);
		svg_label(c->f, x + LEGEND_MARK, y + 4, LETTER, width - LEGEND_MARK, "", c->p->series[i].label);
	}
	fputs("</g>\n", c->f);
}

/* ---- the document ---- */

static void axis_text(const struct chart *c, const struct plot_axis *as, const struct axis *a)
{
	svg_text(c->f, as->label, SIZE_MAX);
	if (!as->name && a->log)
		fputs(" (logarithmic)", c->f);
}

static void describe(const struct chart *c)
{
	const struct plot *p = c->p;
	size_t points = 0;
	char buf[512];

	fputs("<desc id=\"desc\">", c->f);
	axis_text(c, &p->y, &c->y);
	fputs(" by ", c->f);
	axis_text(c, &p->x, &c->x);
	fputc('.', c->f);
	for (size_t i = 0; i < p->count; i++)
		for (size_t j = 0; j < p->series[i].count && points < DESCRIBED; j++, points++) {
			point_text(p, i, &p->series[i].point[j], buf, sizeof(buf));
			fputc(' ', c->f);
			svg_text(c->f, buf, SIZE_MAX);
			fputc(points + 1 < DESCRIBED ? '.' : ' ', c->f);
		}
	if (points == DESCRIBED)
		fputs("and more.", c->f);
	fputs("</desc>\n", c->f);
}

static void draw_head(const struct chart *c, double height)
{
	FILE *f = c->f;

	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"", f);
	svg_attr(f, "width", WIDTH);
	svg_attr(f, "height", height);
	fprintf(f, " viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"title desc\">\n", (int)WIDTH,
		(int)height);
	fputs("<title id=\"title\">", f);
	svg_text(f, c->p->title, SIZE_MAX);
	fputs("</title>\n", f);
	describe(c);
	fputs("<style>text { font: 12px sans-serif; fill: #222 } .head { font: bold 16px sans-serif }\n"
	      ".grid { stroke: #ddd } .frame { fill: none; stroke: #555 } .mark { stroke-width: 1.8 } "
	      ".halo { stroke-width: 5 } .mark.ring { stroke-width: 1.1 } .halo.ring { stroke-width: 3 }</style>\n"
	      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", f);
	svg_label(f, WIDTH / 2, 26, 16, WIDTH - 40, " class=\"head\" text-anchor=\"middle\"", c->p->title);
	if (c->p->note)
		svg_label(f, WIDTH / 2, 48, LETTER, WIDTH - 40, " text-anchor=\"middle\"", c->p->note);
}

int plot_render(FILE *f, const struct plot *p)
{
	struct chart c = { .f = f, .p = p };
	double width, legend;
	size_t columns, rows;

	if (check(p) < 0 || lay_out(&c) < 0)
		return -1;
	columns = legend_columns(p, &width);
	rows = (p->count + columns - 1) / columns;
	legend = c.bottom + c.labels + 42;
	draw_head(&c, legend + LEGEND_LINE * (double)rows);
	draw_y_axis(&c);
	draw_x_axis(&c);
	for (size_t i = 0; i < p->count; i++) {
		if (p->x.name)
			draw_over_names(&c, i);
		else if (draw_curve(&c, i) < 0)
			return -1;
	}
	draw_legend(&c, legend);
	fputs("</svg>\n", f);
	return 0;
}

int plot_write(const char *path, const struct plot *p)
{
	struct qimg_error e;
	char *data = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&data, &len);
	int ret = -1;

	if (!f) {
		ui_error("Out of memory");
		return -1;
	}
	ret = plot_render(f, p);
	if (ferror(f) | fclose(f)) {
		if (!ret)
			ui_error("Out of memory");
		ret = -1;
	}
	if (!ret) {
		ret = qimg_save_file(path, data, len, &e);
		if (ret)
			ui_error("%s", e.msg);
	}
	free(data);
	return ret;
}
