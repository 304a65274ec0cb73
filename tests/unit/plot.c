// SPDX-License-Identifier: BSD-2-Clause
/* cmd/plot*.c: where marks lie, what is labelled, documents that every reader of XML takes. */
/* The program is no library: its files are taken in as they are. */
#include "../../cmd/plot_axis.c" /* NOLINT(bugprone-suspicious-include) */
#include "../../cmd/plot_svg.c" /* NOLINT(bugprone-suspicious-include) */
#include "../../cmd/utf8.c" /* NOLINT(bugprone-suspicious-include) */
#include "../../cmd/plot.c" /* NOLINT(bugprone-suspicious-include) */

#include <ctype.h>
#include <math.h>
#include <sys/stat.h>

#include "scratch.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define M 1048576.0

static char said[1024];			/* the last message */

void ui_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
}

static bool near(double a, double b)
{
	return a - b < 0.011 && b - a < 0.011;
}

/* The document of a chart, to be freed; NULL when it is refused. */
static char *document(const struct plot *p)
{
	char *data = NULL;
	size_t len;
	FILE *f = open_memstream(&data, &len);
	int ret;

	if (!f)
		return NULL;
	ret = plot_render(f, p);
	fclose(f);
	if (!ret)
		return data;
	free(data);
	return NULL;
}

/* ---- a reader of just so much XML as is written; NULL: sound, else what is wrong ---- */

static const char *bad_entity(const char *p)
{
	static const char *const known[] = { "&amp;", "&lt;", "&gt;", "&quot;" };

	for (size_t i = 0; i < COUNT(known); i++)
		if (!strncmp(p, known[i], strlen(known[i])))
			return NULL;
	return "a bare ampersand";
}

static const char *unsound(const char *p)
{
	char open[16][32];
	unsigned depth = 0;

	if (!strncmp(p, "<?xml", 5))
		p = strstr(p, "?>") + 2;
	for (; *p; p++) {
		const char *end;
		unsigned n = 0;

		if (*p == '&' && bad_entity(p))
			return "a bare ampersand";
		if ((unsigned char)*p < 0x20 && *p != '\n' && *p != '\t')
			return "a control character";
		if (*p != '<')
			continue;
		end = strchr(p, '>');
		if (!end || memchr(p + 1, '<', (size_t)(end - p - 1)))
			return "an open tag";
		while (isalnum((unsigned char)p[n + 1 + (p[1] == '/')]))
			n++;
		if (!n || n > 31)
			return "a nameless tag";
		if (p[1] == '/') {
			if (!depth || strlen(open[--depth]) != n || strncmp(open[depth], p + 2, n))
				return "tags that do not match";
		} else if (end[-1] != '/') {
			if (depth == COUNT(open))
				return "too many levels";
			snprintf(open[depth++], 32, "%.*s", (int)n, p + 1);
		}
		p = end;
	}
	return depth ? "a tag that is not closed" : NULL;
}

static void test_reader(void)
{
	ok(!unsound("<a b=\"1\"><c/>x &amp; y</a>"), "the reader takes what is sound");
	ok(unsound("<a><b></a></b>") && unsound("<a>") && unsound("<a>&</a>") && unsound("<a>\x01</a>"),
	   "and nothing else");
}

static void sound(const struct plot *p, const char *what)
{
	char *doc = document(p);

	if (ok(doc, "%s: drawn", what) && !ok(!unsound(doc), "%s: well-formed", what))
		diag("%s", unsound(doc));
	free(doc);
}

/* ---- places ---- */

struct place {
	double x, y;
};

static double value_after(const char *p, const char *name)
{
	const char *at = strstr(p, name);

	return at ? strtod(at + strlen(name), NULL) : -1;
}

