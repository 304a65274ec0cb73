// SPDX-License-Identifier: BSD-2-Clause
/*
 * New images: a checked plan first, then the file.
 *
 * Everything that can be known to be wrong is found while the plan is made, which touches nothing; a
 * target that is there keeps its content until the new image is complete.
 */
#include "image/create.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "io/file.h"
#include "io/lock.h"
#include "io/replace.h"

/* What a new file is given where the file system knows it; larger extents, fewer of them. */
#define DEFAULT_EXTENT_HINT MIB

/* ---- names and options ---- */

static bool knows(const struct driver *d, const char *key)
{
	for (const struct qimg_option *o = d->create_options; o->name; o++)
		if (!strcmp(o->name, key))
			return true;
	return false;
}

static int check_names(const struct qimg_creation *c, struct qimg_error *e)
{
	const char *key, *value;

	for (size_t i = 0; i < opts_count(c->opts); i++) {
		key = opts_at(c->opts, i, &value);
		if (knows(c->driver, key))
			continue;
		if (!strcmp(key, "backing_file") || !strcmp(key, "backing_fmt"))
			return error_set(e, ENOTSUP, "Backing file not supported for file format '%s'",
					 c->driver->name);
		return error_set(e, EINVAL, "Unknown option '%s' of format '%s'; '-o help' lists those there "
				 "are", key, c->driver->name);
	}
	return 0;
}

/* Of the file, whatever format is in it. */
static int read_file_options(const struct qimg_creation *c, bool *nocow, uint64_t *hint,
			     struct qimg_error *e)
{
	*nocow = false;
	*hint = DEFAULT_EXTENT_HINT;
	if (opts_bool(c->opts, "nocow", nocow, e) < 0 ||
	    opts_size(c->opts, "extent_size_hint", hint, e) < 0)
		return -1;
	if (*hint > UINT32_MAX)
		return error_set(e, EINVAL, "Parameter 'extent_size_hint' is %" PRIu64 ", and at most %" PRIu32
				 " is possible", *hint, UINT32_MAX);
	return 0;
}

/* ---- size ---- */

static int find_size(struct qimg_creation *c, uint64_t size, struct qimg_error *e)
{
	char text[24];

	if (opts_size(c->opts, "size", &size, e) < 0)
		return -1;
	if (size == UINT64_MAX)
		return error_set(e, EINVAL, "Image creation needs a size parameter");
	if (size > INT64_MAX - 511)
		return error_set(e, EFBIG, "The size %" PRIu64 " is too large", size);
	c->asked_size = size;
	c->size = round_up(size, 512);
	snprintf(text, sizeof(text), "%" PRIu64, size);
	return qimg_opts_set(c->opts, "size", text, e);
}

/* ---- the target ---- */

static int look_at_target(struct qimg_creation *c, struct qimg_error *e)
{
	struct qimg_error why;
	struct file *f;

	if (replace_check(c->name, c->flags & QIMG_CREATE_NO_CLOBBER ? REPLACE_NO_CLOBBER : 0, e) < 0)
		return -1;
	if (file_open(&f, c->name, 0, &why) < 0)
		return 0;	/* not there, or not for reading */
	c->device = file_is_device(f);
	c->device_size = c->device ? file_size(f) : 0;
	file_close(f);
	return 0;
}

/* ---- the plan ---- */

static int append(char **line, const char *text, size_t len, struct qimg_error *e)
{
	char *longer = mem_printf(e, "%s%.*s", *line, (int)len, text);

	if (!longer)
		return -1;
	free(*line);
	*line = longer;
	return 0;
}

/* "fmt=raw size=1024": a comma in a value is doubled. */
static int make_line(struct qimg_creation *c, struct qimg_error *e)
{
	const char *key, *value;

	c->line = mem_printf(e, "fmt=%s", c->driver->name);
	if (!c->line)
		return -1;
	for (size_t i = 0; i < opts_count(c->summary); i++) {
		key = opts_at(c->summary, i, &value);
		if (append(&c->line, " ", 1, e) < 0 || append(&c->line, key, strlen(key), e) < 0 ||
		    append(&c->line, "=", 1, e) < 0)
			return -1;
		while (*value) {
			size_t n = strcspn(value, ",");

			if (append(&c->line, value, n, e) < 0)
				return -1;
			value += n;
			if (*value == ',' && append(&c->line, ",,", 2, e) < 0)
				return -1;
			value += *value == ',';
		}
	}
	return 0;
}

