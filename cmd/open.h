/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands that open images have in common: -f, -t, -T, -U, --image-opts. */
#ifndef CMD_OPEN_H
#define CMD_OPEN_H

#include "opt.h"

enum { OPEN_IMAGE_OPTS = 0x1000, OPEN_OUTPUT };	/* ids of options without a letter */

#define OPEN_OPT_FORMAT(text)							\
	{ .id = 'f', .letter = 'f', .name = "format", .kind = OPT_FORMAT, .arg = "FORMAT",	\
	  .help = text }
#define OPEN_OPT_SHARE								\
	{ .id = 'U', .letter = 'U', .name = "force-share",				\
	  .help = "Take no locks, also where another process writes to the image" }
#define OPEN_OPT_IMAGE_OPTS							\
	{ .id = OPEN_IMAGE_OPTS, .name = "image-opts",				\
	  .help = "FILE is a list of open options:\ndriver=FORMAT,file.filename=NAME,..." }
#define OPEN_OPT_OUTPUT								\
	{ .id = OPEN_OUTPUT, .name = "output", .kind = OPT_CHOICE, .arg = "FORM",		\
	  .values = "human json", .help = "Text for people (human, the default) or json" }

/* How to open an image. */
struct open_how {
	const char *format;	/* NULL: probe */
	bool image_opts;	/* the name is a list of open options */
	const char *cache;	/* cache mode, NULL: writeback */
	const char *aio;	/* I/O engine, NULL: as the image's options say */
	unsigned flags;		/* more QIMG_OPEN_* */
};

/*
 * Fills in what -f, --image-opts and -U say; `cache_id` is the option of the cache mode ('t', 'T',
 * or 0 for none). -1 after a message: options that exclude each other, unknown cache mode.
 */
int open_how(const struct args *a, int cache_id, struct open_how *h);
/* Opens an image. -1 after a message "Could not open 'NAME': ...". */
int open_image(const char *name, const struct open_how *h, struct qimg_image **img);
/* That message. */
void open_failed(const char *name, const struct qimg_error *e);
/* The options of --image-opts, to be freed by the caller; NULL after filling *e. */
struct qimg_opts *open_options(const char *list, struct qimg_error *e);
extern const char *const open_cache_modes[];	/* ended by NULL */
/* Cache mode to QIMG_OPEN_* flags, added to *flags. -1 after a message. */
int open_cache(const char *mode, unsigned *flags);

#endif
