// SPDX-License-Identifier: BSD-2-Clause
/*
 * Zeroing and discarding.
 *
 * A format zeroes by metadata where it can, in whole (sub)clusters; the ends of a range, and what the
 * format cannot do, are cleared on the host where the image has a place of its own, and written
 * otherwise. What reads as zeros already is left alone.
 */
#include "image/rw.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/range.h"
#include "io/ioq.h"
#include "io/sparse.h"

static int write_zeros(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e)
{
	static const uint8_t zeros[64 * KIB];
	size_t n;

	for (; len; off += n, len -= n) {
		n = min_u64(sizeof(zeros), len);
		if (rw_write(img, off, zeros, n, e) < 0)
			return -1;
	}
	return 0;
}

/* on_host: a run of img's own may be cleared where it is. */
static int clear(struct qimg_image *img, uint64_t off, uint64_t len, bool on_host, unsigned flags,
		 struct qimg_error *e)
{
	unsigned how = flags & QIMG_ZERO_UNMAP ? SPARSE_UNMAP : 0;
	struct extent x;

	for (uint64_t end = off + len; off < end; off += x.len) {
		if (image_map_chain(img, off, end - off, &x, NULL, e) < 0)
			return -1;
		if (x.kind == EXTENT_HOLE || x.kind == EXTENT_ZERO)
			continue;
		if (on_host && x.kind == EXTENT_DATA && x.image == img && x.writable) {
			if (rw_host_zero(img, x.file, x.host, x.len, how, e) < 0)
				return -1;
		} else if (write_zeros(img, off, x.len, e) < 0) {
			return -1;
		}
	}
	return 0;
}

int clear_by_writing(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e)
{
	return clear(img, off, len, false, 0, e);
}

/* The part of the range in whole units; the end of the image counts as the end of a unit. */
static struct range whole_units(const struct qimg_image *img, uint64_t off, uint64_t len,
				uint64_t unit)
{
	uint64_t end = off + len, start;

	if (!round_up_checked(off, unit, &start))
		return (struct range){ .start = off };
	if (end != img->size)
		end = round_down(end, unit);
	if (start >= end)
		return (struct range){ .start = off };
	return (struct range){ .start = start, .len = end - start };
}

static int zero_units(struct qimg_image *img, uint64_t off, uint64_t len, unsigned flags,
		      struct qimg_error *e)
{
	unsigned map_flags = flags & QIMG_ZERO_UNMAP ? MAP_UNMAP : 0;
	uint64_t did;

	if (!img->driver->zero)
		return clear(img, off, len, true, flags, e);
	for (; len; off += did, len -= did) {
		did = 0;
		if (img->driver->zero(img, off, len, map_flags, &did, NULL, e) == 0) {
			if (did == 0 || did > len)
				return error_set(e, EIO, "'%s': zeroing at 0x%" PRIx64 " made no progress",
						 img->name, off);
			continue;
		}
		if (e->code != ENOTSUP)
			return -1;
		if (did == 0 || did > len)
			did = len;
		if (clear(img, off, did, true, flags, e) < 0)
			return -1;
	}
	return 0;
}

int qimg_zero(struct qimg_image *img, uint64_t off, uint64_t len, unsigned flags,
	      struct qimg_error *e)
{
	struct range r;
	uint64_t end;

	if (rw_change_begin(img, off, NULL, len, e) < 0)
		return -1;
	r = whole_units(img, off, len, img->grain);
	end = r.start + r.len;
	if (r.len == 0) {
		if (clear(img, off, len, false, flags, e) < 0)
			return -1;
		return rw_change_end(img, e);
	}
	if (clear(img, off, r.start - off, false, flags, e) < 0 ||
	    zero_units(img, r.start, r.len, flags, e) < 0 ||
	    clear(img, end, off + len - end, false, flags, e) < 0)
		return -1;
	return rw_change_end(img, e);
}

/* For formats without clusters: what is in place is given back on the host. */
static int discard_on_host(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e)
{
	struct ioq *q = image_queue(img, e);
	struct extent x;

	if (!q)
		return -1;
	for (uint64_t end = off + len; off < end; off += x.len) {
		struct ioq_req req = { .op = IOQ_DISCARD };

		if (image_map(img, off, end - off, &x, NULL, e) < 0)
			return -1;
		if (x.kind != EXTENT_DATA || !x.writable)
			continue;
		req.file = x.file;
		req.off = x.host;
		req.len = x.len;
		if (ioq_run(q, &req, e) < 0)
			return -1;
	}
	return 0;
}

int qimg_discard(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e)
{
	uint64_t did;
	struct range r;

	if (rw_change_begin(img, off, NULL, len, e) < 0)
		return -1;
	if (!(img->flags & QIMG_OPEN_UNMAP))
		return 0;
	r = whole_units(img, off, len, max_u64(img->cluster_size, img->grain));
	if (!img->driver->discard) {
		if (discard_on_host(img, r.start, r.len, e) < 0)
			return -1;
		return rw_change_end(img, e);
	}
	for (; r.len; r.start += did, r.len -= did) {
		did = 0;
		if (img->driver->discard(img, r.start, r.len, &did, NULL, e) < 0)
			return -1;
		if (did == 0 || did > r.len)
			break;	/* the format gives nothing of the rest back: it is only a hint */
	}
	return rw_change_end(img, e);
}
