// SPDX-License-Identifier: BSD-2-Clause
/* `qimg check`: is the metadata of an image sound? */
#include "commands.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "findings.h"
#include "jsonprogress.h"
#include "open.h"
#include "ui.h"

enum { DEEP = 256, MEMORY, MAX_FINDINGS, FINDINGS };

/* Exit statuses. */
enum { CLEAN = 0, FAILED = 1, CORRUPT = 2, LEAKS = 3, UNSUPPORTED = 63 };

static const struct opt options[] = {
	OPEN_OPT_FORMAT("Format of the image (default: found by content)"),
	OPEN_OPT_IMAGE_OPTS,
	{ .id = DEEP, .name = "deep", .help = "Also read all data, and inflate what is compressed" },
	{ .id = FINDINGS, .name = "findings", .kind = OPT_CHOICE, .arg = "FORM", .values = "grouped full",
	  .help = "Some of each kind with what it means (grouped, the default on\n"
		  "a terminal), or a line for each (full)" },
	{ .id = MAX_FINDINGS, .name = "max-findings", .kind = OPT_NUMBER, .arg = "N", .max = 10000000,
	  .help = "Show at most so many (default: 10000); all are counted" },
	{ .id = MEMORY, .name = "memory", .kind = OPT_SIZE, .arg = "SIZE",
	  .help = "For counting references (default: 512M); where that is not\n"
		  "enough, the tables are read several times" },
	{ .id = 'r', .letter = 'r', .name = "repair", .kind = OPT_CHOICE, .arg = "WHAT", .values = "leaks all",
	  .help = "Mend refcounts that are too high (leaks), or also those that are\n"
		  "too low, and COPIED bits (all)" },
	{ .id = 'p', .letter = 'p', .name = "progress", .kind = OPT_FLAG, .arg = "json[:FD]",
	  .values = "json", .help = "Show how far it is; json: a JSON object a line" },
	{ .id = 'T', .letter = 'T', .name = "cache", .kind = OPT_CACHE, .arg = "CACHE",
	  .help = "Cache mode (default: writeback)" },
	OPEN_OPT_SHARE,
	OPEN_OPT_OUTPUT,
	{ .id = 'q', .letter = 'q', .name = "quiet", .help = "Print no summary" },
	{ 0 }
};

static uint64_t number(const struct args *a, int id, uint64_t otherwise)
{
	return args_has(a, id) ? args_last(a, id)->number : otherwise;
}

static int status(const struct qimg_check_result *r)
{
	return r->errors ? FAILED : r->corruptions ? CORRUPT : r->leaks ? LEAKS : CLEAN;
}

static const char *word(int status)
{
	return status == CLEAN ? "clean" : status == LEAKS ? "leaks" : status == CORRUPT ? "corrupt" : "incomplete";
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? (double)part * 100 / (double)whole : 0;
}

static void print_summary(const struct qimg_check_result *r)
{
	if (!r->errors && !r->corruptions && !r->leaks)
		printf("No errors were found on the image.\n");
	if (r->corruptions)
		printf("\n%" PRIu64 " errors were found on the image.\n"
		       "Data may be corrupted, or further writes to the image may corrupt it.\n", r->corruptions);
	if (r->leaks)
		printf("\n%" PRIu64 " leaked clusters were found on the image.\n"
		       "This means waste of disk space, but no harm to data.\n", r->leaks);
	if (r->errors)
		printf("\n%" PRIu64 " internal errors have occurred during the check.\n", r->errors);
	if (r->total_clusters && r->allocated)
		printf("%" PRIu64 "/%" PRIu64 " = %.2f%% allocated, %.2f%% fragmented, %.2f%% compressed clusters\n",
		       r->allocated, r->total_clusters, percent(r->allocated, r->total_clusters),
		       percent(r->fragmented, r->allocated), percent(r->compressed, r->allocated));
	if (r->image_end)
		printf("Image end offset: %" PRIu64 "\n", r->image_end);
}

static void print_json(const char *name, struct qimg_image *img, const struct findings *l,
		       const struct qimg_check_result *r, const struct qimg_check_result *fixed)
{
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "image-end-offset", r->image_end },
		{ "total-clusters", r->total_clusters },
		{ "corruptions", r->corruptions },
		{ "check-errors", r->errors },
		{ "leaks", r->leaks },
		{ "corruptions-fixed", fixed->corruptions_fixed },
		{ "leaks-fixed", fixed->leaks_fixed },
		{ "allocated-clusters", r->allocated },
		{ "fragmented-clusters", r->fragmented },
		{ "compressed-clusters", r->compressed },
		{ "leaked-bytes", r->leaked_bytes },
	};

	printf("{\n");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		printf("    \"%s\": %" PRIu64 ",\n", numbers[i].key, numbers[i].value);
	printf("    \"filename\": ");
	ui_json_string(name);
	printf(",\n    \"format\": \"%s\",\n    \"result\": \"%s\",\n", qimg_format(img), word(status(r)));
	findings_json(l, r);
	printf("\n}\n");
}

static void print_result(const struct args *a, struct qimg_image *img, struct findings *l,
			 const struct qimg_check_result *r, const struct qimg_check_result *fixed)
{
	findings_print(l, r);
	if (l->form == FINDINGS_KEPT) {
		print_json(a->operands[0], img, l, r, fixed);
	} else if (!args_has(a, 'q')) {
		print_summary(r);
		if (l->form == FINDINGS_GROUPS)
			printf("Result: %s (exit status %d)\n", word(status(r)), status(r));
	}
	if (l->no_memory)
		ui_warning("There was no memory for some of the findings");
}

