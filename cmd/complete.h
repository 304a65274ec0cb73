/* SPDX-License-Identifier: BSD-2-Clause */
/* What the completion scripts and the tests ask the program: `qimg --complete ...`. */
#ifndef CMD_COMPLETE_H
#define CMD_COMPLETE_H

/*
 * complete commands: name and summary of each command.
 * complete options COMMAND: its option table, see opt_table.
 * complete formats, complete caches: the words of these kinds.
 * complete create FORMAT: creation options of a format: name, type, allowed values, help.
 * Fields are divided by tabs. Returns the exit status.
 */
int complete(int argc, char **argv);

#endif
