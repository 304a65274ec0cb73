// SPDX-License-Identifier: BSD-2-Clause
/*
 * The raw format: guest bytes are the bytes of the file, one to one.
 *
 * The virtual size is the length of the file rounded up to 512; what is missing at the end reads as
 * zeros. Options `offset` and `size` open a window of the file instead, exactly as long as they say.
 * Everything is in place: begin never allocates, so there is nothing to commit, and zeros and
 * discards are left to the generic layer, which does them on the host.
 */
#include "image/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "base/range.h"
#include "io/file.h"
#include "io/sparse.h"

enum { SECTOR = 512, FILL = 1 << 20 };
enum prealloc { PREALLOC_OFF, PREALLOC_FALLOC, PREALLOC_FULL };

static const char *const prealloc_names[] = { "off", "falloc", "full", NULL };

struct raw {
	uint64_t offset;	/* where the window starts in the file */
	bool window;		/* its size is fixed */
};

static struct raw *raw_of(const struct qimg_image *img)
{
	return img->state;
}

static int raw_probe(const uint8_t *head, size_t n, uint64_t size)
{
	(void)head;
	(void)n;
	(void)size;
	return 1;	/* everything is raw, when it is nothing else */
}

static int raw_open(struct qimg_image *img, const struct qimg_opts *opts, struct qimg_error *e)
{
	static const char *const known[] = { "offset", "size", NULL };
	struct raw *r = raw_of(img);
	uint64_t file_len = file_size(img->file), size;

	if (opts_check_known(opts, known, "driver 'raw'", e) < 0 ||
	    opts_size(opts, "offset", &r->offset, e) < 0)
		return -1;
	if (r->offset > file_len)
		return error_set(e, EINVAL, "Option 'offset' is %" PRIu64 " and '%s' has %" PRIu64 " bytes",
				 r->offset, img->name, file_len);
	size = file_len - r->offset;
	r->window = qimg_opts_get(opts, "size") != NULL;
	if (r->window) {
		if (opts_size(opts, "size", &size, e) < 0)
			return -1;
		if (!is_aligned(size, SECTOR))
			return error_set(e, EINVAL, "Option 'size' is %" PRIu64 ", which is not a multiple "
					 "of %d", size, SECTOR);
		if (!range_within(r->offset, size, file_len))
			return error_set(e, EINVAL, "The window of %" PRIu64 " bytes at %" PRIu64 " reaches "
					 "beyond the end of '%s' (%" PRIu64 " bytes)", size, r->offset,
					 img->name, file_len);
	}
	if (!round_up_checked(size, SECTOR, &img->size))
		return error_set(e, EFBIG, "'%s' is too large", img->name);
	return 0;
}

static void raw_close(struct qimg_image *img)
{
	(void)img;
}

static int raw_map(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x,
		   struct wait *w, struct qimg_error *e)
{
	struct raw *r = raw_of(img);
	uint64_t file_len = file_size(img->file);
	struct file_extent fx;

	(void)w;	/* asking the host for its extents blocks, but not for long */
	*x = (struct extent){
		.start = off,
		.len = len,
		.kind = EXTENT_ZERO,
		.allocated = true,
		.host_valid = true,
		.writable = img->flags & QIMG_OPEN_WRITE,
		.file = img->file,
		.host = r->offset + off,
	};
	if (x->host >= file_len)
		return 0;
	if (file_extent(img->file, x->host, min_u64(len, file_len - x->host), &fx, e) < 0)
		return -1;
	x->len = fx.len;
	x->kind = fx.hole ? EXTENT_ZERO : EXTENT_DATA;
	return 0;
}

static int raw_begin(struct qimg_image *img, uint64_t off, uint64_t len, struct wmap *m,
		     struct wait *w, struct qimg_error *e)
{
	(void)w;
	(void)e;
	*m = (struct wmap){
		.start = off,
		.len = len,
		.file = img->file,
		.host = raw_of(img)->offset + off,
	};
	return 0;
}

/* Zeros, written: what "full" means. */
static int fill(struct file *f, uint64_t off, uint64_t len, const struct qimg_progress *p,
		struct qimg_error *e)
{
	uint8_t *zeros = mem_buffer(FILL, e);
	int rc = -1;

	if (!zeros)
		return -1;
	memset(zeros, 0, FILL);
	for (uint64_t done = 0, n; done < len; done += n) {
		if (p && p->cancel && *p->cancel) {
			error_set(e, ECANCELED, "Interrupted");
			goto out;
		}
		n = min_u64(FILL, len - done);
		if (file_write(f, off + done, zeros, n, e) < 0)
			goto out;
		if (p && p->report)
			p->report(p->ctx, done + n, len);
	}
	rc = 0;
out:
	free(zeros);
	return rc;
}

/* Makes the file `size` long, space behind `from` as `mode` says. */
static int grow(struct file *f, uint64_t from, uint64_t size, enum prealloc mode,
		const struct qimg_progress *p, struct qimg_error *e)
{
	if (size > from && mode == PREALLOC_FALLOC) {
		if (sparse_allocate(f, from, size - from, e) < 0)
			return e->code != ENOTSUP ? -1 :
			       error_set(e, ENOTSUP, "The file system of '%s' cannot reserve space; use "
					 "preallocation=full or off", file_path(f));
	} else if (size > from && mode == PREALLOC_FULL) {
		if (fill(f, from, size - from, p, e) < 0)
			return -1;
	}
	return file_size(f) == size ? 0 : file_truncate(f, size, e);
}

