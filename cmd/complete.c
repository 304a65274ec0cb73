// SPDX-License-Identifier: BSD-2-Clause
/* Answers to completion scripts: the tables of this program, line by line. */
#include "complete.h"

#include <string.h>

#include "commands.h"
#include "open.h"
#include "ui.h"

static int print_options(const char *name)
{
	const struct command *c = command_find(name);

	if (!c)
		return 1;
	opt_table(stdout, c);
	return 0;
}

static int print_create_options(const char *format)
{
	const struct qimg_option *o = qimg_create_options(format);

	if (!o)
		return 1;
	for (; o->name; o++)
		if (o->help)
			printf("%s\t%s\t%s\t%s\n", o->name, o->type, o->values ? o->values : "",
			       o->help);
	return 0;
}

static void print_words(const char *const *words)
{
	for (; *words; words++)
		puts(*words);
}

int complete(int argc, char **argv)
{
	const char *what = argc > 0 ? argv[0] : "", *of = argc > 1 ? argv[1] : "";
	size_t i;

	if (!strcmp(what, "options"))
		return print_options(of);
	if (!strcmp(what, "create"))
		return print_create_options(of);
	if (!strcmp(what, "commands"))
		for (i = 0; commands[i]; i++)
			printf("%s\t%s\n", commands[i]->name, commands[i]->summary);
	else if (!strcmp(what, "formats"))
		print_words(qimg_formats());
	else if (!strcmp(what, "caches"))
		print_words(open_cache_modes);
	else
		return 1;
	return 0;
}
