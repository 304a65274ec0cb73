// SPDX-License-Identifier: BSD-2-Clause
/* Opening images as the command line says. */
#include "open.h"

#include <errno.h>
#include <string.h>

#include "ui.h"

const char *const open_cache_modes[] = {
	"none", "writeback", "writethrough", "directsync", "unsafe", NULL
};

int open_cache(const char *mode, unsigned *flags)
{
	unsigned f;

	if (!mode)
		return 0;
	if (qimg_cache_flags(mode, &f)) {
		ui_error("Invalid cache option: %s", mode);
		return -1;
	}
	*flags |= f;
	return 0;
}

int open_how(const struct args *a, int cache_id, struct open_how *h)
{
	*h = (struct open_how){
		.format = args_text(a, 'f'),
		.image_opts = args_has(a, OPEN_IMAGE_OPTS),
		.cache = cache_id ? args_text(a, cache_id) : NULL,
		.flags = args_has(a, 'U') ? QIMG_OPEN_SHARE : 0,
	};
	if (h->image_opts && h->format) {
		ui_error("--image-opts and --format are mutually exclusive");
		return -1;
	}
	return open_cache(h->cache, &h->flags);
}

static struct qimg_opts *new_options(struct qimg_error *e)
{
	struct qimg_opts *opts = qimg_opts_new();

	if (!opts)
		*e = (struct qimg_error){ ENOMEM, "Out of memory" };
	return opts;
}

struct qimg_opts *open_options(const char *list, struct qimg_error *e)
{
	struct qimg_opts *opts = new_options(e);

	if (opts && qimg_opts_parse(opts, list, e)) {
		qimg_opts_free(opts);
		opts = NULL;
	}
	return opts;
}

void open_failed(const char *name, const struct qimg_error *e)
{
	/* The library says the same when it is the file that cannot be opened. */
	if (!strncmp(e->msg, "Could not open '", 16))
		ui_error("%s", e->msg);
	else
		ui_error("Could not open '%s': %s", name, e->msg);
}

int open_image(const char *name, const struct open_how *h, struct qimg_image **img)
{
	struct qimg_opts *opts = NULL;
	struct qimg_error e;
	int ret = -1;

	opts = h->image_opts ? open_options(name, &e) : new_options(&e);
	if (opts && (!h->aio || !qimg_opts_set(opts, "aio", h->aio, &e)))
		ret = qimg_open(img, h->image_opts ? NULL : name, h->format, opts, h->flags, &e);
	if (ret)
		open_failed(name, &e);
	qimg_opts_free(opts);
	return ret;
}