/* The circles of a document, in order; the legend's, which have no title, are left out. */
static size_t circles(const char *doc, struct place *at, size_t most)
{
	size_t n = 0;

	for (const char *p = doc; (p = strstr(p, "<circle")) && n < most; p++) {
		const char *end = strchr(p, '>');

		if (end[-1] == '/')
			continue;
		at[n++] = (struct place){ value_after(p, " cx=\""), value_after(p, " cy=\"") };
	}
	return n;
}

/* The place of a label on an axis; -1: not there. */
static double tick_at(const char *doc, char axis, const char *text)
{
	char class[32], inner[64];

	snprintf(class, sizeof(class), "class=\"%c tick\"", axis);
	snprintf(inner, sizeof(inner), ">%s</text>", text);
	for (const char *p = doc; (p = strstr(p, "<text ")); p++) {
		const char *end = strchr(p, '>');
		const char *at = strstr(p, class);

		if (!at || at > end || strncmp(end, inner, strlen(inner)))
			continue;
		return axis == 'x' ? value_after(p, " x=\"") : value_after(p, " y=\"") - 4;
	}
	return -1;
}

static void test_places(void)
{
	const struct plot_point got[] = { { 2.5 * M, 63600 }, { M, 5030 }, { 1.5 * M, 7260 }, { 2 * M, 13030 } };
	const struct plot_point told[] = { { M, 5100 }, { 2.5 * M, 63600 } };
	const struct plot_series series[] = { { "ours", got, 4, false, 0 }, { "published", told, 2, true, 1 } };
	struct plot p = { .title = "IOPS", .x = { .label = "L2 cache", .unit = PLOT_SIZE },
			  .y = { .label = "IOPS" }, .series = series, .count = 2 };
	char *doc = document(&p);
	struct place at[8];
	double left, right, top, bottom;

	if (!ok(doc, "a line and published points: drawn"))
		return;
	is_u64(circles(doc, at, 8), 6, "a mark for each point");
	left = tick_at(doc, 'x', "1M");
	right = tick_at(doc, 'x', "2.5M");
	bottom = tick_at(doc, 'y', "10k");
	top = tick_at(doc, 'y', "100k");
	ok(left > 0 && right > left && top > 0 && bottom > top, "the axes are labelled");
	ok(tick_at(doc, 'x', "1.5M") > 0 && tick_at(doc, 'x', "2M") > 0, "each size has a label");
	/* x is linear, y logarithmic: 63600 is 12 times 5030. Sorted by x. */
	for (unsigned i = 0; i < 4; i++) {
		static const unsigned order[] = { 1, 2, 3, 0 };
		static const double log10_of[] = { 3.701567985, 3.860936621, 4.114944416, 4.803457116 };
		const struct plot_point *v = &got[order[i]];

		ok(near(at[i].x, left + (right - left) * (v->x - M) / (1.5 * M)), "point %u: x", i);
		ok(near(at[i].y, bottom + (top - bottom) * (log10_of[i] - 4)), "point %u: y", i);
	}
	ok(near(at[5].x, right) && near(at[5].y, at[3].y), "a published point of the same value lies over it");
	ok(strstr(doc, "fill=\"none\" stroke=\"#0072b2\"><title>published: 1M, 5100</title>"),
	   "it is hollow, in the colour of the other, and says what it is");
	is_u64(strstr(doc, "<polyline") && !strstr(strstr(doc, "<polyline") + 1, "<polyline"), 1,
	       "only what was measured has a line");
	free(doc);
}

