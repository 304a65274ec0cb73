/* SPDX-License-Identifier: BSD-2-Clause */
/* The open options of the format: names, ranges and defaults are those of the reference. */
#ifndef QCOW2_OPTION_H
#define QCOW2_OPTION_H

#include "qimg.h"

struct qcow2;

/*
 * Reads and checks opts (may be NULL) for the image q, whose header and derived fields are there; fills
 * in the cache sizes, lazy_refcounts and discard_passed. Changes nothing else.
 */
int option_read(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e);

#endif
