/* SPDX-License-Identifier: BSD-2-Clause */
/* Room on a disk for what need not outlive the process. */
#ifndef IO_UNNAMED_H
#define IO_UNNAMED_H

#include <stdint.h>

struct file;
struct qimg_error;

/*
 * Opens such room for reading and writing. Where `path` is a block device it is that device, provided
 * that nobody has it mounted or in use; its content is there to be overwritten. Else it is a new file
 * of mode 0600 in the folder of path (path itself when it is one) that has no name and is gone when it
 * is closed; nothing that is at path is touched. flags: FILE_DIRECT or 0.
 */
int unnamed_open(struct file **f, const char *path, unsigned flags, struct qimg_error *e);
/* Transfers in multiples of this, at multiples of it, need no detour. A power of two. */
uint32_t unnamed_unit(const struct file *f);

#endif
