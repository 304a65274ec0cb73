// SPDX-License-Identifier: BSD-2-Clause
/* `qimg check`: is the metadata of an image sound? */
#include "commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "findings.h"
#include "jsonprogress.h"
#include "open.h"
#include "ui.h"

enum { DEEP = 256, MEMORY, MAX_FINDINGS, FINDINGS, DRY_RUN, BACKUP, UNDO, DROP_ORPHANS };

/* Exit statuses. */
enum { CLEAN = 0, FAILED = 1, CORRUPT = 2, LEAKS = 3, UNSUPPORTED = 63 };

static const struct opt options[] = {
	OPEN_OPT_FORMAT("Format of the image (default: found by content)"),
	OPEN_OPT_IMAGE_OPTS,
	{ .id = BACKUP, .name = "backup", .kind = OPT_FILE, .arg = "FILE",
	  .help = "With -r: save what is overwritten in a new file, for --undo" },
	{ .id = DEEP, .name = "deep", .help = "Also read all data, and inflate what is compressed" },
	{ .id = DROP_ORPHANS, .name = "drop-orphans",
	  .help = "With -r: also free leaked clusters that look like lost L2 tables,\n"
		  "and what they refer to" },
	{ .id = DRY_RUN, .name = "dry-run",
	  .help = "With -r: write nothing, tell what would be changed, and what left" },
	{ .id = FINDINGS, .name = "findings", .kind = OPT_CHOICE, .arg = "FORM", .values = "grouped full",
	  .help = "Some of each kind with what it means (grouped, the default on\n"
		  "a terminal), or a line for each (full)" },
	{ .id = MAX_FINDINGS, .name = "max-findings", .kind = OPT_NUMBER, .arg = "N", .max = 10000000,
	  .help = "Show at most so many (default: 10000); all are counted" },
	{ .id = MEMORY, .name = "memory", .kind = OPT_SIZE, .arg = "SIZE",
	  .help = "For counting references (default: 512M); where that is not\n"
		  "enough, the tables are read several times" },
	{ .id = 'r', .letter = 'r', .name = "repair", .kind = OPT_CHOICE, .arg = "WHAT", .values = "leaks all",
	  .help = "Mend refcounts that are too high (leaks), or all that can be\n"
		  "mended (all)" },
	{ .id = UNDO, .name = "undo", .kind = OPT_FILE, .arg = "FILE",
	  .help = "Put back what a repair has saved in that file" },
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

/* What there is to know of a repair. left: what a dry run has found that a repair would leave, or NULL. */
static void print_json_repair(const struct args *a, const struct qimg_check_result *left)
{
	if (args_text(a, BACKUP)) {
		printf("    \"backup\": ");
		ui_json_string(args_text(a, BACKUP));
		printf(",\n");
	}
	if (left)
		printf("    \"dry-run\": true,\n    \"left\": {\n        \"corruptions\": %" PRIu64
		       ",\n        \"check-errors\": %" PRIu64 ",\n        \"leaks\": %" PRIu64
		       ",\n        \"result\": \"%s\"\n    },\n", left->corruptions, left->errors, left->leaks,
		       word(status(left)));
}

static void print_json(const struct args *a, struct qimg_image *img, const struct findings *l,
		       const struct qimg_check_result *r, const struct qimg_check_result *fixed,
		       const struct qimg_check_result *left)
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
	ui_json_string(a->operands[0]);
	printf(",\n    \"format\": \"%s\",\n    \"result\": \"%s\",\n", qimg_format(img), word(status(r)));
	print_json_repair(a, left);
	findings_json(l, r);
	printf("\n}\n");
}

