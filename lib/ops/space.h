/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a target can fit at all. */
#ifndef OPS_SPACE_H
#define OPS_SPACE_H

#include <stdint.h>

struct file;
struct qimg_convert;
struct qimg_error;

/*
 * Fails where the file system of `f`, which is to take `size` guest bytes, is certain to be too small. What
 * is certain: nothing that may turn out to be zeros, or to compress, or to be shared. f is a new and empty
 * target, or what holds the guest data of an existing one.
 */
int space_check(const struct qimg_convert *c, struct file *f, uint64_t size, struct qimg_error *e);

#endif
