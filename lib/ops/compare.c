// SPDX-License-Identifier: BSD-2-Clause
/*
 * Comparing what two disks read as.
 *
 * What the metadata of both says is equal, zeros on both sides or the same place of the same file, is not read.
 * Of the rest some pieces are read ahead from both disks at once; they are looked at in the order of the disk, so
 * that what is found first comes first.
 */
#include "qimg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/request.h"
#include "io/file.h"
#include "io/loop.h"
#include "ops/copy.h"

#define PIECE (1 * MIB)
#define WORTH_SKIPPING (64 * KIB)	/* what is equal and shorter than that is read with what is around it */

enum { PIECES = 6, DEPTH = 16, SECTOR = 512 };

struct side {
	struct qimg_image *img;
	struct extent x;		/* the run that was looked up last */
	bool sparse;			/* the host has a hole there */
};

struct piece {
	struct compare *c;
	uint64_t start, len;
	unsigned pending;
	struct qimg_io io[2];
	uint8_t *buf[2];
};

struct compare {
	const struct qimg_compare *how;
	struct qimg_compare_result *r;
	struct side side[2];
	struct loop *loop;
	uint64_t size, pos;		/* of the longer disk; all before pos is under way or done */
	struct piece piece[PIECES];
	unsigned first, count;		/* under way, in the order of the disk */
	uint64_t done;
	bool stop;
	struct {			/* the run of sectors that differ and may go on; len 0: none */
		uint64_t start, len;
	} range;
};

/* ---- what metadata says ---- */

/* The run at pos: behind the end of a disk there are zeros. */
static int look(struct compare *c, unsigned i, uint64_t pos, struct qimg_error *e)
{
	struct side *s = &c->side[i];
	int ret = 0;

	if (pos - s->x.start < s->x.len)
		return 0;
	if (pos >= s->img->size)
		s->x = (struct extent){ .start = pos, .len = c->size - pos };
	else
		ret = image_map_host(s->img, pos, s->img->size - pos, &s->x, &s->sparse, e);
	if (ret < 0) {
		c->r->failed = i ? QIMG_COMPARE_MAP_B : QIMG_COMPARE_MAP_A;
		s->x.len = 0;
	}
	return ret;
}

static bool has_data(const struct side *s)
{
	return s->x.kind == EXTENT_DATA || s->x.kind == EXTENT_PACKED;
}

static bool is_zero(const struct side *s)
{
	return !has_data(s) || s->sparse;
}

/* Both have their data in one place, so that there is nothing to compare. */
static bool is_same_place(const struct extent *a, const struct extent *b, uint64_t pos)
{
	return a->kind == EXTENT_DATA && b->kind == EXTENT_DATA && !a->image->encrypted && !b->image->encrypted &&
	       a->host + (pos - a->start) == b->host + (pos - b->start) &&
	       file_id_same(file_identity(a->file), file_identity(b->file));
}

/* The bytes are in a file as the guest sees them, or have their place there. */
static bool is_plain(const struct side *s)
{
	return s->x.host_valid && s->x.kind != EXTENT_PACKED && !s->x.image->encrypted;
}

/* What strict mode wants to be alike. */
static bool is_alike(const struct side *a, const struct side *b)
{
	return a->x.allocated == b->x.allocated && is_zero(a) == is_zero(b) && has_data(a) == has_data(b) &&
	       is_plain(a) == is_plain(b);
}

/*
 * How far from pos on it is either known that both are equal (*equal), or not. Stops at the first run whose status
 * differs in strict mode (*status).
 */
static int run_at(struct compare *c, uint64_t pos, uint64_t *len, bool *equal, bool *status, struct qimg_error *e)
{
	const struct side *a = &c->side[0], *b = &c->side[1];
	uint64_t end = pos, most = c->size;
	bool first = true;

	*status = *equal = false;
	while (end < most) {
		bool same;

		/* What fails behind what is known has time. */
		if (look(c, 0, end, e) < 0 || look(c, 1, end, e) < 0) {
			if (first)
				return -1;
			break;
		}
		if (c->how->strict && !is_alike(a, b)) {
			*status = first;
			break;
		}
		same = (is_zero(a) && is_zero(b)) || is_same_place(&a->x, &b->x, end);
		if (first)
			*equal = same;
		else if (same != *equal)
			break;
		first = false;
		end = min_u64(a->x.start + a->x.len, b->x.start + b->x.len);
		if (!*equal && end - pos >= PIECE)
			break;
	}
	*len = end - pos;
	return 0;
}

/* The next stretch from c->pos on that has to be read; what needs not to be is counted as done. 0: the end. */
static int next_stretch(struct compare *c, uint64_t *len, struct qimg_error *e)
{
	uint64_t more;
	bool equal, status;

	*len = 0;
	while (c->pos + *len < c->size && *len < PIECE) {
		if (run_at(c, c->pos + *len, &more, &equal, &status, e) < 0) {
			if (!*len)
				return -1;
			break;
		}
		/* First what is before that. */
		if (status && (*len || c->count))
			break;
		if (status) {
			c->r->verdict = QIMG_COMPARE_STATUS;
			c->r->offset = c->pos;
			c->stop = true;
			return 0;
		}
		if (equal && *len && more >= WORTH_SKIPPING)
			break;
		if (equal && !*len) {
			c->pos += more;
			c->done += more;
			continue;
		}
		*len += more;
	}
	*len = min_u64(*len, PIECE);
	return 0;
}

/* ---- differences ---- */

static void end_range(struct compare *c)
{
	if (c->range.len && c->how->differs)
		c->how->differs(c->how->ctx, c->range.start, c->range.len);
	c->range.len = 0;
}

