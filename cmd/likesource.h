/* SPDX-License-Identifier: BSD-2-Clause */
/* convert --like-source. */
#ifndef CMD_LIKESOURCE_H
#define CMD_LIKESOURCE_H

#include "qimg.h"

/*
 * Adds creation options to `opts` so that a target of that format is laid out as `source` is; what
 * opts has already stays. -1 after a message.
 */
int likesource_add(struct qimg_image *source, const char *format, struct qimg_opts *opts);

#endif
