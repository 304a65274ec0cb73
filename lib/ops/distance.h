/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reuse distances: how many different pieces were accessed since the last access to this one, itself
 * included. A cache with room for so many that drops the one not used for longest still has it.
 */
#ifndef OPS_DISTANCE_H
#define OPS_DISTANCE_H

#include <stdint.h>

struct distances;
struct qimg_error;

enum { DISTANCE_PIECES = 1 << 23 };	/* different pieces at most */

int distance_open(struct distances **d, struct qimg_error *e);
void distance_close(struct distances *d);	/* NULL is allowed */
/*
 * The piece with that key is accessed. *id: its number, from 0 on, by first access. *distance: 0 when this
 * is the first one.
 */
int distance_access(struct distances *d, uint64_t key, uint32_t *id, uint32_t *distance,
		    struct qimg_error *e);
uint32_t distance_pieces(const struct distances *d);	/* different ones so far */
uint32_t distance_id(const struct distances *d, uint64_t key);	/* of a piece that was accessed */

#endif
