/* SPDX-License-Identifier: BSD-2-Clause */
/* Looking for zeros in memory. */
#ifndef BASE_ZERO_H
#define BASE_ZERO_H

#include <stdbool.h>
#include <stddef.h>

bool zero_is(const void *buf, size_t len);
/*
 * The length of the run of blocks at the start of buf that are alike: all zero (*zero true) or each
 * holding a non-zero byte. block is a power of two; the last block may be short. len > 0.
 */
size_t zero_run(const void *buf, size_t len, size_t block, bool *zero);

#endif
