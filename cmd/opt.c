// SPDX-License-Identifier: BSD-2-Clause
/*
 * Parsing command lines by an option table, and printing the table.
 *
 * The rules are those of GNU getopt_long, which is not used because it cannot tell "-1M", a size to
 * shrink by, from an option: no option has a digit as its letter, so what starts with '-' and a
 * digit is an operand.
 */
#include "opt.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

static const struct opt help_option = {
	.id = OPT_HELP,
	.letter = 'h',
	.name = "help",
	.help = "Show this help and exit",
};

/* The options of a command, with --help behind the last one. NULL beyond that. */
static const struct opt *opt_at(const struct command *c, size_t i)
{
	size_t n;

	for (n = 0; c->options[n].id; n++)
		if (n == i)
			return &c->options[i];
	return i == n ? &help_option : NULL;
}

/*
 * The next spelling of an option, without dashes, copied to buf; *pos starts at 0. The first is the
 * letter, then come the long name and the aliases. Returns false behind the last one.
 */
static bool next_spelling(const struct opt *o, size_t *pos, char *buf, size_t len)
{
	const char *s = o->aliases ? o->aliases : "";
	size_t i = (*pos)++, n;

	if (o->letter && i-- == 0) {
		snprintf(buf, len, "%c", o->letter);
		return true;
	}
	if (o->name && i-- == 0) {
		snprintf(buf, len, "%s", o->name);
		return true;
	}
	for (;; s += n) {
		s += strspn(s, " ");
		n = strcspn(s, " ");
		if (!n)
			return false;
		if (i-- == 0)
			break;
	}
	snprintf(buf, len, "%.*s", (int)n, s);
	return true;
}

enum { SPELLING_LEN = 64 };

/* Letters are names of one character; long names may be abbreviated when no other option fits. */
static const struct opt *find_long(const struct command *c, const char *name, size_t len)
{
	char spelling[SPELLING_LEN];
	const struct opt *o, *found = NULL;
	bool ambiguous = false;
	size_t i, pos;

	for (i = 0; (o = opt_at(c, i)); i++) {
		for (pos = 0; next_spelling(o, &pos, spelling, sizeof(spelling));) {
			if (!spelling[1] || strncmp(spelling, name, len))
				continue;
			if (!spelling[len])
				return o;
			if (found && found != o)
				ambiguous = true;
			found = o;
		}
	}
	if (!found) {
		ui_error("unrecognized option '--%.*s'", (int)len, name);
		opt_see_help(c);
	} else if (ambiguous) {
		ui_error("option '--%.*s' is ambiguous", (int)len, name);
		opt_see_help(c);
		found = NULL;
	}
	return found;
}

static const struct opt *find_letter(const struct command *c, char letter)
{
	char spelling[SPELLING_LEN];
	const struct opt *o;
	size_t i, pos;

	for (i = 0; (o = opt_at(c, i)); i++)
		for (pos = 0; next_spelling(o, &pos, spelling, sizeof(spelling));)
			if (spelling[0] == letter && !spelling[1])
				return o;
	ui_error("unrecognized option '-%c'", letter);
	opt_see_help(c);
	return NULL;
}

static int check_choice(const struct opt *o, const char *spelling, const char *text,
			uint64_t *index)
{
	const char *word = o->values;
	size_t n;

	for (*index = 0;; (*index)++, word += n) {
		word += strspn(word, " ");
		n = strcspn(word, " ");
		if (!n)
			break;
		if (strlen(text) == n && !memcmp(word, text, n))
			return 0;
	}
	ui_error("'%s' is not a value of option '%s': it can be one of: %s", text, spelling,
		 o->values);
	return -1;
}

static int check_number(const struct opt *o, const char *spelling, const char *text, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || *n < o->min || *n > o->max) {
		ui_error("'%s' is not a value of option '%s': it must be a number from %" PRIu64
			 " to %" PRIu64,
			 text, spelling, o->min, o->max);
		return -1;
	}
	return 0;
}

static int check_value(const struct opt *o, const char *spelling, const char *text, uint64_t *n)
{
	struct qimg_error e;

	switch (o->kind) {
	case OPT_CHOICE:
		return check_choice(o, spelling, text, n);
	case OPT_NUMBER:
		return check_number(o, spelling, text, n);
	case OPT_SIZE:
		if (!qimg_parse_size(text, n, &e))
			return 0;
		ui_error("Option '%s': %s", spelling, e.msg);
		return -1;
	default:
		return 0;
	}
}

static int add(struct args *a, const struct opt *o, const char *spelling, const char *text)
{
	struct arg *arg = &a->list[a->count];

	*arg = (struct arg){ .opt = o, .text = text };
	if (text && check_value(o, spelling, text, &arg->number))
		return -1;
	a->count++;
	return 0;
}

/* "--name", "--name=value", "--name value". Returns how many words of argv were used, or -1. */
static int parse_long(const struct command *c, int argc, char *const *argv, struct args *a)
{
	const char *name = argv[0] + 2, *text = strchr(name, '=');
	const struct opt *o = find_long(c, name, strcspn(name, "="));
	char spelling[SPELLING_LEN + 2];

	if (!o)
		return -1;
	snprintf(spelling, sizeof(spelling), "--%s", o->name ? o->name : name);
	if (o->kind == OPT_FLAG) {
		if (!text)
			return add(a, o, spelling, NULL) ? -1 : 1;
		ui_error("option '%s' takes no argument", spelling);
		opt_see_help(c);
		return -1;
	}
	if (text)
		return add(a, o, spelling, text + 1) ? -1 : 1;
	if (argc > 1)
		return add(a, o, spelling, argv[1]) ? -1 : 2;
	ui_error("missing argument for option '%s'", spelling);
	opt_see_help(c);
	return -1;
}

