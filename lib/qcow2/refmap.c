// SPDX-License-Identifier: BSD-2-Clause
/* Counts and marks of clusters, in regions that are found by a hash. */
#include "qcow2/refmap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"

#define REGION_BITS 13
#define REGION (UINT32_C(1) << REGION_BITS)	/* clusters */
#define FAR (64 * REGION)		/* clusters, for which it pays to look where there is anything */
#define CELLS REFMAP_SOME		/* counts of two bits in a word */
#define ONES UINT64_C(0x5555555555555555)

struct region {
	uint64_t number;
	uint8_t order;			/* log2 of the bits of a count; 0: there are no counts */
	void *count;
	uint64_t *mark[REFMAP_MARKS];
};

struct refmap {
	uint64_t from, to;		/* clusters */
	uint64_t memory, most;		/* bytes */
	struct region **slot;
	uint64_t slots, regions;	/* a power of two, and how many of them are in use */
	struct region *last;		/* that was looked for */
	uint64_t end;
	uint64_t *order;		/* the numbers of the regions, sorted */
	uint64_t ordered;		/* so many were there when that was made */
};

int refmap_open(struct refmap **out, uint64_t from, uint64_t to, uint64_t memory, struct qimg_error *e)
{
	struct refmap *m = mem_zalloc(sizeof(*m), e);

	if (!m)
		return -1;
	m->from = from;
	m->to = to;
	m->most = memory;
	*out = m;
	return 0;
}

void refmap_close(struct refmap *m)
{
	if (!m)
		return;
	for (uint64_t i = 0; i < m->slots; i++) {
		struct region *r = m->slot[i];

		if (!r)
			continue;
		for (unsigned k = 0; k < REFMAP_MARKS; k++)
			free(r->mark[k]);
		free(r->count);
		free(r);
	}
	free(m->order);
	free(m->slot);
	free(m);
}

void refmap_relax(struct refmap *m)
{
	m->most = UINT64_MAX;
}

uint64_t refmap_memory(const struct refmap *m)
{
	return m->memory;
}

uint64_t refmap_end(const struct refmap *m)
{
	return m->end;
}

static void *take(struct refmap *m, uint64_t bytes, struct qimg_error *e)
{
	void *p;

	if (m->memory + bytes > m->most) {
		error_set(e, E2BIG, "The references of the image do not fit into %" PRIu64 " bytes of memory",
			  m->most);
		return NULL;
	}
	p = mem_zalloc(bytes, e);
	if (p)
		m->memory += bytes;
	return p;
}

/* ---- regions ---- */

static struct region **slot_of(struct region **slot, uint64_t slots, uint64_t number)
{
	uint64_t h = number * UINT64_C(0x9e3779b97f4a7c15);
	uint64_t i = (h >> 32) & (slots - 1);

	while (slot[i] && slot[i]->number != number)
		i = (i + 1) & (slots - 1);
	return &slot[i];
}

static int grow(struct refmap *m, struct qimg_error *e)
{
	uint64_t slots = m->slots ? m->slots * 2 : 64;
	struct region **slot = take(m, slots * sizeof(*slot), e);

	if (!slot)
		return -1;
	for (uint64_t i = 0; i < m->slots; i++)
		if (m->slot[i])
			*slot_of(slot, slots, m->slot[i]->number) = m->slot[i];
	m->memory -= m->slots * sizeof(*slot);
	free(m->slot);
	m->slot = slot;
	m->slots = slots;
	return 0;
}

static struct region *find(struct refmap *m, uint64_t number)
{
	struct region *r = m->last;

	if (r && r->number == number)
		return r;
	r = m->slots ? *slot_of(m->slot, m->slots, number) : NULL;
	if (r)
		m->last = r;
	return r;
}

static struct region *get(struct refmap *m, uint64_t number, struct qimg_error *e)
{
	struct region *r = find(m, number), **slot;

	if (!r) {
		if (m->regions * 4 >= m->slots * 3 && grow(m, e) < 0)
			return NULL;
		r = take(m, sizeof(*r), e);
		if (!r)
			return NULL;
		r->number = number;
		slot = slot_of(m->slot, m->slots, number);
		*slot = r;
		m->regions++;
	}
	m->last = r;
	return r;
}

/* ---- counts ---- */