static void print_result(const struct args *a, struct qimg_image *img, struct findings *l,
			 const struct qimg_check_result *r, const struct qimg_check_result *fixed)
{
	findings_print(l, r);
	if (l->form == FINDINGS_KEPT) {
		print_json(a, img, l, r, fixed, NULL);
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
		printf("The following inconsistencies were found and %srepaired:\n\n"
		       "    %" PRIu64 " leaked clusters\n    %" PRIu64 " corruptions\n\n"
		       "%s\n", l->dry ? "would be " : "", r->leaks_fixed, r->corruptions_fixed,
		       l->dry ? "Checking what would be left..." : "Double checking the fixed image now...");
}

/* Of a dry run: what is counts, and what would be left is told. */
static void print_dry(const struct args *a, struct qimg_image *img, struct findings *first, struct findings *second,
		      const struct qimg_check_result *r, const struct qimg_check_result *left)
{
	if (first->form == FINDINGS_KEPT) {
		print_json(a, img, first, r, r, left);
		return;
	}
	findings_print(second, left);
	if (args_has(a, 'q'))
		return;
	print_summary(left);
	printf("Nothing was written. Result: %s now (exit status %d), %s after a repair\n", word(status(r)), status(r),
	       word(status(left)));
}

/* The command line that the user may want next. */
static void print_command(const struct args *a, const char *how)
{
	char *name = ui_shell_word(a->operands[0]);

	ui_more("  %s check %s %s%s", ui_program(), how, name && *name == '-' ? "-- " : "", name ? name : "");
	free(name);
}

static void print_advice(const struct args *a, const struct qimg_check_result *r)
{
	bool all = args_last(a, 'r')->number;

	if (r->leaks_held && r->leaks > r->leaks_fixed)
		ui_warning("Leaked clusters are kept, since %s: what is lost may be in them", r->leaks_held);
	if (!r->found[QIMG_FAULT_ORPHAN] || args_has(a, DROP_ORPHANS) || args_has(a, BACKUP))
		return;
	ui_warning("Leaked clusters that look like lost L2 tables are kept. To free them, with or without a backup:");
	print_command(a, all ? "-r all --backup=FILE" : "-r leaks --backup=FILE");
	print_command(a, all ? "-r all --drop-orphans" : "-r leaks --drop-orphans");
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
	return (args_last(a, 'r')->number ? QIMG_CHECK_FIX_ALL : QIMG_CHECK_FIX_LEAKS) |
	       (args_has(a, DRY_RUN) ? QIMG_CHECK_DRY_RUN : 0) |
	       (args_has(a, DROP_ORPHANS) ? QIMG_CHECK_DROP_ORPHANS : 0);
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

/* Checks the image again that has been mended; of a dry run, what would have become of it. */
static int check_again(const struct args *a, const struct open_how *how, struct qimg_image **img,
		       struct qimg_check *c, struct qimg_check_result *r)
{
	bool dry = c->flags & QIMG_CHECK_DRY_RUN;
	struct open_how again = *how;

	again.flags &= ~(unsigned)QIMG_OPEN_WRITE;
	c->flags &= QIMG_CHECK_DEEP;
	c->backup = NULL;
	if (!dry && (close_image(img) || open_image(a->operands[0], &again, img))) {
		jsonprogress_end("The image could not be checked again");
		return FAILED;
	}
	return check_once(a, *img, c, r);
}

/* The first check tells what it finds before anything is written: so what could be done instead is told as well. */
struct first {
	struct findings findings;
	const struct args *args;
	bool advised;			/* or there is nothing to advise */
};

static void advise_backup(struct first *first)
{
	if (!first->advised) {
		ui_warning("A repair that can be undone is:");
		print_command(first->args, "-r all --backup=FILE");
	}
	first->advised = true;
}

static void take_first(void *ctx, const struct qimg_finding *f)
{
	struct first *first = ctx;

	if (f->fault != QIMG_FAULT_LEAK && f->fault != QIMG_FAULT_ORPHAN)
		advise_backup(first);
	findings_take(&first->findings, f);
}

static int check(const struct args *a, const struct open_how *how, struct qimg_image **img,
		 struct qimg_progress *p)
{
	bool dry = args_has(a, DRY_RUN);
	struct findings second = { .form = choose_form(a), .most = number(a, MAX_FINDINGS, 10000) };
	struct first first = {
		.findings = second, .args = a,
		.advised = dry || args_has(a, BACKUP) || !(fixes(a) & QIMG_CHECK_FIX_ALL),
	};
	struct qimg_check c = {
		.flags = (args_has(a, DEEP) ? QIMG_CHECK_DEEP : 0) | fixes(a), .memory = number(a, MEMORY, 0),
		.finding = take_first, .ctx = &first, .max_findings = second.most, .progress = p,
		.backup = args_text(a, BACKUP),
	};
	struct qimg_check_result found, left;
	int ret;

	first.findings.dry = dry;
	ret = check_once(a, *img, &c, &found);
	left = found;
	/* None was told: --max-findings=0. */
	if (!ret && found.corruptions)
		advise_backup(&first);
	if (!ret && fixes(a))
		print_advice(a, &found);
	if (!ret && (found.leaks_fixed || found.corruptions_fixed)) {
		print_fixed(a, &first.findings, &found);
		c.finding = findings_take;
		c.ctx = &second;
		ret = check_again(a, how, img, &c, &left);
		if (!ret)
			jsonprogress_end(NULL);
		if (!ret && dry)
			print_dry(a, *img, &first.findings, &second, &found, &left);
		else if (!ret)
			print_result(a, *img, &second, &left, &found);
	} else if (!ret) {
		jsonprogress_end(NULL);
		print_result(a, *img, &first.findings, &found, &found);
	}
	findings_free(&first.findings);
	findings_free(&second);
	return ret ? ret : status(dry ? &found : &left);
}

static int undo(const struct args *a, const struct open_how *how)
{
	const struct arg *output = args_last(a, OPEN_OUTPUT);
	struct qimg_image *img;
	struct qimg_error e;
	uint64_t places;
	int ret;

	if (open_image(a->operands[0], how, &img))
		return FAILED;
	ret = qimg_check_undo(img, args_text(a, UNDO), &places, &e);
	if (ret)
		ui_error("Could not undo the repair: %s", e.msg);
	if (close_image(&img))
		ret = -1;
	if (!ret && output && output->number) {
		printf("{\n    \"filename\": ");
		ui_json_string(a->operands[0]);
		printf(",\n    \"undone\": %" PRIu64 "\n}\n", places);
	} else if (!ret && !args_has(a, 'q')) {
		printf("The repair was undone: %" PRIu64 " places are what they were.\n", places);
	}
	return ret ? FAILED : CLEAN;
}

/* What excludes each other, or makes no sense alone. */
static int check_options(const struct args *a)
{
	static const struct {
		int id;
		const char *name;
	} with_r[] = { { DRY_RUN, "--dry-run" }, { BACKUP, "--backup" }, { DROP_ORPHANS, "--drop-orphans" } };

	for (size_t i = 0; i < sizeof(with_r) / sizeof(with_r[0]); i++) {
		if (args_has(a, with_r[i].id) && !args_has(a, 'r')) {
			ui_error("%s is about a repair: give -r leaks or -r all, too", with_r[i].name);
			return -1;
		}
	}
	if (args_has(a, 'r') && args_has(a, 'U') && !args_has(a, DRY_RUN)) {
		ui_error("-r writes to the image: it excludes -U");
		return -1;
	}
	if (args_has(a, DRY_RUN) && args_has(a, BACKUP)) {
		ui_error("--dry-run writes nothing: there is nothing to save for --backup");
		return -1;
	}
	if (args_has(a, UNDO) && (args_has(a, 'r') || args_has(a, 'U') || args_has(a, DEEP))) {
		ui_error("--undo puts back what was saved, and nothing else: it excludes -r, -U and --deep");
		return -1;
	}
	return 0;
}

static int run(const struct args *a)
{
	struct qimg_progress p = { .report = ui_progress_report };
	bool writes = args_has(a, UNDO) || (args_has(a, 'r') && !args_has(a, DRY_RUN));
	struct qimg_image *img;
	struct open_how how;
	int ret;

	if (check_options(a) || open_how(a, 'T', &how) ||
	    (args_text(a, 'p') && jsonprogress_open(args_text(a, 'p'), &p)))
		return FAILED;
	p.cancel = ui_cancel_flag();
	how.flags |= QIMG_OPEN_CHECK | (writes ? QIMG_OPEN_WRITE : 0);
	if (args_has(a, UNDO))
		return undo(a, &how);
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
	.notes = "Without -r or --undo nothing is written. Exit status: 0 clean, 1 not carried out or\n"
		 "not complete, 2 corrupt, 3 leaked clusters only, 63 the format has nothing to check.",
	.options = options,
	.run = run,
};
