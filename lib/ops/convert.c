// SPDX-License-Identifier: BSD-2-Clause
/*
 * qimg_convert: checks the request, opens the target, has everything copied, finishes the target.
 *
 * Invariant: a request that is refused has touched nothing, and one that fails later leaves the old
 * target, or none. Only an existing target that is written in place (NO_CREATE, a device) may be left
 * half written.
 */
#include "qimg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/opts.h"
#include "image/image.h"
#include "io/file.h"
#include "io/sparse.h"
#include "ops/bitmaps.h"
#include "ops/copy.h"
#include "ops/target.h"
#include "ops/verify.h"

#define SPARSE_MAX (16 * MIB)
#define SPARSE_DEFAULT 4096

void qimg_convert_init(struct qimg_convert *c)
{
	memset(c, 0, sizeof(*c));
	c->sparse_size = SPARSE_DEFAULT;
}

static const char *create_opt(const struct qimg_convert *c, const char *key)
{
	return c->create_opts ? qimg_opts_get(c->create_opts, key) : NULL;
}

/* With an existing target only its backing file may be named, to say that it is the source's. */
static bool only_backing_opts(const struct qimg_convert *c)
{
	for (size_t i = 0; i < opts_count(c->create_opts); i++) {
		const char *value, *key = opts_at(c->create_opts, i, &value);

		if (strcmp(key, "backing_file") && strcmp(key, "backing_fmt"))
			return false;
	}
	return true;
}

/* What each codec takes; the target may be an existing one, so this is for when it is open. */
static int check_level(const struct qimg_convert *c, const struct qimg_image *target,
		       struct qimg_error *e)
{
	int most = target->codec == CODEC_ZSTD ? 19 : 9;

	if (!(c->flags & QIMG_CONVERT_COMPRESS) ||
	    (c->compression_level >= 0 && c->compression_level <= most))
		return 0;
	return error_set(e, EINVAL, "Compression level %d is not from 1 to %d", c->compression_level, most);
}

static int check_request(const struct qimg_convert *c, struct qimg_error *e)
{
	bool existing = c->flags & QIMG_CONVERT_NO_CREATE;
	const char *backing = create_opt(c, "backing_file");

	if (!c->source_count)
		return error_set(e, EINVAL, "There is no source to convert");
	if (!*c->target)
		return error_set(e, EINVAL, "The target has no name");
	if (c->sparse_size % 512 || c->sparse_size > SPARSE_MAX)
		return error_set(e, EINVAL, "Sparse size %" PRIu64 " is not a multiple of 512 from 0 to "
				 "%" PRIu64, c->sparse_size, SPARSE_MAX);
	if (existing && !only_backing_opts(c))
		return error_set(e, EINVAL, "Creation options (-o) have no effect on an existing target "
				 "(-n); leave out one of them");
	if (existing && c->flags & QIMG_CONVERT_NO_CLOBBER)
		return error_set(e, EINVAL, "An existing target (-n) is always written over; leave out "
				 "--no-clobber or -n");
	if (c->flags & QIMG_CONVERT_TARGET_IS_ZERO && !existing)
		return error_set(e, EINVAL, "--target-is-zero says something about an existing target "
				 "and needs -n");
	if (c->flags & QIMG_CONVERT_TARGET_IS_ZERO && backing)
		return error_set(e, EINVAL, "A target with a backing file does not read as zeros: -B "
				 "and --target-is-zero exclude each other");
	if (backing && c->source_count > 1)
		return error_set(e, EINVAL, "Several sources cannot be converted into one image with a "
				 "backing file");
	return 0;
}

static int sum_sizes(const struct qimg_convert *c, uint64_t *size, struct qimg_error *e)
{
	*size = 0;
	for (size_t i = 0; i < c->source_count; i++) {
		if (!add_u64(*size, c->sources[i]->size, size) || *size > INT64_MAX)
			return error_set(e, EFBIG, "The sources together have more than 2^63-1 bytes");
	}
	return 0;
}

/* The image of the chain that lives in this file (the image itself or its data file), or NULL. */
static const struct qimg_image *chain_find(const struct qimg_image *img, struct file_id id)
{
	for (; img; img = img->backing) {
		if (file_id_same(file_identity(img->file), id))
			return img;
		if (img->data_file && file_id_same(file_identity(img->data_file), id))
			return img;
	}
	return NULL;
}

