// SPDX-License-Identifier: BSD-2-Clause
/*
 * What `info` shows. General keys come from here, the format adds its own; nothing is read but what
 * opening has read already, and no file is opened that the image names. A chain is described image
 * by image, one open at a time.
 */
#include "image/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "base/value.h"
#include "io/file.h"

static int add_backing(const struct qimg_image *img, struct qimg_value *info, struct qimg_error *e)
{
	struct qimg_error why;
	char *full;
	int rc;

	if (!img->backing_name)
		return 0;
	if (value_set_string(info, "backing-filename", img->backing_name, e) < 0)
		return -1;
	/* What is no plain file name has no other form; it is shown and not followed. */
	full = name_resolve(img->filename, img->backing_name, true, &why);
	rc = value_set_string(info, "full-backing-filename", full ? full : img->backing_name, e);
	free(full);
	if (rc == 0 && img->backing_format)
		rc = value_set_string(info, "backing-filename-format", img->backing_format, e);
	return rc;
}

/* The file below the format, as newer versions of the reference list it. */
static struct qimg_value *file_info(struct file *f, struct qimg_error *e)
{
	struct qimg_value *info = value_object(e), *specific = value_object(e), *data = value_object(e);
	uint32_t hint = file_extent_hint(f);
	uint64_t used;
	int rc = -1;

	if (!info || !specific || !data)
		goto out;
	if (value_set(info, "children", value_list(e), e) < 0 ||
	    value_set_int(info, "virtual-size", file_size(f), e) < 0 ||
	    value_set_string(info, "filename", file_path(f), e) < 0 ||
	    value_set_string(info, "format", file_is_device(f) ? "host_device" : "file", e) < 0)
		goto out;
	if (file_allocated(f, &used, e) < 0 || value_set_int(info, "actual-size", used, e) < 0)
		goto out;
	if (hint && value_set_int(data, "extent-size-hint", hint, e) < 0)
		goto out;
	if (value_set_string(specific, "type", "file", e) < 0)
		goto out;
	rc = value_set(specific, "data", data, e);
	data = NULL;
	if (rc == 0) {
		rc = value_set(info, "format-specific", specific, e);
		specific = NULL;
	}
	if (rc == 0)
		rc = value_set_bool(info, "dirty-flag", false, e);
out:
	qimg_value_free(data);
	qimg_value_free(specific);
	if (rc < 0) {
		qimg_value_free(info);
		return NULL;
	}
	return info;
}

static int add_child(struct qimg_value *list, const char *name, struct file *f, struct qimg_error *e)
{
	struct qimg_value *child = value_object(e);

	if (!child)
		return -1;
	if (value_set_string(child, "name", name, e) < 0 ||
	    value_set(child, "info", file_info(f, e), e) < 0) {
		qimg_value_free(child);
		return -1;
	}
	return value_append(list, child, e);
}

static int add_children(struct qimg_image *img, struct qimg_value *info, struct qimg_error *e)
{
	struct qimg_value *list = value_list(e);

	if (!list)
		return -1;
	if (add_child(list, "file", img->file, e) < 0 ||
	    (img->data_file && add_child(list, "data-file", img->data_file, e) < 0)) {
		qimg_value_free(list);
		return -1;
	}
	return value_set(info, "children", list, e);
}

int qimg_info(struct qimg_image *img, struct qimg_value **out, struct qimg_error *e)
{
	struct qimg_value *info = value_object(e);
	uint64_t used, more = 0;

	if (!info)
		return -1;
	if (add_children(img, info, e) < 0 ||
	    value_set_int(info, "virtual-size", img->size, e) < 0 ||
	    value_set_string(info, "filename", img->filename, e) < 0 ||
	    value_set_string(info, "format", img->driver->name, e) < 0)
		goto fail;
	if (img->cluster_size && value_set_int(info, "cluster-size", img->cluster_size, e) < 0)
		goto fail;
	if (file_allocated(img->file, &used, e) < 0)
		goto fail;
	if (img->data_file && file_allocated(img->data_file, &more, e) < 0)
		goto fail;
	if (value_set_int(info, "actual-size", used + more, e) < 0)
		goto fail;
	if (img->encrypted && value_set_bool(info, "encrypted", true, e) < 0)
		goto fail;
	if (add_backing(img, info, e) < 0 || value_set_bool(info, "dirty-flag", false, e) < 0)
		goto fail;
	if (img->driver->info && img->driver->info(img, info, e) < 0)
		goto fail;
	*out = info;
	return 0;
fail:
	qimg_value_free(info);
	return -1;
}

int qimg_cache_info(struct qimg_image *img, struct qimg_value **out, struct qimg_error *e)
{
	struct qimg_value *info = value_object(e);

	if (!info)
		return -1;
	if (value_set_string(info, "filename", img->filename, e) < 0 ||
	    value_set_string(info, "format", img->driver->name, e) < 0 ||
	    value_set_int(info, "virtual-size", img->size, e) < 0 ||
	    (img->driver->cache_info && img->driver->cache_info(img, info, e) < 0)) {
		qimg_value_free(info);
		return -1;
	}
	*out = info;
	return 0;
}