/* "-abc", "-fVALUE", "-f VALUE". */
static int parse_letters(const struct command *c, int argc, char *const *argv, struct args *a)
{
	char spelling[] = "-?";
	const struct opt *o;
	const char *s;

	for (s = argv[0] + 1; *s; s++) {
		o = find_letter(c, *s);
		if (!o)
			return -1;
		spelling[1] = *s;
		if (o->kind == OPT_FLAG) {
			if (add(a, o, spelling, NULL))
				return -1;
			continue;
		}
		if (s[1])
			return add(a, o, spelling, s + 1) ? -1 : 1;
		if (argc > 1)
			return add(a, o, spelling, argv[1]) ? -1 : 2;
		ui_error("missing argument for option '%s'", spelling);
		opt_see_help(c);
		return -1;
	}
	return 1;
}

static int check_operands(const struct command *c, const struct args *a)
{
	if (a->operand_count < c->min_operands) {
		ui_error("Expecting %s", c->missing);
	} else if (c->max_operands && a->operand_count > c->max_operands) {
		ui_error("Unexpected argument: %s", a->operands[c->max_operands]);
	} else {
		return 0;
	}
	opt_see_help(c);
	return -1;
}

int opt_parse(const struct command *c, int argc, char *const *argv, struct args *a)
{
	size_t letters = 0;
	bool options = true;
	int i, used;

	/* No word can hold more options than it has characters. */
	for (i = 0; i < argc; i++)
		letters += strlen(argv[i]) + 1;
	*a = (struct args){ 0 };
	a->list = calloc(letters + 1, sizeof(*a->list));
	a->operands = calloc((size_t)argc + 1, sizeof(*a->operands));
	if (!a->list || !a->operands) {
		ui_error("Out of memory");
		return -1;
	}
	for (i = 0; i < argc; i += used) {
		const char *word = argv[i];

		used = 1;
		if (!options || word[0] != '-' || !word[1] || isdigit((unsigned char)word[1]))
			a->operands[a->operand_count++] = word;
		else if (!strcmp(word, "--"))
			options = false;
		else if (word[1] == '-')
			used = parse_long(c, argc - i, argv + i, a);
		else
			used = parse_letters(c, argc - i, argv + i, a);
		if (used < 0)
			return -1;
		if (args_has(a, OPT_HELP)) {
			opt_help(stdout, c);
			return 1;
		}
	}
	return check_operands(c, a);
}

void args_free(struct args *a)
{
	free(a->list);
	free(a->operands);
	*a = (struct args){ 0 };
}

const struct arg *args_last(const struct args *a, int id)
{
	size_t i;

	for (i = a->count; i > 0; i--)
		if (a->list[i - 1].opt->id == id)
			return &a->list[i - 1];
	return NULL;
}

const char *args_text(const struct args *a, int id)
{
	const struct arg *arg = args_last(a, id);

	return arg ? arg->text : NULL;
}

bool args_has(const struct args *a, int id)
{
	return args_last(a, id);
}

void opt_see_help(const struct command *c)
{
	ui_more("Try '%s %s --help' for more information", ui_program(), c->name);
}

/* ---- printing ---------------------------------------------------------------- */

enum { HELP_COLUMN = 30 };

/* "  -f, --format FORMAT       text", long left sides on a line of their own. */
static void help_line(FILE *f, const struct opt *o)
{
	const char *text = o->help, *end;
	char left[128], letter[8] = "    ";
	size_t n;

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c%s", o->letter, o->name ? ", " : "");
	snprintf(left, sizeof(left), "  %s%s%s%s%s", letter, o->name ? "--" : "",
		 o->name ? o->name : "", o->arg ? " " : "", o->arg ? o->arg : "");
	n = strlen(left);
	fputs(left, f);
	if (n + 2 > HELP_COLUMN) {
		fputc('\n', f);
		n = 0;
	}
	for (;; text = end + 1, n = 0) {
		end = strchr(text, '\n');
		fprintf(f, "%*s%.*s\n", (int)(HELP_COLUMN - n), "",
			end ? (int)(end - text) : (int)strlen(text), text);
		if (!end)
			break;
	}
}

void opt_help(FILE *f, const struct command *c)
{
	const struct opt *o;
	size_t i;

	fprintf(f, "Usage: %s %s [OPTION]... %s\n\n%s.\n\nOptions:\n", ui_program(), c->name,
		c->operands, c->summary);
	for (i = 0; (o = opt_at(c, i)); i++)
		help_line(f, o);
	if (c->notes)
		fprintf(f, "\n%s\n", c->notes);
}

static const char *const kind_names[] = {
	[OPT_FLAG] = "flag", [OPT_TEXT] = "text", [OPT_FILE] = "file", [OPT_FORMAT] = "format",
	[OPT_CACHE] = "cache", [OPT_SIZE] = "size", [OPT_NUMBER] = "number",
	[OPT_CHOICE] = "choice", [OPT_CREATE] = "create",
};

void opt_table(FILE *f, const struct command *c)
{
	char spelling[SPELLING_LEN];
	const struct opt *o;
	size_t i, pos;

	for (i = 0; (o = opt_at(c, i)); i++)
		for (pos = 0; next_spelling(o, &pos, spelling, sizeof(spelling));)
			fprintf(f, "%s%s\t%s\t%s\t%.*s\n", spelling[1] ? "--" : "-", spelling,
				kind_names[o->kind], o->values ? o->values : "",
				(int)strcspn(o->help, "\n"), o->help);
}
