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
#include "base/opts.h"
#include "image/options.h"
#include "io/file.h"
#include "io/lock.h"
#include "qcow2/alloc.h"
#include "qcow2/cache.h"
#include "qcow2/option.h"
#include "qcow2/flush.h"
#include "qcow2/qcow2.h"
#include "qcow2/second.h"
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

/*
 * Where the data file is, unless the options say so. For a look at the header any name does, and none
 * needs to be there.
 */
static char *data_file_path(struct qcow2 *q, struct qimg_error *e)
{
	if (q->img->flags & QIMG_OPEN_HEADER_ONLY)
		return mem_strdup(q->img->filename, e);
	if (!q->h.data_file || !*q->h.data_file) {
		error_set(e, EINVAL,
			  "The image keeps its data in an external data file without naming "
			  "it; name it with the open option 'data-file.filename'");
		return NULL;
	}
	return name_resolve(q->img->filename, q->h.data_file, false, e);
}

/* Makes `given` name one file in one way. */
static int name_data_file(struct qcow2 *q, struct qimg_opts *given, struct qimg_error *e)
{
	const char *one = qimg_opts_get(given, "filename");
	const char *two = qimg_opts_get(given, "file.filename");
	char *path;
	int ret;

	if (one && two)
		return error_set(e, EINVAL, "Options 'data-file.filename' (%s) and "
				 "'data-file.file.filename' (%s) exclude each other", one, two);
	if (two)
		return 0;
	path = one ? mem_strdup(one, e) : data_file_path(q, e);
	if (!path)
		return -1;
	opts_remove(given, "filename");
	ret = qimg_opts_set(given, "file.filename", path, e);
	free(path);
	return ret;
}

/*
 * The data-file.* options are those of a raw image that is a whole file. How the image itself is opened
 * holds for the data file where they do not say otherwise.
 */
static int read_data_options(struct qcow2 *q, const struct qimg_opts *opts, struct open_options *o,
			     struct qimg_error *e)
{
	static const char *const known[] = {
		"driver", "filename", "file.", "locking", "cache.direct", "cache.no-flush", "discard",
		"read-only", "auto-read-only", "force-share", "aio", "node-name", NULL
	};
	const unsigned inherited = QIMG_OPEN_WRITE | QIMG_OPEN_SHARE | QIMG_OPEN_DIRECT |
				   QIMG_OPEN_NO_FLUSH | QIMG_OPEN_UNMAP;
	struct qimg_opts *given = opts_sub(opts, "data-file.", e);
	const char *driver, *key, *value;
	int ret = -1;

	if (!given)
		return -1;
	if (!q->external && opts_count(given) == 0) {
		ret = 0;
		goto out;
	}
	if (!q->external) {
		key = opts_at(given, 0, &value);
		error_set(e, EINVAL, "Option 'data-file.%s' is for images with an external data file, and "
			  "this one has none", key);
		goto out;
	}
	driver = qimg_opts_get(given, "driver");
	if (driver && strcmp(driver, "file") && strcmp(driver, "host_device") && strcmp(driver, "raw")) {
		error_set(e, ENOTSUP, "Option 'data-file.driver' is '%s', supported are 'file', "
			  "'host_device' and 'raw'", driver);
		goto out;
	}
	/* What they make of the name has been dealt with; below raw, the file has a driver of its own. */
	if (driver && strcmp(driver, "raw"))
		opts_remove(given, "driver");
	if (qimg_opts_get(given, "locking") &&
	    qimg_opts_set(given, "file.locking", qimg_opts_get(given, "locking"), e) < 0)
		goto out;
	if (opts_check_known(given, known, "data-file", e) < 0 || name_data_file(q, given, e) < 0)
		goto out;
	opts_remove(given, "locking");
	ret = options_read(o, NULL, false, given, q->img->flags & inherited, e);
	if (ret == 0 && qimg_opts_get(given, "discard") && !(o->flags & QIMG_OPEN_UNMAP))
		q->discard_passed[0] = false;
out:
	qimg_opts_free(given);
	return ret;
}

