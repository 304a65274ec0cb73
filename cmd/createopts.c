// SPDX-License-Identifier: BSD-2-Clause
/* Creation options on the command line. */
#include "createopts.h"

#include <stdlib.h>
#include <string.h>

#include "ui.h"

/* Whether "help" or "?" is a member of a list; ",," inside a value does not end it. */
static bool asks_help(const char *list)
{
	const char *s = list;
	size_t n;

	for (;; s += n + 1) {
		n = strcspn(s, ",");
		if ((n == 4 && !memcmp(s, "help", 4)) || (n == 1 && *s == '?'))
			return true;
		while (s[n] == ',' && s[n + 1] == ',')
			n += 2 + strcspn(s + n + 2, ",");
		if (!s[n])
			return false;
	}
}

int createopts_read(const struct args *a, int id, struct qimg_opts **opts)
{
	struct qimg_error e;
	size_t i;

	*opts = qimg_opts_new();
	if (!*opts) {
		ui_error("Out of memory");
		return -1;
	}
	for (i = 0; i < a->count; i++)
		if (a->list[i].opt->id == id && asks_help(a->list[i].text))
			return 1;
	for (i = 0; i < a->count; i++) {
		if (a->list[i].opt->id == id && qimg_opts_parse(*opts, a->list[i].text, &e)) {
			ui_error("%s", e.msg);
			return -1;
		}
	}
	return 0;
}

int createopts_set(struct qimg_opts *opts, const char *key, const char *value)
{
	struct qimg_error e;

	if (!value || !qimg_opts_set(opts, key, value, &e))
		return 0;
	ui_error("%s", e.msg);
	return -1;
}

/* Options that every format passes on to the file the image is in: for raw all but the size. */
static bool belongs_to_file(const char *format, const char *name)
{
	return !strcmp(name, "nocow") || !strcmp(name, "extent_size_hint") ||
	       (!strcmp(format, "raw") && strcmp(name, "size"));
}

static int by_name(const void *a, const void *b)
{
	const struct qimg_option *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static void print_option(const struct qimg_option *o)
{
	const char *s = o->values;
	char left[128];

	snprintf(left, sizeof(left), "  %s=<%s>", o->name, o->type);
	printf("%-24s - %s", left, o->help);
	if (s && strncmp(o->type, "bool", 4)) {
		printf(" (allowed values: ");
		for (; *s; s++)
			printf("%c%s", *s == ' ' ? ',' : *s, *s == ' ' ? " " : "");
		putchar(')');
	}
	putchar('\n');
}

int createopts_help(const char *format, bool with_file)
{
	const struct qimg_option *list = qimg_create_options(format), **sorted;
	size_t n = 0, i;

	if (!list) {
		ui_error("Unknown file format '%s'", format);
		return -1;
	}
	while (list[n].name)
		n++;
	sorted = calloc(n + 1, sizeof(*sorted));
	if (!sorted) {
		ui_error("Out of memory");
		return -1;
	}
	for (i = 0; i < n; i++)
		sorted[i] = &list[i];
	qsort(sorted, n, sizeof(*sorted), by_name);
	if (with_file)
		puts("Supported options:");
	else
		printf("Supported %s options:\n", format);
	for (i = 0; i < n; i++)
		if (sorted[i]->help && (with_file || !belongs_to_file(format, sorted[i]->name)))
			print_option(sorted[i]);
	if (!with_file)
		puts("\nThe protocol level may support further options.\n"
		     "Specify the target filename to include those options.");
	free(sorted);
	return 0;
}

/* ---- a backing file without its format ---- */

static void add_word(char **line, const char *before, const char *word)
{
	char *quoted = ui_shell_word(word), *longer = NULL;

	if (*line && quoted && asprintf(&longer, "%s%s%s", *line, before, quoted) < 0)
		longer = NULL;
	free(*line);
	free(quoted);
	*line = longer;
}

/* The command as it was given, with -F and the format behind the backing file. */
static char *corrected(const struct command *c, const struct args *a, int backing_id,
		       const char *format)
{
	char *line = strdup(ui_program()), spelling[3] = "-?";
	bool done = false;
	size_t i;

	add_word(&line, " ", c->name);
	for (i = 0; i < a->count; i++) {
		const struct arg *arg = &a->list[i];

		spelling[1] = arg->opt->letter;
		if (arg->opt->letter)
			add_word(&line, " ", spelling);
		else
			add_word(&line, " --", arg->opt->name);
		if (arg->text)
			add_word(&line, " ", arg->text);
		if (arg->opt->id == backing_id && !done) {
			add_word(&line, " -F ", format);
			done = true;
		}
	}
	if (!done)
		add_word(&line, " -F ", format);
	for (i = 0; i < a->operand_count && a->operands[i][0] != '-'; i++)
		;
	if (i < a->operand_count)
		add_word(&line, " ", "--");
	for (i = 0; i < a->operand_count; i++)
		add_word(&line, " ", a->operands[i]);
	return line;
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

void createopts_suggest_format(const struct command *c, const struct args *a, int backing_id,
			       const struct qimg_opts *opts, const char *target,
			       const struct qimg_error *error)
{
	const unsigned flags = QIMG_OPEN_HEADER_ONLY | QIMG_OPEN_NO_BACKING | QIMG_OPEN_SHARE;
	const char *backing = qimg_opts_get(opts, "backing_file");
	char *path, *line = NULL;
	struct qimg_image *img;
	struct qimg_error e;

	/* The format may be missing without being what is wrong: a misspelt option, say. */
	if (!backing || !*backing || qimg_opts_get(opts, "backing_fmt") ||
	    !strstr(error->msg, "without backing format"))
		return;
	path = backing_path(target, backing);
	if (path && !qimg_open(&img, path, NULL, NULL, flags, &e)) {
		line = corrected(c, a, backing_id, qimg_format(img));
		qimg_close(img, &e);
	}
	if (line)
		ui_more("If that is its format: %s", line);
	free(line);
	free(path);
}
