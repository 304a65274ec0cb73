/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a target reads as its sources do. */
#ifndef OPS_VERIFY_H
#define OPS_VERIFY_H

struct copy;
struct qimg_error;

/*
 * Reads the sources and the part of the target that was made of them, and compares. What is in the page
 * cache of the target is dropped first, so that it comes from the disk. EIO with the offset where
 * they differ. Nothing may be in flight.
 */
int verify_run(const struct copy *c, struct qimg_error *e);

#endif
