// SPDX-License-Identifier: BSD-2-Clause
/*
 * Opening and finishing the target of a conversion.
 *
 * Invariants: target_prepare changes nothing on disk; a new target has its name only after
 * target_finish succeeded; data that an existing image had before is not lost by a failure to open it.
 */
#include "ops/target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "image/image.h"
#include "io/file.h"
#include "io/lock.h"
#include "io/replace.h"
#include "ops/space.h"

static const char *format_of(const struct qimg_convert *c)
{
	if (c->target_format || c->flags & QIMG_CONVERT_NO_CREATE)
		return c->target_format;
	return "raw";
}

static int too_small(const struct qimg_convert *c, uint64_t have, uint64_t need,
		     struct qimg_error *e)
{
	return error_set(e, ENOSPC, "The target '%s' has %" PRIu64 " bytes, which is smaller than the "
			 "source's %" PRIu64 " bytes; %" PRIu64 " more are needed", c->target, have,
			 need, need - have);
}

/* -c: which targets can hold compressed clusters. */
static int check_compress(const struct qimg_convert *c, const struct driver *d,
			  const char *data_file, struct qimg_error *e)
{
	if (!(c->flags & QIMG_CONVERT_COMPRESS))
		return 0;
	if (!(d->caps & DRIVER_PACK))
		return error_set(e, ENOTSUP, "Format '%s' has no compression; leave out -c or use "
				 "'-O qcow2'", d->name);
	if (data_file)
		return error_set(e, ENOTSUP, "Compressed clusters cannot be stored in the external data "
				 "file of '%s'; leave out -c or the data file", c->target);
	return 0;
}

/* A data file that does not exist yet is ours to remove again. */
static int note_data_file(struct target *t, const struct qimg_convert *c, const char *stored,
			  struct qimg_error *e)
{
	struct file_id id;
	char *path;

	path = name_resolve(c->target, stored, false, e);
	if (!path)
		return -1;
	if (file_identify(path, &id, e) < 0 && e->code == ENOENT)
		t->new_data = path;
	else
		free(path);
	return 0;
}

/* The creation options, with the size of the sources where no other is asked for. */
static struct qimg_opts *sized_opts(const struct qimg_convert *c, uint64_t size,
				    struct qimg_error *e)
{
	struct qimg_opts *opts = opts_copy(c->create_opts, e);
	char text[24];

	if (!opts)
		return NULL;
	snprintf(text, sizeof(text), "%" PRIu64, size);
	if (!qimg_opts_get(opts, "size") && qimg_opts_set(opts, "size", text, e) < 0) {
		qimg_opts_free(opts);
		return NULL;
	}
	return opts;
}

static int prepare_new(struct target *t, const struct qimg_convert *c, uint64_t size,
		       struct qimg_error *e)
{
	const char *prealloc = c->create_opts ? qimg_opts_get(c->create_opts, "preallocation") : NULL;
	const char *data_file = c->create_opts ? qimg_opts_get(c->create_opts, "data_file") : NULL;
	unsigned flags = (c->flags & QIMG_CONVERT_NO_SYNC ? QIMG_CREATE_NO_SYNC : 0) |
			 (c->flags & QIMG_CONVERT_NO_CLOBBER ? QIMG_CREATE_NO_CLOBBER : 0);
	struct qimg_opts *opts = sized_opts(c, size, e);
	int ret;

	if (!opts)
		return -1;
	ret = qimg_create_prepare(&t->creation, c->target, format_of(c), opts, flags, e);
	qimg_opts_free(opts);
	if (ret < 0)
		return -1;
	if (check_compress(c, t->creation->driver, data_file, e) < 0)
		return -1;
	if (c->flags & QIMG_CONVERT_COMPRESS && prealloc && strcmp(prealloc, "off"))
		return error_set(e, EINVAL, "Compressed clusters are placed as they come: -c and "
				 "preallocation=%s exclude each other", prealloc);
	if (t->creation->size < size)
		return error_set(e, EINVAL, "The size asked for, %" PRIu64 " bytes, is smaller than the "
				 "source's %" PRIu64 " bytes", t->creation->size, size);
	t->size = t->creation->size;
	return data_file ? note_data_file(t, c, data_file, e) : 0;
}

