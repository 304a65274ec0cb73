// SPDX-License-Identifier: BSD-2-Clause
/* The program: the table of commands, dispatch, the general help. */
#include "commands.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "complete.h"
#include "ui.h"

const struct command *const commands[] = {
	&bench_command,
	&check_command,
	&compare_command,
	&convert_command,
	&create_command,
	&info_command,
	&map_command,
	NULL,
};

const struct command *command_find(const char *name)
{
	size_t i;

	for (i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static void see_help(void)
{
	ui_more("Try '%s --help' for more information", ui_program());
}

static void general_help(void)
{
	const char *const *format;
	size_t i;

	printf("Usage: %s COMMAND [OPTION]... [ARGUMENT]...\n\n"
	       "Creates, describes and converts disk images.\n\n"
	       "Commands:\n",
	       ui_program());
	for (i = 0; commands[i]; i++)
		printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
	printf("\nOptions:\n"
	       "  -h, --help     Show this help and exit\n"
	       "  -V, --version  Show the version and exit\n\n"
	       "'%s COMMAND --help' and '%s help COMMAND' explain a command.\n\n"
	       "Supported formats:",
	       ui_program(), ui_program());
	for (format = qimg_formats(); *format; format++)
		printf(" %s", *format);
	putchar('\n');
}

static int unknown_command(const char *name)
{
	const char *names[32], *near;
	size_t i;

	for (i = 0; commands[i] && i + 1 < sizeof(names) / sizeof(names[0]); i++)
		names[i] = commands[i]->name;
	names[i] = NULL;
	ui_error("Command not found: %s", name);
	near = ui_nearest(name, names);
	if (near)
		ui_more("Did you mean '%s'?", near);
	see_help();
	return 1;
}

/* `qimg help [COMMAND]` */
static int help(int argc, char **argv)
{
	const struct command *c;

	if (argc < 1 || !strcmp(argv[0], "--help") || !strcmp(argv[0], "-h")) {
		general_help();
		return 0;
	}
	c = command_find(argv[0]);
	if (!c)
		return unknown_command(argv[0]);
	opt_help(stdout, c);
	return 0;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct args a;
	int status;

	switch (opt_parse(c, argc, argv, &a)) {
	case 0:
		if (c->keeps_going)
			signal(SIGPIPE, SIG_IGN);
		status = c->run(&a);
		break;
	case 1:
		status = 0;
		break;
	default:
		status = c->wrong ? c->wrong : 1;
	}
	args_free(&a);
	return status;
}

static int dispatch(int argc, char **argv)
{
	const struct command *c;
	const char *name = argc > 1 ? argv[1] : NULL;

	if (!name) {
		ui_error("Not enough arguments");
		see_help();
		return 1;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
		general_help();
		return 0;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		printf("%s version %s%s\n", ui_program(), qimg_version(),
		       strcmp(ui_program(), "qimg") ? " (qimg)" : "");
		return 0;
	}
	if (!strcmp(name, "help"))
		return help(argc - 2, argv + 2);
	if (!strcmp(name, "--complete"))
		return complete(argc - 2, argv + 2);
	if (name[0] == '-') {
		ui_error("unrecognized option '%s'", name);
		see_help();
		return 1;
	}
	c = command_find(name);
	return c ? run(c, argc - 2, argv + 2) : unknown_command(name);
}

/* A backing chain needs a descriptor or two an image; the usual limit of 1024 is for select(2). */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int main(int argc, char **argv)
{
	ui_start(argc > 0 ? argv[0] : NULL);
	raise_file_limit();
	return ui_end(dispatch(argc, argv));
}
