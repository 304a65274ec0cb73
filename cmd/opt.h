/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Option tables. The table of a command is the only place that knows its options: parsing,
 * `--help`, completion and the test of the manual pages read it.
 */
#ifndef CMD_OPT_H
#define CMD_OPT_H

#include <stdio.h>

#include "qimg.h"

/* What an option takes; OPT_SIZE, OPT_NUMBER and OPT_CHOICE are checked when parsed. */
enum opt_kind {
	OPT_FLAG,		/* takes none, or, if it has an `arg`, one behind the '=' of its long name */
	OPT_TEXT,
	OPT_FILE,
	OPT_FORMAT,		/* of an image; the library knows which there are */
	OPT_CACHE,		/* a cache mode */
	OPT_SIZE,
	OPT_NUMBER,		/* a plain decimal number from min to max */
	OPT_CHOICE,		/* a word of `values` */
	OPT_WORDS,		/* any text; `values` are what completion offers */
	OPT_CREATE,		/* a list of creation options: KEY=VALUE,... */
};

struct opt {
	int id;			/* above 0: the letter, or from 256 on where there is none */
	char letter;		/* 0: none */
	const char *name;	/* long name without dashes, NULL: none */
	const char *aliases;	/* more letters and long names, as in "B old-name", or NULL */
	enum opt_kind kind;
	const char *arg;	/* what help calls the argument, NULL for flags that never have one */
	const char *values;	/* OPT_CHOICE: "human json"; OPT_FLAG, OPT_WORDS: for completion */
	uint64_t min, max;	/* OPT_NUMBER */
	const char *help;	/* may be several lines, divided by '\n' */
};

/* One use of an option on the command line. */
struct arg {
	const struct opt *opt;
	const char *text;	/* NULL for flags */
	uint64_t number;	/* OPT_SIZE, OPT_NUMBER; OPT_CHOICE: index of the word */
};

/* A command line taken apart. Strings belong to argv. */
struct args {
	struct arg *list;	/* in the order given */
	size_t count;
	const char **operands;
	size_t operand_count;
};

struct command {
	const char *name;
	const char *summary;	/* one line, for the list of commands */
	const char *operands;	/* as help shows them: "FILE [SIZE]" */
	unsigned min_operands, max_operands;	/* checked before run; max 0: any number */
	const char *missing;	/* what is expected where there are too few: "image file name" */
	const char *notes;	/* shown under the options, or NULL */
	const struct opt *options;	/* ended by an id of 0; -h, --help is added to all */
	int wrong;		/* the exit status of wrong usage; 0: 1 */
	bool keeps_going;	/* a closed pipe on stdout does not end it */
	/* The exit status; messages have been printed. */
	int (*run)(const struct args *a);
};

enum { OPT_HELP = 'h' };

/*
 * Takes apart argv[0..argc), which starts behind the name of the command. Options and operands
 * may be mixed, long names abbreviated; "--" ends the options; "-" and negative numbers are
 * operands.
 * Returns 0; 1 when help was asked for; -1 after a message. In any case args_free frees.
 */
int opt_parse(const struct command *c, int argc, char *const *argv, struct args *a);
void args_free(struct args *a);

/* The text of the last use of an option, NULL: not given (or a flag). */
const char *args_text(const struct args *a, int id);
/* The last use of an option, NULL: not given. */
const struct arg *args_last(const struct args *a, int id);
bool args_has(const struct args *a, int id);

/* The text of `qimg COMMAND --help`. */
void opt_help(FILE *f, const struct command *c);
/*
 * One line for each spelling of each option: spelling, kind, allowed words, help, with tabs between
 * them. Completion and tests read that.
 */
void opt_table(FILE *f, const struct command *c);
/* A message's second line: which help to read. */
void opt_see_help(const struct command *c);

#endif
