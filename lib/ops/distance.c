// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reuse distances in O(log n) time an access, and in memory for the different pieces, not the accesses.
 *
 * Each access gets the next position on a line; a piece stands at that of its last one. How many stand
 * behind it is asked of a Fenwick tree over the line. When the line is full, the pieces close up.
 */
#include "ops/distance.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"

enum { LEAST = 1024 };

struct distances {
	uint32_t *table;		/* hash: id + 1, 0 where there is none; at least half are 0 */
	uint32_t mask;
	uint32_t pieces, room;
	uint64_t *key;			/* by id */
	uint32_t *at;			/* by id: its position, from 1 on */
	uint32_t *tree;			/* sums over positions, from 1 on */
	uint32_t *who;			/* by position: the id that stands, or stood there */
	uint32_t length, used;		/* of the line */
};

int distance_open(struct distances **out, struct qimg_error *e)
{
	struct distances *d = mem_zalloc(sizeof(*d), e);

	if (!d)
		return -1;
	d->mask = 2 * LEAST - 1;
	d->room = LEAST;
	d->length = 4 * LEAST;
	d->table = mem_array((size_t)d->mask + 1, sizeof(*d->table), e);
	d->key = mem_array(d->room, sizeof(*d->key), e);
	d->at = mem_array(d->room, sizeof(*d->at), e);
	d->tree = mem_array((size_t)d->length + 1, sizeof(*d->tree), e);
	d->who = mem_array((size_t)d->length + 1, sizeof(*d->who), e);
	if (!d->table || !d->key || !d->at || !d->tree || !d->who) {
		distance_close(d);
		return -1;
	}
	*out = d;
	return 0;
}

void distance_close(struct distances *d)
{
	if (!d)
		return;
	free(d->table);
	free(d->key);
	free(d->at);
	free(d->tree);
	free(d->who);
	free(d);
}

uint32_t distance_pieces(const struct distances *d)
{
	return d->pieces;
}

static uint32_t *place_of(const struct distances *d, uint64_t key)
{
	uint32_t i = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & d->mask;

	while (d->table[i] && d->key[d->table[i] - 1] != key)
		i = (i + 1) & d->mask;
	return &d->table[i];
}

uint32_t distance_id(const struct distances *d, uint64_t key)
{
	return *place_of(d, key) - 1;
}

/* Room for twice as many pieces. */
static int more_pieces(struct distances *d, struct qimg_error *e)
{
	uint32_t room = 2 * d->room, *table;

	if (d->pieces == DISTANCE_PIECES)
		return error_set(e, EFBIG, "The requests touch more than %d different pieces of metadata: take "
				 "larger ones", DISTANCE_PIECES);
	/* The first may be larger than `room` says when the second fails; that is no harm. */
	if (mem_grow((void **)&d->key, d->room, room, sizeof(*d->key), e) < 0 ||
	    mem_grow((void **)&d->at, d->room, room, sizeof(*d->at), e) < 0)
		return -1;
	table = mem_array(2 * (size_t)room, sizeof(*table), e);
	if (!table)
		return -1;
	free(d->table);
	d->table = table;
	d->mask = 2 * room - 1;
	d->room = room;
	for (uint32_t id = 0; id < d->pieces; id++)
		*place_of(d, d->key[id]) = id + 1;
	return 0;
}

/* The pieces close up at the start of the line, which gets longer when they are many. */
static int close_up(struct distances *d, struct qimg_error *e)
{
	uint32_t length = (uint32_t)max_u64(d->length, 4 * (uint64_t)d->pieces), n = 0;

	if (mem_grow((void **)&d->tree, (size_t)d->length + 1, (size_t)length + 1, sizeof(*d->tree), e) < 0 ||
	    mem_grow((void **)&d->who, (size_t)d->length + 1, (size_t)length + 1, sizeof(*d->who), e) < 0)
		return -1;
	for (uint32_t i = 1; i <= d->used; i++) {
		uint32_t id = d->who[i];

		if (d->at[id] != i)
			continue;
		d->at[id] = ++n;
		d->who[n] = id;
	}
	d->used = n;
	d->length = length;
	/* The sum at i is over the positions from i - (lowest bit of i) + 1 to i; all up to n are taken. */
	for (uint32_t i = 1; i <= length; i++) {
		uint32_t before = i & (i - 1);

		d->tree[i] = n > before ? (uint32_t)min_u64(n, i) - before : 0;
	}
	return 0;
}

static void stand(struct distances *d, uint32_t at, int change)
{
	for (uint32_t i = at; i <= d->length; i += i & -i)
		d->tree[i] += (uint32_t)change;
}

static uint32_t standing_up_to(const struct distances *d, uint32_t at)
{
	uint32_t n = 0;

	for (uint32_t i = at; i; i &= i - 1)
		n += d->tree[i];
	return n;
}

int distance_access(struct distances *d, uint64_t key, uint32_t *id, uint32_t *distance,
		    struct qimg_error *e)
{
	uint32_t *place = place_of(d, key);
	bool first = !*place;

	if (first && (d->pieces == d->room || d->pieces == DISTANCE_PIECES)) {
		if (more_pieces(d, e) < 0)
			return -1;
		place = place_of(d, key);
	}
	if (d->used == d->length && close_up(d, e) < 0)
		return -1;
	*distance = 0;
	if (first) {
		d->key[d->pieces] = key;
		*place = ++d->pieces;
		*id = *place - 1;
	} else {
		*id = *place - 1;
		*distance = d->pieces - standing_up_to(d, d->at[*id]) + 1;
		stand(d, d->at[*id], -1);
	}
	d->at[*id] = ++d->used;
	d->who[d->used] = *id;
	stand(d, d->used, 1);
	return 0;
}
