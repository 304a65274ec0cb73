// SPDX-License-Identifier: BSD-2-Clause
/* Slices as runs of numbers: a hash by offset, and a list in the order in which entries are to go. */
#include "qcow2/compact.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"

#define PART 8			/* of the size of a slice that its runs may take */
#define MALLOC_EXTRA 16		/* what an allocation takes beside its bytes, at most */

struct run {
	uint64_t first;
	uint32_t step;
	uint32_t count;
};

struct compact_entry {
	uint64_t off;
	struct compact_entry *next;	/* in the hash chain */
	struct compact_entry *newer, *older;
	uint32_t runs;
	bool referenced;		/* since it was last looked at as one that may go */
	struct run run[];
};

struct compact {
	uint32_t words;			/* of a slice */
	unsigned lanes, slice_bits;
	uint32_t most_runs;
	uint64_t budget, bytes;
	struct compact_entry **bucket;	/* NULL as long as nothing was added */
	uint64_t buckets;		/* a power of two */
	struct compact_entry *newest, *oldest;
	struct run *scratch;		/* most_runs of them, as long as there are buckets */
};

int compact_open(struct compact **out, uint32_t slice_size, unsigned lanes, uint64_t budget,
		 struct qimg_error *e)
{
	struct compact *c = mem_zalloc(sizeof(*c), e);

	if (!c)
		return -1;
	c->words = slice_size / sizeof(uint64_t);
	c->lanes = lanes;
	c->slice_bits = log2_u64(slice_size);
	c->most_runs = slice_size / PART / (uint32_t)sizeof(struct run);
	c->budget = budget;
	/* Entries of one run each would fill the budget with about as many as there are buckets. */
	for (c->buckets = 2; c->buckets * 128 <= budget; c->buckets *= 2)
		;
	*out = c;
	return 0;
}

static void free_index(struct compact *c)
{
	free(c->bucket);
	free(c->scratch);
	c->bucket = NULL;
	c->scratch = NULL;
	c->bytes = 0;
}

static bool make_index(struct compact *c)
{
	struct qimg_error ignored;

	c->bucket = mem_array(c->buckets, sizeof(*c->bucket), &ignored);
	c->scratch = mem_array(c->most_runs, sizeof(*c->scratch), &ignored);
	if (!c->bucket || !c->scratch) {
		free_index(c);
		return false;
	}
	c->bytes = c->buckets * sizeof(*c->bucket) + c->most_runs * sizeof(*c->scratch);
	return true;
}

uint64_t compact_bytes(const struct compact *c)
{
	return c->bytes;
}

static struct compact_entry **bucket_of(const struct compact *c, uint64_t off)
{
	uint64_t h = (off >> c->slice_bits) * UINT64_C(0x9e3779b97f4a7c15);

	return &c->bucket[(h >> 32) & (c->buckets - 1)];
}

static struct compact_entry *lookup(const struct compact *c, uint64_t off)
{
	struct compact_entry *en = c->bucket ? *bucket_of(c, off) : NULL;

	while (en && en->off != off)
		en = en->next;
	return en;
}

static uint64_t entry_bytes(uint32_t runs)
{
	return sizeof(struct compact_entry) + runs * sizeof(struct run) + MALLOC_EXTRA;
}

static void list_remove(struct compact *c, struct compact_entry *en)
{
	*(en->newer ? &en->newer->older : &c->newest) = en->older;
	*(en->older ? &en->older->newer : &c->oldest) = en->newer;
}

static void list_add(struct compact *c, struct compact_entry *en)
{
	en->newer = NULL;
	en->older = c->newest;
	*(c->newest ? &c->newest->newer : &c->oldest) = en;
	c->newest = en;
}

static void kill_entry(struct compact *c, struct compact_entry *en)
{
	struct compact_entry **link = bucket_of(c, en->off);

	while (*link != en)
		link = &(*link)->next;
	*link = en->next;
	list_remove(c, en);
	c->bytes -= entry_bytes(en->runs);
	free(en);
}

