// SPDX-License-Identifier: BSD-2-Clause
/*
 * Backing chains: below an image are its backing file, the backing file of that, and so on, all of
 * them only read. A chain is finite: no file comes twice (by device and inode, under any name), and
 * there are at most CHAIN_MAX images in it.
 */
#include "image/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "image/allowance.h"
#include "io/file.h"

/* A chain needs a descriptor for each image. Where the limit cannot be raised, opening says so. */
static void raise_file_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

static int check_loop(const struct qimg_image *top, const struct qimg_image *last, const char *name,
		      struct file_id id, struct qimg_error *e)
{
	for (const struct qimg_image *i = top; i && i->depth <= last->depth; i = i->backing) {
		if (file_id_same(file_identity(i->file), id))
			return error_set(e, ELOOP, "The backing chain loops: the backing file '%s' of '%s' is "
					 "the same file as '%s' above it", name, last->filename, i->filename);
		if (i == last)
			break;
	}
	return 0;
}

/* Says which reference led nowhere, and for a file that has moved how to mend it. */
static int explain(const struct qimg_image *img, const char *path, struct qimg_error *e)
{
	int code = e->code;
	char msg[sizeof(e->msg)];

	memcpy(msg, e->msg, sizeof(msg));
	if (!img->backing_name)
		return error_prefix(e, "Could not open the backing file of '%s'", img->name);
	if (code != ENOENT)
		return error_prefix(e, "Could not open backing file '%s' (%s) of '%s'",
				    img->backing_name, path, img->name);
	return error_set(e, code, "Could not open backing file '%s' (%s) of '%s': %s; if it has moved, "
			 "'rebase -u -b NEW%s%s %s' stores its new name", img->backing_name, path,
			 img->name, msg, img->backing_format ? " -F " : "",
			 img->backing_format ? img->backing_format : "", img->filename);
}

/* Opens what is directly below img, which is the last of the chain that starts at top. */
static int open_below(struct qimg_image *top, struct qimg_image *img, struct qimg_error *e)
{
	const unsigned inherited = QIMG_OPEN_SHARE | QIMG_OPEN_DIRECT | QIMG_OPEN_EXTERNAL | QIMG_OPEN_ONCE;
	const char *given = qimg_opts_get(img->backing_opts, "file.filename"), *format;
	bool external = img->flags & QIMG_OPEN_EXTERNAL;
	char *path = NULL;
	struct file_id id;
	int rc = -1;

	if (given)
		path = mem_strdup(given, e);
	else if (img->backing_name)
		path = name_resolve(img->filename, img->backing_name, external, e);
	else
		error_set(e, EINVAL, "Options 'backing.*' are given and '%s' has no backing file",
			  img->name);
	if (!path)
		goto out;
	if (img->depth + 1 >= CHAIN_MAX) {
		error_set(e, ELOOP, "The backing chain of '%s' is deeper than %d images ('%s' is the "
			  "last)", top->filename, CHAIN_MAX, img->filename);
		goto out;
	}
	/* Before it is opened: a loop to an image that is being written would fail at its lock. */
	if (file_identify(path, &id, e) == 0 && check_loop(top, img, path, id, e) < 0)
		goto out;
	format = qimg_opts_get(img->backing_opts, "driver") ? NULL : img->backing_format;
	if (image_open_one(&img->backing, given ? NULL : path, format, img->backing_opts,
			   img->flags & inherited, e) < 0) {
		img->backing = NULL;
		explain(img, path, e);
		goto out;
	}
	img->backing->depth = img->depth + 1;
	allowance_share(img, img->backing);
	rc = check_loop(top, img, path, file_identity(img->backing->file), e);
out:
	free(path);
	return rc;
}

int chain_open(struct qimg_image *top, struct qimg_error *e)
{
	if (top->flags & QIMG_OPEN_HEADER_ONLY)
		return 0;
	for (struct qimg_image *i = top; !i->no_backing && (i->backing_name || i->backing_opts);
	     i = i->backing) {
		if (i == top)
			raise_file_limit();
		if (open_below(top, i, e) < 0)
			goto fail;
		qimg_opts_free(i->backing_opts);
		i->backing_opts = NULL;
	}
	return 0;
fail:
	for (struct qimg_image *i = top->backing; i;) {
		struct qimg_image *below = i->backing;

		i->driver->close(i);
		image_free(i);
		i = below;
	}
	top->backing = NULL;
	return -1;
}
