// SPDX-License-Identifier: BSD-2-Clause
/*
 * Clocks for many sizes.
 *
 * Each piece has two words, with a bit for each size: whether a cache of that size has it, and whether it
 * was used since the hand came by. So a hit costs the same for one size and for 64, and work is done for
 * those alone that miss.
 */
#include "ops/clock.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/mem.h"

struct piece {
	uint64_t in, used;
};

struct hand {
	uint64_t size;
	uint32_t *ring;			/* ids, in the order in which the hand comes by */
	uint32_t count, room;
	uint32_t at;
	uint64_t misses;		/* counted */
};

struct clock_hands {
	struct piece *piece;		/* by id */
	size_t pieces;
	unsigned sizes;
	uint64_t all;			/* a bit for each of these */
	uint64_t counted;		/* accesses */
	struct hand hand[CLOCK_MOST];
};

int clock_open(struct clock_hands **out, const uint64_t *size, unsigned sizes, struct qimg_error *e)
{
	struct clock_hands *c = mem_zalloc(sizeof(*c), e);

	if (!c)
		return -1;
	c->sizes = sizes;
	c->all = sizes == 64 ? UINT64_MAX : (UINT64_C(1) << sizes) - 1;
	for (unsigned i = 0; i < sizes; i++)
		c->hand[i].size = size[i];
	*out = c;
	return 0;
}

void clock_close(struct clock_hands *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < c->sizes; i++)
		free(c->hand[i].ring);
	free(c->piece);
	free(c);
}

/* Where a piece that comes in has its place: that of one which leaves, once there is no other. */
static uint32_t *make_room(struct clock_hands *c, struct hand *h, uint64_t bit, struct qimg_error *e)
{
	struct piece *p;
	uint32_t *place;

	if (h->count < h->size) {
		if (h->count == h->room) {
			uint32_t room = (uint32_t)min_u64(h->size, max_u64(64, 2 * (uint64_t)h->room));

			if (mem_grow((void **)&h->ring, h->room, room, sizeof(*h->ring), e) < 0)
				return NULL;
			h->room = room;
		}
		return &h->ring[h->count++];
	}
	for (;;) {
		place = &h->ring[h->at];
		h->at = h->at + 1 == h->count ? 0 : h->at + 1;
		p = &c->piece[*place];
		if (!(p->used & bit))
			break;
		p->used &= ~bit;
	}
	p->in &= ~bit;
	return place;
}

int clock_access(struct clock_hands *c, uint32_t id, bool count, struct qimg_error *e)
{
	uint64_t missing;
	size_t pieces = c->pieces;

	if (id >= pieces) {
		pieces = max_u64(1024, 2 * (uint64_t)id);
		if (mem_grow((void **)&c->piece, c->pieces, pieces, sizeof(*c->piece), e) < 0)
			return -1;
		c->pieces = pieces;
	}
	c->counted += count;
	missing = c->all & ~c->piece[id].in;
	for (uint64_t left = missing; left; left &= left - 1) {
		struct hand *h = &c->hand[__builtin_ctzll(left)];
		uint32_t *place = make_room(c, h, left & -left, e);

		if (!place)
			return -1;
		*place = id;
		h->misses += count;
	}
	c->piece[id].in = c->piece[id].used = c->all;
	return 0;
}

uint64_t clock_hits(const struct clock_hands *c, unsigned i)
{
	return c->counted - c->hand[i].misses;
}