static void test_bars(void)
{
	static const char *const names[] = { "off", "full" };
	const struct plot_point raw[] = { { 0, 10 }, { 1, 40 } }, qcow2[] = { { 1, 20 } };
	const struct plot_series series[] = { { "raw", raw, 2, false, 0 }, { "qcow2", qcow2, 1, false, 0 },
					      { "raw, published", raw, 2, true, 1 } };
	struct plot p = { .title = "Bars", .x = { .label = "preallocation", .name = names, .names = 2 },
			  .y = { .label = "IOPS" }, .series = series, .count = 3 };
	char *doc = document(&p);
	const char *bar[3], *at = doc;
	struct place mark[4];
	double zero;

	if (!ok(doc, "bars over names: drawn"))
		return;
	for (unsigned i = 0; i < 3; i++) {
		at = strstr(at, "class=\"bar\"");
		if (!ok(at, "bar %u", i))
			goto out;
		bar[i] = at++;
	}
	zero = tick_at(doc, 'y', "0");
	for (unsigned i = 0; i < 3; i++)
		ok(near(value_after(bar[i], " y=\"") + value_after(bar[i], " height=\""), zero),
		   "bar %u starts at 0", i);
	ok(near(value_after(bar[1], " height=\""), 4 * value_after(bar[0], " height=\"")) &&
	   near(value_after(bar[2], " height=\""), 2 * value_after(bar[0], " height=\"")),
	   "their lengths are the values");
	is_u64(circles(doc, mark, 4), 2, "published values are marks");
	ok(strstr(doc, "fill=\"none\" stroke=\"#0072b2\"><title>raw, published: ") &&
	   !strstr(doc, "fill=\"#fff\" stroke"),
	   "which hide nothing");
	ok(near(mark[1].x, value_after(bar[1], " x=\"") + value_after(bar[1], " width=\"") / 2) &&
	   near(mark[1].y, value_after(bar[1], " y=\"")), "at the end of the bar they belong to");
	ok(value_after(bar[2], " x=\"") > value_after(bar[1], " x=\"") + value_after(bar[1], " width=\""),
	   "bars stand side by side");
out:
	free(doc);
}

/* ---- axes ---- */

static void is_label(enum plot_unit unit, double v, const char *want)
{
	char buf[AXIS_LABEL];

	is_str(axis_label(unit, v, buf), want, "label %s", want);
}

static void test_labels(void)
{
	is_label(PLOT_SIZE, 65536, "64K");
	is_label(PLOT_SIZE, M, "1M");
	is_label(PLOT_SIZE, 1.5 * M, "1.5M");
	is_label(PLOT_SIZE, 512, "512");
	is_label(PLOT_SIZE, 1024 * M, "1G");
	is_label(PLOT_NUMBER, 1000, "1k");
	is_label(PLOT_NUMBER, 10000, "10k");
	is_label(PLOT_NUMBER, 63600, "63.6k");
	is_label(PLOT_NUMBER, 2.5e6, "2.5M");
	is_label(PLOT_NUMBER, 0, "0");
	is_label(PLOT_NUMBER, 0.25, "0.25");
	is_label(PLOT_NUMBER, 1024, "1024");
	is_label(PLOT_NUMBER, -1500, "-1.5k");
	is_label(PLOT_NUMBER, 1e40, "1e+40");
}

/* Marks are within the range, apart from each other, at least two, and have different labels. */
static bool sensible(const struct axis *a, bool level)
{
	double end = -1e9;
	char text[AXIS_LABEL], before[AXIS_LABEL] = "";

	if (a->ticks < 2)
		return false;
	for (unsigned i = 0; i < a->ticks; i++) {
		double at = axis_at(a, a->tick[i]) * (level ? 1 : -1), half = 8;

		axis_tick(a, i, text);
		if (level)
			half = (double)strlen(text) * 12 * 0.6 / 2;
		if (a->tick[i] < a->lo || a->tick[i] > a->hi || at - half < end || !strcmp(text, before))
			return false;
		end = at + half;
		strcpy(before, text);
	}
	return true;
}

static void test_decades(void)
{
	for (unsigned unit = PLOT_NUMBER; unit <= PLOT_SIZE; unit++) {
		for (unsigned level = 0; level < 2; level++) {
			const struct plot_axis as = { .scale = PLOT_LOG, .unit = unit };
			unsigned bad = 0;

			for (int decades = 1; decades <= 12; decades++)
				for (int from = -4; from < 8; from++) {
					double v[2] = { 3.7 * power_of(10, from), 3.7 * power_of(10, from + decades) };
					struct axis a;

					axis_init(&a, &as, v, 2, level ? 60 : 402, level ? 776 : 62, level);
					bad += !sensible(&a, level) || a.lo > v[0] || a.hi < v[1];
				}
			is_u64(bad, 0, "1 to 12 decades, unit %u, %s", unit, level ? "level" : "upright");
		}
	}
}

