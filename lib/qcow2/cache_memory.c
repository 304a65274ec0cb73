// SPDX-License-Identifier: BSD-2-Clause
/*
 * The memory of a cache: what it takes of the allowance of its chain and gives to others, and what it gives
 * back to the system since nobody has touched it for long.
 */
#include "qcow2/cache_priv.h"

#include <stddef.h>

const struct cache_stats *cache_stats(struct cache *c)
{
	struct second_stats second = { .hits = 0 };

	if (c->second)
		second_get_stats(c->second, &second);
	c->stats.bytes = frames_bytes(c->frames) + second.ram_bytes;
	if (c->compact)
		c->stats.bytes += compact_bytes(c->compact);
	c->stats.second_hits = second.hits;
	c->stats.second_bytes = second.file_bytes;
	return &c->stats;
}

void cache_touch(struct cache *c, struct slice *s)
{
	if (cache_is_old(c, s))
		c->old--;
	s->touched = c->now;
}

static struct cache *cache_of(struct allowance_user *u)
{
	return (struct cache *)((char *)u - offsetof(struct cache, share));
}

static uint64_t share_idle(struct allowance_user *u)
{
	struct cache *c = cache_of(u);

	return (uint64_t)c->old * c->slice_size;
}

/* Each slot is looked at once in a round. */
static struct slice *next_old(struct cache *c)
{
	while (c->old_hand < c->high) {
		struct slice *s = &c->slot[c->old_hand++];

		if (s->used && !s->pins && !s->dirty && cache_is_old(c, s))
			return s;
	}
	c->old = 0;
	c->old_before = 0;
	return NULL;
}

static struct slice *next_clean(struct cache *c)
{
	struct slice *s = cache_choose_victim(c);

	return s && s->dirty ? NULL : s;
}

static void share_give(struct allowance_user *u, uint64_t bytes, bool any)
{
	struct cache *c = cache_of(u);
	struct slice *s;

	for (uint64_t given = 0; given < bytes && c->count > 2; given += c->slice_size) {
		s = any ? next_clean(c) : next_old(c);
		if (!s)
			break;
		cache_store(c, s);
		cache_drop(c, s, true);
		c->stats.evictions++;
	}
}

static void share_age(struct allowance_user *u)
{
	struct cache *c = cache_of(u);

	c->old_before = c->aged;
	c->aged = ++c->now;
	c->old = c->old_hand = 0;
	for (uint32_t i = 0; i < c->high; i++)
		c->old += c->slot[i].used && cache_is_old(c, &c->slot[i]);
}

void cache_share(struct cache *c, struct qimg_image *img)
{
	c->share.least = 2 * (uint64_t)c->slice_size;
	c->share.idle = share_idle;
	c->share.give = share_give;
	c->share.age = share_age;
	allowance_join(img, &c->share);
}

uint64_t cache_clean(struct cache *c, uint64_t now, uint64_t interval)
{
	struct load *next;

	if (now < c->clean_at)
		return c->clean_at;
	for (uint32_t i = 0; c->clean_at && i < c->high; i++) {
		struct slice *s = &c->slot[i];

		if (!s->used || s->pins || s->dirty || s->touched >= c->cleaned)
			continue;
		cache_drop(c, s, true);
		c->stats.cleaned++;
	}
	/* Nobody came for them. */
	for (struct load *l = c->loads; c->clean_at && l; l = next) {
		next = l->next;
		if (l->state != LOAD_RUNNING)
			cache_forget_load(c, l);
	}
	if (c->clean_at && c->compact)
		compact_clean(c->compact);
	frames_trim(c->frames);
	c->cleaned = ++c->now;
	c->clean_at = now + interval;
	return c->clean_at;
}
