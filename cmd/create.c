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

static int set(struct qimg_opts *opts, const char *key, const char *value)
{
	struct qimg_error e;

	if (!value || !qimg_opts_set(opts, key, value, &e))
		return 0;
	ui_error("%s", e.msg);
	return -1;
}

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
	return set(opts, "size", text);
}

/* Prints one word of a command, quoted. */
static void more_word(char **line, const char *before, const char *word)
{
	char *quoted = ui_shell_word(word), *longer = NULL;

	if (*line && quoted && asprintf(&longer, "%s%s%s", *line, before, quoted) < 0)
		longer = NULL;
	free(*line);
	free(quoted);
	*line = longer;
}

/* The command as it was given, with -F and the format behind the backing file. */
static void show_corrected(const struct args *a, const char *format)
{
	char *line = strdup(ui_program()), spelling[3] = "-?";
	bool done = false;
	size_t i;

	more_word(&line, " ", "create");
	for (i = 0; i < a->count; i++) {
		const struct arg *arg = &a->list[i];

		if (arg->opt->letter) {
			spelling[1] = arg->opt->letter;
			more_word(&line, " ", spelling);
		} else {
			more_word(&line, " --", arg->opt->name);
		}
		if (arg->text)
			more_word(&line, " ", arg->text);
		if (arg->opt->id == 'b' && !done) {
			more_word(&line, " -F ", format);
			done = true;
		}
	}
	if (!done)
		more_word(&line, " -F ", format);
	if (a->operands[0][0] == '-')
		more_word(&line, " ", "--");
	for (i = 0; i < a->operand_count; i++)
		more_word(&line, " ", a->operands[i]);
	if (line)
		ui_more("If that is its format: %s", line);
	free(line);
}

/* Where a backing name leads: relative ones count from the folder of the image. */
static char *backing_path(const char *file, const char *backing)
{
	const char *slash = strrchr(file, '/');
	char *path;

	if (backing[0] == '/' || !slash || !strncmp(backing, "json:", 5) ||
	    !strncmp(backing, "file:", 5))
		return strdup(backing);
	return asprintf(&path, "%.*s/%s", (int)(slash - file), file, backing) < 0 ? NULL : path;
}

/* A backing file was given without its format: what it looks like, and the command to type. */
static void suggest_format(const struct args *a, const struct qimg_opts *opts)
{
	const char *backing = qimg_opts_get(opts, "backing_file");
	struct qimg_image *img;
	struct qimg_error e;
	char *path;

	if (!backing || !*backing || qimg_opts_get(opts, "backing_fmt"))
		return;
	path = backing_path(a->operands[0], backing);
	if (path &&
	    !qimg_open(&img, path, NULL, NULL,
		       QIMG_OPEN_HEADER_ONLY | QIMG_OPEN_NO_BACKING | QIMG_OPEN_SHARE, &e)) {
		show_corrected(a, qimg_format(img));
		qimg_close(img, &e);
	}
	free(path);
}

static int create(const struct args *a, const char *format, const struct qimg_opts *opts)
{
	const char *file = a->operands[0];
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
		suggest_format(a, opts);
		return -1;
	}
	if (!args_has(a, 'q')) {
		printf("Formatting '%s', %s\n", file, qimg_create_summary(c));
		fflush(stdout);
	}
	ret = qimg_create_run(c, NULL, &e);
	if (ret)
		ui_error("%s: %s", file, e.msg);
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
		ret = set(opts, "backing_file", args_text(a, 'b'));
		if (!ret)
			ret = set(opts, "backing_fmt", args_text(a, 'F'));
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
