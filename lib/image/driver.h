/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a format is: it translates guest addresses and keeps metadata, and never moves guest data.
 *
 * Every call runs in the thread that owns the image. Calls that take a `wait` may, when it is not
 * NULL, return MAP_WAIT instead of blocking: nothing has changed then except what was cached; the
 * caller performs what the wait asks for and makes the same call again.
 */
#ifndef IMAGE_DRIVER_H
#define IMAGE_DRIVER_H

#include "image/bitmap.h"
#include "qimg.h"

struct file;
struct qimg_image;
struct qimg_creation;

enum { MAP_WAIT = 1 };

enum wait_op {
	WAIT_READ,		/* read file[off, off+len) into buf, then call done */
	WAIT_WRITE,		/* write it */
	WAIT_SYNC,		/* sync the file */
	WAIT_TURN,		/* let another request of this image complete first */
};

struct wait {
	enum wait_op op;
	struct file *file;
	uint64_t off;
	void *buf;
	size_t len;
	/* To be called once the operation has ended; code is 0 or an errno value. Not for WAIT_TURN. */
	void (*done)(struct wait *w, int code);
	void *priv;
	/* The driver's from one answer to the next call; 0 when that is another call. */
	uint64_t ticket;
};

/*
 * For a driver whose call may not wait, but needs what it has left to a caller by w: blocks until that has
 * been carried out and done was called.
 */
void image_await(struct wait *w);

enum extent_kind {
	EXTENT_HOLE,		/* this image says nothing: ask its backing file, else zeros */
	EXTENT_ZERO,		/* reads as zeros */
	EXTENT_DATA,		/* at host in file */
	EXTENT_PACKED,		/* compressed: one cluster, `packed` bytes at host in file */
};

/* A run of one image. */
struct extent {
	uint64_t start, len;	/* guest range; start is what was asked for */
	enum extent_kind kind;
	bool allocated;		/* the image itself has an entry for it (false for HOLE) */
	bool host_valid;	/* file and host say where it is, or where space is reserved for it */
	bool writable;		/* may be overwritten in place, without begin */
	unsigned depth;		/* filled by the chain walk: 0 is the image asked */
	struct qimg_image *image;	/* the same: whose extent it is */
	struct file *file;
	uint64_t host;		/* DATA: of the byte at start; PACKED: of the first compressed byte */
	uint32_t packed;	/* PACKED: bytes at most, may reach beyond the end of the file */
};

/*
 * A place for one write, from begin to commit or abort. The caller fills head and tail (the guest
 * bytes around the write that share its (sub)clusters) with what the guest reads there now, writes
 * the data, then commits; the old mapping stays in force until then. The tail may reach beyond the
 * end of the image (a partial last cluster): those bytes are filled with zeros.
 */
struct wmap {
	uint64_t start, len;	/* guest range: start as asked, len at most what was asked */
	struct file *file;
	uint64_t host;		/* where the byte at start goes; contiguous, head before, tail behind */
	uint64_t head, tail;	/* bytes to be filled before and behind */
	bool blank;		/* the host range, head and tail included, reads as zeros already */
	bool link;		/* commit has something to do; else it and abort need not be called */
	bool packed;		/* came from pack */
	bool fresh;		/* the clusters were allocated by begin: abort frees them, nothing in them
				 * is worth keeping */
	/* the driver's */
	uint64_t cluster;	/* host offset of the first cluster of the run */
	uint32_t clusters;	/* length of the run */
	uint32_t packed_len;
	struct wmap *next;	/* writes in flight */
};

enum {				/* driver capabilities */
	DRIVER_WRITE = 1 << 0,
	DRIVER_PACK = 1 << 1,
	DRIVER_BACKING = 1 << 2,
	DRIVER_SNAPSHOTS = 1 << 3,
	DRIVER_EXACT_SIZE = 1 << 4,	/* resize takes sizes that are no multiple of 512 */
};

enum { MAP_UNMAP = 1 << 0 };	/* flag of zero */

struct driver {
	const char *name;
	unsigned caps;
	size_t state_size;		/* zeroed memory at image->state */

	/* 0..100: how sure the head of a file looks like this format. size: of the whole file. */
	int (*probe)(const uint8_t *head, size_t n, uint64_t size);
	/* image->file is open and locked; fills size, cluster_size, backing_* of the image. */
	int (*open)(struct qimg_image *img, const struct qimg_opts *opts, struct qimg_error *e);
	/*
	 * NULL or: the last call before close of an image opened for writing, after a flush; leaves it
	 * marked clean on disk.
	 */
	int (*finish)(struct qimg_image *img, struct qimg_error *e);
	void (*close)(struct qimg_image *img);	/* frees, closes img->data_file; does not flush */

