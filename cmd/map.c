// SPDX-License-Identifier: BSD-2-Clause
/*
 * `qimg map`: where the parts of a disk are.
 *
 * Runs are printed as they are found, whatever their number: none is kept but the last one, which the next may
 * make longer.
 */
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "map_plot.h"
#include "open.h"
#include "ui.h"

#define PIECE (UINT64_C(1) << 40)	/* bytes of the disk that are asked for at once: ^C is noticed between them */
#define BUFFER 65536

enum { PLOT = 256 };

enum form { HUMAN, JSON, CSV };

static const struct opt options[] = {
	OPEN_OPT_FORMAT("Format of the image (default: found by content)"),
	OPEN_OPT_IMAGE_OPTS,
	{ .id = 'l', .letter = 'l', .name = "max-length", .kind = OPT_SIZE, .arg = "SIZE",
	  .help = "Show at most so many bytes of the disk" },
	{ .id = 's', .letter = 's', .name = "start-offset", .kind = OPT_SIZE, .arg = "OFFSET",
	  .help = "Begin at this offset of the disk" },
	{ .id = PLOT, .name = "plot", .kind = OPT_FILE, .arg = "FILE.svg",
	  .help = "Also draw a picture: disk against file" },
	OPEN_OPT_SHARE,
	{ .id = OPEN_OUTPUT, .name = "output", .kind = OPT_CHOICE, .arg = "FORM", .values = "human json csv",
	  .help = "Text for people (human, the default: only what has data in a\nfile), json or csv: all of the disk" },
	{ 0 }
};

struct map {
	struct qimg_image *img;
	enum form form;
	struct map_plot *plot;		/* or NULL */
	uint64_t printed;		/* lines */
	bool failed;			/* there is something that the text cannot tell */
	struct qimg_extent last;	/* found, and not printed yet; empty at first */
};

static bool has_data(const struct qimg_extent *x)
{
	return x->kind == QIMG_DATA || x->kind == QIMG_PACKED;
}

static bool is_zero(const struct qimg_extent *x)
{
	return x->len && (!has_data(x) || x->sparse);
}

/* ---- printing ---- */

/* Of an image in pieces there are many lines: what of them is always alike is not made by printf. */
struct line {
	char text[256];
	size_t len;
};

static void add_text(struct line *l, const char *text)
{
	size_t n = strlen(text);

	memcpy(l->text + l->len, text, n);
	l->len += n;
}

static void add_number(struct line *l, const char *name, uint64_t number)
{
	char digits[20];
	size_t n = sizeof(digits);

	add_text(l, name);
	do
		digits[--n] = (char)('0' + number % 10);
	while (number /= 10);
	memcpy(l->text + l->len, digits + n, sizeof(digits) - n);
	l->len += sizeof(digits) - n;
}

static void add_truth(struct line *l, const char *name, bool truth)
{
	add_text(l, name);
	add_text(l, truth ? "true" : "false");
}

static void print_json(const struct map *m, const struct qimg_extent *x)
{
	struct line l = { .len = 0 };

	add_number(&l, m->printed ? ",\n{ \"start\": " : "{ \"start\": ", x->start);
	add_number(&l, ", \"length\": ", x->len);
	add_number(&l, ", \"depth\": ", x->depth);
	add_truth(&l, ", \"present\": ", x->present);
	add_truth(&l, ", \"zero\": ", is_zero(x));
	add_truth(&l, ", \"data\": ", has_data(x));
	add_truth(&l, ", \"compressed\": ", x->kind == QIMG_PACKED);
	if (x->plain)
		add_number(&l, ", \"offset\": ", x->host);
	add_text(&l, "}");
	fwrite(l.text, 1, l.len, stdout);
}

/* A field with anything else than text of one line is put in quotes. */
static void print_csv_text(const char *text)
{
	if (!strpbrk(text, "\",\r\n")) {
		ui_text(stdout, text);
		return;
	}
	putchar('"');
	for (; *text; text++) {
		if (*text == '"')
			putchar('"');
		putchar(*text);
	}
	putchar('"');
}

static void print_csv(const struct qimg_extent *x)
{
	printf("%" PRIu64 ",%" PRIu64 ",%u,%d,%d,%d,%d,", x->start, x->len, x->depth, x->present, is_zero(x),
	       has_data(x), x->kind == QIMG_PACKED);
	if (x->plain) {
		printf("%" PRIu64 ",", x->host);
		print_csv_text(x->path);
	} else {
		putchar(',');
	}
	putchar('\n');
}