static uint64_t get_count(const struct region *r, uint32_t i)
{
	if (!r->count)
		return 0;
	switch (r->order) {
	case 1:
		return ((const uint64_t *)r->count)[i / CELLS] >> (i % CELLS * 2) & 3;
	case 3:
		return ((const uint8_t *)r->count)[i];
	case 4:
		return ((const uint16_t *)r->count)[i];
	case 5:
		return ((const uint32_t *)r->count)[i];
	default:
		return ((const uint64_t *)r->count)[i];
	}
}

static void put_count(struct region *r, uint32_t i, uint64_t v)
{
	uint64_t *word;

	switch (r->order) {
	case 1:
		word = (uint64_t *)r->count + i / CELLS;
		*word = (*word & ~(UINT64_C(3) << (i % CELLS * 2))) | v << (i % CELLS * 2);
		break;
	case 3:
		((uint8_t *)r->count)[i] = (uint8_t)v;
		break;
	case 4:
		((uint16_t *)r->count)[i] = (uint16_t)v;
		break;
	case 5:
		((uint32_t *)r->count)[i] = (uint32_t)v;
		break;
	default:
		((uint64_t *)r->count)[i] = v;
	}
}

/* Makes room in each count for v. */
static int widen(struct refmap *m, struct region *r, uint64_t v, struct qimg_error *e)
{
	struct region old = *r;
	unsigned order = v <= 3 ? 1 : v <= UINT8_MAX ? 3 : v <= UINT16_MAX ? 4 : v <= UINT32_MAX ? 5 : 6;
	void *count;

	if (r->order >= order)
		return 0;
	count = take(m, (uint64_t)REGION << order >> 3, e);
	if (!count)
		return -1;
	r->count = count;
	r->order = (uint8_t)order;
	if (!old.order)
		return 0;
	for (uint32_t i = 0; i < REGION; i++)
		put_count(r, i, get_count(&old, i));
	m->memory -= (uint64_t)REGION << old.order >> 3;
	free(old.count);
	return 0;
}

static int add_one(struct refmap *m, struct region *r, uint32_t i, uint64_t times, struct qimg_error *e)
{
	uint64_t v = get_count(r, i);

	v = v > UINT64_MAX - times ? UINT64_MAX : v + times;
	if (widen(m, r, v, e) < 0)
		return -1;
	put_count(r, i, v);
	return 0;
}

static int add_in_region(struct refmap *m, struct region *r, uint32_t i, uint32_t n, uint64_t times,
			 struct qimg_error *e)
{
	if (widen(m, r, min_u64(times, 3), e) < 0)
		return -1;
	while (n) {
		uint64_t *word = r->order == 1 ? (uint64_t *)r->count + i / CELLS : NULL;

		/* 32 counts at once, when none of them is 3. */
		if (word && times == 1 && i % CELLS == 0 && n >= CELLS && !(*word & *word >> 1 & ONES)) {
			*word += ONES;
			i += CELLS;
			n -= CELLS;
			continue;
		}
		if (add_one(m, r, i, times, e) < 0)
			return -1;
		i++;
		n--;
	}
	return 0;
}

/* The part of the range that counts. false: none does. */
static bool clip(const struct refmap *m, uint64_t *cluster, uint64_t *n)
{
	uint64_t end = *cluster + *n;

	if (end < *cluster)
		end = UINT64_MAX;
	*cluster = max_u64(*cluster, m->from);
	end = min_u64(end, m->to);
	*n = end > *cluster ? end - *cluster : 0;
	return *n;
}

int refmap_add(struct refmap *m, uint64_t cluster, uint64_t n, uint64_t times, struct qimg_error *e)
{
	if (!times || !clip(m, &cluster, &n))
		return 0;
	m->end = max_u64(m->end, cluster + n);
	while (n) {
		uint32_t i = (uint32_t)(cluster & (REGION - 1));
		uint32_t some = (uint32_t)min_u64(n, REGION - i);
		struct region *r = get(m, cluster >> REGION_BITS, e);

		if (!r || add_in_region(m, r, i, some, times, e) < 0)
			return -1;
		cluster += some;
		n -= some;
	}
	return 0;
}

uint64_t refmap_count(struct refmap *m, uint64_t cluster)
{
	const struct region *r = find(m, cluster >> REGION_BITS);

	return r ? get_count(r, (uint32_t)(cluster & (REGION - 1))) : 0;
}