	/* The run at off (below the size), at most len long. */
	int (*map)(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x,
		   struct wait *w, struct qimg_error *e);
	int (*begin)(struct qimg_image *img, uint64_t off, uint64_t len, struct wmap *m,
		     struct wait *w, struct qimg_error *e);
	/* When it fails, the place has been given back as by abort. */
	int (*commit)(struct qimg_image *img, struct wmap *m, struct wait *w, struct qimg_error *e);
	void (*abort)(struct qimg_image *img, struct wmap *m);
	/*
	 * Makes the front part of [off, off+len) read as zeros by metadata alone; *did is how much.
	 * ENOTSUP: this piece, *did long, can only be zeroed by writing zeros.
	 */
	int (*zero)(struct qimg_image *img, uint64_t off, uint64_t len, unsigned flags, uint64_t *did,
		    struct wait *w, struct qimg_error *e);
	/* Whole clusters are given up; *did as for zero. Doing nothing is allowed. */
	int (*discard)(struct qimg_image *img, uint64_t off, uint64_t len, uint64_t *did,
		       struct wait *w, struct qimg_error *e);
	/* A place for `packed` compressed bytes of the cluster at off. ENOTSUP with the reason. */
	int (*pack)(struct qimg_image *img, uint64_t off, uint32_t packed, struct wmap *m,
		    struct wait *w, struct qimg_error *e);
	/*
	 * Metadata to stable storage, with all data before it. Releases what was waiting for that:
	 * after a write that failed for lack of space, abort, flush and one more try may succeed.
	 */
	int (*flush)(struct qimg_image *img, struct wait *w, struct qimg_error *e);
	/* size: a multiple of 512, other than now. preallocation as in qimg_resize. */
	int (*resize)(struct qimg_image *img, uint64_t size, const char *preallocation,
		      struct qimg_error *e);

	/*
	 * NULL or: time goes by (`now` is in ms); gives back memory that has not been used for long. Returns
	 * when to be called again, UINT64_MAX: not at all.
	 */
	uint64_t (*tick)(struct qimg_image *img, uint64_t now);

	/* Adds to `info`, an object that has the general keys. */
	int (*info)(struct qimg_image *img, struct qimg_value *info, struct qimg_error *e);
	/* NULL, or the same about its caches of metadata. */
	int (*cache_info)(struct qimg_image *img, struct qimg_value *info, struct qimg_error *e);
	/* NULL, or as qimg_cache_stats. */
	bool (*cache_stats)(struct qimg_image *img, enum qimg_cache which, struct qimg_cache_stats *s);
	/* NULL, or the file in which a second level of these caches is, NULL: there is none. */
	struct file *(*cache_file)(struct qimg_image *img);
	/* NULL: there is nothing to check; or as qimg_check_run. */
	int (*check)(struct qimg_image *img, const struct qimg_check *c, struct qimg_check_result *r,
		     struct qimg_error *e);
	/* NULL, or counts the clusters of the file that are in use; it may stop when there are `most`. */
	int (*count_used)(struct qimg_image *img, uint64_t most, uint64_t *count, struct qimg_error *e);
	int (*load_snapshot)(struct qimg_image *img, const char *spec, struct qimg_error *e);

	/*
	 * NULL: the format has no bitmaps. bitmaps: the persistent ones, to be freed with bitmap_free_list;
	 * ENOTSUP: this image can have none. read_bitmap: bytes of one of them, as in bitmap.h. add_bitmaps:
	 * stores them all in an image that has none, after the last write of data.
	 */
	int (*bitmaps)(struct qimg_image *img, struct bitmap **list, size_t *count, struct qimg_error *e);
	int (*read_bitmap)(struct qimg_image *img, const struct bitmap *b, uint64_t off, void *buf,
			   size_t len, struct qimg_error *e);
	int (*add_bitmaps)(struct qimg_image *img, const struct bitmap *list, size_t count,
			   bitmap_read_fn read, void *ctx, struct qimg_error *e);

	/* ---- creation ---- */
	const struct qimg_option *create_options;
	/*
	 * Checks and resolves c->opts, fills c->size when the format rounds it, and adds to c->summary.
	 * Touches nothing.
	 */
	int (*create_check)(struct qimg_creation *c, struct qimg_error *e);
	/* Writes a new image into `f`, which is empty (a device: of c->size at least). */
	int (*create)(struct qimg_creation *c, struct file *f, const struct qimg_progress *p,
		      struct qimg_error *e);
};

extern const struct driver raw_driver, qcow2_driver;

#endif
