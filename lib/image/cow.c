// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes that get a new place: what the guest reads around them has to be at the new place, too, before
 * the mapping is switched.
 *
 * Where the surroundings read as zeros there are three ways (open option cow-zero-range): do nothing
 * when the host range is known to be zero, let the host clear the range, write the zeros. What has to be
 * copied or written goes out in one write together with the data when it is small.
 */
#include "image/rw.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/sparse.h"

/* Up to here clearing everything in one call is cheaper than clearing head and tail apart. */
#define CLEAR_WHOLE (256 * KIB)

enum side_need { SIDE_NOTHING, SIDE_ZEROS, SIDE_COPY };

/* The bytes before or behind the data. */
struct side {
	uint64_t guest, host, len;
	enum side_need need;
};

static int decide(struct qimg_image *img, struct side *s, bool blank, struct qimg_error *e)
{
	bool zero;

	s->need = SIDE_NOTHING;
	if (s->len == 0)
		return 0;
	if (image_is_zero(img, s->guest, s->len, &zero, e) < 0)
		return -1;
	if (!zero)
		s->need = SIDE_COPY;
	else if (!blank || img->cow_zero != COW_ZERO_AUTO)
		s->need = SIDE_ZEROS;
	return 0;
}

static int load_side(struct qimg_image *img, const struct side *s, uint64_t at, void *buf, size_t len,
		     struct qimg_error *e)
{
	if (s->need == SIDE_COPY)
		return rw_read_padded(img, s->guest + at, buf, len, e);
	memset(buf, 0, len);
	return 0;
}

/* One side by itself, however long it is. */
static int write_side(struct qimg_image *img, const struct wmap *m, const struct side *s,
		      struct qimg_error *e)
{
	uint8_t *buf;
	size_t n;

	if (s->need == SIDE_NOTHING)
		return 0;
	buf = rw_scratch(img, e);
	if (!buf)
		return -1;
	for (uint64_t at = 0; at < s->len; at += n) {
		n = min_u64(RW_SCRATCH, s->len - at);
		if (load_side(img, s, at, buf, n, e) < 0 ||
		    rw_host_write(img, m->file, s->host + at, buf, n, e) < 0)
			return -1;
	}
	return 0;
}

/* Data and the sides that need something, in one write. */
static int write_joined(struct qimg_image *img, const struct wmap *m, const struct side *head,
			const struct side *tail, const void *data, struct qimg_error *e)
{
	size_t before = head->need == SIDE_NOTHING ? 0 : head->len;
	size_t behind = tail->need == SIDE_NOTHING ? 0 : tail->len;
	uint8_t *buf = rw_scratch(img, e);

	if (!buf)
		return -1;
	if ((before && load_side(img, head, 0, buf, before, e) < 0) ||
	    (behind && load_side(img, tail, 0, buf + before + m->len, behind, e) < 0))
		return -1;
	memcpy(buf + before, data, m->len);
	return rw_host_write(img, m->file, m->host - before, buf, before + m->len + behind, e);
}

/* 0: cleared, 1: the host cannot, -1: error. */
static int clear_sides(struct qimg_image *img, const struct wmap *m, const struct side *head,
		       const struct side *tail, struct qimg_error *e)
{
	const struct side whole = { .host = head->host, .len = head->len + m->len + tail->len,
				    .need = SIDE_ZEROS };
	const struct side *parts[] = { head, tail };
	size_t count = 2;
	unsigned flags = SPARSE_NO_FALLBACK;

	if (img->cow_zero == COW_ZERO_ON)	/* as the reference does, whose figures it is to show */
		flags |= SPARSE_RESERVE;
	/* A place that was in use already may hold what the guest has until the data is written. */
	if (m->fresh && (img->cow_zero == COW_ZERO_ON || whole.len <= CLEAR_WHOLE)) {
		parts[0] = &whole;
		count = 1;
	}
	for (size_t i = 0; i < count; i++) {
		if (parts[i]->need == SIDE_NOTHING)
			continue;
		if (rw_host_zero(img, m->file, parts[i]->host, parts[i]->len, flags, e) < 0)
			return e->code == ENOTSUP ? 1 : -1;
	}
	return 0;
}

int cow_write(struct qimg_image *img, const struct wmap *m, const void *buf, struct qimg_error *e)
{
	struct side head = { .guest = m->start - m->head, .host = m->host - m->head, .len = m->head };
	struct side tail = { .guest = m->start + m->len, .host = m->host + m->len, .len = m->tail };
	bool copy, needed;

	if (decide(img, &head, m->blank, e) < 0 || decide(img, &tail, m->blank, e) < 0)
		return -1;
	copy = head.need == SIDE_COPY || tail.need == SIDE_COPY;
	needed = head.need != SIDE_NOTHING || tail.need != SIDE_NOTHING;
	if (needed && !copy && img->cow_zero != COW_ZERO_OFF) {
		int rc = clear_sides(img, m, &head, &tail, e);

		if (rc < 0)
			return -1;
		needed = rc > 0;
	}
	if (!needed)
		return rw_host_write(img, m->file, m->host, buf, m->len, e);
	if (m->head + m->len + m->tail <= RW_SCRATCH)
		return write_joined(img, m, &head, &tail, buf, e);
	if (write_side(img, m, &head, e) < 0 || write_side(img, m, &tail, e) < 0)
		return -1;
	return rw_host_write(img, m->file, m->host, buf, m->len, e);
}
