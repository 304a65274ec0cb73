// SPDX-License-Identifier: BSD-2-Clause
/*
 * The copy pipeline. One request at a time passes the stages
 *
 *	plan -> zero                        (nothing is read)
 *	     -> read -> scan -> zero        (runs of zeros in the data)
 *	                     -> write       (plain or compressed)
 *
 * Invariant: what lies before the position reported as done reads the same from source and target.
 */
#include "ops/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/zero.h"
#include "image/image.h"
#include "ops/plan.h"

#define PIECE (2 * MIB)		/* read and written at once, unless clusters or -S ask for more */
#define ZERO_PIECE (256 * MIB)	/* zeroed between two looks at the cancel flag */
#define SECTOR 512		/* what is given up at least when a source cannot be read */
#define FILE_UNIT (4 * KIB)	/* what file systems keep holes in */

/* One piece on its way; the engine for many in flight at once is to put these in a ring. */
struct request {
	struct step step;
	uint8_t *buf;
	size_t room;			/* of buf: a power of two, and a multiple of the unit */
};

/* The pace of a copy with a rate limit. */
struct pace {
	struct timespec start;
	uint64_t written;
};

int copy_check_cancel(const struct qimg_progress *p, struct qimg_error *e)
{
	if (p && p->cancel && *p->cancel)
		return error_set(e, ECANCELED, "Interrupted");
	return 0;
}

static uint64_t pow2_at_most(uint64_t v)
{
	return UINT64_C(1) << log2_u64(v);
}

static uint64_t pow2_at_least(uint64_t v)
{
	return is_pow2(v) ? v : pow2_at_most(v) << 1;
}

/* The least that the target can leave out: the unit in which the sources' holes are taken over. */
static uint64_t unit_of(const struct copy *c)
{
	uint64_t unit = c->target->grain;

	if (c->compress)
		unit = c->target->cluster_size;
	if (!c->target->cluster_size)
		unit = max_u64(unit, FILE_UNIT);
	return unit;
}

/*
 * The unit in which zeros are looked for in data: no less than the sparse size, so that a larger one
 * makes for fewer, larger holes.
 */
static uint64_t scan_unit(const struct copy *c)
{
	return c->sparse ? max_u64(unit_of(c), pow2_at_most(c->sparse)) : unit_of(c);
}

int copy_zero(const struct copy *c, uint64_t off, uint64_t len, struct qimg_error *e)
{
	unsigned flags = c->sparse ? QIMG_ZERO_UNMAP : 0;

	if (c->blank)
		return 0;
	while (len) {
		struct extent x;

		if (copy_check_cancel(c->progress, e) < 0)
			return -1;
		if (image_map_chain(c->target, off, len, &x, NULL, e) < 0)
			return -1;
		if (x.kind == EXTENT_DATA || x.kind == EXTENT_PACKED) {
			x.len = min_u64(x.len, ZERO_PIECE);
			if (qimg_zero(c->target, off, x.len, flags, e) < 0)
				return -1;
		}
		off += x.len;
		len -= x.len;
	}
	return 0;
}

/* The range that could not be read most recently, until its warning is given. */
struct lost {
	uint64_t start, len;
	char why[sizeof(((struct qimg_error *)0)->msg)];
};

static void tell_lost(struct lost *l)
{
	if (l->len)
		warn("Zeros are written for %" PRIu64 " bytes at 0x%" PRIx64 " that cannot be read: %s",
		     l->len, l->start, l->why);
	l->len = 0;
}

static void add_lost(struct lost *l, uint64_t pos, size_t len, const struct qimg_error *e)
{
	if (l->start + l->len != pos)
		tell_lost(l);
	if (!l->len) {
		l->start = pos;
		memcpy(l->why, e->msg, sizeof(l->why));
	}
	l->len += len;
}

/* Reads what can be read, halving what cannot down to a sector. Fails only when it has to stop. */
static int read_salvage(const struct copy *c, struct plan *p, uint64_t pos, uint8_t *buf, size_t len,
			struct lost *l, struct qimg_error *e)
{
	size_t half = round_down(len / 2, SECTOR);

	if (copy_check_cancel(c->progress, e) < 0)
		return -1;
	if (plan_read(p, pos, buf, len, e) == 0)
		return 0;
	if (e->code == ENOMEM)
		return -1;
	if (!half) {
		memset(buf, 0, len);
		add_lost(l, pos, len, e);
		return 0;
	}
	if (read_salvage(c, p, pos, buf, half, l, e) < 0)
		return -1;
	return read_salvage(c, p, pos + half, buf + half, len - half, l, e);
}