static void sector_differs(struct compare *c, uint64_t off, uint64_t len)
{
	c->r->differing += len;
	if (c->range.len && c->range.start + c->range.len == off) {
		c->range.len += len;
		return;
	}
	end_range(c);
	c->range.start = off;
	c->range.len = len;
}

static void compare_piece(struct compare *c, const struct piece *p)
{
	const uint8_t *a = p->buf[0], *b = p->buf[1];

	c->r->compared += p->len;
	if (!memcmp(a, b, p->len))
		return;
	for (uint64_t at = 0, n; at < p->len; at += n) {
		n = min_u64(p->len - at, SECTOR);
		if (!memcmp(a + at, b + at, n))
			continue;
		if (c->r->verdict == QIMG_COMPARE_SAME) {
			c->r->verdict = QIMG_COMPARE_CONTENT;
			c->r->offset = p->start + at;
			while (a[c->r->offset - p->start] == b[c->r->offset - p->start])
				c->r->offset++;
		}
		if (!c->how->differs) {
			c->stop = true;
			return;
		}
		sector_differs(c, p->start + at, n);
	}
}

/* ---- reading ---- */

static void read_done(struct qimg_io *io)
{
	struct piece *p = io->user;

	p->pending--;
}

static void start(struct compare *c, uint64_t len)
{
	struct piece *p = &c->piece[(c->first + c->count++) % PIECES];

	p->start = c->pos;
	p->len = len;
	c->pos += len;
	for (unsigned i = 0; i < 2; i++) {
		struct qimg_image *img = c->side[i].img;
		uint64_t n = p->start < img->size ? min_u64(len, img->size - p->start) : 0;

		memset(p->buf[i] + n, 0, len - n);
		p->io[i] = (struct qimg_io){
			.op = QIMG_IO_READ, .off = p->start, .len = n, .buf = p->buf[i], .done = read_done,
			.user = p,
		};
		if (!n)
			continue;
		p->pending++;
		qimg_submit(img, &p->io[i]);
	}
}

/* Looks at the first of the pieces under way, which has arrived. */
static int retire(struct compare *c, struct qimg_error *e)
{
	struct piece *p = &c->piece[c->first];
	int ret = 0;

	c->first = (c->first + 1) % PIECES;
	c->count--;
	for (unsigned i = 0; i < 2 && !c->stop && ret == 0; i++) {
		if (!p->io[i].code)
			continue;
		*e = p->io[i].error;
		c->r->failed = i ? QIMG_COMPARE_READ_B : QIMG_COMPARE_READ_A;
		ret = -1;
	}
	if (ret == 0 && !c->stop)
		compare_piece(c, p);
	c->done += p->len;
	return ret;
}

static void report(const struct compare *c)
{
	const struct qimg_progress *p = c->how->progress;

	if (p && p->report)
		p->report(p->ctx, c->done, c->size);
}

/* Starts reading as much as may be under way. */
static int fill(struct compare *c, struct qimg_error *e)
{
	uint64_t len = 1;

	while (c->pos < c->size && c->count < PIECES && !c->stop && len) {
		if (copy_check_cancel(c->how->progress, e) < 0 || next_stretch(c, &len, e) < 0)
			return -1;
		if (len)
			start(c, len);
	}
	return 0;
}

static int compare_all(struct compare *c, struct qimg_error *e)
{
	struct qimg_error later;	/* of what comes behind all that is under way */
	int ret = 0, end = 0;

	while (ret == 0 && !c->stop) {
		if (end == 0)
			end = fill(c, &later);
		if (!c->count)
			break;
		while (c->piece[c->first].pending)
			loop_step(c->loop, true);
		ret = retire(c, e);
		report(c);
	}
	while (!loop_idle(c->loop))
		loop_step(c->loop, true);
	end_range(c);
	if (ret == 0 && end < 0 && !c->stop) {
		*e = later;
		ret = -1;
	}
	return ret;
}

static int open_all(struct compare *c, struct qimg_error *e)
{
	/* What is in the page cache has to be copied: that can be done on all CPUs. */
	bool direct = (c->side[0].img->flags | c->side[1].img->flags) & QIMG_OPEN_DIRECT;

	if (loop_new(&c->loop, direct ? NULL : "threads", DEPTH, 0, e) < 0)
		return -1;
	for (unsigned i = 0; i < 2; i++) {
		image_set_loop(c->side[i].img, c->loop);
		if (!image_loop(c->side[i].img, e))
			return -1;
		for (unsigned k = 0; k < PIECES; k++) {
			c->piece[k].c = c;
			c->piece[k].buf[i] = mem_buffer(PIECE, e);
			if (!c->piece[k].buf[i])
				return -1;
		}
	}
	return 0;
}

static void close_all(struct compare *c)
{
	for (unsigned i = 0; i < 2; i++) {
		if (c->loop)
			image_set_loop(c->side[i].img, NULL);
		for (unsigned k = 0; k < PIECES; k++)
			free(c->piece[k].buf[i]);
	}
	loop_free(c->loop);
}

int qimg_compare(const struct qimg_compare *how, struct qimg_compare_result *r, struct qimg_error *e)
{
	struct compare c = {
		.how = how, .r = r, .side = { { .img = how->a }, { .img = how->b } },
		.size = max_u64(how->a->size, how->b->size),
	};
	int ret = -1;

	*r = (struct qimg_compare_result){ .sizes_differ = how->a->size != how->b->size };
	if (how->strict && r->sizes_differ) {
		r->verdict = QIMG_COMPARE_SIZE;
		r->offset = min_u64(how->a->size, how->b->size);
		return 0;
	}
	if (open_all(&c, e) == 0)
		ret = compare_all(&c, e);
	close_all(&c);
	return ret;
}
