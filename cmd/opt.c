// SPDX-License-Identifier: BSD-2-Clause
/*
 * Parsing command lines by an option table, with getopt_long, and printing the table.
 */
#include "opt.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
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

/*
 * The tables of getopt_long: long names have the index of their option above LONG_BASE as value, so that
 * an abbreviation of two spellings of one option is not ambiguous.
 */
enum { LONG_BASE = 256, MAX_SPELLINGS = 128 };

struct tables {
	char names[MAX_SPELLINGS][SPELLING_LEN];
	struct option longs[MAX_SPELLINGS + 1];
	char letters[2 * MAX_SPELLINGS + 3];
	const struct opt *by_letter[256];
};

static void fill_tables(const struct command *c, struct tables *t)
{
	char spelling[SPELLING_LEN], *letter = t->letters;
	const struct opt *o;
	size_t i, pos, n = 0;

	memset(t, 0, sizeof(*t));
	*letter++ = '-';	/* operands come in their order, as options of the value 1 */
	*letter++ = ':';	/* a missing argument is told from an unknown option */
	for (i = 0; (o = opt_at(c, i)); i++) {
		for (pos = 0; n < MAX_SPELLINGS && next_spelling(o, &pos, spelling, SPELLING_LEN);) {
			if (!spelling[1]) {
				*letter++ = spelling[0];
				if (o->kind != OPT_FLAG)
					*letter++ = ':';
				t->by_letter[(unsigned char)spelling[0]] = o;
				continue;
			}
			memcpy(t->names[n], spelling, SPELLING_LEN);
			t->longs[n].name = t->names[n];
			t->longs[n].has_arg = o->kind != OPT_FLAG ? required_argument :
				o->arg ? optional_argument : no_argument;
			t->longs[n].val = LONG_BASE + (int)i;
			n++;
		}
	}
}

static int add_option(const struct command *c, const struct tables *t, int value, const char *text,
		      struct args *a)
{
	const struct opt *o = value < LONG_BASE ? t->by_letter[value] :
		opt_at(c, (size_t)(value - LONG_BASE));
	char spelling[SPELLING_LEN + 2];

	if (value < LONG_BASE)
		snprintf(spelling, sizeof(spelling), "-%c", value);
	else
		snprintf(spelling, sizeof(spelling), "--%s", o->name);
	return add(a, o, spelling, text);
}

/* Says what getopt_long stumbled over; `word` is what it looked at last. */
static void say_bad_option(const struct command *c, const struct tables *t, int value, const char *word)
{
	size_t len = strcspn(word, "=");
	bool prefix = false;

	for (size_t i = 0; t->longs[i].name && len > 2; i++)
		prefix = prefix || !strncmp(t->longs[i].name, word + 2, len - 2);
	if (value == ':')
		ui_error("missing argument for option '%s'", word);
	else if (optopt >= LONG_BASE)
		ui_error("option '--%s' takes no argument", opt_at(c, (size_t)optopt - LONG_BASE)->name);
	else if (optopt)
		ui_error("unrecognized option '-%c'", optopt);
	else
		ui_error(prefix ? "option '%.*s' is ambiguous" : "unrecognized option '%.*s'",
			 (int)len, word);
	opt_see_help(c);
}

/* words[0] stands for the name of the program. */
static int parse_words(const struct command *c, int count, char **words, struct args *a)
{
	struct tables t;
	int value;

	fill_tables(c, &t);
	optind = 0;		/* GNU: start anew */
	opterr = 0;
	for (;;) {
		int at = optind ? optind : 1;

		/* No option has a digit as its letter: "-1M" is a size to shrink by. */
		if (at < count && words[at][0] == '-' && isdigit((unsigned char)words[at][1])) {
			a->operands[a->operand_count++] = words[at];
			optind = at + 1;
			continue;
		}
		value = getopt_long(count, words, t.letters, t.longs, NULL);
		if (value < 0)
			break;
		if (value == '?' || value == ':') {
			say_bad_option(c, &t, value, words[optind - 1]);
			return -1;
		}
		if (value == 1)
			a->operands[a->operand_count++] = optarg;
		else if (add_option(c, &t, value, optarg, a))
			return -1;
		if (args_has(a, OPT_HELP)) {
			opt_help(stdout, c);
			return 1;
		}
	}
	while (optind < count)
		a->operands[a->operand_count++] = words[optind++];
	return 0;
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
	char **words;
	int i, ret = -1;

	/* No word can hold more options than it has characters. */
	for (i = 0; i < argc; i++)
		letters += strlen(argv[i]) + 1;
	*a = (struct args){ 0 };
	a->list = calloc(letters + 1, sizeof(*a->list));
	a->operands = calloc((size_t)argc + 1, sizeof(*a->operands));
	words = calloc((size_t)argc + 2, sizeof(*words));
	if (!a->list || !a->operands || !words) {
		ui_error("Out of memory");
		goto out;
	}
	words[0] = (char *)ui_program();
	for (i = 0; i < argc; i++)
		words[i + 1] = argv[i];
	ret = parse_words(c, argc + 1, words, a);
	if (!ret)
		ret = check_operands(c, a);
out:
	free(words);
	return ret;
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
	snprintf(left, sizeof(left), o->kind == OPT_FLAG && o->arg ? "  %s%s%s%s[=%s]" : "  %s%s%s%s%s",
		 letter, o->name ? "--" : "", o->name ? o->name : "",
		 o->arg && o->kind != OPT_FLAG ? " " : "", o->arg ? o->arg : "");
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
	[OPT_CHOICE] = "choice", [OPT_WORDS] = "choice", [OPT_CREATE] = "create",
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
