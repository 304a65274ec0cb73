// SPDX-License-Identifier: BSD-2-Clause
/*
 * The driver: probing, opening and closing an image.
 *
 * With QIMG_OPEN_HEADER_ONLY nothing but the first cluster is read and no other file is opened, so
 * that info answers at once whatever the image claims to contain. With QIMG_OPEN_CHECK images open
 * that are marked dirty or corrupt, or whose tables are not where they should be.
 */
#include "qcow2/open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/lock.h"
#include "qcow2/alloc.h"
#include "qcow2/option.h"
#include "qcow2/qcow2.h"
#include "qcow2/snaptable.h"

static int probe(const uint8_t *head, size_t n, uint64_t size)
{
	(void)size;
	return header_probe(head, n) ? 100 : 0;
}

static void derive(struct qcow2 *q)
{
	const struct header *h = &q->h;

	q->cluster_bits = h->cluster_bits;
	q->cluster_size = UINT32_C(1) << h->cluster_bits;
	q->extended = h->incompatible & INCOMPAT_EXTENDED_L2;
	q->entry_size = q->extended ? 16 : 8;
	q->l2_bits = h->cluster_bits - (q->extended ? 4 : 3);
	q->sub_bits = h->cluster_bits - (q->extended ? 5 : 0);
	q->refcount_bits = 1u << h->refcount_order;
	q->refcount_max = UINT64_MAX >> (64 - q->refcount_bits);
	q->external = h->incompatible & INCOMPAT_DATA_FILE;
}

static int fill_image(struct qcow2 *q, struct qimg_error *e)
{
	struct qimg_image *img = q->img;
	const struct header *h = &q->h;

	/* The reference cuts off what lies behind the last whole sector; here the guest sees it. */
	img->size = round_up(h->size, 512);
	img->cluster_size = q->cluster_size;
	img->grain = UINT32_C(1) << q->sub_bits;
	img->codec = h->compression_type == 1 ? CODEC_ZSTD : CODEC_ZLIB;
	img->encrypted = h->crypt_method != CRYPT_NONE;
	if (h->backing_name) {
		img->backing_name = mem_strdup(h->backing_name, e);
		if (!img->backing_name)
			return -1;
	}
	if (h->backing_format && *h->backing_format) {
		img->backing_format = mem_strdup(h->backing_format, e);
		if (!img->backing_format)
			return -1;
	}
	return 0;
}

/* May this image be written to as it is? */
static int check_writable(const struct qcow2 *q, struct qimg_error *e)
{
	const char *name = q->img->name;

	if (!q->writable || (q->img->flags & QIMG_OPEN_CHECK))
		return 0;
	if (q->h.incompatible & INCOMPAT_CORRUPT)
		return error_set(e, EROFS,
				 "The image is marked corrupt; it can be read, or repaired with "
				 "'qemu-img check -r all %s'",
				 name);
	if (q->h.incompatible & INCOMPAT_DIRTY)
		return error_set(
		    e, EROFS,
		    "The image was not closed cleanly (its dirty bit is set) and "
		    "has to be repaired before it is written to: 'qemu-img check -r all %s'",
		    name);
	if (q->img->encrypted)
		return error_set(e, ENOTSUP, "Writing to encrypted images is not supported");
	return 0;
}

/* ---- external data file ---- */

static char *data_file_path(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	const char *given = qimg_opts_get(opts, "data-file.filename");

	if (given)
		return mem_strdup(given, e);
	if (!q->h.data_file || !*q->h.data_file) {
		error_set(e, EINVAL,
			  "The image keeps its data in an external data file without naming "
			  "it; name it with the open option 'data-file.filename'");
		return NULL;
	}
	return name_resolve(q->img->filename, q->h.data_file, false, e);
}

static int check_data_options(const struct qcow2 *q, const struct qimg_opts *opts,
			      struct qimg_error *e)
{
	const char *driver = qimg_opts_get(opts, "data-file.driver");
	const char *filename = qimg_opts_get(opts, "data-file.filename");

	if (!q->external && (driver || filename))
		return error_set(e, EINVAL,
				 "Option '%s' is for images with an external data file, and "
				 "this one has none",
				 filename ? "data-file.filename" : "data-file.driver");
	if (driver && strcmp(driver, "file") && strcmp(driver, "host_device"))
		return error_set(e, ENOTSUP,
				 "Option 'data-file.driver' is '%s', supported are 'file' "
				 "and 'host_device'",
				 driver);
	return 0;
}

