// SPDX-License-Identifier: BSD-2-Clause
/*
 * Opening and closing images.
 *
 * The file is locked before the format reads anything of it, so that what it sees is not being changed
 * by another process. Whatever fails, what was opened is closed again; closing an image
 * frees it even when the flush that goes before fails.
 */
#include "image/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "image/allowance.h"
#include "image/options.h"
#include "image/request_priv.h"
#include "io/file.h"
#include "io/lock.h"

static unsigned file_flags(unsigned flags)
{
	return (flags & QIMG_OPEN_WRITE ? FILE_WRITE : 0) |
	       (flags & QIMG_OPEN_DIRECT ? FILE_DIRECT : 0) |
	       (flags & QIMG_OPEN_NO_FLUSH ? FILE_NO_SYNC : 0);
}

static enum lock_mode lock_wanted(unsigned flags)
{
	if (flags & QIMG_OPEN_SHARE)
		return LOCK_NONE;
	if (flags & QIMG_OPEN_WRITE)
		return LOCK_WRITE;
	return flags & QIMG_OPEN_HEADER_ONLY ? LOCK_LOOK : LOCK_READ;
}

void image_free(struct qimg_image *img)
{
	if (!img)
		return;
	requests_put(img);
	qimg_opts_free(img->backing_opts);
	file_close(img->file);
	free(img->state);
	free(img->name);
	free(img->filename);
	free(img->backing_name);
	free(img->backing_format);
	allowance_free(img);
	free(img);
}

static const struct driver *find_driver(struct qimg_image *img, struct file *f, const char *format,
					const char *option, struct qimg_error *e)
{
	const struct driver *d;

	if (format && option && registry_find(format) != registry_find(option)) {
		error_set(e, EINVAL, "Format '%s' and option 'driver=%s' contradict each other", format,
			  option);
		return NULL;
	}
	if (!format)
		format = option;
	img->probed = !format;
	if (!format)
		return registry_probe(f, e);
	d = registry_find(format);
	if (!d)
		error_set(e, EINVAL, "Unknown format '%s'", format);
	return d;
}

/* What the format filled in, looked at once here instead of wherever it is used. */
static int check_opened(struct qimg_image *img, struct qimg_error *e)
{
	if (!is_aligned(img->size, 512) || img->size > INT64_MAX)
		return error_set(e, EINVAL, "'%s' has a virtual size that cannot be used", img->name);
	if (img->grain == 0)
		img->grain = 1;
	return 0;
}

/* A guest may have written what its host then takes for the header of an image. */
static void warn_probed(const struct qimg_image *img)
{
	if (img->probed && img->driver == &raw_driver && (img->flags & QIMG_OPEN_WRITE))
		warn("The format of '%s' was not given and is taken for raw: writes to its first 512 "
		     "bytes that would make it look like another format are refused; give the format "
		     "'raw' to allow them", img->name);
}

/* The options are used up: their parts move into the image. */
static int open_with(struct qimg_image **out, struct file *f, const char *name,
		     const char *filename, const char *format, struct open_options *o, bool locked,
		     struct qimg_error *e)
{
	struct qimg_image *img = mem_zalloc(sizeof(*img), e);

	if (!img)
		return -1;
	img->name = mem_strdup(name, e);
	img->filename = mem_strdup(filename, e);
	img->flags = o->flags;
	if (!img->name || !img->filename || allowance_new(img, e) < 0)
		goto fail;
	img->cow_zero = o->cow_zero;
	img->detect_zeroes = o->detect_zeroes;
	img->aio = o->aio;
	img->no_backing = o->no_backing || (o->flags & QIMG_OPEN_NO_BACKING);
	if (!locked && !o->no_lock && lock_set(f, lock_wanted(o->flags), e) < 0)
		goto fail;
	img->driver = find_driver(img, f, format, o->driver, e);
	if (!img->driver)
		goto fail;
	/* Of a raw image nothing is read: it can be described while a guest writes to it. */
	if (!locked && !o->no_lock && lock_wanted(o->flags) == LOCK_LOOK &&
	    img->driver != &raw_driver && lock_set(f, LOCK_READ, e) < 0)
		goto fail;
	if ((o->flags & QIMG_OPEN_WRITE) && !(img->driver->caps & DRIVER_WRITE)) {
		error_set(e, ENOTSUP, "Format '%s' cannot be written", img->driver->name);
		goto fail;
	}
	img->state = mem_zalloc(img->driver->state_size, e);
	if (!img->state)
		goto fail;
	img->file = f;
	if (img->driver->open(img, o->rest, e) < 0) {
		img->file = NULL;
		goto fail;
	}
	if (check_opened(img, e) < 0) {
		img->driver->close(img);
		img->file = NULL;
		goto fail;
	}
	img->backing_opts = o->backing;
	o->backing = NULL;
	warn_probed(img);
	*out = img;
	return 0;
fail:
	if (!locked && !o->no_lock) {
		struct qimg_error ignored;

		lock_set(f, LOCK_NONE, &ignored);
	}
	image_free(img);
	return -1;
}