static void test_steps(void)
{
	unsigned bad = 0;

	for (unsigned unit = PLOT_NUMBER; unit <= PLOT_SIZE; unit++)
		for (unsigned level = 0; level < 2; level++)
			for (unsigned i = 1; i < 2000; i++) {
				const struct plot_axis as = { .scale = PLOT_LINEAR, .unit = unit };
				double v[60];
				struct axis a;

				for (unsigned j = 0; j < COUNT(v); j++)
					v[j] = (double)(i * i) * (i % 3 ? 1 : 0.001) * (1 + j * (i % 7 + 1) / 8.0);
				axis_init(&a, &as, v, COUNT(v), level ? 60 : 402, level ? 776 : 62, level);
				bad += !sensible(&a, level) || a.lo > v[0] || a.hi < v[COUNT(v) - 1];
			}
	is_u64(bad, 0, "linear axes of all kinds of ranges");
}

static void test_scales(void)
{
	struct plot_axis as = { .scale = PLOT_AUTO };
	struct axis a;

	axis_init(&a, &as, (const double[]){ 5, 100, 7 }, 3, 402, 62, false);
	ok(a.log, "values far apart: logarithmic");
	axis_init(&a, &as, (const double[]){ 5, 9 }, 2, 402, 62, false);
	ok(!a.log && a.lo == 0, "values near each other: linear, from 0");
	axis_init(&a, &as, (const double[]){ 0, 1, 100 }, 3, 402, 62, false);
	ok(!a.log, "a 0 among them: linear");
	axis_init(&a, &as, (const double[]){ 7, 7, 7 }, 3, 402, 62, false);
	ok(a.lo == 0 && a.hi > 7 && sensible(&a, false), "equal values");
	axis_init(&a, &as, (const double[]){ 0, 0 }, 2, 402, 62, false);
	ok(a.lo == 0 && a.hi == 1, "nothing but 0");
	axis_init(&a, &as, NULL, 0, 402, 62, false);
	ok(a.lo < a.hi, "no value at all");
	axis_init(&a, &as, (const double[]){ M }, 1, 60, 776, true);
	ok(a.ticks == 1 && near(axis_at(&a, M), 418), "a single value is in the middle, with a label");
	as.scale = PLOT_LOG;
	axis_init(&a, &as, (const double[]){ 5000, 5000 }, 2, 402, 62, false);
	ok(a.lo < a.hi && a.lo <= 5000 && a.hi >= 5000 && sensible(&a, false), "equal values, logarithmic");
	as.scale = PLOT_AUTO;
	axis_init(&a, &as, (const double[]){ -30, 20 }, 2, 402, 62, false);
	ok(!a.log && a.lo == -30 && a.hi == 20, "values below 0");
}

/* ---- what charts there may be ---- */

