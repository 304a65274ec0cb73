/* SPDX-License-Identifier: BSD-2-Clause */
/* The open options of the format: names, ranges and defaults are those of the reference. */
#ifndef QCOW2_OPTION_H
#define QCOW2_OPTION_H

#include "qimg.h"

struct qcow2;

/*
 * Reads and checks opts (may be NULL) for the image q, whose header and derived fields are there; fills
 * in what qcow2.h lists under "open options", changes nothing else.
 */
int option_read(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e);
void option_free(struct qcow2 *q);
/* Fills in the image's part of *s, and what it needs (cachesize_need). */
void option_cache_need(const struct qcow2 *q, struct qimg_cache_sizes *s);

#endif
