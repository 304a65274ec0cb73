/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of an open qcow2 image and the calls between the parts of the format.
 *
 * Parts: header, entry (bits), cache (slices in memory), table (L1, L2), map (guest to host), refcount
 * (block lookup and changes), alloc (free clusters, deferred releases), write (begin, commit), zero,
 * pack, writeback (dirty metadata, piece by piece), flush (the order in which it reaches the disk),
 * snaptable, bitmapdir, bitmap (content), info, create,
 * resize, open (the driver).
 */
#ifndef QCOW2_QCOW2_H
#define QCOW2_QCOW2_H

#include "image/image.h"
#include "qcow2/header.h"
#include "qcow2/writeback.h"

struct cache;
struct release;
struct second;
struct slice;
struct snapshot;

/* Clusters that lose a reference: see alloc.h. */
struct release_list {
	struct release *r;
	size_t count, room;
	uint64_t clusters;
};

/* What is on its way to the disk: flush.c. */
struct flush {
	unsigned step, last;		/* where the run is, and where it ends */
	struct slice *only;		/* of the L2 cache it writes this one; NULL: all that are dirty */
	struct wait *under_way;		/* a write or sync of it was left to a caller by this */
	int code;			/* of that, once it has ended: an errno value */
	struct writeback piece;
	uint64_t started, ended, done;	/* the last whole flush that has: they are numbered */
	struct qimg_error error;	/* of the last one that failed */
};

struct qcow2 {
	struct qimg_image *img;
	struct file *file;		/* metadata, and data unless there is a data file */
	struct file *data;		/* where guest clusters are: file, or the external data file */
	bool external;			/* data != file: host offsets equal guest offsets */
	struct header h;
	bool writable;

	uint32_t cluster_size;
	unsigned cluster_bits;
	bool extended;			/* extended L2 entries */
	unsigned entry_size;		/* 8 or 16 */
	unsigned l2_bits;		/* log2 of the entries in an L2 table */
	unsigned sub_bits;		/* log2 of the subcluster size (cluster_bits when not extended) */
	unsigned refcount_bits;
	uint64_t refcount_max;

	/* table.c */
	uint64_t *l1;			/* CPU byte order */
	uint32_t l1_size;		/* entries in memory and on disk */
	uint64_t l1_offset;
	uint8_t *l1_dirty;		/* a byte for each 512-byte sector of the L1 on disk */
	bool l1_any_dirty;
	struct cache *l2_cache;
	struct second *second;		/* of the L2 cache, or NULL; outlives it */

	/* refcount.c */
	uint64_t *rt;			/* refcount table, CPU byte order */
	uint32_t rt_size;		/* entries */
	uint64_t rt_offset;
	uint8_t *rt_dirty;
	bool rt_any_dirty;
	struct cache *rc_cache;

	/* alloc.c */
	uint64_t free_hint;		/* cluster index below which nothing is free */
	uint64_t blank_from;		/* clusters from here on were never part of the file */
	bool stretched;			/* the file is longer than that, for a while */
	struct release_list pending;	/* decrements whose references may still be on disk */
	struct release_list covered;	/* those that the sync under way takes from there */
	struct release_list settled;	/* those that only transfers under way hold up */
	unsigned settled_parity;	/* of those transfers: struct grace */
	uint64_t pack_cursor;		/* next free byte of a partly packed host cluster, 0: none */
	struct wmap *inflight;		/* begun, not committed */

	struct flush flush;
	bool dirty_marked;		/* the dirty bit is ours (lazy refcounts) */
	bool wrote_anything;		/* autoclear bits were cleared, the image is in use by us */

	/* open options */
	bool lazy_refcounts;
	bool discard_passed[3];		/* to the host: requests, snapshots, other */
	bool discard_no_unref;		/* discards and zeroes keep the host cluster */
	uint64_t l2_cache_size, l2_entry_size, rc_cache_size;
	bool cache_size_given;		/* the first was asked for: not a part of what chains share */
	uint32_t clean_interval;	/* seconds, 0: off */
	bool no_cache;			/* metadata-cache=off: each lookup reads its slice */
	bool writeback_single;		/* metadata-writeback: a slice that has to go is written alone */
	unsigned metadata_depth;	/* loads in flight at most, 0: no limit was given */
	uint64_t compact_size;		/* what leaves the L2 cache is kept in so many bytes more; 0: is not */
	char *l2_file;			/* second level of the L2 cache: where, or NULL */
	uint64_t l2_file_size;		/* at least one entry, at most what the image needs */
	bool l2_file_direct;

