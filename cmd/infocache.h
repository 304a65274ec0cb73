/* SPDX-License-Identifier: BSD-2-Clause */
/* The text of `qimg info --cache`. */
#ifndef CMD_INFOCACHE_H
#define CMD_INFOCACHE_H

#include "qimg.h"

/* v: an object of qimg_cache_info, or a list of them. */
void infocache_print(const struct qimg_value *v);

#endif
