/* SPDX-License-Identifier: BSD-2-Clause */
/* Small qcow2 images for the tests of requests. */
#ifndef TESTS_UNIT_REQUEST_IMAGE_H
#define TESTS_UNIT_REQUEST_IMAGE_H

#include "qimg.h"
#include "tap.h"

static bool create(const char *name, const char *backing, uint64_t size, uint32_t cluster,
		   const char *more)
{
	struct qimg_opts *o = qimg_opts_new();
	struct qimg_creation *c = NULL;
	struct qimg_error e = { 0 };
	char n[40];
	bool good;

	snprintf(n, sizeof(n), "%" PRIu64, size);
	qimg_opts_set(o, "size", n, &e);
	snprintf(n, sizeof(n), "%u", cluster);
	qimg_opts_set(o, "cluster_size", n, &e);
	if (more)
		qimg_opts_parse(o, more, &e);
	if (backing) {
		qimg_opts_set(o, "backing_file", backing, &e);
		qimg_opts_set(o, "backing_fmt", "qcow2", &e);
	}
	good = qimg_create_prepare(&c, name, "qcow2", o, QIMG_CREATE_NO_SYNC, &e) == 0 &&
	       qimg_create_run(c, NULL, &e) == 0;
	qimg_create_free(c);
	qimg_opts_free(o);
	if (!good)
		diag("%s: %s", name, e.msg);
	return good;
}

/* Two slices of each table, and one in a file if `second`, in each of so many images of the chain. */
static struct qimg_image *open_chain(const char *name, unsigned layers, bool second, const char *aio,
				     unsigned flags, struct qimg_error *e)
{
	static const char *const small[] = { "l2-cache-entry-size=512", "l2-cache-size=1024",
					     "refcount-cache-size=8192", "l2-cache-file=.",
					     "l2-cache-file-size=512", "l2-cache-file-direct=off" };
	struct qimg_opts *o = qimg_opts_new();
	struct qimg_image *img = NULL;
	char prefix[80] = "", one[160];

	for (unsigned l = 0; l < layers; l++) {
		for (unsigned i = 0; i < (second ? 6 : 3); i++) {
			snprintf(one, sizeof(one), "%s%s", prefix, small[i]);
			qimg_opts_parse(o, one, e);
		}
		strcat(prefix, "backing.");
	}
	if (aio)
		qimg_opts_set(o, "aio", aio, e);
	if (aio && !strcmp(aio, "native"))
		flags |= QIMG_OPEN_DIRECT;
	if (qimg_open(&img, name, "qcow2", o, flags, e) < 0)
		img = NULL;
	qimg_opts_free(o);
	return img;
}

__attribute__((unused)) static struct qimg_image *open_image(const char *name, const char *aio,
							     unsigned flags, struct qimg_error *e)
{
	return open_chain(name, 1, false, aio, flags, e);
}

#endif
