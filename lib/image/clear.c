// SPDX-License-Identifier: BSD-2-Clause
/*
 * Zeroing and discarding.
 *
 * A format zeroes by metadata where it can, in whole (sub)clusters; the ends of a range, and what the
 * format cannot do, are cleared on the host where the image has a place of its own, and written
 * otherwise. What reads as zeros already is left alone.
 */
#include "image/request_priv.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/range.h"
#include "io/sparse.h"

/* The range is c->at to c->end. on_host: a run of the image's own may be cleared where it is. */
static int clear(struct request *r, struct clearer *c)
{
	struct qimg_error *e = &r->io->error;
	struct extent x;
	int rc;

	while (!r->failed && (c->writing || c->at < c->end)) {
		struct transfer_spec t = { .op = IOQ_ZERO, .grace = r->img };

		if (c->writing) {
			rc = writer_step(r, &r->writer);
			if (rc != 0)
				return rc;
			/* Until all of it has landed, it may have to be written again. */
			if (r->pending)
				return STEP_WAIT;
			writer_over(&r->writer);
			c->writing = false;
			continue;
		}
		if (r->pending >= PENDING_MAX)
			return STEP_WAIT;
		rc = image_map_chain(r->img, c->at, c->end - c->at, &x, turn_waits(r), e);
		rc = turn_answer(r, rc, e);
		if (rc != 0)
			return rc;
		if (x.kind == EXTENT_HOLE || x.kind == EXTENT_ZERO) {
			c->at += x.len;
			continue;
		}
		if (c->on_host && x.kind == EXTENT_DATA && x.image == r->img && x.writable) {
			c->at += x.len;
			t.file = x.file;
			t.off = x.host;
			t.len = x.len;
			t.flags = r->flags & QIMG_ZERO_UNMAP ? SPARSE_UNMAP : 0;
			if (transfer_start(r, &t) < 0)
				return -1;
		} else {
			/* What fails from here on is the writer's, who tries that alone again. */
			if (r->pending)
				return STEP_WAIT;
			writer_init(&r->writer, x.start, x.len, NULL);
			c->writing = true;
			c->at += x.len;
		}
	}
	return 0;
}

/* The part of the range in whole units; the end of the image counts as the end of a unit. */
static struct range whole_units(const struct request *r, uint64_t unit)
{
	uint64_t end = r->off + r->len, start;

	if (!round_up_checked(r->off, unit, &start))
		return (struct range){ .start = r->off };
	if (end != r->img->size)
		end = round_down(end, unit);
	if (start >= end)
		return (struct range){ .start = r->off };
	return (struct range){ .start = start, .len = end - start };
}

static int no_progress(const struct request *r, uint64_t off)
{
	return error_set(&r->io->error, EIO, "'%s': zeroing at 0x%" PRIx64 " made no progress",
			 r->img->name, off);
}

/* Whole units, from r->reader.at on: what the format cannot do is cleared. */
static int zero_units(struct request *r, struct reader *units)
{
	unsigned flags = r->flags & QIMG_ZERO_UNMAP ? MAP_UNMAP : 0;
	const struct driver *d = r->img->driver;
	struct qimg_error *e = &r->io->error;
	int rc;

	while (!r->failed) {
		uint64_t did = 0, len = units->end - units->at;

		rc = clear(r, &r->clearer);
		if (rc != 0 || len == 0)
			return rc;
		if (!d->zero) {
			r->clearer = (struct clearer){ units->at, units->end, true, false };
			units->at = units->end;
			continue;
		}
		rc = d->zero(r->img, units->at, len, flags, &did, turn_waits(r), e);
		rc = turn_answer(r, rc, e);
		if (rc == STEP_WAIT || (rc < 0 && e->code != ENOTSUP))
			return rc;
		if (did == 0 || did > len) {
			if (rc == 0)
				return no_progress(r, units->at);
			did = len;
		}
		if (rc < 0)
			r->clearer = (struct clearer){ units->at, units->at + did, true, false };
		units->at += did;
	}
	return 0;
}

/* The part before the whole units, the units, the part behind. */
int clear_zero_step(struct request *r)
{
	struct range in = whole_units(r, r->img->grain);
	uint64_t end = r->off + r->len, in_end = in.start + in.len;
	int rc;

	for (; !r->failed; r->part++) {
		switch (r->part) {
		case 0:
			r->clearer = (struct clearer){ r->off, in.len ? in.start : end, false, false };
			r->reader = (struct reader){ .at = in.start, .end = in_end };
			break;
		case 1:
			rc = clear(r, &r->clearer);
			if (rc != 0 || !in.len)
				return rc;
			break;
		case 2:
			rc = zero_units(r, &r->reader);
			if (rc != 0)
				return rc;
			r->clearer = (struct clearer){ in_end, end, false, false };
			break;
		default:
			return clear(r, &r->clearer);
		}
	}
	return 0;
}

int clear_write_step(struct request *r)
{
	if (r->part++ == 0)
		r->clearer = (struct clearer){ r->off, r->off + r->len, false, false };
	return clear(r, &r->clearer);
}

/* For formats without clusters: what is in place is given back on the host. */
static int discard_on_host(struct request *r)
{
	struct qimg_error *e = &r->io->error;
	struct reader *units = &r->reader;
	struct extent x;
	int rc;

	while (units->at < units->end && !r->failed) {
		struct transfer_spec t = { .op = IOQ_DISCARD, .grace = r->img };

		if (r->pending >= PENDING_MAX)
			return STEP_WAIT;
		rc = image_map(r->img, units->at, units->end - units->at, &x, turn_waits(r), e);
		rc = turn_answer(r, rc, e);
		if (rc != 0)
			return rc;
		units->at += x.len;
		if (x.kind != EXTENT_DATA || !x.writable)
			continue;
		t.file = x.file;
		t.off = x.host;
		t.len = x.len;
		if (transfer_start(r, &t) < 0)
			return -1;
	}
	return 0;
}

int clear_discard_step(struct request *r)
{
	const struct driver *d = r->img->driver;
	struct qimg_error *e = &r->io->error;
	struct reader *units = &r->reader;
	int rc;

	if (!(r->img->flags & QIMG_OPEN_UNMAP))
		return 0;
	if (r->part == 0) {
		struct range in = whole_units(r, max_u64(r->img->cluster_size, r->img->grain));

		*units = (struct reader){ .at = in.start, .end = in.start + in.len };
		r->part = 1;
	}
	if (!d->discard)
		return discard_on_host(r);
	while (units->at < units->end) {
		uint64_t did = 0, len = units->end - units->at;

		rc = d->discard(r->img, units->at, len, &did, turn_waits(r), e);
		rc = turn_answer(r, rc, e);
		if (rc != 0)
			return rc;
		/* No progress: the format gives nothing of the rest back. It is only a hint. */
		units->at += did == 0 || did > len ? len : did;
	}
	return 0;
}
