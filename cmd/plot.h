/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Charts as SVG: lines over a numeric axis, or bars over names.
 *
 * Zeros: an axis that chooses by itself is linear where a value is not above 0; one that is asked to
 * be logarithmic refuses such a value. Values that are not finite are always refused.
 */
#ifndef CMD_PLOT_H
#define CMD_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct plot_point {
	double x, y;			/* x over names: the number of the name, from 0 */
};

/*
 * One line of points (its own copy is sorted by x), or one bar over each name that has a point. What
 * was published is drawn as hollow marks without a line.
 */
struct plot_series {
	const char *label;
	const struct plot_point *point;
	size_t count;			/* may be 0: in the legend only */
	bool published;
	unsigned like;			/* 0, or 1 + number of the series whose colour and place it shares */
};

enum plot_scale {
	PLOT_AUTO,			/* logarithmic where the values are above 0 and far apart */
	PLOT_LINEAR,
	PLOT_LOG,
};

enum plot_unit {
	PLOT_NUMBER,			/* 250, 1k, 2.5M */
	PLOT_SIZE,			/* of bytes, in powers of 1024: 512, 64K, 1.5M */
};

struct plot_axis {
	const char *label;
	enum plot_scale scale;
	enum plot_unit unit;
	const char *const *name;	/* x only: names instead of numbers; NULL: numbers */
	size_t names;
};

struct plot {
	const char *title;
	const char *note;		/* a line below the title, or NULL */
	struct plot_axis x, y;
	const struct plot_series *series;
	size_t count;
};

/* Writes the file, whole or not at all. -1 after a message. */
int plot_write(const char *path, const struct plot *p);
/* Writes the document to a stream, whose errors are the caller's to notice. -1 after a message. */
int plot_render(FILE *f, const struct plot *p);

#endif
