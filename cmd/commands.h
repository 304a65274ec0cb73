/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands, one file each. */
#ifndef CMD_COMMANDS_H
#define CMD_COMMANDS_H

#include "opt.h"

extern const struct command bench_command, check_command, compare_command, convert_command, create_command,
	info_command, map_command;

/* All commands by name, ended by NULL. */
extern const struct command *const commands[];
const struct command *command_find(const char *name);	/* NULL: none */

#endif
