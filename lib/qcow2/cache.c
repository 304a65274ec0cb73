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
#include "qcow2/cache_priv.h"

#define MAX_LOADS 256		/* in flight, or done and not fetched */
#define MANY_SLOTS 16

void cache_forget_load(struct cache *c, struct load *l)
{
	struct load **link = &c->loads;

	while (*link != l)
		link = &(*link)->next;
	*link = l->next;
	c->load_count--;
	if (l->frame.data)
		frames_put(c->frames, &l->frame, false);
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
	c->free = c->hand = NONE;
	c->clean = clean;
	c->owner = owner;
	while (buckets < slots)
		buckets *= 2;
	c->bucket_mask = buckets - 1;
	c->slot = mem_array(slots, sizeof(*c->slot), e);
	c->bucket = mem_array(buckets, sizeof(*c->bucket), e);
	if (!c->slot || !c->bucket || frames_open(&c->frames, slice_size, e) < 0) {
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
		cache_forget_load(c, c->loads);
	allowance_leave(&c->share);
	compact_close(c->compact);
	frames_close(c->frames);
	free(c->slot);
	free(c->bucket);
	free(c);
}

uint32_t cache_slice_size(const struct cache *c)
{
	return c->slice_size;
}

void cache_set_second(struct cache *c, struct second *s)
{
	c->second = s;
}

void cache_set_depth(struct cache *c, uint32_t depth)
{
	c->depth = depth;
}

void cache_set_off(struct cache *c)
{
	c->off = true;
}

int cache_keep_compact(struct cache *c, unsigned lanes, uint64_t budget, struct qimg_error *e)
{
	return compact_open(&c->compact, c->slice_size, lanes, budget, e);
}

bool cache_any_dirty(const struct cache *c)
{
	return c->dirty;
}

/* Of few slices some have to be written all the time anyway: then the more at once the better. */
bool cache_mostly_dirty(const struct cache *c)
{
	uint32_t most = c->share.of && allowance_is_full(&c->share) ? c->count : c->slots;

	return most >= MANY_SLOTS && c->dirty >= most / 2;
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

/* Where the hand comes by last. Those in use are few where a chain needs the memory elsewhere. */
static void ring_add(struct cache *c, struct slice *s)
{
	uint32_t index = (uint32_t)(s - c->slot);

	if (c->hand == NONE)
		c->hand = s->after = s->before = index;
	s->after = c->hand;
	s->before = c->slot[c->hand].before;
	c->slot[s->before].after = index;
	c->slot[s->after].before = index;
}

static void ring_remove(struct cache *c, const struct slice *s)
{
	c->slot[s->before].after = s->after;
	c->slot[s->after].before = s->before;
	if (&c->slot[c->hand] == s)
		c->hand = c->count ? s->after : NONE;
}

/* Its slot, and what the slot takes of the allowance, stay the caller's. */
static void drop(struct cache *c, struct slice *s, bool give_back)
{
	unhash(c, s);
	if (s->dirty)
		c->dirty--;
	if (cache_is_old(c, s))
		c->old--;
	s->used = s->dirty = s->referenced = s->writing = false;
	frames_put(c->frames, &s->frame, give_back);
	s->data = NULL;
	c->count--;
	ring_remove(c, s);
}

static void free_slot(struct cache *c, struct slice *s)
{
	s->next = c->free;
	c->free = (uint32_t)(s - c->slot);
	if (c->share.of)
		allowance_put(&c->share, c->slice_size);
}

void cache_drop(struct cache *c, struct slice *s, bool give_back)
{
	drop(c, s, give_back);
	free_slot(c, s);
}

void cache_store(struct cache *c, const struct slice *s)
{
	if (c->off)
		return;
	if (c->compact)
		compact_add(c->compact, s->off, s->data);
	if (c->second)
		second_add(c->second, s->off, s->data);
}

/*
 * The next slot whose slice may go. A slice that was used since the hand last came by gets another
 * round; clean ones go before dirty ones, since those cost a barrier.
 */
struct slice *cache_choose_victim(struct cache *c)
{
	struct slice *dirty = NULL;

	for (uint64_t n = 0; n < 2 * (uint64_t)c->count; n++) {
		struct slice *s = &c->slot[c->hand];

		c->hand = s->after;
		if (s->pins)
			continue;
		if (s->referenced)
			s->referenced = false;
		else if (!s->dirty)
			return s;
		else if (!dirty)
			dirty = s;
	}
	return dirty;
}

/* A slot without a slice. false: there is none, or it would be too much for the chain. */
static bool unused_slot(struct cache *c, struct slice **out)
{
	if (c->free == NONE && c->high == c->slots)
		return false;
	if (c->share.of && !allowance_take(&c->share, c->slice_size))
		return false;
	if (c->free == NONE) {
		*out = &c->slot[c->high++];
	} else {
		*out = &c->slot[c->free];
		c->free = (*out)->next;
	}
	return true;
}

/* A slot whose slice is not used. 0, MAP_WAIT with w, or -1. */
static int take_slot(struct cache *c, struct slice **out, struct wait *w, struct qimg_error *e)
{
	struct slice *s;
	int ret;

	if (unused_slot(c, out))
		return 0;
	s = cache_choose_victim(c);
	if (!s)
		return error_set(e, EBUSY, "All %u slices of a metadata cache of '%s' are in use at once",
				 c->count, file_path(c->file));
	if (s->dirty) {
		/* Pinned, so that nothing the owner does meanwhile can take it. */
		s->pins++;
		ret = c->clean(c->owner, s, w, e);
		s->pins--;
		/* What ended with that (a flush) may have brought in the very slice: look again. */
		if (!ret && w) {
			w->op = WAIT_TURN;
			ret = MAP_WAIT;
		}
		if (ret)
			return ret;
	}
	cache_store(c, s);
	drop(c, s, false);
	c->stats.evictions++;
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

/* The slice at off, which has been read into the frame, gets a slot. */
static void insert(struct cache *c, struct slice *s, uint64_t off, struct frame *frame)
{
	uint32_t *bucket = bucket_of(c, off);

	s->frame = *frame;
	s->data = frame->data;
	frame->data = NULL;
	c->count++;
	ring_add(c, s);
	s->off = off;
	s->touched = c->now;
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
	struct cache *c = l->cache;

	c->running--;
	l->code = code;
	l->state = code ? LOAD_FAILED : LOAD_DONE;
	/* What is not (any longer) in the second level is read from the image by whoever comes for it. */
	if (l->second && !l->stale && !second_check(c->second, &l->place, l->off, l->frame.data, code))
		l->stale = true;
	if (!l->stale)
		return;
	w->priv = NULL;
	cache_forget_load(c, l);
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
		cache_forget_load(c, oldest);
	return oldest;
}

/* Asks the caller to read the slice at off. */
static int start_load(struct cache *c, uint64_t off, struct wait *w, struct qimg_error *e)
{
	struct load *l;

	w->op = WAIT_TURN;
	if ((c->depth && c->running >= c->depth) || !load_room(c))
		return MAP_WAIT;
	l = mem_zalloc(sizeof(*l), e);
	if (!l)
		return -1;
	if (frames_get(c->frames, &l->frame, e) < 0) {
		free(l);
		return -1;
	}
	l->cache = c;
	l->off = off;
	l->next = c->loads;
	c->loads = l;
	c->load_count++;
	c->running++;
	c->stats.misses++;
	c->stats.loads++;
	l->second = c->second && second_find(c->second, off, &l->place);
	w->op = WAIT_READ;
	w->file = l->second ? second_file(c->second) : c->file;
	w->off = l->second ? l->place.at : off;
	w->buf = l->frame.data;
	w->len = c->slice_size;
	w->done = load_done;
	w->priv = l;
	return MAP_WAIT;
}

/* Fetches the slice at off from its load. */
static int finish_load(struct cache *c, struct load *l, struct slice **out, struct wait *w,
		       struct qimg_error *e)
{
	uint64_t off = l->off;
	struct slice *s;
	int ret;

	if (l->state == LOAD_RUNNING) {
		w->op = WAIT_TURN;
		return MAP_WAIT;
	}
	if (l->state == LOAD_FAILED && w->priv != l) {
		/* Whoever asked for it is gone, or has not come yet: this one makes a try of its own. */
		cache_forget_load(c, l);
		return start_load(c, off, w, e);
	}
	w->priv = NULL;
	if (l->state == LOAD_FAILED) {
		error_errno(e, l->code, "Reading metadata of '%s' at 0x%" PRIx64, file_path(c->file),
			    l->off);
		cache_forget_load(c, l);
		return -1;
	}
	ret = take_slot(c, &s, w, e);
	if (ret < 0 && e->code == EBUSY) {
		w->op = WAIT_TURN;
		return MAP_WAIT;
	}
	if (ret)
		return ret;
	insert(c, s, off, &l->frame);
	s->pins = 1;
	cache_forget_load(c, l);
	*out = s;
	return 0;
}

/* Reads the slice at off now. */
static int load_now(struct cache *c, uint64_t off, struct slice **out, struct qimg_error *e)
{
	struct frame frame;
	struct slice *s;

	c->stats.misses++;
	c->stats.loads++;
	if (frames_get(c->frames, &frame, e) < 0)
		return -1;
	if ((!c->second || !second_read(c->second, off, frame.data)) &&
	    file_read(c->file, off, frame.data, c->slice_size, e) < 0)
		goto fail;
	if (take_slot(c, &s, NULL, e) != 0)
		goto fail;
	insert(c, s, off, &frame);
	s->pins = 1;
	*out = s;
	return 0;
fail:
	frames_put(c->frames, &frame, false);
	return -1;
}

/* Makes the slice at off from its compact form. */
static int make_again(struct cache *c, uint64_t off, struct slice **out, struct wait *w,
		      struct qimg_error *e)
{
	struct frame frame;
	struct slice *s;
	int ret;

	if (frames_get(c->frames, &frame, e) < 0)
		return -1;
	compact_get(c->compact, off, frame.data);
	ret = take_slot(c, &s, w, e);
	if (ret < 0 && e->code == EBUSY && w) {
		w->op = WAIT_TURN;
		ret = MAP_WAIT;
	}
	if (ret) {
		frames_put(c->frames, &frame, false);
		return ret;
	}
	c->stats.misses++;
	c->stats.compact_hits++;
	insert(c, s, off, &frame);
	s->pins = 1;
	*out = s;
	return 0;
}

int cache_get(struct cache *c, uint64_t off, struct slice **out, struct wait *w, struct qimg_error *e)
{
	struct slice *s = lookup(c, off);
	struct load *l;
	bool kept;

	if (s) {
		s->pins++;
		s->referenced = true;
		if (s->touched != c->now)
			cache_touch(c, s);
		c->stats.hits++;
		*out = s;
		return 0;
	}
	l = c->loads ? find_load(c, off) : NULL;
	kept = c->compact && compact_has(c->compact, off);
	if (w && c->depth != 1 && !kept)
		return l ? finish_load(c, l, out, w, e) : start_load(c, off, w, e);
	/* What is read here may be changed before a load in flight arrives: that one is useless. */
	if (l && l->state == LOAD_RUNNING)
		l->stale = true;
	else if (l)
		cache_forget_load(c, l);
	return kept ? make_again(c, off, out, w, e) : load_now(c, off, out, e);
}

void cache_put(struct cache *c, struct slice *s)
{
	if (!--s->pins && c->off && !s->dirty)
		cache_drop(c, s, false);
}

void cache_dirty(struct cache *c, struct slice *s)
{
	s->changed = true;
	if (s->dirty)
		return;
	s->dirty = true;
	c->dirty++;
	if (c->compact)
		compact_kill(c->compact, s->off);
	if (c->second)
		second_kill(c->second, s->off);
}

void cache_forget(struct cache *c, uint64_t off, uint64_t len)
{
	struct load *next;

	for (uint64_t o = off; o < off + len; o += c->slice_size) {
		struct slice *s = lookup(c, o);

		if (c->compact)
			compact_kill(c->compact, o);
		if (c->second)
			second_kill(c->second, o);
		if (s)
			cache_drop(c, s, false);
	}
	for (struct load *l = c->loads; l; l = next) {
		next = l->next;
		if (l->off - off >= len)
			continue;
		if (l->state == LOAD_RUNNING)
			l->stale = true;
		else
			cache_forget_load(c, l);
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
	for (uint32_t i = 0; i < c->high && n < c->dirty; i++)
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