void compact_close(struct compact *c)
{
	if (!c)
		return;
	while (c->oldest)
		kill_entry(c, c->oldest);
	free_index(c);
	free(c);
}

void compact_kill(struct compact *c, uint64_t off)
{
	struct compact_entry *en = lookup(c, off);

	if (en)
		kill_entry(c, en);
}

bool compact_has(const struct compact *c, uint64_t off)
{
	return lookup(c, off);
}

/* The runs of a lane, into run[0..room). Their number, room + 1: there are more. */
static uint32_t encode(const struct compact *c, const uint8_t *data, unsigned lane, struct run *run,
		       uint32_t room)
{
	uint32_t count = c->words / c->lanes, stride = c->lanes * (uint32_t)sizeof(uint64_t), runs = 0, i = 0;
	const uint8_t *p = data + lane * sizeof(uint64_t);

	while (i < count) {
		uint64_t first = be64_get(p + (size_t)i * stride), last = first, step = 0, start = i++;

		if (runs == room)
			return room + 1;
		if (i < count && be64_get(p + (size_t)i * stride) - first <= UINT32_MAX)
			step = be64_get(p + (size_t)i * stride) - first;
		while (i < count && be64_get(p + (size_t)i * stride) == last + step) {
			last += step;
			i++;
		}
		run[runs++] = (struct run){ first, (uint32_t)step, (uint32_t)(i - start) };
	}
	return runs;
}

/* Room for so many bytes more. What was asked for since it came here gets another round. */
static bool make_room(struct compact *c, uint64_t bytes)
{
	while (c->bytes + bytes > c->budget && c->oldest) {
		struct compact_entry *en = c->oldest;

		if (en->referenced) {
			en->referenced = false;
			list_remove(c, en);
			list_add(c, en);
		} else {
			kill_entry(c, en);
		}
	}
	return c->bytes + bytes <= c->budget;
}

void compact_add(struct compact *c, uint64_t off, const void *data)
{
	struct compact_entry *en, **bucket;
	struct qimg_error ignored;
	uint32_t runs = 0;

	if (lookup(c, off) || (!c->bucket && !make_index(c)))
		return;
	for (unsigned lane = 0; lane < c->lanes && runs <= c->most_runs; lane++)
		runs += encode(c, data, lane, c->scratch + runs, c->most_runs - runs);
	if (runs > c->most_runs || !make_room(c, entry_bytes(runs)))
		return;
	en = mem_zalloc(sizeof(*en) + runs * sizeof(en->run[0]), &ignored);
	if (!en)
		return;
	en->off = off;
	en->runs = runs;
	memcpy(en->run, c->scratch, runs * sizeof(en->run[0]));
	bucket = bucket_of(c, off);
	en->next = *bucket;
	*bucket = en;
	list_add(c, en);
	c->bytes += entry_bytes(runs);
}

bool compact_get(struct compact *c, uint64_t off, void *data)
{
	struct compact_entry *en = lookup(c, off);
	uint32_t count = c->words / c->lanes, at = 0;
	const struct run *r;

	if (!en)
		return false;
	r = en->run;
	for (unsigned lane = 0; lane < c->lanes; lane++, at = 0) {
		uint8_t *p = (uint8_t *)data + lane * sizeof(uint64_t);

		for (; at < count; r++) {
			uint64_t word = r->first;

			for (uint32_t i = 0; i < r->count; i++, at++, word += r->step)
				be64_put(p + (size_t)at * c->lanes * sizeof(uint64_t), word);
		}
	}
	en->referenced = true;
	return true;
}

void compact_clean(struct compact *c)
{
	struct compact_entry *en, *newer;

	for (en = c->oldest; en; en = newer) {
		newer = en->newer;
		if (!en->referenced)
			kill_entry(c, en);
		else
			en->referenced = false;
	}
	if (!c->oldest)
		free_index(c);
}
