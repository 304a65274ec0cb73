/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening, and taking an image into use for writing. */
#ifndef QCOW2_OPEN_H
#define QCOW2_OPEN_H

struct qcow2;
struct qimg_error;

/*
 * To be called before each change of an image opened for writing; does something the first time only.
 * What this program does not keep up to date (bitmaps, unknown autoclear features) is then marked as
 * out of date in the header. Returns 0 when nothing had to be marked, 1 when the header was written
 * and must be synced before anything else is changed, -1 on failure.
 */
int open_claim(struct qcow2 *q, struct qimg_error *e);

#endif