static int read_data(const struct copy *c, struct plan *p, const struct request *r, struct lost *l,
		     struct qimg_error *e)
{
	if (c->salvage)
		return read_salvage(c, p, r->step.start, r->buf, r->step.len, l, e);
	return plan_read(p, r->step.start, r->buf, r->step.len, e);
}

/* Waits until `len` more bytes may have been written. */
static int keep_pace(const struct copy *c, struct pace *p, uint64_t len, struct qimg_error *e)
{
	const struct timespec nap = { 0, 20 * 1000 * 1000 };

	if (!c->rate)
		return 0;
	if (!p->written)
		clock_gettime(CLOCK_MONOTONIC, &p->start);
	p->written += len;
	for (;;) {
		struct timespec now;
		double passed;

		if (copy_check_cancel(c->progress, e) < 0)
			return -1;
		clock_gettime(CLOCK_MONOTONIC, &now);
		passed = (double)(now.tv_sec - p->start.tv_sec) +
			 (double)(now.tv_nsec - p->start.tv_nsec) / 1e9;
		if (passed * (double)c->rate >= (double)p->written)
			return 0;
		nanosleep(&nap, NULL);
	}
}

/* Cluster by cluster; all-zero clusters have been left out where that was wanted. */
static int write_packed(const struct copy *c, uint64_t off, const uint8_t *buf, uint64_t len,
			struct qimg_error *e)
{
	while (len) {
		uint64_t n = min_u64(len, c->target->cluster_size);
		int r;

		/* The end of the sources may lie inside a cluster whose rest is to stay. */
		if (n == c->target->cluster_size || off + n == c->target->size)
			r = qimg_write_compressed(c->target, off, buf, n, e);
		else
			r = qimg_write(c->target, off, buf, n, e);
		if (r < 0 || copy_check_cancel(c->progress, e) < 0)
			return -1;
		off += n;
		buf += n;
		len -= n;
	}
	return 0;
}

static int write_data(const struct copy *c, uint64_t off, const uint8_t *buf, uint64_t len,
		      struct pace *pace, struct qimg_error *e)
{
	if (!len)
		return 0;
	if (keep_pace(c, pace, len, e) < 0)
		return -1;
	if (c->compress)
		return write_packed(c, off, buf, len, e);
	return qimg_write(c->target, off, buf, len, e);
}

/* Writes what is not zero; runs of zeros shorter than the sparse size count as data. */
static int scan_and_write(const struct copy *c, const struct request *r, struct pace *pace,
			  struct qimg_error *e)
{
	uint64_t unit = scan_unit(c);
	uint64_t at = 0, from = 0;	/* [from, at) is data not written yet */
	uint64_t off = r->step.start;

	while (c->sparse && at < r->step.len) {
		bool zero;
		uint64_t run = zero_run(r->buf + at, r->step.len - at, unit, &zero);

		/* Behind the end of the disk nothing follows: zeros there are a hole however few. */
		if (zero && (run >= c->sparse || off + at + run == c->size)) {
			if (write_data(c, off + from, r->buf + from, at - from, pace, e) < 0 ||
			    copy_zero(c, off + at, run, e) < 0)
				return -1;
			from = at + run;
		}
		at += run;
	}
	return write_data(c, off + from, r->buf + from, r->step.len - from, pace, e);
}

static void report(const struct copy *c, uint64_t done)
{
	if (c->progress && c->progress->report)
		c->progress->report(c->progress->ctx, done, c->size);
}

int copy_run(const struct copy *c, struct qimg_error *e)
{
	uint64_t pos = 0;
	struct plan plan = {
		.sources = c->sources, .source_count = c->source_count, .size = c->size,
		.unit = unit_of(c), .all_data = !c->sparse, .salvage = c->salvage,
		.keep_depth = c->keep_depth,
	};
	struct request r = { .room = max_u64(PIECE, pow2_at_least(max_u64(c->sparse, scan_unit(c)))) };
	struct pace pace = { .written = 0 };
	struct lost lost = { .len = 0 };
	int ret = -1;

	r.buf = mem_buffer(r.room, e);
	if (!r.buf)
		return -1;
	report(c, 0);
	while (pos < c->size) {
		if (copy_check_cancel(c->progress, e) < 0 ||
		    plan_next(&plan, pos, r.room, &r.step, e) < 0)
			goto out;
		switch (r.step.kind) {
		case STEP_KEEP:
			break;
		case STEP_ZERO:
			if (copy_zero(c, pos, r.step.len, e) < 0)
				goto out;
			break;
		case STEP_DATA:
			if (read_data(c, &plan, &r, &lost, e) < 0 ||
			    scan_and_write(c, &r, &pace, e) < 0)
				goto out;
			break;
		}
		pos += r.step.len;
		report(c, pos);
	}
	ret = 0;
out:
	tell_lost(&lost);
	free(r.buf);
	return ret;
}
