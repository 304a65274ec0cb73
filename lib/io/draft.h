/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trying out what changes would do to a file: they go to a temporary file, and whoever reads the file through the
 * same struct file sees them. The file itself stays as it is.
 */
#ifndef IO_DRAFT_H
#define IO_DRAFT_H

#include <stdbool.h>

struct file;
struct qimg_error;

/*
 * From now on, until file_close, file_write and file_truncate change the draft, also of a file that is open for
 * reading only; file_read, file_size and file_extent answer from it; file_sync does nothing. All other changes fail.
 * Requests in a queue do not know of it: they read the file as it is, and nothing may be written with one. The
 * temporary file is in $TMPDIR or /var/tmp, and takes as much as is changed. Once more: does nothing.
 */
int draft_begin(struct file *f, struct qimg_error *e);
bool draft_is(const struct file *f);

#endif