static int prepare(struct qimg_creation *c, const char *name, const char *format,
		   const struct qimg_opts *opts, uint64_t size, bool look, struct qimg_error *e)
{
	bool nocow;
	uint64_t hint;

	c->driver = registry_find(format);
	if (!c->driver)
		return error_set(e, EINVAL, "Unknown file format '%s'", format);
	if (!c->driver->create)
		return error_set(e, ENOTSUP, "Format '%s' does not support image creation", format);
	if (!*name)
		return error_set(e, EINVAL, "The name of the new image is empty");
	c->name = mem_strdup(name, e);
	c->opts = c->name ? opts_copy(opts, e) : NULL;
	if (!c->opts)
		return -1;
	c->summary = qimg_opts_new();
	if (!c->summary)
		return error_nomem(e);
	if (check_names(c, e) < 0 || read_file_options(c, &nocow, &hint, e) < 0)
		return -1;
	if (look && look_at_target(c, e) < 0)
		return -1;
	if (create_check_backing(c, &size, e) < 0 || find_size(c, size, e) < 0)
		return -1;
	if (c->driver->create_check(c, e) < 0)
		return -1;
	return make_line(c, e);
}

static int prepare_new(struct qimg_creation **out, const char *name, const char *format,
		       const struct qimg_opts *opts, uint64_t size, unsigned flags, bool look,
		       struct qimg_error *e)
{
	struct qimg_creation *c = mem_zalloc(sizeof(*c), e);

	if (!c)
		return -1;
	c->flags = flags;
	if (prepare(c, name, format, opts, size, look, e) < 0) {
		create_free(c);
		return -1;
	}
	*out = c;
	return 0;
}

int create_prepare(struct qimg_creation **c, const char *name, const char *format,
		   const struct qimg_opts *opts, uint64_t size, unsigned flags, struct qimg_error *e)
{
	return prepare_new(c, name, format, opts, size, flags, false, e);
}

int qimg_create_prepare(struct qimg_creation **c, const char *name, const char *format,
			const struct qimg_opts *opts, unsigned flags, struct qimg_error *e)
{
	/* As a plain name it would lead to a file that this name does not open. */
	if (!strncmp(name, "json:", 5) && name_is_reference(name))
		return error_set(e, EINVAL, "A new image has to be given by its file name, not as json:{...}");
	return prepare_new(c, name_plain(name), format, opts, UINT64_MAX, flags, true, e);
}

const char *qimg_create_summary(const struct qimg_creation *c)
{
	return c->line;
}

void create_free(struct qimg_creation *c)
{
	if (!c)
		return;
	qimg_opts_free(c->opts);
	qimg_opts_free(c->summary);
	free(c->name);
	free(c->backing_name);
	free(c->backing_format);
	free(c->line);
	free(c);
}

void qimg_create_free(struct qimg_creation *c)
{
	create_free(c);
}

/* ---- writing it ---- */

/* Only an empty file takes these. The hint is a wish when nobody asked for it, else worth a warning. */
static int set_up_file(const struct qimg_creation *c, struct file *f, struct qimg_error *e)
{
	struct qimg_error why;
	uint64_t hint;
	bool nocow;

	if (read_file_options(c, &nocow, &hint, e) < 0)
		return -1;
	if (file_is_device(f))
		return 0;
	if (nocow && file_set_nocow(f, &why) < 0 && why.code != ENOTSUP)
		warn("%s", why.msg);
	if (hint && file_set_extent_hint(f, hint, &why) < 0 &&
	    qimg_opts_get(c->opts, "extent_size_hint") && why.code != ENOTSUP)
		warn("%s", why.msg);
	return 0;
}

int create_write(struct qimg_creation *c, struct file *f, const struct qimg_progress *p,
		 struct qimg_error *e)
{
	if (set_up_file(c, f, e) < 0)
		return -1;
	return c->driver->create(c, f, p, e);
}

int qimg_create_run(struct qimg_creation *c, const struct qimg_progress *p, struct qimg_error *e)
{
	unsigned flags = (c->flags & QIMG_CREATE_NO_CLOBBER ? REPLACE_NO_CLOBBER : 0) |
			 (c->flags & QIMG_CREATE_NO_SYNC ? REPLACE_NO_SYNC : 0);
	struct replace *r;

	if (replace_open(&r, c->name, flags, e) < 0)
		return -1;
	if (lock_set(replace_file(r), LOCK_WRITE, e) < 0 ||
	    create_write(c, replace_file(r), p, e) < 0) {
		replace_abort(r);
		return -1;
	}
	return replace_commit(r, e);
}
