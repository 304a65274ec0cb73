/* SPDX-License-Identifier: BSD-2-Clause */
/* The image object and what the layers above and beside the formats need of it. */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include "image/driver.h"

struct allowance;
struct codec_ctx;
struct loop;
struct requests;

/* How the surroundings of a partial write that read as zeros get to be zeros on the host. */
enum cow_zero {
	COW_ZERO_AUTO,		/* nothing where the host range is known to be zero, else as ON */
	COW_ZERO_ON,		/* the whole (sub)clusters by the host's zeroing call */
	COW_ZERO_OFF,		/* zeros are written */
};

enum detect_zeroes { DETECT_OFF, DETECT_ON, DETECT_UNMAP };

/*
 * Transfers under way on host places of one image, by when they started. A format that gives up a
 * place may hand it out again only when all transfers have ended that started before it was given
 * up: it flips the parity, and waits until nothing of the old one is active (at most one such wait at a
 * time). Requests count their transfers: reads, and writes in place.
 */
struct grace {
	unsigned parity;		/* of transfers that start now: 0 or 1 */
	unsigned active[2];
};

struct qimg_image {
	const struct driver *driver;
	void *state;			/* the driver's, driver->state_size bytes */
	struct file *file;		/* the image file itself */
	char *name;			/* as given at open, for messages */
	char *filename;			/* the path opened: what relative names are resolved against */
	unsigned flags;			/* QIMG_OPEN_* */
	bool probed;

	/* filled by driver->open */
	uint64_t size;			/* virtual size, a multiple of 512 */
	uint32_t cluster_size;		/* 0: none */
	struct grace grace;
	uint32_t grain;			/* alignment inside which begin asks for head and tail; >= 1 */
	char *backing_name;		/* as stored, NULL: none */
	char *backing_format;		/* as stored, NULL: not stored */
	unsigned codec;			/* enum codec of PACKED extents */
	bool encrypted;			/* data can not be read */

	struct qimg_image *backing;	/* open, or NULL */
	struct file *data_file;		/* external data file, or NULL; opened by the driver */
	unsigned depth;			/* 0: top of the chain */

	/* the generic layer's */
	enum cow_zero cow_zero;		/* open option cow-zero-range */
	enum detect_zeroes detect_zeroes;
	bool no_backing;		/* asked for by options or flags */
	struct qimg_opts *backing_opts;	/* "backing.*", until the backing file is open */
	const char *aio;		/* open option: the engine. NULL: one without threads */
	struct loop *loop;		/* given by image_set_loop, or NULL */
	struct requests *requests;	/* shared with the chain, NULL until needed: see requests.c */
	uint64_t tick_at;		/* tick.c's */
	struct allowance *allowance;	/* for metadata, shared with the chain: see allowance.h */
	enum { FULL_UNKNOWN, FULL, FULL_OF_HOLES } fullness;	/* of the file: map.c's */
	struct qimg_io *failed;		/* submitted when that could not be made */
};

/*
 * Opens an image on a file that is already open (and owned by img from success on). `name` is used for
 * messages and for resolving relative names. Takes the locks that flags ask for unless `locked`.
 */
int image_open_file(struct qimg_image **img, struct file *f, const char *name, const char *format,
		    const struct qimg_opts *opts, unsigned flags, bool locked, struct qimg_error *e);
enum { CHAIN_MAX = 1000 };		/* images in a backing chain, at most */
/* Opens the backing files below img, down to the end of the chain; none where img names none. */
int chain_open(struct qimg_image *img, struct qimg_error *e);
/* Opens one image, named as for qimg_open, without what is below it. */
int image_open_one(struct qimg_image **img, const char *name, const char *format,
		   const struct qimg_opts *opts, unsigned flags, struct qimg_error *e);
/* Frees img alone, without flushing. */
void image_free(struct qimg_image *img);
/* Formats by name, by content. NULL when unknown; probing falls back to raw. */
const struct driver *registry_find(const char *name);
const struct driver *registry_probe(struct file *f, struct qimg_error *e);
const struct driver *registry_probe_head(const uint8_t *head, size_t n, uint64_t size);

const char *name_plain(const char *name);	/* without "file:" in front */
/* The name is an address of another kind ("json:{...}", "nbd://...") and no plain file name. */
bool name_is_reference(const char *stored);
/*
 * Resolves a name stored in the image at `base` (a path) to a path to open: relative names against the
 * folder of base. References fail unless `external`, and come back as they are then. The caller frees
 * the result.
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
/* The same, without a wait. *sparse: it is data that was preallocated only, for which the host has a hole. */
int image_map_host(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x, bool *sparse,
		   struct qimg_error *e);

/* Lets the formats of the chain do what it is time for. */
void image_tick(struct qimg_image *img);
int image_tick_timeout(struct qimg_image *img);	/* ms until then; -1: never */

/* Forgets what was kept of compressed clusters; to be called before img changes. */
void packed_forget(struct qimg_image *img);

/*
 * All of [off, off+len) reads as zeros as far as metadata tells. The range may reach beyond the end
 * of the image. w may be NULL.
 */
int image_is_zero(struct qimg_image *img, uint64_t off, uint64_t len, bool *zero, struct wait *w,
		  struct qimg_error *e);

/* Compression. A context holds state that is worth keeping; one thread at a time may use it. */
enum codec { CODEC_ZLIB, CODEC_ZSTD };
struct codec_ctx *codec_new(struct qimg_error *e);
void codec_free(struct codec_ctx *ctx);			/* NULL is allowed */
/*
 * Exactly dst_len bytes come out, or it is an error (EIO). src may be longer than the stream (padding,
 * data of neighbours behind it).
 */
int codec_ctx_inflate(struct codec_ctx *ctx, enum codec c, const void *src, size_t src_len,
		      void *dst, size_t dst_len, struct qimg_error *e);
/*
 * Compresses into dst; *dst_len in: room, out: bytes used. Returns 0, or 1 when it does not fit (store
 * it plain), or -1. level 0: the default of the codec.
 */
int codec_ctx_deflate(struct codec_ctx *ctx, enum codec c, int level, const void *src,
		      size_t src_len, void *dst, size_t *dst_len, struct qimg_error *e);
/* The same with a context of their own for each call. */
int codec_inflate(enum codec c, const void *src, size_t src_len, void *dst, size_t dst_len,
		  struct qimg_error *e);
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
	bool device;			/* the target is a block device, of device_size bytes */
	uint64_t device_size;
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
