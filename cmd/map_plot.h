/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A picture of an image: offsets on the disk to the right, offsets in the file upwards, so that what is stored in
 * order is a rising line and what is scattered is dust. Takes the same memory for any number of runs.
 */
#ifndef CMD_MAP_PLOT_H
#define CMD_MAP_PLOT_H

#include <stdint.h>

#include "qimg.h"

struct map_plot;

/* Of the disk from start to end. NULL after a message. */
struct map_plot *map_plot_new(uint64_t start, uint64_t end);
void map_plot_free(struct map_plot *p);	/* NULL is allowed */
/* Runs, in any order, within that range. */
void map_plot_add(struct map_plot *p, const struct qimg_extent *x);
/* Writes the file, whole or not at all. -1 after a message. */
int map_plot_write(const struct map_plot *p, const char *path, const char *image);

#endif
