// SPDX-License-Identifier: BSD-2-Clause
/* Slices of metadata tables in memory: a hash by offset and a clock hand over the slots. */
#include "qcow2/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "image/driver.h"
#include "io/file.h"

#define NONE UINT32_MAX
#define MAX_LOADS 256		/* in flight, or done and not fetched */
#define MANY_SLOTS 16

/* A slice on its way from the disk. */
struct load {
	struct cache *cache;
	uint64_t off;
	uint8_t *buf;
	enum { LOAD_RUNNING, LOAD_DONE, LOAD_FAILED } state;
	int code;		/* of a failed one */
	bool stale;		/* the clusters got a new meaning meanwhile */
	struct load *next;
};

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
	struct load *loads;		/* newest first */
	uint32_t load_count;
	cache_clean_fn clean;
	void *owner;
	struct cache_stats stats;
};

static void forget_load(struct cache *c, struct load *l)
{
	struct load **link = &c->loads;

	while (*link != l)
		link = &(*link)->next;
	*link = l->next;
	c->load_count--;
	free(l->buf);
	free(l);
}

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
	while (c->loads)
		forget_load(c, c->loads);
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

/* Of few slices some have to be written all the time anyway: then the more at once the better. */
bool cache_mostly_dirty(const struct cache *c)
{
	return c->slots >= MANY_SLOTS && c->dirty >= c->slots / 2;
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
	s->used = s->dirty = s->referenced = s->writing = false;
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

/* A slot whose slice is not used. 0, MAP_WAIT with w, or -1. */
static int take_slot(struct cache *c, struct slice **out, struct wait *w, struct qimg_error *e)
{
	struct slice *s;
	int ret;

	if (c->used < c->slots) {
		s = &c->slot[c->used];
		s->data = mem_buffer(c->slice_size, e);
		if (!s->data)
			return -1;
		c->used++;
		*out = s;
		return 0;
	}
	s = choose_victim(c);
	if (!s)
		return error_set(e, EBUSY, "All %u slices of a metadata cache of '%s' are in use at once",
				 c->slots, file_path(c->file));
	if (s->used && s->dirty) {
		/* Pinned, so that nothing the owner does meanwhile can take it. */
		s->pins++;
		ret = c->clean(c->owner, s, w, e);
		s->pins--;
		if (ret)
			return ret;
	}
	if (s->used) {
		drop(c, s);
		c->stats.evictions++;
	}
	*out = s;
	return 0;
}

static struct slice *lookup(struct cache *c, uint64_t off)
{
	for (uint32_t i = *bucket_of(c, off); i != NONE; i = c->slot[i].next)
		if (c->slot[i].off == off)
			return &c->slot[i];
	return NULL;
}

bool cache_has(struct cache *c, uint64_t off)
{
	return lookup(c, off);
}

static void insert(struct cache *c, struct slice *s, uint64_t off)
{
	uint32_t *bucket = bucket_of(c, off);

	s->off = off;
	s->used = s->referenced = true;
	s->next = *bucket;
	*bucket = (uint32_t)(s - c->slot);
}

static struct load *find_load(struct cache *c, uint64_t off)
{
	struct load *l = c->loads;

	while (l && (l->off != off || l->stale))
		l = l->next;
	return l;
}

static void load_done(struct wait *w, int code)
{
	struct load *l = w->priv;

	l->code = code;
	l->state = code ? LOAD_FAILED : LOAD_DONE;
	if (l->stale)
		forget_load(l->cache, l);
}

/* Makes room among the loads: whoever wanted one that is done and not fetched may have given up. */
static bool load_room(struct cache *c)
{
	struct load *l, *oldest = NULL;

	if (c->load_count < MAX_LOADS)
		return true;
	for (l = c->loads; l; l = l->next)
		if (l->state != LOAD_RUNNING)
			oldest = l;
	if (oldest)
		forget_load(c, oldest);
	return oldest;
}

/* Asks the caller to read the slice at off. */
static int start_load(struct cache *c, uint64_t off, struct wait *w, struct qimg_error *e)
{
	struct load *l;

	w->op = WAIT_TURN;
	if (!load_room(c))
		return MAP_WAIT;
	l = mem_zalloc(sizeof(*l), e);
	if (!l)
		return -1;
	l->buf = mem_buffer(c->slice_size, e);
	if (!l->buf) {
		free(l);
		return -1;
	}
	l->cache = c;
	l->off = off;
	l->next = c->loads;
	c->loads = l;
	c->load_count++;
	c->stats.misses++;
	c->stats.loads++;
	*w = (struct wait){ .op = WAIT_READ, .file = c->file, .off = off, .buf = l->buf,
			    .len = c->slice_size, .done = load_done, .priv = l };
	return MAP_WAIT;
}

/* Fetches the slice at off from its load. */
static int finish_load(struct cache *c, struct load *l, struct slice **out, struct wait *w,
		       struct qimg_error *e)
{
	uint64_t off = l->off;
	struct slice *s;
	uint8_t *buf;
	int ret;

	if (l->state == LOAD_RUNNING) {
		w->op = WAIT_TURN;
		return MAP_WAIT;
	}
	if (l->state == LOAD_FAILED && w->priv != l) {
		/* Whoever asked for it is gone, or has not come yet: this one makes a try of its own. */
		forget_load(c, l);
		return start_load(c, off, w, e);
	}
	w->priv = NULL;
	if (l->state == LOAD_FAILED) {
		error_errno(e, l->code, "Reading metadata of '%s' at 0x%" PRIx64, file_path(c->file),
			    l->off);
		forget_load(c, l);
		return -1;
	}
	ret = take_slot(c, &s, w, e);
	if (ret < 0 && e->code == EBUSY) {
		w->op = WAIT_TURN;
		return MAP_WAIT;
	}
	if (ret)
		return ret;
	buf = s->data;
	s->data = l->buf;
	l->buf = buf;
	insert(c, s, off);
	s->pins = 1;
	forget_load(c, l);
	*out = s;
	return 0;
}

int cache_get(struct cache *c, uint64_t off, struct slice **out, struct wait *w, struct qimg_error *e)
{
	struct slice *s = lookup(c, off);
	struct load *l;

	if (s) {
		s->pins++;
		s->referenced = true;
		c->stats.hits++;
		*out = s;
		return 0;
	}
	l = c->loads ? find_load(c, off) : NULL;
	if (w)
		return l ? finish_load(c, l, out, w, e) : start_load(c, off, w, e);
	/* What is read here may be changed before a load in flight arrives: that one is useless. */
	if (l && l->state == LOAD_RUNNING)
		l->stale = true;
	else if (l)
		forget_load(c, l);
	c->stats.misses++;
	if (take_slot(c, &s, NULL, e) < 0)
		return -1;
	c->stats.loads++;
	if (file_read(c->file, off, s->data, c->slice_size, e) < 0)
		return -1;
	insert(c, s, off);
	s->pins = 1;
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
	s->changed = true;
	if (!s->dirty) {
		s->dirty = true;
		c->dirty++;
	}
}

void cache_forget(struct cache *c, uint64_t off, uint64_t len)
{
	struct load *next;

	for (uint64_t o = off; o < off + len; o += c->slice_size) {
		struct slice *s = lookup(c, o);

		if (s)
			drop(c, s);
	}
	for (struct load *l = c->loads; l; l = next) {
		next = l->next;
		if (l->off - off >= len)
			continue;
		if (l->state == LOAD_RUNNING)
			l->stale = true;
		else
			forget_load(c, l);
	}
}

static int by_offset(const void *a, const void *b)
{
	const struct slice *x = *(struct slice *const *)a, *y = *(struct slice *const *)b;

	return x->off < y->off ? -1 : x->off > y->off;
}

int cache_list_dirty(struct cache *c, struct slice ***list, uint32_t *count, struct qimg_error *e)
{
	struct slice **l = mem_array(max_u64(c->dirty, 1), sizeof(*l), e);
	uint32_t n = 0;

	if (!l)
		return -1;
	for (uint32_t i = 0; i < c->used && n < c->dirty; i++)
		if (c->slot[i].dirty)
			l[n++] = &c->slot[i];
	qsort(l, n, sizeof(*l), by_offset);
	*list = l;
	*count = n;
	return 0;
}

void cache_writing(struct slice *s)
{
	s->writing = true;
	s->changed = false;
}

void cache_written(struct cache *c, struct slice *s, int code)
{
	if (!s->writing)	/* forgotten meanwhile */
		return;
	s->writing = false;
	if (code || s->changed)
		return;
	s->dirty = false;
	c->dirty--;
	c->stats.writes++;
}

int cache_write(struct cache *c, struct slice *s, struct qimg_error *e)
{
	int ret;

	cache_writing(s);
	ret = file_write(c->file, s->off, s->data, c->slice_size, e);
	cache_written(c, s, ret < 0 ? e->code : 0);
	return ret;
}