static void test_hostile(void)
{
	static const char *const names[] = { "<a>", "\xff", "" };
	const struct plot_point points[] = { { 0, 1 }, { 1, 2 }, { 2, 3 } };
	const struct plot_series series[] = { { "a & b \"c\" 'd' ]]> \x01\x1f\n \xed\xa0\x80 \xf4\x90\x80\x80 \xc0\xaf"
						"\xe2\x82", points, 3, false, 0 } };
	char longest[3000];
	struct plot p = { .title = "</svg>", .note = "<!-- -->", .x = { .label = "&", .name = names, .names = 3 },
			  .y = { .label = "\t" }, .series = series, .count = 1 };
	char *doc;

	sound(&p, "texts of all kinds");
	doc = document(&p);
	ok(doc && strstr(doc, "a &amp; b &quot;c&quot;"), "they are written as they are");
	free(doc);
	memset(longest, '&', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	p.title = p.x.label = p.y.label = longest;
	sound(&p, "long texts");
	p.x.name = NULL;
	sound(&p, "names taken for numbers");
}

static void test_many(void)
{
	static struct plot_point point[30][90];
	struct plot_series series[30];
	const char *names[90];
	struct plot p = { .title = "Many", .x = { .label = "x" }, .y = { .label = "y" }, .series = series,
			  .count = 30 };

	for (unsigned i = 0; i < 30; i++) {
		series[i] = (struct plot_series){ "one of many series", point[i], 90, false, 0 };
		for (unsigned j = 0; j < 90; j++) {
			point[i][j] = (struct plot_point){ j, 1.0 + i * j };
			names[j] = "a name that is long enough";
		}
	}
	sound(&p, "30 lines of 90 points");
	p.x.name = names;
	p.x.names = 90;
	sound(&p, "30 bars over each of 90 names");
	p.count = 0;
	sound(&p, "nothing");
}

static void refused(const struct plot *p, const char *message)
{
	*said = '\0';
	free(document(p));
	ok(strstr(said, message), "refused: %s", message);
}

static void test_refused(void)
{
	struct plot_point at = { 1, 0 };
	struct plot_series series = { "a series", &at, 1, false, 0 };
	struct plot p = { .title = "", .x = { .label = "" }, .y = { .label = "", .scale = PLOT_LOG },
			  .series = &series, .count = 1 };
	static const char *const names[] = { "one" };

	refused(&p, "'a series' has the value 0, for which a logarithmic axis has no place");
	p.y.scale = PLOT_AUTO;
	sound(&p, "the same value where the scale is left open");
	at.y = (double)INFINITY;
	refused(&p, "'a series' has a value that cannot be drawn");
	at.y = (double)NAN;
	refused(&p, "'a series' has a value that cannot be drawn");
	at.y = 1;
	p.x.name = names;
	p.x.names = 1;
	refused(&p, "'a series' has a point at the name 1 of 1");
	at.x = 0;
	series.like = 2;
	refused(&p, "'a series' looks like a series that is not there");
}

static void test_file(void)
{
	const struct plot_point points[] = { { 1, 1 }, { 2, 3 } };
	struct plot_series series = { "a series", points, 2, false, 0 };
	struct plot p = { .title = "File", .x = { .label = "x" }, .y = { .label = "y" }, .series = &series,
			  .count = 1 };
	char *doc = document(&p), *read = calloc(1, 65536);
	FILE *f;

	is_i64(plot_write("a.svg", &p), 0, "a file is written");
	f = fopen("a.svg", "r");
	if (ok(f && read && fread(read, 1, 65535, f), "it can be read"))
		is_str(read, doc, "it holds the document");
	if (f)
		fclose(f);
	if (sh("command -v xmllint"))
		ok(sh("xmllint --noout a.svg"), "xmllint takes it");
	else
		skip("xmllint is not installed");
	is_i64(plot_write("a.svg", &p), 0, "it is replaced");
	series.like = 7;
	is_i64(plot_write("b.svg", &p), -1, "a chart that is refused");
	ok(sh("test \"$(ls -A)\" = a.svg"), "leaves nothing");
	series.like = 0;
	is_i64(plot_write("absent/b.svg", &p), -1, "a folder that is not there");
	ok(strstr(said, "Could not create 'absent/b.svg'"), "is said");
	is_i64(plot_write("/dev/null", &p), -1, "a device is no file");
	free(doc);
	free(read);
}

int main(void)
{
	scratch_enter();
	test_reader();
	test_places();
	test_bars();
	test_labels();
	test_decades();
	test_steps();
	test_scales();
	test_hostile();
	test_many();
	test_refused();
	test_file();
	return done_testing();
}
