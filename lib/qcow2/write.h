/* SPDX-License-Identifier: BSD-2-Clause */
/* What zeroing, discarding and packing share with plain writes. */
#ifndef QCOW2_WRITE_H
#define QCOW2_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "qcow2/alloc.h"
#include "qcow2/entry.h"

struct qcow2;
struct qimg_error;
struct wait;

/* Before any change, while nothing is held: claims the image, flushes when many releases wait. MAP_WAIT with w. */
int write_prepare(struct qcow2 *q, struct wait *w, struct qimg_error *e);
/* A cluster of the range has a write between begin and commit. */
bool write_in_flight(const struct qcow2 *q, uint64_t off, uint64_t len);
/* Releases what an entry refers to that is being replaced. */
int write_release_old(struct qcow2 *q, const struct entry *old, enum release_why why,
		      struct qimg_error *e);

#endif
