// SPDX-License-Identifier: BSD-2-Clause
/* Slices of metadata tables in memory: a hash by offset and a clock hand over the slots. */
#include "qcow2/cache.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"

#define NONE UINT32_MAX

struct cache {
	struct file *file;
	uint32_t slice_size;
	unsigned slice_bits;
	uint32_t slots, used;		/* slots[0, used) have memory */
	uint32_t hand;
	uint32_t dirty;			/* dirty slices */
	struct slice *slot;
	uint32_t *bucket;		/* heads of the hash chains */
	uint32_t bucket_mask;
	cache_clean_fn clean;
	void *owner;
	struct cache_stats stats;
};

int cache_open(struct cache **out, struct file *f, uint32_t slice_size, uint32_t slots,
	       cache_clean_fn clean, void *owner, struct qimg_error *e)
{
	struct cache *c = mem_zalloc(sizeof(*c), e);
	uint32_t buckets = 2;

	if (!c)
		return -1;
#ifdef QIMG_TWO_SLICES
	slots = 2;
#endif
	c->file = f;
	c->slice_size = slice_size;
	c->slice_bits = log2_u64(slice_size);
	c->slots = slots;
	c->clean = clean;
	c->owner = owner;
	while (buckets < slots)
		buckets *= 2;
	c->bucket_mask = buckets - 1;
	c->slot = mem_array(slots, sizeof(*c->slot), e);
	c->bucket = mem_array(buckets, sizeof(*c->bucket), e);
	if (!c->slot || !c->bucket) {
		cache_close(c);
		return -1;
	}
	for (uint32_t i = 0; i < buckets; i++)
		c->bucket[i] = NONE;
	*out = c;
	return 0;
}

void cache_close(struct cache *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; c->slot && i < c->used; i++)
		free(c->slot[i].data);
	free(c->slot);
	free(c->bucket);
	free(c);
}

uint32_t cache_slice_size(const struct cache *c)
{
	return c->slice_size;
}

const struct cache_stats *cache_stats(const struct cache *c)
{
	return &c->stats;
}

bool cache_any_dirty(const struct cache *c)
{
	return c->dirty;
}

static uint32_t *bucket_of(struct cache *c, uint64_t off)
{
	uint64_t h = (off >> c->slice_bits) * UINT64_C(0x9e3779b97f4a7c15);

	return &c->bucket[(h >> 32) & c->bucket_mask];
}

static void unhash(struct cache *c, struct slice *s)
{
	uint32_t *link = bucket_of(c, s->off), index = (uint32_t)(s - c->slot);

	while (*link != index)
		link = &c->slot[*link].next;
	*link = s->next;
}

/* Takes a slice out of use; its slot and memory stay. */
static void drop(struct cache *c, struct slice *s)
{
	unhash(c, s);
	if (s->dirty)
		c->dirty--;
	s->used = s->dirty = s->referenced = false;
}

/*
 * The next slot whose slice may go. A slice that was used since the hand last came by gets another
 * round; clean ones go before dirty ones, since those cost a barrier.
 */
static struct slice *choose_victim(struct cache *c)
{
	struct slice *dirty = NULL;

	for (uint32_t n = 0; n < 2 * c->slots; n++) {
		struct slice *s = &c->slot[c->hand];

		c->hand = c->hand + 1 == c->slots ? 0 : c->hand + 1;
		if (s->pins)
			continue;
		if (!s->used)
			return s;
		if (s->referenced)
			s->referenced = false;
		else if (!s->dirty)
			return s;
		else if (!dirty)
			dirty = s;
	}
	return dirty;
}

static struct slice *take_slot(struct cache *c, struct qimg_error *e)
{
	struct slice *s;

	if (c->used < c->slots) {
		s = &c->slot[c->used];
		s->data = mem_buffer(c->slice_size, e);
		if (!s->data)
			return NULL;
		c->used++;
		return s;
	}
	s = choose_victim(c);
	if (!s) {
		error_set(e, EBUSY, "All %u slices of a metadata cache of '%s' are in use at once",
			  c->slots, file_path(c->file));
		return NULL;
	}
	if (!s->used)
		return s;
	if (s->dirty) {
		/* Pinned, so that nothing the owner does meanwhile can take it. */
		int ret;

		s->pins++;
		ret = c->clean(c->owner, s, e);
		s->pins--;
		if (ret < 0)
			return NULL;
	}
	drop(c, s);
	c->stats.evictions++;
	return s;
}

int cache_get(struct cache *c, uint64_t off, struct slice **out, struct qimg_error *e)
{
	uint32_t *bucket = bucket_of(c, off);
	struct slice *s;

	for (uint32_t i = *bucket; i != NONE; i = s->next) {
		s = &c->slot[i];
		if (s->off == off) {
			s->pins++;
			s->referenced = true;
			c->stats.hits++;
			*out = s;
			return 0;
		}
	}
	c->stats.misses++;
	s = take_slot(c, e);
	if (!s)
		return -1;
	if (file_read(c->file, off, s->data, c->slice_size, e) < 0)
		return -1;
	s->off = off;
	s->used = s->referenced = true;
	s->pins = 1;
	s->next = *bucket;
	*bucket = (uint32_t)(s - c->slot);
	*out = s;
	return 0;
}

void cache_put(struct cache *c, struct slice *s)
{
	(void)c;
	s->pins--;
}

void cache_dirty(struct cache *c, struct slice *s)
{
	if (!s->dirty) {
		s->dirty = true;
		c->dirty++;
	}
}

void cache_forget(struct cache *c, uint64_t off, uint64_t len)
{
	for (uint64_t o = off; o < off + len; o += c->slice_size) {
		for (uint32_t i = *bucket_of(c, o); i != NONE; i = c->slot[i].next) {
			if (c->slot[i].off == o) {
				drop(c, &c->slot[i]);
				break;
			}
		}
	}
}

int cache_write(struct cache *c, struct slice *s, struct qimg_error *e)
{
	if (!s->dirty)
		return 0;
	if (file_write(c->file, s->off, s->data, c->slice_size, e) < 0)
		return -1;
	s->dirty = false;
	c->dirty--;
	c->stats.writes++;
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct slice *x = *(struct slice *const *)a, *y = *(struct slice *const *)b;

	return x->off < y->off ? -1 : x->off > y->off;
}

int cache_write_dirty(struct cache *c, struct qimg_error *e)
{
	struct slice **list;
	uint32_t n = 0;
	int ret = 0;

	if (!c->dirty)
		return 0;
	list = mem_array(c->dirty, sizeof(*list), e);
	if (!list)
		return -1;
	for (uint32_t i = 0; i < c->used; i++)
		if (c->slot[i].dirty)
			list[n++] = &c->slot[i];
	qsort(list, n, sizeof(*list), by_offset);
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = cache_write(c, list[i], e);
	free(list);
	return ret;
}
