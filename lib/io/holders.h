/* SPDX-License-Identifier: BSD-2-Clause */
/* Which other processes have a file open. */
#ifndef IO_HOLDERS_H
#define IO_HOLDERS_H

#include <stddef.h>

#include "io/file.h"

/*
 * Writes "qemu-system-x86 (pid 123), qemu-img (pid 456)" into text, at most a few of them and then how
 * many more. Where there are none, but this process has it open more than once, it says so; otherwise
 * the text is empty. Returns how many there are.
 */
unsigned holders_describe(struct file_id id, char *text, size_t size);

#endif
