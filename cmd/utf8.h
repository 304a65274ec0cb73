/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether bytes are text. */
#ifndef CMD_UTF8_H
#define CMD_UTF8_H

#include <stddef.h>

/* Bytes of the UTF-8 character that the text begins with; 0: it is none. */
size_t utf8_length(const char *text);

#endif