/* Refuses to write into a file that the sources are read from. */
static int check_distinct(const struct qimg_convert *c, const char *path, struct file_id id,
			  struct qimg_error *e)
{
	for (size_t i = 0; i < c->source_count; i++) {
		const struct qimg_image *src = c->sources[i], *hit = chain_find(src, id);

		if (hit == src)
			return error_set(e, EINVAL, "'%s' and the source '%s' are the same file; "
					 "convert into a new file", path, src->name);
		if (hit)
			return error_set(e, EINVAL, "'%s' belongs to the backing chain of the source "
					 "'%s', which is read from it; convert into a new file", path,
					 src->name);
	}
	return 0;
}

static int check_path(const struct qimg_convert *c, const char *path, struct qimg_error *e)
{
	struct file_id id;

	if (file_identify(path, &id, e) < 0)
		return e->code == ENOENT ? 0 : -1;
	return check_distinct(c, path, id, e);
}

/* The names of all files that are going to be written, as far as they exist. */
static int check_names(const struct qimg_convert *c, struct qimg_error *e)
{
	const char *backing = create_opt(c, "backing_file"), *data = create_opt(c, "data_file");
	struct qimg_image *chain = NULL;
	struct qimg_error ignored;
	char *path = NULL;
	int ret = -1;

	if (check_path(c, c->target, e) < 0)
		return -1;
	/* Names that are no files are for creation to judge. */
	if (data && !name_is_reference(data)) {
		path = name_resolve(c->target, data, false, e);
		if (!path)
			return -1;
		if (check_path(c, path, e) < 0)
			goto out;
		free(path);
		path = NULL;
	}
	if (backing && *backing && !name_is_reference(backing) &&
	    !(c->flags & QIMG_CONVERT_NO_CREATE)) {
		path = name_resolve(c->target, backing, false, e);
		if (!path)
			goto out;
		/* Whether it can be opened at all is for create_prepare to say. */
		if (qimg_open(&chain, path, create_opt(c, "backing_fmt"), NULL, QIMG_OPEN_SHARE,
			      &ignored) < 0)
			chain = NULL;
		if (chain && qimg_same_file(chain, c->target)) {
			error_set(e, EINVAL, "'%s' belongs to the backing chain '%s' that it is to be put "
				  "on", c->target, backing);
			goto out;
		}
	}
	ret = 0;
out:
	qimg_close(chain, &ignored);
	free(path);
	return ret;
}

/* -n with -B: the target must be what -B says. */
static int check_backing(const struct qimg_convert *c, const struct qimg_image *target,
			 struct qimg_error *e)
{
	const char *backing = create_opt(c, "backing_file");
	struct file_id id;
	char *path;
	int ret;

	if (!backing || !(c->flags & QIMG_CONVERT_NO_CREATE))
		return 0;
	path = name_resolve(target->filename, backing, false, e);
	if (!path)
		return -1;
	ret = file_identify(path, &id, e);
	if (ret == 0 && (!target->backing || !file_id_same(file_identity(target->backing->file), id)))
		ret = error_set(e, EINVAL, "'%s' is not the backing file of the existing target '%s'",
				backing, target->name);
	free(path);
	return ret;
}

/*
 * How deep in the chain of the source the image lies that the target is put on: what that image and
 * those below it supply need not be copied. Where the target's backing file is a stranger to the
 * chain, the caller vouches that it reads like the source's.
 */
static unsigned keep_depth(const struct qimg_convert *c, const struct qimg_image *target)
{
	const struct qimg_image *img = c->sources[0]->backing;
	unsigned depth = 1;

	if (!create_opt(c, "backing_file") || !target->backing || !img)
		return 0;
	for (; img; img = img->backing, depth++) {
		if (!file_id_same(file_identity(img->file), file_identity(target->backing->file)))
			continue;
		/* The same file read in another format is another disk. */
		return img->driver == target->backing->driver ? depth : 0;
	}
	return 1;
}

