/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Slices of metadata tables in memory, keyed by their offset in the image file.
 *
 * - A slice that is pinned stays where it is. Pins are counts.
 * - A dirty slice stays until it has been written; the flag is cleared only after the write
 *   succeeded. The cache never decides by itself when a dirty slice may be written: it asks its
 *   owner (the order in which metadata reaches the disk is flush.c's).
 * - Memory is taken when a slot is used, and given back when the chain needs it elsewhere (allowance.h), or
 *   by time.
 * - A load that the caller is to wait for reads into a buffer beside the slots, so that the number of
 *   loads in flight does not depend on the number of slots. Requests that miss the same slice share
 *   one load.
 */
#ifndef QCOW2_CACHE_H
#define QCOW2_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qcow2/frames.h"

struct cache;
struct file;
struct qimg_error;
struct qimg_image;
struct second;
struct wait;

struct slice {
	uint64_t off;		/* in the file, a multiple of the slice size */
	uint8_t *data;
	/* the cache's */
	struct frame frame;	/* where data is */
	uint32_t pins;
	uint32_t next;		/* in the hash chain, or of unused slots */
	uint32_t after, before;	/* in the ring of those in use */
	uint32_t touched;	/* by the cache's count of time */
	bool used, dirty, referenced;
	bool writing;		/* dirty, and a copy of it is on its way to the disk */
	bool changed;		/* since that copy was made */
};

struct cache_stats {
	uint64_t hits, misses, loads, evictions, writes;
	uint64_t cleaned;	/* left memory since nobody had touched them for long */
	uint64_t bytes;		/* in memory: slices, those on their way, compact ones, the second level's */
	uint64_t second_hits;	/* loads that were answered by the second level */
	uint64_t second_bytes;	/* of slices in its file */
	uint64_t compact_hits;	/* misses that needed no load (compact.h) */
};

/*
 * Called when `victim` must be clean for its slot to be used again. With w it may leave that to the caller:
 * MAP_WAIT.
 */
typedef int (*cache_clean_fn)(void *owner, struct slice *victim, struct wait *w,
			      struct qimg_error *e);

/* slice_size: a power of two >= 512. slots: at least 2. */
int cache_open(struct cache **c, struct file *f, uint32_t slice_size, uint32_t slots,
	       cache_clean_fn clean, void *owner, struct qimg_error *e);
void cache_close(struct cache *c);	/* no loads may be in flight; what is dirty is lost */
uint32_t cache_slice_size(const struct cache *c);
const struct cache_stats *cache_stats(struct cache *c);
/*
 * To be called before the first cache_get: takes what it needs from the allowance of img's chain; has a
 * second level, which stays the caller's; lets so many loads be in flight (0: as many as there may be; 1:
 * none, each is waited for); keeps nothing that is clean and not pinned.
 */
void cache_share(struct cache *c, struct qimg_image *img);
void cache_set_second(struct cache *c, struct second *s);
void cache_set_depth(struct cache *c, uint32_t depth);
void cache_set_off(struct cache *c);
/* As well: keeps what leaves it in compact form, in so many bytes more at most. lanes: as compact_open. */
int cache_keep_compact(struct cache *c, unsigned lanes, uint64_t budget, struct qimg_error *e);
/*
 * Gives back the memory of slices that were not touched for `interval`, looking at them when so long has
 * passed since the last time. Times in ms; returns when it wants to be called next.
 */
uint64_t cache_clean(struct cache *c, uint64_t now, uint64_t interval);

/*
 * The slice at off (aligned), read if it is not here, pinned until cache_put. With w the read, and what has to be
 * written to make room for it, is left to the caller: MAP_WAIT (image/driver.h). A load that fails is reported
 * to the caller it was left to.
 */
int cache_get(struct cache *c, uint64_t off, struct slice **s, struct wait *w, struct qimg_error *e);
bool cache_has(struct cache *c, uint64_t off);
void cache_put(struct cache *c, struct slice *s);
void cache_dirty(struct cache *c, struct slice *s);	/* s is pinned */
/* Drops what is here of [off, off+len), dirty or not: the clusters have a new meaning. No pins. */
void cache_forget(struct cache *c, uint64_t off, uint64_t len);
bool cache_any_dirty(const struct cache *c);
/* So many slices are dirty that it is time to write them, before room is needed. */
bool cache_mostly_dirty(const struct cache *c);

/* ---- for flush.c and writeback.c alone ---- */

/* The dirty slices in the order of their offsets, *count of them; the caller frees the list. */
int cache_list_dirty(struct cache *c, struct slice ***list, uint32_t *count, struct qimg_error *e);
/* A copy of a dirty slice is going to be written, and has been, or failed to be (code: an errno value). */
void cache_writing(struct slice *s);
void cache_written(struct cache *c, struct slice *s, int code);
/* Writes a dirty slice, now. */
int cache_write(struct cache *c, struct slice *s, struct qimg_error *e);

#endif