/* Leaves what was opened for writing complete and marked clean. */
static int finish(struct qimg_image *img, struct qimg_error *e)
{
	if (!(img->flags & QIMG_OPEN_WRITE))
		return 0;
	if (qimg_flush(img, e) < 0)
		return -1;
	return img->driver->finish ? img->driver->finish(img, e) : 0;
}

int image_open_file(struct qimg_image **img, struct file *f, const char *name, const char *format,
		    const struct qimg_opts *opts, unsigned flags, bool locked, struct qimg_error *e)
{
	struct open_options o;
	int rc;

	*img = NULL;
	if (options_read(&o, name, true, opts, flags, e) < 0)
		return -1;
	rc = open_with(img, f, name, name, format, &o, locked, e);
	options_free(&o);
	if (rc < 0)
		return -1;
	if (chain_open(*img, e) < 0) {
		struct qimg_error ignored;

		finish(*img, &ignored);
		requests_drain(*img);
		(*img)->driver->close(*img);
		(*img)->file = NULL;
		image_free(*img);
		*img = NULL;
		return -1;
	}
	return 0;
}

int image_open_one(struct qimg_image **img, const char *name, const char *format,
		   const struct qimg_opts *opts, unsigned flags, struct qimg_error *e)
{
	struct open_options o;
	struct file *f = NULL;
	int rc = -1;

	*img = NULL;
	if (options_read(&o, name, false, opts, flags, e) < 0)
		return -1;
	if (file_open(&f, o.filename, file_flags(o.flags), e) < 0)
		goto out;
	rc = open_with(img, f, name ? name : o.filename, o.filename, format, &o, false, e);
	if (rc < 0)
		file_close(f);
out:
	options_free(&o);
	return rc;
}

int qimg_open(struct qimg_image **img, const char *name, const char *format,
	      const struct qimg_opts *opts, unsigned flags, struct qimg_error *e)
{
	if (image_open_one(img, name, format, opts, flags, e) < 0)
		return -1;
	/* An engine that was asked for and does not work here is noticed at once. */
	if (chain_open(*img, e) < 0 || ((*img)->aio && !image_loop(*img, e))) {
		struct qimg_error ignored;

		qimg_close(*img, &ignored);
		*img = NULL;
		return -1;
	}
	return 0;
}

int qimg_close(struct qimg_image *img, struct qimg_error *e)
{
	int rc;

	if (!img)
		return 0;
	requests_drain(img);
	rc = finish(img, e);
	requests_drain(img);
	while (img) {
		struct qimg_image *below = img->backing;

		img->driver->close(img);
		image_free(img);
		img = below;	/* the rest of the chain is only read: there is nothing to finish */
	}
	return rc;
}

int qimg_cache_flags(const char *mode, unsigned *flags)
{
	static const struct {
		const char *mode;
		unsigned flags;
	} modes[] = {
		{ "writeback", 0 },
		{ "none", QIMG_OPEN_DIRECT },
		{ "off", QIMG_OPEN_DIRECT },
		{ "writethrough", QIMG_OPEN_WRITETHROUGH },
		{ "directsync", QIMG_OPEN_DIRECT | QIMG_OPEN_WRITETHROUGH },
		{ "unsafe", QIMG_OPEN_NO_FLUSH },
	};

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (!strcmp(mode, modes[i].mode)) {
			*flags = modes[i].flags;
			return 0;
		}
	}
	return -1;
}

const char *qimg_name(const struct qimg_image *img)
{
	return img->name;
}

const char *qimg_format(const struct qimg_image *img)
{
	return img->driver->name;
}

bool qimg_was_probed(const struct qimg_image *img)
{
	return img->probed;
}

uint64_t qimg_size(const struct qimg_image *img)
{
	return img->size;
}

uint32_t qimg_cluster_size(const struct qimg_image *img)
{
	return img->cluster_size;
}

struct qimg_image *qimg_backing(const struct qimg_image *img)
{
	return img->backing;
}

int qimg_same_file(const struct qimg_image *chain, const char *path)
{
	struct qimg_error ignored;
	struct file_id id;

	if (file_identify(path, &id, &ignored) < 0)
		return 0;
	for (; chain; chain = chain->backing) {
		if (file_id_same(id, file_identity(chain->file)))
			return 1;
		if (chain->data_file && file_id_same(id, file_identity(chain->data_file)))
			return 1;
	}
	return 0;
}

int qimg_load_snapshot(struct qimg_image *img, const char *spec, struct qimg_error *e)
{
	if (!img->driver->load_snapshot)
		return error_set(e, ENOTSUP, "Format '%s' has no snapshots", img->driver->name);
	if (img->flags & QIMG_OPEN_WRITE)
		return error_set(e, EROFS, "'%s' is open for writing: a snapshot can only be shown in an "
				 "image that is read", img->name);
	requests_drain(img);
	packed_forget(img);
	return img->driver->load_snapshot(img, spec, e);
}
