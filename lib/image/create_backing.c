// SPDX-License-Identifier: BSD-2-Clause
/*
 * The backing file of a new image: opened once with its whole chain, to see that it is there, is what it
 * is said to be, and does not lead back to the new image. Its format has to be given, because a
 * guest could write to a raw disk what probing takes for the header of another format.
 */
#include "image/create.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "io/file.h"

/* The format is missing: says which it is, as far as that can be seen. */
static int no_format(const struct qimg_creation *c, const char *path, struct qimg_error *e)
{
	const struct driver *d = NULL;
	struct qimg_error why;
	struct file *f;

	if (!(c->flags & QIMG_CREATE_UNSAFE) && file_open(&f, path, 0, e) == 0) {
		d = registry_probe(f, &why);
		file_close(f);
	} else if (!(c->flags & QIMG_CREATE_UNSAFE)) {
		return error_prefix(e, "Could not open backing image '%s'", c->backing_name);
	}
	if (d)
		return error_set(e, EINVAL, "Backing file specified without backing format; detected "
				 "format of %s", d->name);
	return error_set(e, EINVAL, "Backing file specified without backing format");
}

/* ---- checks ---- */

/* A name that other programs would take for an address is stored so that it is a plain one. */
static int take_name(struct qimg_creation *c, const char *name, struct qimg_error *e)
{
	const char *colon = strchr(name, ':'), *slash = strchr(name, '/');
	bool ambiguous = colon && (!slash || colon < slash) && !name_is_reference(name) &&
			 strncmp(name, "file:", 5);

	c->backing_name = mem_printf(e, "%s%s", ambiguous ? "./" : "", name);
	if (!c->backing_name)
		return -1;
	return ambiguous ? qimg_opts_set(c->opts, "backing_file", c->backing_name, e) : 0;
}

static int is_target(const struct qimg_creation *c, struct qimg_error *e)
{
	return error_set(e, EINVAL, "Trying to create an image with the same filename as the backing file "
			 "('%s')", c->name);
}

static int check_not_target(const struct qimg_creation *c, const char *path, struct qimg_error *e)
{
	struct qimg_error why;
	struct file_id a, b;

	if (!strcmp(path, c->name))
		return is_target(c, e);
	if (file_identify(path, &a, &why) == 0 && file_identify(c->name, &b, &why) == 0 &&
	    file_id_same(a, b))
		return is_target(c, e);
	return 0;
}

/*
 * A snapshot of a running guest is prepared while it still writes to what becomes the backing file:
 * that is allowed, as the reference does, and said.
 */
static int open_backing(const struct qimg_creation *c, const char *path, struct qimg_image **img,
			struct qimg_error *e)
{
	struct qimg_error locked;

	if (qimg_open(img, path, c->backing_format, NULL, 0, e) == 0)
		return 0;
	locked = *e;
	if (e->code != EAGAIN ||
	    qimg_open(img, path, c->backing_format, NULL, QIMG_OPEN_SHARE, e) < 0)
		return -1;
	warn("The new image '%s' shows what is written to its backing file from now on, too: %s", c->name,
	     locked.msg);
	return 0;
}

/* Opens the chain, which tells the size, and closes it again. */
static int look(const struct qimg_creation *c, const char *path, uint64_t *size,
		struct qimg_error *e)
{
	struct qimg_error ignored;
	struct qimg_image *img;
	int rc = 0;

	if (open_backing(c, path, &img, e) < 0)
		return error_prefix(e, "Could not open backing image '%s'", c->backing_name);
	if (qimg_same_file(img, c->name))
		rc = error_set(e, EINVAL, "The backing chain of '%s' contains the new image '%s' itself",
			       c->backing_name, c->name);
	if (*size == UINT64_MAX)
		*size = img->size;
	qimg_close(img, &ignored);
	return rc;
}

int create_check_backing(struct qimg_creation *c, uint64_t *size, struct qimg_error *e)
{
	const char *name = qimg_opts_get(c->opts, "backing_file");
	const char *format = qimg_opts_get(c->opts, "backing_fmt");
	char *path;
	int rc = -1;

	if (!name)
		return format ? error_set(e, EINVAL, "Backing format cannot be used without backing file") : 0;
	if (!(c->driver->caps & DRIVER_BACKING))
		return error_set(e, ENOTSUP, "Backing file not supported for file format '%s'",
				 c->driver->name);
	if (!*name)
		return error_set(e, EINVAL, "Expected backing file name, got empty string");
	if (take_name(c, name, e) < 0)
		return -1;
	path = name_resolve(c->name, c->backing_name, true, e);
	if (!path)
		return -1;
	if (check_not_target(c, path, e) < 0)
		goto out;
	if (!format || !*format) {
		no_format(c, path, e);
		goto out;
	}
	if (!registry_find(format)) {
		error_set(e, EINVAL, "Unknown backing format '%s'", format);
		goto out;
	}
	c->backing_format = mem_strdup(format, e);
	if (!c->backing_format)
		goto out;
	rc = c->flags & QIMG_CREATE_UNSAFE ? 0 : look(c, path, size, e);
out:
	free(path);
	return rc;
}
