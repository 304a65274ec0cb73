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

/*
 * Whether the host is to be asked for holes below data. They are where space was preallocated as metadata alone:
 * then a lot more of the file is in use than it takes on the host.
 */
static bool is_full_of_holes(struct qimg_image *img)
{
	uint64_t taken, least, used;
	struct qimg_error ignored;

	if (img->fullness != FULL_UNKNOWN)
		return img->fullness == FULL_OF_HOLES;
	img->fullness = FULL;
	if (!img->driver->count_used || file_is_device(img->file) ||
	    file_allocated(img->file, &taken, &ignored) < 0)
		return false;
	taken /= img->cluster_size;
	least = max_u64(taken * 10 / 9, taken + 2);
	if (div_up(file_size(img->file), img->cluster_size) >= least &&
	    img->driver->count_used(img, least, &used, &ignored) == 0 && used >= least)
		img->fullness = FULL_OF_HOLES;
	return img->fullness == FULL_OF_HOLES;
}

int image_map_host(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x, bool *sparse,
		   struct qimg_error *e)
{
	struct file_extent on_host;

	*sparse = false;
	if (image_map_chain(img, off, len, x, NULL, e) != 0)
		return -1;
	if (x->kind != EXTENT_DATA || x->image->encrypted || x->file != x->image->file ||
	    x->host >= file_size(x->file) || !is_full_of_holes(x->image))
		return 0;
	if (file_extent(x->file, x->host, x->len, &on_host, e) < 0)
		return -1;
	*sparse = on_host.hole;
	x->len = on_host.len;
	return 0;
}

struct run {
	struct extent x;
	bool sparse;
};

static bool continues(const struct run *a, const struct run *b)
{
	const struct extent *x = &a->x, *y = &b->x;

	if (x->kind != y->kind || x->image != y->image || x->allocated != y->allocated ||
	    x->host_valid != y->host_valid || x->kind == EXTENT_PACKED || a->sparse != b->sparse)
		return false;
	return !x->host_valid || (x->file == y->file && x->host + x->len == y->host);
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
	struct run run, next;

	if (!range_within(off, len, img->size))
		return error_set(e, EINVAL, "The range 0x%" PRIx64 "+0x%" PRIx64 " reaches beyond the end "
				 "of '%s'", off, len, img->name);
	image_tick(img);
	if (image_map_host(img, off, len, &run.x, &run.sparse, e) < 0)
		return -1;
	while (run.x.len < len) {
		if (image_map_host(img, off + run.x.len, len - run.x.len, &next.x, &next.sparse, e) < 0)
			return -1;
		if (!continues(&run, &next))
			break;
		run.x.len += next.x.len;
	}
	*x = (struct qimg_extent){
		.start = run.x.start,
		.len = run.x.len,
		.kind = kinds[run.x.kind],
		.depth = run.x.depth,
		.present = run.x.allocated,
		.host_valid = run.x.host_valid,
		.plain = run.x.host_valid && run.x.kind != EXTENT_PACKED && !run.x.image->encrypted,
		.sparse = run.sparse,
		.host = run.x.host_valid ? run.x.host : 0,
		.path = run.x.host_valid ? file_path(run.x.file) : NULL,
	};
	return 0;
}
