/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of a cache, for cache.c and cache_memory.c. */
#ifndef QCOW2_CACHE_PRIV_H
#define QCOW2_CACHE_PRIV_H

#include "image/allowance.h"
#include "qcow2/cache.h"
#include "qcow2/compact.h"
#include "qcow2/second.h"

#define NONE UINT32_MAX

/* A slice on its way from the disk. */
struct load {
	struct cache *cache;
	uint64_t off;
	struct frame frame;
	bool second;		/* from the second level, where it is at: */
	struct second_place place;
	enum { LOAD_RUNNING, LOAD_DONE, LOAD_FAILED } state;
	int code;		/* of a failed one */
	bool stale;		/* the clusters got a new meaning meanwhile */
	struct load *next;
};

struct cache {
	struct file *file;
	uint32_t slice_size;
	unsigned slice_bits;
	uint32_t slots, high;		/* slots[0, high) have been in use */
	uint32_t count;			/* in use */
	uint32_t free;			/* slots below high that are not */
	uint32_t hand;			/* in the ring of slots in use; NONE: there are none */
	uint32_t dirty;			/* dirty slices */
	struct slice *slot;
	struct frames *frames;
	uint32_t *bucket;		/* heads of the hash chains */
	uint32_t bucket_mask;
	struct load *loads;		/* newest first */
	uint32_t load_count, running;	/* all, and those in flight */
	uint32_t depth;			/* of these at most; 0: no limit was given */
	bool off;			/* keeps nothing */
	struct compact *compact;	/* or NULL */
	struct second *second;		/* or NULL */
	struct allowance_user share;
	/* Time is a count that goes on with each round of allowance.c and with each cleaning. */
	uint32_t now, aged, cleaned;	/* now, and when these were last */
	uint32_t old_before;		/* slices touched before that are old */
	uint32_t old, old_hand;		/* how many; where to look for the next one */
	uint64_t clean_at;		/* in ms; 0: cache_clean was never called */
	cache_clean_fn clean;
	void *owner;
	struct cache_stats stats;
};

static inline bool cache_is_old(const struct cache *c, const struct slice *s)
{
	return s->touched < c->old_before;
}

/* ---- cache.c ---- */

/* The next one that may go, clean if there is one. NULL: all are pinned. */
struct slice *cache_choose_victim(struct cache *c);
/* Takes a slice, and its slot, out of use. */
void cache_drop(struct cache *c, struct slice *s, bool give_back);
/* Keeps it in compact form, in the second level, or not at all. */
void cache_store(struct cache *c, const struct slice *s);
void cache_forget_load(struct cache *c, struct load *l);

/* ---- cache_memory.c ---- */

/* It is used for the first time in this time. */
void cache_touch(struct cache *c, struct slice *s);

#endif
