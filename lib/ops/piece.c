// SPDX-License-Identifier: BSD-2-Clause
/*
 * One piece of a copy: read from the sources, looked through for zeros, written.
 *
 * Completions only note what happened and go on from there; nothing in here waits. After a failure
 * nothing new is submitted.
 */
#include "ops/ring.h"

#include <string.h>

#include "base/bytes.h"
#include "base/zero.h"
#include "image/image.h"
#include "image/request.h"

#define ZERO_PIECE (256 * MIB)	/* zeroed between two looks at the cancel flag */
#define TRIM (4 * KIB)		/* zeros at the ends of data that are not worth writing */

static uint64_t start_of(const struct piece *p)
{
	return p->step.start;
}

/* ---- requests ---- */

static void request_done(struct qimg_io *io)
{
	struct piece *p = io->user;

	p->busy &= ~(1U << (io - p->io));
	p->pending--;
	if (io->code)
		ring_fail(p->ring, &io->error);
	if (io->op == QIMG_IO_ZERO)
		p->zeroing = false;
	ring_submit(p->ring);
}

static void submit(struct piece *p, unsigned op, uint64_t off, void *buf, uint64_t len)
{
	unsigned n = 0;

	while (p->busy >> n & 1)
		n++;
	p->io[n] = (struct qimg_io){ .op = (enum qimg_io_op)op, .off = start_of(p) + off, .buf = buf,
				     .len = len, .done = request_done, .user = p };
	if (op == QIMG_IO_ZERO && p->ring->copy->sparse)
		p->io[n].flags = QIMG_ZERO_UNMAP;
	p->busy |= 1U << n;
	p->pending++;
	p->state = PIECE_WRITE;
	qimg_submit(p->ring->copy->target, &p->io[n]);
}

static bool no_room(const struct piece *p)
{
	return p->pending == PIECE_REQUESTS;
}

static void submit_data(struct piece *p, uint64_t off, uint64_t len)
{
	unsigned op = p->ring->ordered ? REQUEST_WRITE_ORDERED : QIMG_IO_WRITE;

	submit(p, op, off, p->buf + off, len);
}

/*
 * Zeros from p->at on, `len` of them: asks the target where it has anything else, and submits one request
 * at a time. False: not all yet.
 */
static bool submit_zeros(struct piece *p, uint64_t len)
{
	struct ring *r = p->ring;
	struct qimg_error e;
	struct extent x;

	if (r->copy->blank)
		return true;
	if (p->zeroing || (r->ordered && (!ring_alone(p) || p->pending)))
		return false;
	while (p->zeroed < len) {
		uint64_t off = p->at + p->zeroed;

		if (no_room(p))
			return false;
		if (image_map_chain(r->copy->target, start_of(p) + off, len - p->zeroed, &x, NULL,
				    &e) < 0) {
			ring_fail(r, &e);
			return false;
		}
		if (x.kind == EXTENT_HOLE || x.kind == EXTENT_ZERO) {
			p->zeroed += x.len;
			continue;
		}
		x.len = min_u64(x.len, ZERO_PIECE);
		p->zeroed += x.len;
		p->zeroing = true;
		submit(p, QIMG_IO_ZERO, off, NULL, x.len);
		return false;
	}
	return true;
}

/* ---- what to write ---- */

/*
 * The length of the run at p->at, of zeros that become a hole or of anything else; shorter runs of zeros
 * count as data. Behind the end of the disk nothing follows: zeros there are a hole however few.
 */
static uint64_t next_run(struct piece *p, bool *hole)
{
	const struct copy *c = p->ring->copy;
	uint64_t at = p->at, len = p->step.len, run;
	bool zero;

	*hole = false;
	if (!c->sparse)
		return len - at;
	if (p->zeros) {
		*hole = true;
		return p->zeros;
	}
	for (; at < len; at += run) {
		run = zero_run(p->buf + at, len - at, p->ring->unit, &zero);
		if (!zero || (run < c->sparse && start_of(p) + at + run != c->size))
			continue;
		*hole = at == p->at;
		p->zeros = run;
		return *hole ? run : at - p->at;
	}
	return len - p->at;
}