int refmap_alike(struct refmap *m, uint64_t cluster)
{
	const struct region *r = find(m, cluster >> REGION_BITS);
	uint64_t word;

	if (!r || !r->order)
		return 0;
	if (r->order != 1)
		return REFMAP_MIXED;
	word = ((const uint64_t *)r->count)[(cluster & (REGION - 1)) / CELLS];
	return word == ONES ? 1 : word ? REFMAP_MIXED : 0;
}

uint64_t refmap_blank(struct refmap *m, uint64_t cluster)
{
	if (cluster >= m->to)
		return UINT64_MAX - cluster;
	if (find(m, cluster >> REGION_BITS))
		return 0;
	return REGION - (cluster & (REGION - 1));
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool put_in_order(struct refmap *m)
{
	struct qimg_error ignored;
	uint64_t n = 0;

	if (m->ordered == m->regions)
		return true;
	free(m->order);
	m->ordered = 0;
	m->order = mem_array(m->regions, sizeof(*m->order), &ignored);
	if (!m->order)
		return false;
	for (uint64_t i = 0; i < m->slots; i++)
		if (m->slot[i])
			m->order[n++] = m->slot[i]->number;
	qsort(m->order, n, sizeof(*m->order), by_number);
	m->ordered = n;
	return true;
}

uint64_t refmap_next(struct refmap *m, uint64_t cluster)
{
	uint64_t number = cluster >> REGION_BITS, low = 0, high;

	/* Without memory for that: one after the other. */
	if (find(m, number) || !put_in_order(m))
		return cluster;
	for (high = m->ordered; low < high; ) {
		uint64_t middle = low + (high - low) / 2;

		if (m->order[middle] < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->ordered ? m->order[low] << REGION_BITS : UINT64_MAX;
}

/* ---- marks ---- */

int refmap_set(struct refmap *m, enum refmap_mark mark, uint64_t cluster, uint64_t n,
	       struct qimg_error *e)
{
	clip(m, &cluster, &n);
	while (n) {
		uint32_t i = (uint32_t)(cluster & (REGION - 1));
		uint32_t some = (uint32_t)min_u64(n, REGION - i), end = i + some;
		struct region *r = get(m, cluster >> REGION_BITS, e);

		if (!r)
			return -1;
		if (!r->mark[mark])
			r->mark[mark] = take(m, REGION / 8, e);
		if (!r->mark[mark])
			return -1;
		while (i < end) {
			if (i % 64 == 0 && end - i >= 64) {
				r->mark[mark][i / 64] = UINT64_MAX;
				i += 64;
			} else {
				r->mark[mark][i / 64] |= UINT64_C(1) << (i % 64);
				i++;
			}
		}
		cluster += some;
		n -= some;
	}
	return 0;
}

bool refmap_is(struct refmap *m, enum refmap_mark mark, uint64_t cluster)
{
	const struct region *r = find(m, cluster >> REGION_BITS);
	uint32_t i = (uint32_t)(cluster & (REGION - 1));

	return r && r->mark[mark] && r->mark[mark][i / 64] >> (i % 64) & 1;
}

/* REGION: none of [i, end) is. */
static uint32_t first_marked(const uint64_t *mark, uint32_t i, uint32_t end)
{
	while (i < end) {
		uint64_t word = mark[i / 64] >> (i % 64);

		if (word) {
			i += (uint32_t)__builtin_ctzll(word);
			return i < end ? i : REGION;
		}
		i = (i / 64 + 1) * 64;
	}
	return REGION;
}

bool refmap_any(struct refmap *m, enum refmap_mark mark, uint64_t cluster, uint64_t n,
		uint64_t *which)
{
	clip(m, &cluster, &n);
	while (n) {
		uint32_t i = (uint32_t)(cluster & (REGION - 1));
		uint64_t some = min_u64(n, REGION - i);
		const struct region *r = find(m, cluster >> REGION_BITS);

		if (!r && n > FAR) {
			uint64_t next = refmap_next(m, cluster);

			if (next - cluster >= n)
				return false;
			n -= next - cluster;
			cluster = next;
			continue;
		}
		i = r && r->mark[mark] ? first_marked(r->mark[mark], i, i + (uint32_t)some) : REGION;
		if (i < REGION) {
			if (which)
				*which = round_down(cluster, REGION) + i;
			return true;
		}
		cluster += some;
		n -= some;
	}
	return false;
}