static void print_fixed(const struct args *a, struct findings *l, const struct qimg_check_result *r)
{
	findings_print(l, r);
	if (l->form != FINDINGS_KEPT && !args_has(a, 'q'))
		printf("The following inconsistencies were found and repaired:\n\n"
		       "    %" PRIu64 " leaked clusters\n    %" PRIu64 " corruptions\n\n"
		       "Double checking the fixed image now...\n", r->leaks_fixed, r->corruptions_fixed);
}

static enum findings_form choose_form(const struct args *a)
{
	const char *form = args_text(a, OPEN_OUTPUT), *findings = args_text(a, FINDINGS);

	if (form && !strcmp(form, "json"))
		return FINDINGS_KEPT;
	if (findings)
		return strcmp(findings, "full") ? FINDINGS_GROUPS : FINDINGS_LINES;
	return isatty(STDOUT_FILENO) ? FINDINGS_GROUPS : FINDINGS_LINES;
}

/* What -r asks for, as flags of struct qimg_check. */
static unsigned fixes(const struct args *a)
{
	if (!args_has(a, 'r'))
		return 0;
	return args_last(a, 'r')->number ? QIMG_CHECK_FIX_ALL : QIMG_CHECK_FIX_LEAKS;
}

/* One check of an open image. 0, or the exit status after a message. */
static int check_once(const struct args *a, struct qimg_image *img, struct qimg_check *c,
		      struct qimg_check_result *r)
{
	struct qimg_error e;
	int ret;

	ui_progress_start(args_has(a, 'p') && !args_text(a, 'p') && !args_has(a, 'q'));
	ret = qimg_check_run(img, c, r, &e);
	ui_progress_end(!ret);
	if (!ret)
		return 0;
	jsonprogress_end(e.msg);
	ui_error("%s", e.msg);
	return e.code == ENOTSUP ? UNSUPPORTED : FAILED;
}

static int close_image(struct qimg_image **img)
{
	struct qimg_error e;
	int ret = qimg_close(*img, &e);

	*img = NULL;
	if (ret)
		ui_error("%s", e.msg);
	return ret;
}

/* Checks the image again that has been mended. */
static int check_again(const struct args *a, const struct open_how *how, struct qimg_image **img,
		       struct qimg_check *c, struct qimg_check_result *r)
{
	struct open_how again = *how;

	again.flags &= ~(unsigned)QIMG_OPEN_WRITE;
	c->flags &= ~(unsigned)(QIMG_CHECK_FIX_LEAKS | QIMG_CHECK_FIX_ALL);
	if (close_image(img) || open_image(a->operands[0], &again, img)) {
		jsonprogress_end("The image could not be checked again");
		return FAILED;
	}
	return check_once(a, *img, c, r);
}

static int check(const struct args *a, const struct open_how *how, struct qimg_image **img,
		 struct qimg_progress *p)
{
	struct findings first = { .form = choose_form(a), .most = number(a, MAX_FINDINGS, 10000) };
	struct findings second = first, *l = &first;
	struct qimg_check c = {
		.flags = (args_has(a, DEEP) ? QIMG_CHECK_DEEP : 0) | fixes(a), .memory = number(a, MEMORY, 0),
		.finding = findings_take, .ctx = &first, .max_findings = first.most, .progress = p,
	};
	struct qimg_check_result r, fixed;
	int ret = check_once(a, *img, &c, &r);

	fixed = r;
	if (!ret && (r.leaks_fixed || r.corruptions_fixed)) {
		print_fixed(a, &first, &r);
		c.ctx = l = &second;
		ret = check_again(a, how, img, &c, &r);
	}
	if (!ret) {
		jsonprogress_end(NULL);
		print_result(a, *img, l, &r, &fixed);
		ret = status(&r);
	}
	findings_free(&first);
	findings_free(&second);
	return ret;
}

static int run(const struct args *a)
{
	struct qimg_progress p = { .report = ui_progress_report };
	struct qimg_image *img;
	struct open_how how;
	int ret;

	if (fixes(a) && args_has(a, 'U')) {
		ui_error("-r writes to the image: it excludes -U");
		return FAILED;
	}
	if (open_how(a, 'T', &how) || (args_text(a, 'p') && jsonprogress_open(args_text(a, 'p'), &p)))
		return FAILED;
	p.cancel = ui_cancel_flag();
	how.flags |= QIMG_OPEN_CHECK | (fixes(a) ? QIMG_OPEN_WRITE : 0);
	if (open_image(a->operands[0], &how, &img)) {
		jsonprogress_end("The image could not be opened");
		return FAILED;
	}
	ret = check(a, &how, &img, &p);
	if (img && close_image(&img))
		ret = FAILED;
	return ret;
}

const struct command check_command = {
	.name = "check",
	.summary = "Check the metadata of an image",
	.operands = "FILE",
	.min_operands = 1,
	.max_operands = 1,
	.missing = "image file name",
	.notes = "Without -r nothing is written. Exit status: 0 clean, 1 not carried out or not complete,\n"
		 "2 corrupt, 3 leaked clusters only, 63 the format has nothing to check.",
	.options = options,
	.run = run,
};
