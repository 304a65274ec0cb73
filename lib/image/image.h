/* SPDX-License-Identifier: BSD-2-Clause */
/* The image object and what the layers above and beside the formats need of it. */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include "image/driver.h"

struct ioq;

struct qimg_image {
	const struct driver *driver;
	void *state;			/* the driver's, driver->state_size bytes */
	struct file *file;		/* the image file itself */
	struct ioq *queue;		/* guest data of the whole chain goes through the top's queue */
	char *name;			/* as given at open, for messages */
	char *filename;			/* the path opened: what relative names are resolved against */
	unsigned flags;			/* QIMG_OPEN_* */
	bool probed;

	/* filled by driver->open */
	uint64_t size;			/* virtual size, a multiple of 512 */
	uint32_t cluster_size;		/* 0: none */
	uint32_t grain;			/* alignment inside which begin asks for head and tail; >= 1 */
	char *backing_name;		/* as stored, NULL: none */
	char *backing_format;		/* as stored, NULL: not stored */
	unsigned codec;			/* enum codec of PACKED extents */
	bool encrypted;			/* data can not be read */

	struct qimg_image *backing;	/* open, or NULL */
	struct file *data_file;		/* external data file, or NULL; opened by the driver */
	unsigned depth;			/* 0: top of the chain */
};

/*
 * Opens an image on a file that is already open (and owned by img from success on). `name` is used for
 * messages and for resolving relative names. Takes the locks that flags ask for unless `locked`.
 */
int image_open_file(struct qimg_image **img, struct file *f, const char *name, const char *format,
		    const struct qimg_opts *opts, unsigned flags, bool locked, struct qimg_error *e);
/* Formats by name, by content. NULL when unknown; probing falls back to raw. */
const struct driver *registry_find(const char *name);
const struct driver *registry_probe(struct file *f, struct qimg_error *e);

/*
 * Resolves a name stored in the image at `base` (a path) to a path to open: relative names against the
 * folder of base. References that are not plain files ("json:", "nbd:", ...) fail unless `external`.
 * The caller frees the result.
 */
char *name_resolve(const char *base, const char *stored, bool external, struct qimg_error *e);

/* One image's own run; checks what the driver answers. w may be NULL. */
int image_map(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x, struct wait *w,
	      struct qimg_error *e);
/*
 * The run through the chain: HOLE only where no image has it. What lies beyond the end of a shorter
 * backing file is ZERO, not allocated. Fills depth and image.
 */
int image_map_chain(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x,
		    struct wait *w, struct qimg_error *e);

/* Inflates the cluster of a PACKED extent, whose compressed bytes the caller has read. */
enum codec { CODEC_ZLIB, CODEC_ZSTD };
/*
 * Exactly dst_len bytes come out, or it is an error (EIO). src may be longer than the stream (padding,
 * data of neighbours behind it).
 */
int codec_inflate(enum codec c, const void *src, size_t src_len, void *dst, size_t dst_len,
		  struct qimg_error *e);
/*
 * Compresses into dst; *dst_len in: room, out: bytes used. Returns 0, or 1 when it does not become
 * smaller than room (store it plain), or -1. level 0: the default of the codec.
 */
int codec_deflate(enum codec c, int level, const void *src, size_t src_len, void *dst, size_t *dst_len,
		  struct qimg_error *e);

/* ---- creation: a checked plan ---- */

struct qimg_creation {
	const struct driver *driver;
	char *name;			/* target as given */
	struct qimg_opts *opts;		/* all options; size, backing_file, backing_fmt included */
	struct qimg_opts *summary;	/* key=value in the order of the Formatting line */
	uint64_t size;			/* virtual size, rounded up to 512 */
	uint64_t asked_size;		/* as given */
	char *backing_name, *backing_format;	/* or NULL */
	unsigned flags;			/* QIMG_CREATE_* */
	char *line;			/* the summary as text */
};

/*
 * qimg_create_prepare without the look at the target (for callers that bring the file themselves).
 * size: what is used when opts has none (UINT64_MAX: none).
 */
int create_prepare(struct qimg_creation **c, const char *name, const char *format,
		   const struct qimg_opts *opts, uint64_t size, unsigned flags, struct qimg_error *e);
/* Writes the image into f, an empty file or a device. No sync at the end. */
int create_write(struct qimg_creation *c, struct file *f, const struct qimg_progress *p,
		 struct qimg_error *e);
void create_free(struct qimg_creation *c);

#endif