/* Shared blocks are not looked through for zeros: only where nothing was said about those. */
static enum copy_share share_how(const struct qimg_convert *c)
{
	if (c->flags & QIMG_CONVERT_HOST_COPY)
		return COPY_SHARE_HOST;
	if (c->flags & (QIMG_CONVERT_COMPRESS | QIMG_CONVERT_SALVAGE) || c->sparse_size != SPARSE_DEFAULT)
		return COPY_SHARE_NEVER;
	return COPY_SHARE_FREE;
}

static void say_zeroing(const struct qimg_convert *c, const struct qimg_image *target)
{
	const struct file *f = target->data_file ? target->data_file : target->file;
	const char *by = sparse_zeroed_by(f);

	if (by)
		copy_note(c->progress, "Zeroed by %s", by);
}

static int copy_all(const struct qimg_convert *c, const struct target *t, uint64_t size,
		    struct qimg_error *e)
{
	struct copy copy = {
		.sources = c->sources, .source_count = c->source_count, .size = size,
		.target = t->img,
		.sparse = c->sparse_size,
		.keep_depth = keep_depth(c, t->img),
		.blank = t->blank,
		.compress = c->flags & QIMG_CONVERT_COMPRESS,
		.level = c->compression_level,
		.parallel = c->parallel,
		.any_order = c->flags & QIMG_CONVERT_ANY_ORDER,
		.salvage = c->flags & QIMG_CONVERT_SALVAGE,
		.share = share_how(c),
		.rate = c->rate,
		.progress = c->progress,
	};

	if (copy_run(&copy, e) < 0)
		return -1;
	/* A larger size was asked for: a longer backing file must not show there. */
	if (copy_zero(&copy, size, t->size - size, e) < 0)
		return -1;
	say_zeroing(c, t->img);
	if (!(c->flags & QIMG_CONVERT_VERIFY))
		return 0;
	return qimg_flush(t->img, e) < 0 || verify_run(&copy, e) < 0 ? -1 : 0;
}

static int convert(const struct qimg_convert *c, struct qimg_error *e)
{
	struct target t = { .img = NULL };
	struct bitmaps bitmaps;
	uint64_t size;
	int ret = -1;

	if (check_request(c, e) < 0 || sum_sizes(c, &size, e) < 0 || check_names(c, e) < 0)
		return -1;
	if (bitmaps_choose(&bitmaps, c, e) < 0 || target_prepare(&t, c, size, e) < 0 || target_open(&t, c, size, e) < 0)
		goto out;
	if (check_distinct(c, c->target, file_identity(t.img->file), e) < 0 ||
	    (t.img->data_file &&
	     check_distinct(c, file_path(t.img->data_file), file_identity(t.img->data_file), e) < 0) ||
	    check_backing(c, t.img, e) < 0 || check_level(c, t.img, e) < 0 ||
	    bitmaps_check(&bitmaps, t.img, e) < 0)
		goto out;
	if (copy_all(c, &t, size, e) < 0 || bitmaps_copy(&bitmaps, c->sources[0], t.img, e) < 0)
		goto out;
	if (!(c->flags & QIMG_CONVERT_NO_SYNC))
		copy_phase(c->progress, "sync");
	ret = target_finish(&t, e);
out:
	bitmaps_free(&bitmaps);
	target_abort(&t);
	return ret;
}

/* Takes the name of the target out of its open options. */
static int name_target(struct qimg_convert *c, struct qimg_opts **rest, struct qimg_error *e)
{
	const char *name = c->open_opts ? qimg_opts_get(c->open_opts, "file.filename") : NULL;

	if (!name || !(c->flags & QIMG_CONVERT_NO_CREATE))
		return error_set(e, EINVAL, "The target has no name; among open options, which an existing "
				 "one can be given by, it is 'file.filename'");
	*rest = opts_copy(c->open_opts, e);
	if (!*rest)
		return -1;
	opts_remove(*rest, "file.filename");
	c->target = name;
	c->open_opts = *rest;
	return 0;
}

int qimg_convert(const struct qimg_convert *c, struct qimg_error *e)
{
	struct qimg_convert plain = *c;
	struct qimg_opts *rest = NULL;
	int ret;

	if (!plain.target && name_target(&plain, &rest, e) < 0)
		return -1;
	plain.target = name_plain(plain.target);
	ret = convert(&plain, e);
	qimg_opts_free(rest);
	return ret;
}
