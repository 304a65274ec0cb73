// SPDX-License-Identifier: BSD-2-Clause
/*
 * The axes of a chart.
 *
 * Marks are found by trying, from close to sparse, until their labels do not touch. Logarithms to base 2
 * are all that is needed, so that the math library is not.
 */
#include "plot_axis.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_SIZE 12.0		/* of the letters */
#define LABEL_GAP 10.0		/* between labels side by side */
#define LABEL_RISE 20.0		/* from label to label, one above the other */
#define FAR_APART 8.0		/* the greatest value is so many times the least: better logarithmic */

/* By halving and by the series of artanh, which converges fast from 1 to 2. */
static double log_2(double v)
{
	double n = 0, t, power, sum = 0;

	while (v >= 2) {
		v /= 2;
		n++;
	}
	while (v < 1) {
		v *= 2;
		n--;
	}
	t = (v - 1) / (v + 1);
	power = t;
	for (int i = 1; i < 60; i += 2) {
		sum += power / i;
		power *= t * t;
	}
	return n + sum * 2 / 0.69314718055994530942;
}

static double floor_of(double v)
{
	double whole = (double)(int64_t)v;

	return whole > v ? whole - 1 : whole;
}

static double power_of(double base, int n)
{
	double v = 1;

	for (; n > 0; n--)
		v *= base;
	for (; n < 0; n++)
		v /= base;
	return v;
}

/* The greatest n with base^n <= v. */
static int exponent(double v, double base)
{
	int n = 0;

	while (v >= power_of(base, n + 1))
		n++;
	while (v < power_of(base, n))
		n--;
	return n;
}

char *axis_number(double v, unsigned digits, char *buf)
{
	bool negative = v < 0;
	uint64_t scale = 1, n;
	int len;

	for (unsigned i = 0; i < digits; i++)
		scale *= 10;
	n = (uint64_t)((negative ? -v : v) * (double)scale + 0.5);
	len = snprintf(buf, AXIS_LABEL, "%s%llu", negative && n ? "-" : "", (unsigned long long)(n / scale));
	if (n % scale == 0)
		return buf;
	len += snprintf(buf + len, AXIS_LABEL - (size_t)len, ".%0*llu", (int)digits,
			(unsigned long long)(n % scale));
	while (buf[len - 1] == '0')
		buf[--len] = '\0';
	return buf;
}

char *axis_label(enum plot_unit unit, double v, char *buf)
{
	static const char letters[2][7] = { "kMGTPE", "KMGTPE" };
	double base = unit == PLOT_SIZE ? 1024 : 1000, size = v < 0 ? -v : v;
	unsigned n = 0, digits;
	size_t len;

	/* Depths of 1024 and the like are not to be rounded. */
	if (unit == PLOT_NUMBER && size < 10000 && size == (double)(unsigned)size && (unsigned)size % 50)
		return axis_number(v, 0, buf);
	while (n < 6 && size >= base * 0.99995) {
		size /= base;
		n++;
	}
	if (n == 6 && size >= 1e6) {
		snprintf(buf, AXIS_LABEL, "%.3g", v);
		return buf;
	}
	if (size > 0 && size < 0.001) {
		snprintf(buf, AXIS_LABEL, "%.2g", v);
		return buf;
	}
	digits = size < 0.1 ? 4 : size < 1 ? 3 : size < 100 ? 2 : 1;
	axis_number(v < 0 ? -size : size, digits, buf);
	len = strlen(buf);
	if (n && len + 1 < AXIS_LABEL) {
		buf[len] = letters[unit == PLOT_SIZE][n - 1];
		buf[len + 1] = '\0';
	}
	return buf;
}

double axis_text_width(const char *text, double size)
{
	double width = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if ((*p & 0xc0) == 0x80)
			continue;
		width += *p >= 0xe0 ? 1.05 : *p >= 'A' && *p <= 'Z' ? 0.75 : 0.64;
	}
	return width * size;
}

double axis_at(const struct axis *a, double v)
{
	double lo = a->log ? log_2(a->lo) : a->lo, hi = a->log ? log_2(a->hi) : a->hi;

	return a->from + (a->to - a->from) * ((a->log ? log_2(v) : v) - lo) / (hi - lo);
}

char *axis_tick(const struct axis *a, unsigned i, char *buf)
{
	double v = a->tick[i];

	if (!a->exact)
		return axis_label(a->unit, v, buf);
	if (v > -1e15 && v < 1e15)
		return axis_number(v, v > -1e6 && v < 1e6 ? 6 : 0, buf);
	snprintf(buf, AXIS_LABEL, "%.12g", v);
	return buf;
}

/* Do two marks have the same label? */
static bool labels_repeat(const struct axis *a)
{
	char one[AXIS_LABEL], two[AXIS_LABEL];

	for (unsigned i = 1; i < a->ticks; i++)
		if (!strcmp(axis_tick(a, i - 1, one), axis_tick(a, i, two)))
			return true;
	return false;
}

/* Does what is marked leave room between the labels? */
static bool labels_fit(struct axis *a, bool level)
{
	double end = 0;

	a->exact = false;
	a->exact = labels_repeat(a);
	for (unsigned i = 0; i < a->ticks; i++) {
		double at = axis_at(a, a->tick[i]), half = LABEL_RISE / 2;
		char buf[AXIS_LABEL];

		if (level)
			half = (axis_text_width(axis_tick(a, i, buf), LABEL_SIZE) + LABEL_GAP) / 2;
		else
			at = -at;
		if (i && at - half < end)
			return false;
		end = at + half;
	}
	return true;
}

