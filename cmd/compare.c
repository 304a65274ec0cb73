// SPDX-License-Identifier: BSD-2-Clause
/* `qimg compare`: do two disks read the same? */
#include "commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "open.h"
#include "ui.h"

#define SECTOR 512

enum { ALL = 256 };

/* Exit statuses. */
enum { SAME = 0, DIFFERS = 1, FAILED = 2, NO_MAP = 3, NO_DATA = 4 };

static const struct opt options[] = {
	{ .id = 'f', .letter = 'f', .name = "a-format", .kind = OPT_FORMAT, .arg = "FORMAT",
	  .help = "Format of the first image (default: found by content)" },
	{ .id = 'F', .letter = 'F', .name = "b-format", .kind = OPT_FORMAT, .arg = "FORMAT",
	  .help = "Format of the second image" },
	{ .id = ALL, .name = "all", .help = "List all ranges that differ, not only where the first one is" },
	OPEN_OPT_IMAGE_OPTS,
	{ .id = 'p', .letter = 'p', .name = "progress", .help = "Show how far it is" },
	{ .id = 's', .letter = 's', .name = "strict",
	  .help = "Also compare sizes, and which parts are allocated" },
	{ .id = 'T', .letter = 'T', .name = "cache", .kind = OPT_CACHE, .arg = "CACHE",
	  .help = "Cache mode (default: writeback)" },
	OPEN_OPT_SHARE,
	OPEN_OPT_OUTPUT,
	{ .id = 'q', .letter = 'q', .name = "quiet", .help = "Print nothing but errors" },
	{ 0 }
};

struct listing {
	bool json, all, quiet;
	uint64_t ranges;
};

/* JSON is one document, whatever happens on the way. */
static void begin_json(const struct listing *l)
{
	printf("{\n%s", l->all ? "    \"differences\": [" : "");
}

static void list_range(void *ctx, uint64_t off, uint64_t len)
{
	struct listing *l = ctx;

	if (l->json && !l->ranges)
		begin_json(l);
	if (l->json)
		printf("%s\n        {\n            \"start\": %" PRIu64 ",\n            \"length\": %" PRIu64
		       "\n        }", l->ranges ? "," : "", off, len);
	else if (!l->quiet && !l->ranges)
		printf("%-16s%s\n", "Offset", "Length");
	if (!l->json && !l->quiet)
		printf("%#-16" PRIx64 "%#" PRIx64 "\n", off, len);
	l->ranges++;
}

static void print_verdict(const struct qimg_compare *c, const struct qimg_compare_result *r)
{
	uint64_t a = qimg_size(c->a), b = qimg_size(c->b);

	/* Told where the longer one is looked at alone. */
	if (!c->strict && a != b && (r->verdict == QIMG_COMPARE_SAME || r->offset >= (a < b ? a : b)))
		printf("Warning: Image size mismatch!\n");
	switch (r->verdict) {
	case QIMG_COMPARE_SAME:
		printf("Images are identical.\n");
		break;
	case QIMG_COMPARE_SIZE:
		printf("Strict mode: Image size mismatch!\n");
		break;
	case QIMG_COMPARE_STATUS:
		printf("Strict mode: Offset %" PRIu64 " block status mismatch!\n", r->offset);
		break;
	case QIMG_COMPARE_CONTENT:
		printf("Content mismatch at offset %" PRIu64 "!\n", r->offset / SECTOR * SECTOR);
		if (r->offset % SECTOR)
			ui_more("The first byte that differs is at %" PRIu64 " (0x%" PRIx64 ")", r->offset,
				r->offset);
		break;
	}
}

