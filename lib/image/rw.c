// SPDX-License-Identifier: BSD-2-Clause
/*
 * What may be read and changed, and the calls that wait for it.
 *
 * All changes a guest can see pass through rw_change_begin, whatever call they come from: it checks
 * that the change is allowed and makes the image forget what it kept of the old content.
 */
#include "image/rw.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/range.h"
#include "image/request.h"
#include "io/file.h"

int rw_check_range(const struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e)
{
	if (range_within(off, len, img->size))
		return 0;
	return error_set(e, EINVAL, "The range 0x%" PRIx64 "+0x%" PRIx64 " reaches beyond the end of '%s' "
			 "(%" PRIu64 " bytes)", off, len, img->name, img->size);
}

int rw_no_encryption(const struct qimg_image *img, struct qimg_error *e)
{
	return error_set(e, ENOTSUP, "'%s' is encrypted, and encryption is not supported: its data can "
			 "neither be read nor written", img->name);
}

/* ---- changes: where they all pass ---- */

/* The first bytes of a raw image, from the host: requests under way on them exclude each other. */
static int read_head(struct qimg_image *img, uint8_t *head, size_t len, struct qimg_error *e)
{
	struct extent x;

	memset(head, 0, len);
	len = min_u64(len, img->size);
	for (uint64_t at = 0; at < len; at += x.len) {
		if (image_map(img, at, len - at, &x, NULL, e) < 0)
			return -1;
		if (x.kind == EXTENT_DATA && file_read(x.file, x.host, head + at, x.len, e) < 0)
			return -1;
	}
	return 0;
}

/*
 * A guest that writes the header of another format to the start of a disk whose format nobody gave
 * would choose how its host reads the file next time.
 */
static int check_first_sector(struct qimg_image *img, uint64_t off, const void *buf, uint64_t len,
			      struct qimg_error *e)
{
	uint8_t head[512];
	struct range r = range_clip(off, len, 0, sizeof(head));

	if (!img->probed || img->driver != &raw_driver || !r.len)
		return 0;
	if (read_head(img, head, sizeof(head), e) < 0)
		return -1;
	if (buf)
		memcpy(head + r.start, buf, r.len);
	else
		memset(head + r.start, 0, r.len);
	if (registry_probe_head(head, sizeof(head), img->size) == img->driver)
		return 0;
	return error_set(e, EPERM, "Writing this to the first 512 bytes of '%s' would make it look like "
			 "an image of another format, and its own was not given; give the format 'raw' to "
			 "allow it", img->name);
}

int rw_change_begin(struct qimg_image *img, uint64_t off, const void *buf, uint64_t len,
		    struct qimg_error *e)
{
	if (rw_check_range(img, off, len, e) < 0)
		return -1;
	if (!(img->flags & QIMG_OPEN_WRITE))
		return error_set(e, EROFS, "'%s' is not open for writing", img->name);
	if (img->encrypted)
		return rw_no_encryption(img, e);
	packed_forget(img);
	return check_first_sector(img, off, buf, len, e);
}

/* ---- the blocking calls ---- */

int qimg_read(struct qimg_image *img, uint64_t off, void *buf, size_t len, struct qimg_error *e)
{
	struct qimg_io io = { .op = QIMG_IO_READ, .off = off, .len = len, .buf = buf };

	return request_run(img, &io, e);
}

int qimg_write(struct qimg_image *img, uint64_t off, const void *buf, size_t len,
	       struct qimg_error *e)
{
	struct qimg_io io = { .op = QIMG_IO_WRITE, .off = off, .len = len, .buf = (void *)buf };

	return request_run(img, &io, e);
}

int qimg_write_compressed(struct qimg_image *img, uint64_t off, const void *buf, size_t len,
			  struct qimg_error *e)
{
	struct qimg_io io = { .op = QIMG_IO_WRITE_COMPRESSED, .off = off, .len = len,
			      .buf = (void *)buf };

	return request_run(img, &io, e);
}

int qimg_zero(struct qimg_image *img, uint64_t off, uint64_t len, unsigned flags,
	      struct qimg_error *e)
{
	struct qimg_io io = { .op = QIMG_IO_ZERO, .flags = flags, .off = off, .len = len };

	return request_run(img, &io, e);
}

int qimg_discard(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e)
{
	struct qimg_io io = { .op = QIMG_IO_DISCARD, .off = off, .len = len };

	return request_run(img, &io, e);
}

int qimg_flush(struct qimg_image *img, struct qimg_error *e)
{
	struct qimg_io io = { .op = QIMG_IO_FLUSH };

	return img->flags & QIMG_OPEN_WRITE ? request_run(img, &io, e) : 0;
}

int rw_clear(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e)
{
	struct qimg_io io = { .op = (enum qimg_io_op)REQUEST_CLEAR, .off = off, .len = len };

	return request_run(img, &io, e);
}