static int open_data_file(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	struct qimg_image *img = q->img;
	unsigned flags = 0;
	char *path = NULL;
	int ret = -1;

	q->data = q->file;
	if (!q->external)
		return 0;
	path = data_file_path(q, opts, e);
	if (!path)
		return -1;
	if (q->writable)
		flags |= FILE_WRITE;
	if (img->flags & QIMG_OPEN_DIRECT)
		flags |= FILE_DIRECT;
	if (img->flags & QIMG_OPEN_NO_FLUSH)
		flags |= FILE_NO_SYNC;
	if (file_open(&img->data_file, path, flags, e) < 0) {
		error_prefix(e, "External data file");
		goto out;
	}
	q->data = img->data_file;
	if (file_id_same(file_identity(q->data), file_identity(q->file))) {
		error_set(e, EINVAL, "The external data file '%s' is the image itself", path);
		goto out;
	}
	if (!(img->flags & QIMG_OPEN_SHARE) &&
	    lock_set(q->data, q->writable ? LOCK_WRITE : LOCK_READ, e) < 0)
		goto out;
	/* A file grows with what is written; a device cannot. */
	if (q->writable && file_is_device(q->data) && file_size(q->data) < img->size) {
		error_set(e, ENOSPC,
			  "The external data file '%s' is a device of %" PRIu64
			  " bytes, too small for the image's %" PRIu64,
			  path, file_size(q->data), img->size);
		goto out;
	}
	ret = 0;
out:
	free(path);
	return ret;
}

/* ---- open, close ---- */

static void close_image(struct qimg_image *img)
{
	struct qcow2 *q = qcow2_of(img);

	snaptable_free(q);
	alloc_close(q);
	refcount_close(q);
	table_close(q);
	file_close(img->data_file);
	img->data_file = NULL;
	header_free(&q->h);
}

static int open_image(struct qimg_image *img, const struct qimg_opts *opts, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);

	q->img = img;
	q->file = img->file;
	q->writable = img->flags & QIMG_OPEN_WRITE;
	if (header_read(q->file, &q->h, e) < 0)
		return -1;
	derive(q);
	if (!(img->flags & QIMG_OPEN_CHECK) && header_check_tables(q->file, &q->h, e) < 0)
		goto fail;
	if (check_writable(q, e) < 0 || fill_image(q, e) < 0)
		goto fail;
	if (option_read(q, opts, e) < 0 || check_data_options(q, opts, e) < 0)
		goto fail;
	if (img->flags & QIMG_OPEN_HEADER_ONLY)
		return 0;
	if (open_data_file(q, opts, e) < 0)
		goto fail;
	if (table_open(q, q->h.l1_offset, q->h.l1_size, e) < 0)
		goto fail;
	if (q->writable && refcount_open(q, e) < 0)
		goto fail;
	return 0;
fail:
	close_image(img);
	return -1;
}

static int finish(struct qimg_image *img, struct qimg_error *e)
{
	return flush_close(qcow2_of(img), e);
}

int open_claim(struct qcow2 *q, struct qimg_error *e)
{
	uint64_t old = q->h.autoclear;

	if (q->wrote_anything)
		return 0;
	/* What the data file holds as raw data stays true: all writes keep it so. */
	q->h.autoclear &= AUTOCLEAR_DATA_FILE_RAW;
	if (q->h.autoclear != old) {
		if (old & AUTOCLEAR_BITMAPS)
			warn("'%s' has dirty bitmaps, which are not supported yet: they are marked "
			     "as out of date, since the image is being written to",
			     q->img->name);
		if (header_store_features(q->file, &q->h, e) < 0) {
			q->h.autoclear = old;
			return -1;
		}
	}
	q->wrote_anything = true;
	return q->h.autoclear != old;
}

const struct driver qcow2_driver = {
	.name = "qcow2",
	.caps = DRIVER_WRITE | DRIVER_PACK | DRIVER_BACKING | DRIVER_SNAPSHOTS,
	.state_size = sizeof(struct qcow2),
	.probe = probe,
	.open = open_image,
	.finish = finish,
	.close = close_image,
	.map = qcow2_map,
	.begin = qcow2_begin,
	.commit = qcow2_commit,
	.abort = qcow2_abort,
	.zero = qcow2_zero,
	.discard = qcow2_discard,
	.pack = qcow2_pack,
	.flush = qcow2_flush,
	.resize = qcow2_resize,
	.info = qcow2_info,
	.load_snapshot = qcow2_load_snapshot,
	.create_options = qcow2_create_options,
	.create_check = qcow2_create_check,
	.create = qcow2_create,
};
