/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a new target can fit at all. */
#ifndef OPS_SPACE_H
#define OPS_SPACE_H

#include <stdint.h>

struct file;
struct qimg_convert;
struct qimg_error;

/*
 * Fails where the file system of `f`, the new and empty target of `size` guest bytes, is certain to be too
 * small. What is certain: nothing that may turn out to be zeros, or to compress, or to be shared.
 */
int space_check(const struct qimg_convert *c, struct file *f, uint64_t size, struct qimg_error *e);

#endif
