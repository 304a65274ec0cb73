// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where guest data is: runs of one image, and runs seen through the backing chain.
 *
 * Formats are asked through image_map alone, which checks their answer, so that everybody else can
 * rely on it: a run starts where it was asked for, is not empty, ends within the range and the image.
 */
#include "image/image.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/range.h"
#include "io/file.h"

int image_map(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x, struct wait *w,
	      struct qimg_error *e)
{
	int rc;

	*x = (struct extent){ 0 };
	if (off >= img->size || len == 0)
		return error_set(e, EINVAL, "Offset 0x%" PRIx64 " is beyond the end of '%s'", off,
				 img->name);
	len = min_u64(len, img->size - off);
	rc = img->driver->map(img, off, len, x, w, e);
	if (rc != 0)
		return rc;
	x->image = img;
	x->depth = img->depth;
	if (x->start != off || x->len == 0 || x->len > len)
		return error_set(e, EIO, "'%s': the run at 0x%" PRIx64 " is out of bounds", img->name, off);
	if ((x->kind == EXTENT_DATA || x->kind == EXTENT_PACKED) && (!x->host_valid || !x->file))
		return error_set(e, EIO, "'%s': the run at 0x%" PRIx64 " has no place", img->name, off);
	if (x->kind == EXTENT_PACKED) {
		uint64_t at = off & (img->cluster_size - 1);

		if (x->len > img->cluster_size - at || x->packed > 2 * (uint64_t)img->cluster_size + 512)
			return error_set(e, EIO, "'%s': the compressed cluster at 0x%" PRIx64
					 " is out of bounds", img->name, off);
	}
	return 0;
}

int image_map_chain(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x,
		    struct wait *w, struct qimg_error *e)
{
	for (;;) {
		int rc = image_map(img, off, len, x, w, e);

		if (rc != 0 || x->kind != EXTENT_HOLE || !img->backing)
			return rc;
		if (off >= img->backing->size) {
			/* The backing file has ended: zeros, of the image above it. */
			x->kind = EXTENT_ZERO;
			return 0;
		}
		len = min_u64(x->len, img->backing->size - off);
		img = img->backing;
	}
}

int image_is_zero(struct qimg_image *img, uint64_t off, uint64_t len, bool *zero, struct wait *w,
		  struct qimg_error *e)
{
	struct range r = range_clip(off, len, 0, img->size);
	struct extent x;

	for (uint64_t at = r.start, end = r.start + r.len; at < end; at += x.len) {
		int rc = image_map_chain(img, at, end - at, &x, w, e);

		if (rc != 0)
			return rc;
		if (x.kind == EXTENT_DATA || x.kind == EXTENT_PACKED) {
			*zero = false;
			return 0;
		}
	}
	*zero = true;
	return 0;
}

static bool continues(const struct extent *a, const struct extent *b)
{
	if (a->kind != b->kind || a->image != b->image || a->allocated != b->allocated ||
	    a->host_valid != b->host_valid || a->kind == EXTENT_PACKED)
		return false;
	return !a->host_valid || (a->file == b->file && a->host + a->len == b->host);
}

int qimg_map(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_extent *x,
	     struct qimg_error *e)
{
	static const enum qimg_kind kinds[] = {
		[EXTENT_HOLE] = QIMG_HOLE,
		[EXTENT_ZERO] = QIMG_ZERO,
		[EXTENT_DATA] = QIMG_DATA,
		[EXTENT_PACKED] = QIMG_PACKED,
	};
	struct extent run, next;

	if (!range_within(off, len, img->size))
		return error_set(e, EINVAL, "The range 0x%" PRIx64 "+0x%" PRIx64 " reaches beyond the end "
				 "of '%s'", off, len, img->name);
	image_tick(img);
	if (image_map_chain(img, off, len, &run, NULL, e) != 0)
		return -1;
	while (run.len < len) {
		if (image_map_chain(img, off + run.len, len - run.len, &next, NULL, e) != 0)
			return -1;
		if (!continues(&run, &next))
			break;
		run.len += next.len;
	}
	*x = (struct qimg_extent){
		.start = run.start,
		.len = run.len,
		.kind = kinds[run.kind],
		.depth = run.depth,
		.present = run.allocated,
		.host_valid = run.host_valid,
		.host = run.host_valid ? run.host : 0,
		.path = run.host_valid ? file_path(run.file) : NULL,
	};
	return 0;
}
