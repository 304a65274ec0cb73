/* SPDX-License-Identifier: BSD-2-Clause */
/* The axes of a chart: their range, what is marked on them, where a value lies. */
#ifndef CMD_PLOT_AXIS_H
#define CMD_PLOT_AXIS_H

#include "plot.h"

enum { AXIS_TICKS = 40, AXIS_LABEL = 32 };
#define AXIS_MOST 1e100		/* values that can be drawn are between -AXIS_MOST and AXIS_MOST */
#define AXIS_LEAST 1e-100

struct axis {
	bool log;
	enum plot_unit unit;
	double lo, hi;			/* lo < hi */
	double from, to;		/* where they lie in the picture; from may be above to */
	double tick[AXIS_TICKS];	/* values with a label, growing, none outside of the range */
	unsigned ticks;
	bool exact;			/* short labels would not tell the marks apart */
};

/*
 * Makes the axis of n values (none, too; on a logarithmic one AXIS_LEAST or more) between two places of the
 * picture. level: its labels stand side by side, it ends with the data, and marks the values themselves
 * where they are few; else it ends with marks, and a linear one that could start at 0 does.
 */
void axis_init(struct axis *a, const struct plot_axis *as, const double *value, size_t n,
	       double from, double to, bool level);
/* Where a value lies. */
double axis_at(const struct axis *a, double value);
/* The label of a tick. Returns buf, of AXIS_LABEL bytes. */
char *axis_tick(const struct axis *a, unsigned i, char *buf);
/* How wide a text is in letters of that size, or a little less: there are wide fonts. */
double axis_text_width(const char *text, double size);
/* "64K". Returns buf, of AXIS_LABEL bytes. */
char *axis_label(enum plot_unit unit, double value, char *buf);
/* A decimal number with up to so many digits behind the point, in the locale of programs. */
char *axis_number(double value, unsigned digits, char *buf);

#endif
