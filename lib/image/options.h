/* SPDX-License-Identifier: BSD-2-Clause */
/* The open options of the generic layer, told apart from those of the formats. */
#ifndef IMAGE_OPTIONS_H
#define IMAGE_OPTIONS_H

#include "image/image.h"

struct open_options {
	char *driver;			/* NULL: not given */
	char *filename;			/* a path, as it is */
	unsigned flags;			/* as given, changed by cache.*, discard, force-share */
	bool no_backing;
	bool no_lock;			/* of the image file; files of other images have options of their own */
	enum cow_zero cow_zero;
	enum detect_zeroes detect_zeroes;
	const char *aio;		/* NULL: not given */
	struct qimg_opts *backing;	/* "backing.*" without the prefix, or NULL */
	struct qimg_opts *rest;		/* the format's */
};

/*
 * Takes `name` (NULL: must be in the options), what "json:{...}" in there says, and opts (may be NULL)
 * apart. plain: the name is a path, whatever it looks like. On failure nothing is left to free.
 */
int options_read(struct open_options *o, const char *name, bool plain, const struct qimg_opts *opts,
		 unsigned flags, struct qimg_error *e);
void options_free(struct open_options *o);

/* What the option "aio" may be, by number; NULL behind the last one. */
const char *options_aio(unsigned i);

#endif