int target_prepare(struct target *t, const struct qimg_convert *c, uint64_t size,
		   struct qimg_error *e)
{
	memset(t, 0, sizeof(*t));
	t->size = size;
	return c->flags & QIMG_CONVERT_NO_CREATE ? 0 : prepare_new(t, c, size, e);
}

/*
 * Only NO_SYNC leaves out syncs. Cache mode "unsafe" does not: nothing is flushed in the middle of a copy
 * anyway, but the end has to be safe, and so has what an existing image holds beside the range written.
 */
static unsigned open_flags(const struct qimg_convert *c)
{
	unsigned flags = c->target_flags | QIMG_OPEN_WRITE;

	/* What an existing target had where zeros come now is given back to the host. */
	if (c->sparse_size)
		flags |= QIMG_OPEN_UNMAP;
	if (c->flags & QIMG_CONVERT_NO_SYNC)
		return flags | QIMG_OPEN_NO_FLUSH;
	return flags & ~QIMG_OPEN_NO_FLUSH;
}

static int open_existing(struct target *t, const struct qimg_convert *c, uint64_t size,
			 struct qimg_error *e)
{
	struct qimg_image *img;

	if (qimg_open(&img, c->target, format_of(c), c->open_opts, open_flags(c), e) < 0)
		return -1;
	t->img = img;
	if (t->img->size < size)
		return too_small(c, t->img->size, size, e);
	if (check_compress(c, t->img->driver, t->img->data_file ? file_path(t->img->data_file) : NULL,
			   e) < 0)
		return -1;
	if (space_check(c, t->img->data_file ? t->img->data_file : t->img->file, size, e) < 0)
		return -1;
	t->blank = c->flags & QIMG_CONVERT_TARGET_IS_ZERO;
	return 0;
}

static int open_new(struct target *t, const struct qimg_convert *c, struct qimg_error *e)
{
	/* Creating is a small part of the work and not reported. */
	struct qimg_progress quiet = { .cancel = c->progress ? c->progress->cancel : NULL };
	unsigned rflags = 0;
	struct qimg_image *img;
	struct file *f;

	if (c->flags & QIMG_CONVERT_NO_CLOBBER)
		rflags |= REPLACE_NO_CLOBBER;
	if (c->flags & QIMG_CONVERT_NO_SYNC)
		rflags |= REPLACE_NO_SYNC;
	if (c->target_flags & QIMG_OPEN_DIRECT)
		rflags |= REPLACE_DIRECT;
	if (replace_open(&t->replace, c->target, rflags, e) < 0)
		return -1;
	f = replace_file(t->replace);
	if (space_check(c, f, t->size, e) < 0 || lock_set(f, LOCK_WRITE, e) < 0 ||
	    create_write(t->creation, f, &quiet, e) < 0)
		return -1;
	f = replace_take(t->replace);
	if (image_open_file(&img, f, c->target, t->creation->driver->name, c->open_opts,
			    open_flags(c), true, e) < 0) {
		file_close(f);
		return -1;
	}
	t->img = img;
	if (t->img->size < t->size)
		return too_small(c, t->img->size, t->size, e);
	/* A device still has what was on it; a backing file shines through. */
	t->blank = !replace_in_place(t->replace) && !t->img->backing;
	return 0;
}

int target_open(struct target *t, const struct qimg_convert *c, uint64_t size,
		struct qimg_error *e)
{
	if ((t->creation ? open_new(t, c, e) : open_existing(t, c, size, e)) < 0)
		return -1;
	if (c->flags & QIMG_CONVERT_NO_SYNC)
		return 0;
	/* The sync at the end is not to have all of it left to do. */
	file_set_eager(t->img->file);
	if (t->img->data_file)
		file_set_eager(t->img->data_file);
	return 0;
}

int target_finish(struct target *t, struct qimg_error *e)
{
	struct qimg_image *img = t->img;
	struct replace *r = t->replace;

	/* Flushes, the data file included, which replace_commit knows nothing of. */
	t->img = NULL;
	if (qimg_close(img, e) < 0)
		return -1;
	t->replace = NULL;
	if (r && replace_commit(r, e) < 0)
		return -1;
	free(t->new_data);
	t->new_data = NULL;
	return 0;
}

void target_abort(struct target *t)
{
	struct qimg_error ignored;

	qimg_close(t->img, &ignored);
	replace_abort(t->replace);
	if (t->new_data)
		file_remove(t->new_data);
	free(t->new_data);
	create_free(t->creation);
	memset(t, 0, sizeof(*t));
}