static int raw_resize(struct qimg_image *img, uint64_t size, const char *preallocation,
		      struct qimg_error *e)
{
	uint64_t old = file_size(img->file), rounded;
	unsigned mode = PREALLOC_OFF;
	int rc;

	if (raw_of(img)->window)
		return error_set(e, EINVAL, "'%s' is opened as a window of fixed size", img->name);
	if (!round_up_checked(size, SECTOR, &rounded) || !add_u64(raw_of(img)->offset, size, &size) ||
	    size > INT64_MAX)
		return error_set(e, EFBIG, "The new size is too large");
	while (prealloc_names[mode] && strcmp(prealloc_names[mode], preallocation))
		mode++;
	if (!prealloc_names[mode])
		return error_set(e, EINVAL, "Preallocation mode '%s' is not one of raw's (off, falloc, full)",
				 preallocation);
	if (file_is_device(img->file)) {
		if (size > old || mode != PREALLOC_OFF)
			return error_set(e, ENOTSUP, "'%s' is a device of %" PRIu64 " bytes, which cannot "
					 "be grown", img->name, old);
		return error_set(e, ENOTSUP, "'%s' is a device, which cannot be resized", img->name);
	}
	rc = grow(img->file, old, size, mode, NULL, e);
	if (rc < 0 && size > old) {
		struct qimg_error ignored;

		file_truncate(img->file, old, &ignored);
		return -1;
	}
	if (rc == 0)
		img->size = rounded;
	return rc;
}

/* ---- creation ---- */

static const struct qimg_option raw_create_options[] = {
	{ "size", "size", "Virtual disk size", NULL },
	{ "preallocation", "str", "Preallocation mode", "off falloc full" },
	{ "nocow", "bool (on/off)", "Turn off copy-on-write (valid only on btrfs)", NULL },
	{ "extent_size_hint", "size", "Extent size hint for the image file, 0 to disable", NULL },
	{ NULL, NULL, NULL, NULL },
};

static int summary_number(struct qimg_creation *c, const char *key, uint64_t v, struct qimg_error *e)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	return qimg_opts_set(c->summary, key, text, e);
}

/* The options as they will be, in the order in which they are announced. */
static int summarize(struct qimg_creation *c, unsigned mode, struct qimg_error *e)
{
	uint64_t hint = 0;
	bool nocow = false;

	if (opts_bool(c->opts, "nocow", &nocow, e) < 0 ||
	    opts_size(c->opts, "extent_size_hint", &hint, e) < 0 ||
	    summary_number(c, "size", c->asked_size, e) < 0)
		return -1;
	if (qimg_opts_get(c->opts, "nocow") &&
	    qimg_opts_set(c->summary, "nocow", nocow ? "on" : "off", e) < 0)
		return -1;
	if (qimg_opts_get(c->opts, "preallocation") &&
	    qimg_opts_set(c->summary, "preallocation", prealloc_names[mode], e) < 0)
		return -1;
	return qimg_opts_get(c->opts, "extent_size_hint") ?
	       summary_number(c, "extent_size_hint", hint, e) : 0;
}

static int raw_create_check(struct qimg_creation *c, struct qimg_error *e)
{
	unsigned mode = PREALLOC_OFF;

	if (opts_choice(c->opts, "preallocation", prealloc_names, &mode, e) < 0 ||
	    summarize(c, mode, e) < 0)
		return -1;
	if (!c->device)
		return 0;
	if (mode != PREALLOC_OFF)
		return error_set(e, ENOTSUP, "'%s' is a block device: preallocation=%s is for files",
				 c->name, prealloc_names[mode]);
	if (c->size > c->device_size)
		return error_set(e, ENOSPC, "The size %" PRIu64 " is larger than the device '%s' (%" PRIu64
				 " bytes)", c->asked_size, c->name, c->device_size);
	return 0;
}

static int raw_create(struct qimg_creation *c, struct file *f, const struct qimg_progress *p,
		      struct qimg_error *e)
{
	unsigned mode = PREALLOC_OFF;

	if (opts_choice(c->opts, "preallocation", prealloc_names, &mode, e) < 0)
		return -1;
	if (!file_is_device(f))
		return grow(f, 0, c->size, mode, p, e);
	if (c->size > file_size(f))
		return error_set(e, ENOSPC, "The size %" PRIu64 " is larger than the device '%s' (%" PRIu64
				 " bytes)", c->size, c->name, file_size(f));
	return 0;
}

const struct driver raw_driver = {
	.name = "raw",
	.caps = DRIVER_WRITE | DRIVER_EXACT_SIZE,
	.state_size = sizeof(struct raw),
	.probe = raw_probe,
	.open = raw_open,
	.close = raw_close,
	.map = raw_map,
	.begin = raw_begin,
	.resize = raw_resize,
	.create_options = raw_create_options,
	.create_check = raw_create_check,
	.create = raw_create,
};
