// SPDX-License-Identifier: BSD-2-Clause
/* `qimg create`: a new image. */
#include "commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "createopts.h"
#include "ui.h"

enum { NO_CLOBBER = 256 };

static const struct opt options[] = {
	{ .id = 'f', .letter = 'f', .name = "format", .kind = OPT_FORMAT, .arg = "FORMAT",
	  .help = "Format of the new image (default: raw)" },
	{ .id = 'o', .letter = 'o', .name = "options", .kind = OPT_CREATE, .arg = "LIST",
	  .help = "Options of the format: KEY=VALUE,...\n'-o help' lists them" },
	{ .id = 'b', .letter = 'b', .name = "backing", .kind = OPT_FILE, .arg = "BACKING",
	  .help = "Backing file; a relative name counts from the folder of FILE" },
	{ .id = 'F', .letter = 'F', .name = "backing-format", .aliases = "B", .kind = OPT_FORMAT,
	  .arg = "FORMAT", .help = "Format of the backing file" },
	{ .id = 'u', .letter = 'u', .name = "backing-unsafe",
	  .help = "Do not look at the backing file; SIZE is needed then" },
	{ .id = NO_CLOBBER, .name = "no-clobber", .help = "Fail when FILE exists" },
	{ .id = 'q', .letter = 'q', .name = "quiet", .help = "Print no 'Formatting' line" },
	{ 0 }
};

static int set_size(struct qimg_opts *opts, const char *file, const char *text)
{
	struct qimg_error e;
	uint64_t size;

	if (!text)
		return 0;
	if (text[0] == '-' || (qimg_parse_size(text, &size, &e) && e.code == ERANGE)) {
		ui_error("Invalid image size specified. Must be between 0 and %" PRId64 ".",
			 INT64_MAX);
		return -1;
	}
	if (qimg_parse_size(text, &size, &e)) {
		ui_error("Invalid image size specified. "
			 "You may use k, M, G, T, P or E suffixes for");
		ui_error("kilobytes, megabytes, gigabytes, terabytes, petabytes and exabytes.");
		return -1;
	}
	if (qimg_opts_get(opts, "size")) {
		ui_error("%s: The image size must be specified only once", file);
		return -1;
	}
	return createopts_set(opts, "size", text);
}

static int create(const struct args *a, const char *format, const struct qimg_opts *opts)
{
	const char *file = a->operands[0];
	struct qimg_progress progress = { .report = NULL };
	struct qimg_creation *c = NULL;
	struct qimg_error e;
	unsigned flags = 0;
	int ret;

	if (args_has(a, 'u'))
		flags |= QIMG_CREATE_UNSAFE;
	if (args_has(a, NO_CLOBBER))
		flags |= QIMG_CREATE_NO_CLOBBER;
	if (qimg_create_prepare(&c, file, format, opts, flags, &e)) {
		ui_error("%s: %s", file, e.msg);
		createopts_suggest_format(&create_command, a, 'b', opts, file, &e);
		return -1;
	}
	if (!args_has(a, 'q'))
		printf("Formatting '%s', %s\n", file, qimg_create_summary(c));
	/* Nothing is made when nobody can be told of it. */
	ret = ui_flush();
	if (!ret) {
		progress.cancel = ui_cancel_flag();
		ret = qimg_create_run(c, &progress, &e);
		if (ret)
			ui_error("%s: %s", file, e.msg);
	}
	qimg_create_free(c);
	return ret;
}

static int run(const struct args *a)
{
	const char *format = args_text(a, 'f'), *file, *size;
	struct qimg_opts *opts = NULL;
	int ret;

	format = format ? format : "raw";
	file = a->operand_count > 0 ? a->operands[0] : NULL;
	size = a->operand_count > 1 ? a->operands[1] : NULL;
	ret = createopts_read(a, 'o', &opts);
	if (ret > 0) {
		ret = createopts_help(format, file);
	} else if (!ret && !file) {
		ui_error("Expecting image file name");
		opt_see_help(&create_command);
		ret = -1;
	} else if (!ret) {
		ret = createopts_set(opts, "backing_file", args_text(a, 'b'));
		if (!ret)
			ret = createopts_set(opts, "backing_fmt", args_text(a, 'F'));
		if (!ret)
			ret = set_size(opts, file, size);
		if (!ret)
			ret = create(a, format, opts);
	}
	qimg_opts_free(opts);
	return ret ? 1 : 0;
}

const struct command create_command = {
	.name = "create",
	.summary = "Create a new image",
	.operands = "FILE [SIZE]",
	.max_operands = 2,
	.notes = "SIZE is in bytes or has a suffix: k, M, G, T, P or E, powers of 1024. It may be\n"
		 "left out when there is a backing file: the image gets the size of that.",
	.options = options,
	.run = run,
};
