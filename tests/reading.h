/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All that the guest reads of an image that may be damaged, the disk and the snapshots, piece by piece; and where
 * it cannot be read.
 */
#ifndef READING_H
#define READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { READING_VIEWS = 8, READING_MOST = 8 << 20 };	/* of disks that are larger: so many bytes */

struct reading_view {
	char id[64];			/* of a snapshot, "": the active one */
	bool there;
	uint64_t size;			/* of the disk */
	uint8_t *data;			/* zeros where it does not read */
	bool *reads;			/* for each piece */
};

struct reading {
	bool opens;			/* for a check */
	uint32_t piece;			/* a cluster, or a 32nd of one */
	unsigned views;			/* the first is the active one */
	struct reading_view view[READING_VIEWS];
};

/*
 * Reads the views that `like` has (NULL: the active one), and, with more, the snapshots that are there. r need
 * not be cleared, and is to be freed.
 */
void reading_take(struct reading *r, const char *path, const struct reading *like, bool more);
void reading_free(struct reading *r);

enum reading_change {
	READING_SAME,
	READING_LOST,			/* something cannot be read that could */
	READING_OTHER,			/* something reads otherwise */
};

/* now against before; text says where. What did not read before may be anything. */
enum reading_change reading_compare(const struct reading *before, const struct reading *now, char *text, size_t n);

#endif
