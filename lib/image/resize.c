// SPDX-License-Identifier: BSD-2-Clause
/*
 * Changing the virtual size. Whatever was there before, what a guest reads behind its old end is zeros:
 * the rest of the last cluster is cleared, and a longer backing file must not show through.
 */
#include "image/rw.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/request_priv.h"
#include "io/file.h"

/* By metadata alone: writing zeros over terabytes of backing file is nothing a resize may do. */
static int hide_backing(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e)
{
	uint64_t did;
	bool zero;

	for (; len; off += did, len -= did) {
		did = 0;
		if (img->driver->zero &&
		    img->driver->zero(img, off, len, 0, &did, NULL, e) == 0 && did > 0 && did <= len)
			continue;
		if (img->driver->zero && e->code != ENOTSUP)
			return -1;
		if (did == 0 || did > len)
			did = len;
		if (image_is_zero(img, off, did, &zero, NULL, e) < 0)
			return -1;
		if (!zero)
			return error_set(e, ENOTSUP, "'%s' cannot grow over its longer backing file '%s', whose "
					 "data would show: this version of the format cannot hide it", img->name,
					 img->backing->name);
	}
	return 0;
}

static int clear_behind(struct qimg_image *img, uint64_t old, struct qimg_error *e)
{
	uint64_t edge = old, below = img->backing ? min_u64(img->backing->size, img->size) : 0;

	if (img->encrypted)
		return 0;
	if (img->cluster_size)
		edge = min_u64(round_up(old, img->cluster_size), img->size);
	if (edge > old && rw_clear(img, old, edge - old, e) < 0)
		return -1;
	return below > edge ? hide_backing(img, edge, below - edge, e) : 0;
}

int qimg_resize(struct qimg_image *img, uint64_t size, const char *preallocation,
		struct qimg_error *e)
{
	uint64_t old = img->size;

	if (!(img->flags & QIMG_OPEN_WRITE))
		return error_set(e, EROFS, "'%s' is not open for writing", img->name);
	if (!img->driver->resize)
		return error_set(e, ENOTSUP, "Format '%s' cannot be resized", img->driver->name);
	if (size > INT64_MAX - 511)
		return error_set(e, EFBIG, "The new size %" PRIu64 " is too large", size);
	if (!(img->driver->caps & DRIVER_EXACT_SIZE)) {
		if (!is_aligned(size, 512))
			return error_set(e, EINVAL, "The new size %" PRIu64 " is not a multiple of 512", size);
		if (size == old)
			return 0;
	}
	requests_drain(img);
	packed_forget(img);
	if (img->driver->resize(img, size, preallocation ? preallocation : "off", e) < 0)
		return -1;
	if (img->size > old && clear_behind(img, old, e) < 0) {
		struct qimg_error ignored;

		img->driver->resize(img, old, "off", &ignored);
		return -1;
	}
	return img->flags & QIMG_OPEN_WRITETHROUGH ? qimg_flush(img, e) : 0;
}