	struct snapshot *snapshots;	/* h.nb_snapshots, read on demand: see snaptable.h */
	uint32_t snapshot_room;		/* as many as that were when they were read */
};

static inline struct qcow2 *qcow2_of(const struct qimg_image *img)
{
	return img->state;
}

/* ---- map.c, write.c, zero.c, pack.c, flush.c, resize.c: the driver's calls (image/driver.h) ---- */

int qcow2_map(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x, struct wait *w,
	      struct qimg_error *e);
int qcow2_begin(struct qimg_image *img, uint64_t off, uint64_t len, struct wmap *m, struct wait *w,
		struct qimg_error *e);
int qcow2_commit(struct qimg_image *img, struct wmap *m, struct wait *w, struct qimg_error *e);
void qcow2_abort(struct qimg_image *img, struct wmap *m);
int qcow2_zero(struct qimg_image *img, uint64_t off, uint64_t len, unsigned flags, uint64_t *did,
	       struct wait *w, struct qimg_error *e);
int qcow2_discard(struct qimg_image *img, uint64_t off, uint64_t len, uint64_t *did, struct wait *w,
		  struct qimg_error *e);
int qcow2_pack(struct qimg_image *img, uint64_t off, uint32_t packed, struct wmap *m, struct wait *w,
	       struct qimg_error *e);
int qcow2_flush(struct qimg_image *img, struct wait *w, struct qimg_error *e);
int qcow2_resize(struct qimg_image *img, uint64_t size, const char *preallocation,
		 struct qimg_error *e);

/* ---- bitmap.c ---- */

int qcow2_bitmaps(struct qimg_image *img, struct bitmap **list, size_t *count, struct qimg_error *e);
int qcow2_read_bitmap(struct qimg_image *img, const struct bitmap *b, uint64_t off, void *buf,
		      size_t len, struct qimg_error *e);
int qcow2_add_bitmaps(struct qimg_image *img, const struct bitmap *list, size_t count,
		      bitmap_read_fn read, void *ctx, struct qimg_error *e);

/* ---- table.c and refcount.c: their part of open and close ---- */

/* Reads the L1 table (checked: every entry) and makes the L2 cache. size is in entries. */
int table_open(struct qcow2 *q, uint64_t l1_offset, uint32_t l1_size, struct qimg_error *e);
void table_close(struct qcow2 *q);
/* Reads the refcount table and makes the refcount cache; only needed for writing. */
int refcount_open(struct qcow2 *q, struct qimg_error *e);
void refcount_close(struct qcow2 *q);

/* ---- info.c, cacheinfo.c, snaptable.c, create.c ---- */

int qcow2_info(struct qimg_image *img, struct qimg_value *info, struct qimg_error *e);
int qcow2_cache_info(struct qimg_image *img, struct qimg_value *info, struct qimg_error *e);
bool qcow2_cache_stats(struct qimg_image *img, enum qimg_cache which, struct qimg_cache_stats *s);
struct file *qcow2_cache_file(struct qimg_image *img);
int qcow2_check(struct qimg_image *img, const struct qimg_check *c, struct qimg_check_result *r,
		struct qimg_error *e);
/* used.c */
int qcow2_count_used(struct qimg_image *img, uint64_t most, uint64_t *count, struct qimg_error *e);
int qcow2_load_snapshot(struct qimg_image *img, const char *spec, struct qimg_error *e);
extern const struct qimg_option qcow2_create_options[];
int qcow2_create_check(struct qimg_creation *c, struct qimg_error *e);
int qcow2_create(struct qimg_creation *c, struct file *f, const struct qimg_progress *p,
		 struct qimg_error *e);

#endif