static bool add_tick(struct axis *a, double v)
{
	/* What comes from additions may miss the ends by a hair. */
	double slack = (a->hi - a->lo) * 1e-9;

	if (a->log)
		slack = v * 1e-9;
	if (v < a->lo - slack || v > a->hi + slack)
		return true;
	if (a->ticks == AXIS_TICKS)
		return false;
	a->tick[a->ticks++] = v < a->lo ? a->lo : v > a->hi ? a->hi : v;
	return true;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The values themselves, when they are few enough. */
static bool mark_values(struct axis *a, const double *value, size_t n)
{
	double *sorted = malloc(n * sizeof(*sorted));
	bool ok = true;

	a->ticks = 0;
	if (!sorted)
		return false;
	memcpy(sorted, value, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	for (size_t i = 0; i < n && ok; i++)
		ok = (i && sorted[i] <= sorted[i - 1]) || add_tick(a, sorted[i]);
	free(sorted);
	return ok && labels_fit(a, true);
}

/* 1, 2, 5, 10, ... (sizes: powers of two), counted by k from 1 = k 0. */
static double round_value(enum plot_unit unit, int k)
{
	static const double in_decade[] = { 1, 2, 5 };
	int decade = k >= 0 ? k / 3 : -((2 - k) / 3);

	return unit == PLOT_SIZE ? power_of(2, k) : in_decade[(k % 3 + 3) % 3] * power_of(10, decade);
}

/* The greatest k whose round value is at most v. */
static int round_below(enum plot_unit unit, double v)
{
	int k = unit == PLOT_SIZE ? exponent(v, 2) : 3 * exponent(v, 10);

	while (round_value(unit, k + 1) <= v * (1 + 1e-12))
		k++;
	return k;
}

/* Marks at every step-th power of base. */
static bool mark_powers(struct axis *a, double base, int step, bool level)
{
	int first = exponent(a->lo * (1 + 1e-12), base), from;

	a->ticks = 0;
	/* Multiples of the step, so that 1, 1M or 1G are among them. */
	from = first >= 0 ? first / step * step : -((step - 1 - first) / step) * step;
	for (int n = from; power_of(base, n) <= a->hi * (1 + 1e-12); n += step)
		if (!add_tick(a, power_of(base, n)))
			return false;
	return labels_fit(a, level);
}

static void mark_log(struct axis *a, bool level)
{
	double base = a->unit == PLOT_SIZE ? 2 : 10;
	int k = round_below(a->unit, a->lo);
	bool fit = true;

	a->ticks = 0;
	for (; round_value(a->unit, k) <= a->hi * (1 + 1e-12) && fit; k++)
		fit = add_tick(a, round_value(a->unit, k));
	if (fit && a->ticks >= 2 && labels_fit(a, level))
		return;
	for (int step = 1; step < 4000; step++)
		if (mark_powers(a, base, step, level))
			break;
	if (a->ticks >= 2)
		return;
	/* No two round values are in the range: its ends, then. */
	a->ticks = 2;
	a->tick[0] = a->lo;
	a->tick[1] = a->hi;
}

static bool mark_steps(struct axis *a, double step, bool level)
{
	double n = -floor_of(-(a->lo / step - 1e-9));

	a->ticks = 0;
	while (n * step <= a->hi + step * 1e-9)
		if (!add_tick(a, n++ * step))
			return false;
	return labels_fit(a, level);
}

/* The first step that leaves at most so many parts. */
static int step_for(const struct axis *a, double parts)
{
	int k = round_below(a->unit, (a->hi - a->lo) / parts);

	if (round_value(a->unit, k) * parts < (a->hi - a->lo) * (1 - 1e-9))
		k++;
	return k;
}

static void mark_linear(struct axis *a, bool level)
{
	int k = step_for(a, level ? 10 : 6);
	double step = round_value(a->unit, k);

	if (!level) {
		a->lo = floor_of(a->lo / step + 1e-9) * step;
		a->hi = -floor_of(-(a->hi / step - 1e-9)) * step;
	}
	while (!mark_steps(a, round_value(a->unit, k), level))
		k++;
}

static void range_log(struct axis *a, bool level)
{
	int k;

	if (level) {
		if (a->lo == a->hi) {
			a->lo /= 2;
			a->hi *= 2;
		}
		return;
	}
	k = round_below(a->unit, a->lo);
	if (round_value(a->unit, k) >= a->hi)
		k--;
	a->lo = round_value(a->unit, k);
	while (round_value(a->unit, k) < a->hi * (1 - 1e-12))
		k++;
	a->hi = round_value(a->unit, k);
}

static void range_linear(struct axis *a, bool level)
{
	double size = a->lo < 0 ? -a->lo : a->lo;

	if (!level && a->lo > 0)
		a->lo = 0;
	if (!level && a->hi < 0)
		a->hi = 0;
	if (a->lo < a->hi)
		return;
	a->lo -= level && size ? size / 2 : 0;
	a->hi += size ? size / 2 : 1;
}

void axis_init(struct axis *a, const struct plot_axis *as, const double *value, size_t n,
	       double from, double to, bool level)
{
	memset(a, 0, sizeof(*a));
	a->unit = as->unit;
	a->from = from;
	a->to = to;
	a->lo = a->hi = n ? value[0] : as->scale == PLOT_LOG;
	for (size_t i = 1; i < n; i++) {
		a->lo = value[i] < a->lo ? value[i] : a->lo;
		a->hi = value[i] > a->hi ? value[i] : a->hi;
	}
	a->log = as->scale == PLOT_LOG || (as->scale == PLOT_AUTO && a->lo >= AXIS_LEAST && a->hi >= a->lo * FAR_APART);
	if (a->log)
		range_log(a, level);
	else
		range_linear(a, level);
	if (level && n && mark_values(a, value, n))
		return;
	if (a->log)
		mark_log(a, level);
	else
		mark_linear(a, level);
}