static void print_json(const struct qimg_compare_result *r, const struct listing *l, bool done)
{
	static const char *const words[] = {
		[QIMG_COMPARE_SAME] = "identical", [QIMG_COMPARE_SIZE] = "size",
		[QIMG_COMPARE_STATUS] = "status", [QIMG_COMPARE_CONTENT] = "content",
	};

	if (!l->ranges)
		begin_json(l);
	if (l->all)
		printf("%s],\n    \"differing-bytes\": %" PRIu64 ",\n", l->ranges ? "\n    " : "", r->differing);
	printf("    \"result\": \"%s\",\n    \"sizes-differ\": %s,\n", done ? words[r->verdict] : "failed",
	       r->sizes_differ ? "true" : "false");
	if (r->verdict == QIMG_COMPARE_CONTENT || r->verdict == QIMG_COMPARE_STATUS)
		printf("    \"offset\": %" PRIu64 ",\n", r->offset / SECTOR * SECTOR);
	if (r->verdict == QIMG_COMPARE_CONTENT)
		printf("    \"byte-offset\": %" PRIu64 ",\n", r->offset);
	printf("    \"compared-bytes\": %" PRIu64 "\n}\n", r->compared);
}

/* What could not be done, and to which image. */
static int failed(const struct qimg_compare *c, const struct qimg_compare_result *r, const struct qimg_error *e)
{
	bool b = r->failed == QIMG_COMPARE_MAP_B || r->failed == QIMG_COMPARE_READ_B;
	const char *name = qimg_name(b ? c->b : c->a);

	switch (r->failed) {
	case QIMG_COMPARE_OTHER:
		ui_error("%s", e->msg);
		return FAILED;
	case QIMG_COMPARE_MAP_A:
	case QIMG_COMPARE_MAP_B:
		ui_error("Could not find out which parts of '%s' are allocated: %s", name, e->msg);
		return NO_MAP;
	case QIMG_COMPARE_READ_A:
	case QIMG_COMPARE_READ_B:
		break;
	}
	ui_error("Could not read '%s': %s", name, e->msg);
	return NO_DATA;
}

static int compare(const struct args *a, struct qimg_image *first, struct qimg_image *second)
{
	struct listing l = {
		.json = args_last(a, OPEN_OUTPUT) && args_last(a, OPEN_OUTPUT)->number, .all = args_has(a, ALL),
		.quiet = args_has(a, 'q'),
	};
	struct qimg_progress p = { .report = ui_progress_report, .cancel = ui_cancel_flag() };
	struct qimg_compare c = {
		.a = first, .b = second, .strict = args_has(a, 's'), .ctx = &l, .progress = &p,
		.differs = l.all ? list_range : NULL,
	};
	struct qimg_compare_result r;
	struct qimg_error e;
	int ret;

	ui_progress_start(args_has(a, 'p') && !l.quiet && !l.json);
	ret = qimg_compare(&c, &r, &e);
	ui_progress_end(!ret);
	if (l.json)
		print_json(&r, &l, !ret);
	if (ret)
		return failed(&c, &r, &e);
	if (!l.json && !l.quiet)
		print_verdict(&c, &r);
	return r.verdict == QIMG_COMPARE_SAME ? SAME : DIFFERS;
}

static int run(const struct args *a)
{
	struct qimg_image *first = NULL, *second = NULL;
	struct open_how how;
	struct qimg_error e;
	int ret = FAILED;

	if (args_has(a, OPEN_IMAGE_OPTS) && args_has(a, 'F')) {
		ui_error("--image-opts and --b-format are mutually exclusive");
		return FAILED;
	}
	if (open_how(a, 'T', &how))
		return FAILED;
	how.flags |= QIMG_OPEN_ONCE;
	if (open_image(a->operands[0], &how, &first))
		return FAILED;
	how.format = args_text(a, 'F');
	if (!open_image(a->operands[1], &how, &second))
		ret = compare(a, first, second);
	if (second && qimg_close(second, &e)) {
		ui_error("%s", e.msg);
		ret = FAILED;
	}
	if (qimg_close(first, &e)) {
		ui_error("%s", e.msg);
		ret = FAILED;
	}
	return ret;
}

const struct command compare_command = {
	.name = "compare",
	.summary = "Compare what two disks read as",
	.operands = "FILE1 FILE2",
	.min_operands = 2,
	.max_operands = 2,
	.missing = "two image file names",
	.wrong = FAILED,
	.notes = "Exit status: 0 they are the same, 1 they differ, 2 wrong usage or an image that does not\n"
		 "open, 3 an image does not tell which parts are allocated, 4 an image cannot be read.",
	.options = options,
	.run = run,
};
