/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation options on the command line: -o, and the list that -o help prints. */
#ifndef CMD_CREATEOPTS_H
#define CMD_CREATEOPTS_H

#include "opt.h"

/*
 * Reads all -o of a command line (option `id`) into a new list that the caller frees.
 * Returns 0; 1 when one of them asks for help; -1 after a message.
 */
int createopts_read(const struct args *a, int id, struct qimg_opts **opts);
/* Sets one more option; value NULL: leaves it. -1 after a message. */
int createopts_set(struct qimg_opts *opts, const char *key, const char *value);
/*
 * Prints the creation options of a format; with_file: those of the file below it, too.
 * 0, or -1 after a message when there is no such format.
 */
int createopts_help(const char *format, bool with_file);
/*
 * After an error: when it is that `opts` name a backing file of `target` without its format, prints
 * the command line again, with -F and the format that the backing file looks like. `backing_id` is the
 * option that names it.
 */
void createopts_suggest_format(const struct command *c, const struct args *a, int backing_id,
			       const struct qimg_opts *opts, const char *target,
			       const struct qimg_error *error);

#endif
