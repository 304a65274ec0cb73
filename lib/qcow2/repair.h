/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mending what a check has found, where it can be mended in place: refcounts and COPIED bits.
 *
 * The order keeps every moment safe: refcounts that are too low are raised first, then COPIED bits are made
 * what goes with the number of references, and only then refcounts that are too high are lowered, each on
 * stable storage before the next begins. An interrupted repair leaves leaks at worst, and can be run again.
 */
#ifndef QCOW2_REPAIR_H
#define QCOW2_REPAIR_H

#include <stdbool.h>
#include <stdint.h>

struct check;
struct qimg_error;

/* Whether refcounts that are too low, and COPIED bits, are going to be mended. */
bool repair_mends(const struct check *c);
/* Whether leaked clusters are going to be freed: not where tables are lost that may have owned them. */
bool repair_frees(const struct check *c);
/* Whether the refcount of the cluster can be changed in place. */
bool repair_has_block(const struct check *c, uint64_t cluster);
/*
 * Marks leaked clusters that look like L2 tables which something has lost, and what they refer to: these are
 * kept. To be called when all is counted.
 */
int repair_find_orphans(struct check *c, struct qimg_error *e);
/* Mends the clusters of the window. */
int repair_window(struct check *c, struct qimg_error *e);
/* The marks of the header, when all windows are done. */
int repair_finish(struct check *c, struct qimg_error *e);

#endif
