/* SPDX-License-Identifier: BSD-2-Clause */
/* A text file, or a pipe, line by line, with no more of it in memory than a line needs. */
#ifndef IO_LINES_H
#define IO_LINES_H

#include <stdint.h>

struct lines;
struct qimg_error;

enum { LINES_LONGEST = 4095 };		/* bytes in a line */

/* Opening a pipe waits for whoever writes to it. */
int lines_open(struct lines **l, const char *path, struct qimg_error *e);
void lines_close(struct lines *l);	/* NULL is allowed */
/*
 * The next line, without its end ("\n" or "\r\n"); the caller may change it. 1, or 0 behind the last one, or -1:
 * reading failed, or the line is too long or has bytes of 0.
 */
int lines_next(struct lines *l, char **text, struct qimg_error *e);
const char *lines_path(const struct lines *l);
uint64_t lines_number(const struct lines *l);	/* of the last line, from 1 on */

#endif