bool qimg_cache_stats(struct qimg_image *img, enum qimg_cache which, struct qimg_cache_stats *s)
{
	*s = (struct qimg_cache_stats){ 0 };
	return img->driver->cache_stats && img->driver->cache_stats(img, which, s);
}

/* ---- chains ---- */

typedef int (*describe_fn)(struct qimg_image *img, struct qimg_value **info, struct qimg_error *e);

/* The images seen so far. */
struct seen {
	struct file_id *ids;
	char **names;
	size_t count;
};

static int see(struct seen *s, const struct qimg_image *img, const char *above, struct qimg_error *e)
{
	struct file_id id = file_identity(img->file);

	for (size_t i = 0; i < s->count; i++)
		if (file_id_same(s->ids[i], id))
			return error_set(e, ELOOP, "The backing chain loops: the backing file '%s' of '%s' is "
					 "the same file as '%s' above it", img->filename, above, s->names[i]);
	if (s->count == CHAIN_MAX)
		return error_set(e, ELOOP, "The backing chain of '%s' is deeper than %d images", s->names[0],
				 CHAIN_MAX);
	s->names[s->count] = mem_strdup(img->filename, e);
	if (!s->names[s->count])
		return -1;
	s->ids[s->count++] = id;
	return 0;
}

/* What is described next. */
struct ref {
	char *name, *format;
	struct qimg_opts *opts;
};

static void ref_free(struct ref *r)
{
	free(r->name);
	free(r->format);
	qimg_opts_free(r->opts);
	*r = (struct ref){ 0 };
}

/* The image below img; with a name of NULL when there is none. */
static int ref_below(struct ref *r, struct qimg_image *img, struct qimg_error *e)
{
	const char *given = qimg_opts_get(img->backing_opts, "file.filename");

	if (img->no_backing || (!given && !img->backing_name))
		return 0;
	r->name = given ? mem_strdup(given, e) :
		  name_resolve(img->filename, img->backing_name, img->flags & QIMG_OPEN_EXTERNAL, e);
	if (!r->name)
		return -1;
	if (img->backing_format && !qimg_opts_get(img->backing_opts, "driver")) {
		r->format = mem_strdup(img->backing_format, e);
		if (!r->format)
			return -1;
	}
	r->opts = img->backing_opts;
	img->backing_opts = NULL;
	return 0;
}

/* Adds one image to the list; *r becomes what is below it. */
static int add_next(struct qimg_value *list, struct seen *s, struct ref *r, unsigned flags,
		    describe_fn describe, struct qimg_error *e)
{
	const char *above = s->count ? s->names[s->count - 1] : NULL;
	struct qimg_value *info;
	struct qimg_image *img;
	int rc = -1;

	if (image_open_one(&img, r->name, r->format, r->opts, flags, e) < 0)
		return above ? error_prefix(e, "Could not open backing file '%s' of '%s'", r->name, above)
			     : -1;
	ref_free(r);
	img->depth = (unsigned)s->count;
	if (see(s, img, above, e) == 0 && describe(img, &info, e) == 0 &&
	    value_append(list, info, e) == 0)
		rc = ref_below(r, img, e);
	img->driver->close(img);
	image_free(img);
	return rc;
}

static int describe_chain(const char *name, const char *format, const struct qimg_opts *opts,
			  unsigned flags, describe_fn describe, struct qimg_value **list,
			  struct qimg_error *e)
{
	struct seen s = { 0 };
	struct ref r = { .name = name ? mem_strdup(name, e) : NULL,
			 .format = format ? mem_strdup(format, e) : NULL,
			 .opts = opts_copy(opts, e) };
	struct qimg_value *l = value_list(e);
	int rc = -1;

	if (!l || !r.opts || (name && !r.name) || (format && !r.format))
		goto out;
	s.ids = mem_array(CHAIN_MAX, sizeof(*s.ids), e);
	s.names = mem_array(CHAIN_MAX, sizeof(*s.names), e);
	if (!s.ids || !s.names)
		goto out;
	do {
		rc = add_next(l, &s, &r, flags | QIMG_OPEN_HEADER_ONLY, describe, e);
	} while (rc == 0 && r.name);
out:
	for (size_t i = 0; i < s.count; i++)
		free(s.names[i]);
	free(s.names);
	free(s.ids);
	ref_free(&r);
	if (rc < 0) {
		qimg_value_free(l);
		return -1;
	}
	*list = l;
	return 0;
}

int qimg_info_chain(const char *name, const char *format, const struct qimg_opts *opts,
		    unsigned flags, struct qimg_value **list, struct qimg_error *e)
{
	return describe_chain(name, format, opts, flags, qimg_info, list, e);
}

int qimg_cache_info_chain(const char *name, const char *format, const struct qimg_opts *opts,
			  unsigned flags, struct qimg_value **list, struct qimg_error *e)
{
	return describe_chain(name, format, opts, flags, qimg_cache_info, list, e);
}
