/* SPDX-License-Identifier: BSD-2-Clause */
/* Repairing an image: L1 tables of snapshots that are not what, or not where, the snapshot table says. */
#ifndef QCOW2_REPAIR_L1_H
#define QCOW2_REPAIR_L1_H

#include <stdbool.h>

struct check;
struct qimg_error;
struct snapshot;

/*
 * Changes place and size of the L1 table of s, or the size of its disk, to what can be true. *found: there is one.
 * Nothing is written. To be called when all is counted.
 */
int repair_l1_find(struct check *c, struct snapshot *s, bool *found, struct qimg_error *e);

#endif