/* A fresh cluster reads as zeros where nothing is written: its ends are left out where they are zero. */
static void trim(const struct piece *p, uint64_t *off, uint64_t *len)
{
	const struct copy *c = p->ring->copy;
	uint64_t n;
	bool zero;

	if (!c->blank || !c->target->cluster_size || !c->sparse || c->sparse > TRIM ||
	    p->ring->unit <= TRIM)
		return;
	n = round_down(zero_run(p->buf + *off, *len, TRIM, &zero), TRIM);
	if (zero && n < *len) {
		*off += n;
		*len -= n;
	}
	while (*len > TRIM && is_aligned(*len, TRIM) && zero_is(p->buf + *off + *len - TRIM, TRIM))
		*len -= TRIM;
}

static bool submit_plain(struct piece *p)
{
	while (p->at < p->step.len && !p->ring->failed) {
		uint64_t off = p->at, run, len;
		bool hole;

		/* What next_run remembers is about what lies behind a run that is submitted. */
		if (no_room(p))
			return false;
		if (p->step.kind == STEP_ZERO) {
			run = p->step.len;
			hole = true;
		} else {
			run = next_run(p, &hole);
		}
		if (hole) {
			if (!submit_zeros(p, run))
				return false;
			p->zeros = p->zeroed = 0;
			p->at += run;
			continue;
		}
		len = run;
		trim(p, &off, &len);
		p->at += run;
		submit_data(p, off, len);
	}
	return !p->ring->failed;
}

static bool submit_parts(struct piece *p)
{
	for (; p->part < p->part_count && !p->ring->failed; p->part++) {
		const struct part *t = &p->parts[p->part];

		if (t->kind == PART_ZERO) {
			if (!submit_zeros(p, t->len))
				return false;
			p->zeroed = 0;
		} else {
			if (no_room(p))
				return false;
			if (t->kind == PART_PLAIN)
				submit_data(p, t->off, t->len);
			else
				submit(p, REQUEST_PACKED, t->off, p->packed + t->off, t->packed);
		}
		p->at += t->len;
	}
	return !p->ring->failed;
}

bool piece_submit(struct piece *p)
{
	if (p->ring->copy->compress && p->step.kind == STEP_DATA)
		return submit_parts(p);
	return submit_plain(p);
}

/* ---- reading ---- */

static void read_next(struct piece *p);

static void read_done(struct qimg_io *io)
{
	struct piece *p = io->user;
	struct ring *r = p->ring;

	p->pending--;
	if (io->code && r->copy->salvage && !r->failed) {
		salvage_failed(p);
	} else if (io->code) {
		ring_fail(r, &io->error);
	} else {
		p->read += io->len;
		if (p->salvage)
			salvage_succeeded(p);
	}
	if (!r->failed && p->read < p->step.len) {
		read_next(p);
		return;
	}
	if (r->failed || !r->copy->compress)
		piece_ready(p);
	else
		squeeze_start(p);
}

/* Up to the end of the source that holds the next byte. */
static void read_next(struct piece *p)
{
	uint64_t off, len = p->step.len - p->read;
	struct qimg_image *src = plan_source(&p->ring->plan, start_of(p) + p->read, &off);

	len = min_u64(len, src->size - off);
	if (p->salvage)
		len = min_u64(len, p->salvage);
	p->io[0] = (struct qimg_io){ .op = QIMG_IO_READ, .off = off, .buf = p->buf + p->read,
				     .len = len, .done = read_done, .user = p };
	p->pending++;
	qimg_submit(src, &p->io[0]);
}

void piece_ready(struct piece *p)
{
	p->state = PIECE_READY;
	ring_submit(p->ring);
}

void piece_start(struct piece *p, const struct step *s)
{
	struct ring *r = p->ring;

	p->step = *s;
	p->number = r->next_number++;
	p->read = p->salvage = p->at = p->zeros = p->zeroed = 0;
	p->part = p->part_count = 0;
	p->code = 0;
	p->zeroing = false;
	r->active++;
	if (s->kind == STEP_ZERO) {
		piece_ready(p);
		return;
	}
	p->state = PIECE_READ;
	read_next(p);
}
