/* SPDX-License-Identifier: BSD-2-Clause */
/* Files with names of their own, for what is removed again soon. */
#ifndef IO_SCRATCH_H
#define IO_SCRATCH_H

struct qimg_error;

/*
 * Makes an empty file of mode 0600 in the folder (NULL: that of the environment variable TMPDIR, else
 * /var/tmp). Returns its name, which the caller frees and removes by file_remove.
 */
char *scratch_new(const char *folder, const char *suffix, struct qimg_error *e);

#endif