static int open_data_file(struct qcow2 *q, const struct open_options *o, struct qimg_error *e)
{
	struct qimg_image *img = q->img;
	const char *path = o->filename;
	unsigned flags = 0;

	if (q->writable)
		flags |= FILE_WRITE;
	if (o->flags & QIMG_OPEN_DIRECT)
		flags |= FILE_DIRECT;
	if (o->flags & QIMG_OPEN_NO_FLUSH)
		flags |= FILE_NO_SYNC;
	if (file_open(&img->data_file, path, flags, e) < 0)
		return error_prefix(e, "External data file");
	q->data = img->data_file;
	if (file_id_same(file_identity(q->data), file_identity(q->file)))
		return error_set(e, EINVAL, "The external data file '%s' is the image itself", path);
	if (!(o->flags & QIMG_OPEN_SHARE) && !o->no_lock &&
	    lock_set(q->data, q->writable ? LOCK_WRITE : LOCK_READ, e) < 0)
		return -1;
	/* A file grows with what is written; a device cannot. */
	if (q->writable && file_is_device(q->data) && file_size(q->data) < img->size)
		return error_set(e, ENOSPC,
				 "The external data file '%s' is a device of %" PRIu64
				 " bytes, too small for the image's %" PRIu64,
				 path, file_size(q->data), img->size);
	return 0;
}

/* Where guest clusters are. */
static int find_data(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	struct open_options o = { 0 };
	int ret;

	q->data = q->file;
	ret = read_data_options(q, opts, &o, e);
	if (ret == 0 && q->external && !(q->img->flags & QIMG_OPEN_HEADER_ONLY))
		ret = open_data_file(q, &o, e);
	options_free(&o);
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
	second_close(q->second);
	q->second = NULL;
	file_close(img->data_file);
	img->data_file = NULL;
	option_free(q);
	header_free(&q->h);
}

static int open_image(struct qimg_image *img, const struct qimg_opts *opts, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);

	q->img = img;
	q->file = img->file;
	q->writable = img->flags & QIMG_OPEN_WRITE;
	if ((img->flags & QIMG_OPEN_CHECK ? header_read_damaged : header_read)(q->file, &q->h, e) < 0)
		return -1;
	derive(q);
	if (!(img->flags & QIMG_OPEN_CHECK) && header_check_tables(q->file, &q->h, e) < 0)
		goto fail;
	if (check_writable(q, e) < 0 || fill_image(q, e) < 0)
		goto fail;
	if (option_read(q, opts, e) < 0 || find_data(q, opts, e) < 0)
		goto fail;
	if (img->flags & QIMG_OPEN_HEADER_ONLY)
		return 0;
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

/* Entries of the caches that were not used for long leave memory (cache-clean-interval). */
static uint64_t tick(struct qimg_image *img, uint64_t now)
{
	struct qcow2 *q = qcow2_of(img);
	uint64_t interval = (uint64_t)q->clean_interval * 1000, next = UINT64_MAX;

	if (!interval)
		return next;
	if (q->l2_cache)
		next = cache_clean(q->l2_cache, now, interval);
	if (q->rc_cache)
		next = min_u64(next, cache_clean(q->rc_cache, now, interval));
	return next;
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
	.tick = tick,
	.info = qcow2_info,
	.cache_info = qcow2_cache_info,
	.cache_stats = qcow2_cache_stats,
	.cache_file = qcow2_cache_file,
	.check = qcow2_check,
	.count_used = qcow2_count_used,
	.load_snapshot = qcow2_load_snapshot,
	.bitmaps = qcow2_bitmaps,
	.read_bitmap = qcow2_read_bitmap,
	.add_bitmaps = qcow2_add_bitmaps,
	.create_options = qcow2_create_options,
	.create_check = qcow2_create_check,
	.create = qcow2_create,
};