static int print_human(struct map *m, const struct qimg_extent *x)
{
	if (!has_data(x) || is_zero(x) || m->failed)
		return 0;
	if (!x->plain) {
		m->failed = true;
		ui_error("'%s' has %s clusters, at 0x%" PRIx64 ", which are in no file as they are: see "
			 "--output=json", qimg_name(m->img), x->kind == QIMG_PACKED ? "compressed" : "encrypted",
			 x->start);
		/* A picture tells it all the same. */
		return m->plot ? 0 : -1;
	}
	printf("%#-16" PRIx64 "%#-16" PRIx64 "%#-16" PRIx64, x->start, x->len, x->host);
	ui_text(stdout, x->path);
	putchar('\n');
	return 0;
}

static int print(struct map *m, const struct qimg_extent *x)
{
	int ret = 0;

	if (m->form == JSON)
		print_json(m, x);
	else if (m->form == CSV)
		print_csv(x);
	else
		ret = print_human(m, x);
	m->printed++;
	return ret;
}

/* ---- finding ---- */

/* What is printed as one. */
static bool goes_on(const struct qimg_extent *a, const struct qimg_extent *b)
{
	if (!a->len || has_data(a) != has_data(b) || is_zero(a) != is_zero(b) || a->present != b->present ||
	    a->depth != b->depth || a->plain != b->plain || (a->kind == QIMG_PACKED) != (b->kind == QIMG_PACKED))
		return false;
	return !a->plain || (a->host + a->len == b->host && !strcmp(a->path, b->path));
}

static int add(struct map *m, const struct qimg_extent *x)
{
	if (goes_on(&m->last, x)) {
		m->last.len += x->len;
		return 0;
	}
	if (m->last.len && print(m, &m->last) < 0)
		return -1;
	m->last = *x;
	return 0;
}

static int map_range(struct map *m, uint64_t start, uint64_t end)
{
	const volatile sig_atomic_t *cancel = ui_cancel_flag();
	struct qimg_extent x;
	struct qimg_error e;

	for (uint64_t at = start; at < end; at += x.len) {
		if (*cancel) {
			ui_error("Interrupted");
			return -1;
		}
		if (qimg_map(m->img, at, end - at < PIECE ? end - at : PIECE, &x, &e)) {
			ui_error("Could not find out what is at 0x%" PRIx64 " of '%s': %s", at,
				 qimg_name(m->img), e.msg);
			return -1;
		}
		if (m->plot)
			map_plot_add(m->plot, &x);
		if (add(m, &x) < 0)
			return -1;
	}
	/* Of an empty range JSON has one run as well. */
	return m->last.len || m->form == JSON ? print(m, &m->last) : 0;
}

static int map(const struct args *a, struct map *m)
{
	uint64_t size = qimg_size(m->img), start = args_has(a, 's') ? args_last(a, 's')->number : 0, len = size;
	int ret;

	/* Nothing is there, behind the end: an empty run of zeros says so. */
	m->last = (struct qimg_extent){ .start = start, .kind = QIMG_HOLE };
	if (args_has(a, 'l'))
		len = args_last(a, 'l')->number;
	if (start > size)
		start = size;
	if (len > size - start)
		len = size - start;
	if (args_has(a, PLOT) && !(m->plot = map_plot_new(start, start + len)))
		return -1;
	if (m->form == HUMAN)
		printf("%-16s%-16s%-16s%s\n", "Offset", "Length", "Mapped to", "File");
	else
		printf("%s", m->form == CSV ? "start,length,depth,present,zero,data,compressed,offset,file\n" : "[");
	ret = map_range(m, start, start + len);
	if (m->form == JSON && !ret)
		printf("]\n");
	if (m->plot && !ret)
		ret = map_plot_write(m->plot, args_text(a, PLOT), qimg_name(m->img));
	map_plot_free(m->plot);
	return m->failed ? -1 : ret;
}

static int run(const struct args *a)
{
	const struct arg *output = args_last(a, OPEN_OUTPUT);
	struct map m = { .form = output ? (enum form)output->number : HUMAN };
	struct open_how how;
	struct qimg_error e;
	int ret;

	/* Of an image in pieces that is many lines. */
	setvbuf(stdout, NULL, _IOFBF, BUFFER);
	if (open_how(a, 0, &how))
		return 1;
	how.flags |= QIMG_OPEN_ONCE;
	if (open_image(a->operands[0], &how, &m.img))
		return 1;
	ret = map(a, &m);
	if (qimg_close(m.img, &e)) {
		ui_error("%s", e.msg);
		ret = -1;
	}
	return ret ? 1 : 0;
}

const struct command map_command = {
	.name = "map",
	.summary = "Show where the parts of a disk are",
	.operands = "FILE",
	.min_operands = 1,
	.max_operands = 1,
	.missing = "one image file name",
	.options = options,
	.run = run,
};
