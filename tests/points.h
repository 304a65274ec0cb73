/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Points at which the power fails: where and how they are spread over a record of what reached the disk
 * (disk.h), and the files that are made of what is left then.
 */
#ifndef POINTS_H
#define POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "disk.h"
#include "qcheck.h"

extern const char *const points_how[];	/* names of enum disk_survival */

/* The n-th point: before that event, when as much as that is left of what was not synced. */
typedef void points_judge(void *ctx, size_t event, enum disk_survival how, unsigned n);

/*
 * Spreads `points` over the record. Half of them go evenly to all places, the other half to those right
 * before a sync, where most is at stake: any subset of an earlier moment since the last sync is one of
 * there, too, and what is written last in an epoch can only be lost or kept there. In the end all events
 * were issued.
 */
void points_spread(struct disk *d, unsigned points, uint64_t *seed, points_judge *judge, void *ctx);

/* A new scratch directory, in memory where possible: files are written with all their syncs. NULL: told why. */
char *points_scratch(const char *name);
/* The file dir/name becomes what the state says. */
bool points_put(const char *dir, const char *name, const struct disk_state *s);
/* b->p is to be freed. */
bool points_get(const char *dir, const char *name, struct qcheck_buf *b);

#endif
