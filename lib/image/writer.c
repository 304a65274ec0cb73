// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writing guest data, piece by piece: begin, what belongs around the data (cow.c), the data, commit.
 *
 * Pieces that are written in place need nothing but the transfer, and overlap; a piece that gets a new
 * place is finished before the next one is begun. When space runs out, what waits to be released
 * by a flush may be what was missing: the request flushes once and writes again from where it was safe.
 */
#include "image/request_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/range.h"
#include "image/cow.h"

#define ZEROS (64 * KIB)

static const uint8_t zeros[ZEROS];

void writer_init(struct writer *w, uint64_t off, uint64_t len, const void *buf)
{
	writer_free(w);
	*w = (struct writer){ .at = off, .end = off + len, .from = off, .buf = buf, .safe = off };
}

void writer_free(struct writer *w)
{
	free(w->scratch);
	w->scratch = NULL;
}

void writer_over(struct writer *w)
{
	w->safe = w->end;
}

static const uint8_t *data_at(const struct writer *w, uint64_t at)
{
	return w->buf ? w->buf + (at - w->from) : zeros;
}

/* Writes n bytes for the guest offset `at` of the place that was begun. */
static int put(struct request *r, const struct writer *w, uint64_t at, const void *buf, uint64_t n)
{
	struct transfer_spec t = { .op = IOQ_WRITE, .file = w->m.file,
				   .off = w->m.host + (at - w->m.start), .buf = (void *)buf, .len = n };

	if (!w->m.link)
		t.grace = r->img;
	return transfer_start(r, &t);
}

static int begin(struct request *r, struct writer *w)
{
	struct qimg_error *e = &r->io->error;
	uint64_t len = w->end - w->at;
	int rc;

	if (r->pending >= PENDING_MAX)
		return STEP_WAIT;
	if (r->ordered && !r->placed && !packer_is_next(r))
		return turn_wait(r);
	if (!r->pending)
		w->safe = w->at;
	if (!w->buf)
		len = min_u64(len, ZEROS);
	rc = turn_answer(r, r->img->driver->begin(r->img, w->at, len, &w->m, turn_waits(r), e), e);
	if (rc != 0)
		return rc;
	if (r->ordered && w->at + w->m.len == w->end) {
		r->placed = true;
		turn_kick(r->rs);
	}
	if (!w->m.link) {
		rc = put(r, w, w->at, data_at(w, w->at), w->m.len);
		w->at += w->m.len;
		return rc;
	}
	w->begun = true;
	w->head = (struct side){ .start = w->m.start - w->m.head, .len = w->m.head };
	w->tail = (struct side){ .start = w->m.start + w->m.len, .len = w->m.tail };
	w->state = WRITE_DECIDE;
	return 0;
}

/* The part of the place that is to be written, all in one when it is small. */
static void set_region(struct writer *w)
{
	w->chunk = w->chunk_end = w->m.start;
	w->region_end = w->m.start + w->m.len;
	if (w->head.need != SIDE_NOTHING)
		w->chunk = w->chunk_end = w->head.start;
	if (w->tail.need != SIDE_NOTHING)
		w->region_end = w->tail.start + w->tail.len;
	w->state = WRITE_CHUNK;
}

static int decide(struct request *r, struct writer *w)
{
	int rc = cow_decide(r, w, &w->head);

	if (rc == 0)
		rc = cow_decide(r, w, &w->tail);
	if (rc != 0)
		return rc;
	r->unsupported = false;
	w->state = WRITE_CLEARED;
	return cow_clear(r, w);
}

static int cleared(struct request *r, struct writer *w)
{
	if (r->pending)
		return STEP_WAIT;
	cow_cleared(r, w);
	set_region(w);
	return 0;
}

/* The next chunk: all of a small region, or a stretch of head, data or tail alone. */
static int next_chunk(struct request *r, struct writer *w)
{
	uint64_t from = w->chunk_end, data_end = w->m.start + w->m.len;
	int rc;

	if (from == w->region_end) {
		w->state = WRITE_COMMIT;
		return 0;
	}
	if (from == w->m.start && (w->region_end == data_end || w->region_end - from > SCRATCH)) {
		w->chunk_end = data_end;
		rc = put(r, w, from, data_at(w, from), w->m.len);
		return rc;
	}
	if (r->pending)		/* the scratch memory is in use */
		return STEP_WAIT;
	if (w->region_end - from <= SCRATCH)
		w->chunk_end = w->region_end;
	else
		w->chunk_end = min_u64(from < w->m.start ? w->m.start : w->region_end, from + SCRATCH);
	w->chunk = from;
	w->filled = 0;
	if (!w->scratch)
		w->scratch = mem_buffer(min_u64(w->region_end - from, SCRATCH), &r->io->error);
	if (!w->scratch)
		return -1;
	w->state = WRITE_FILL;
	return 0;
}

/* Scratch holds the chunk once nothing is pending. */
static int fill(struct request *r, struct writer *w)
{
	int rc;

	for (; w->filled < 3; w->filled++) {
		const struct range part[] = { { w->head.start, w->head.len }, { w->m.start, w->m.len },
					      { w->tail.start, w->tail.len } };
		struct range p = range_clip(part[w->filled].start, part[w->filled].len, w->chunk,
					    w->chunk_end);
		uint8_t *to = w->scratch + (p.start - w->chunk);

		if (!p.len)
			continue;
		if (w->filled == 1) {
			for (uint64_t n, at = 0; at < p.len; at += n) {
				n = w->buf ? p.len : min_u64(ZEROS, p.len - at);
				memcpy(to + at, data_at(w, p.start), n);
			}
			continue;
		}
		if ((w->filled ? &w->tail : &w->head)->need == SIDE_ZEROS) {
			memset(to, 0, p.len);
			continue;
		}
		if (!w->reading)
			reader_init(&w->reader, r, p.start, p.len, to);
		w->reading = true;
		rc = reader_step(r, &w->reader);
		if (rc != 0)
			return rc;
		w->reading = false;
	}
	if (r->pending)
		return STEP_WAIT;
	w->state = WRITE_CHUNK;
	return put(r, w, w->chunk, w->scratch, w->chunk_end - w->chunk);
}

static int commit(struct request *r, struct writer *w)
{
	struct qimg_error *e = &r->io->error;
	int rc;

	if (r->pending)
		return STEP_WAIT;
	writer_free(w);
	rc = turn_answer(r, r->img->driver->commit(r->img, &w->m, turn_waits(r), e), e);
	if (rc < 0)
		w->begun = false;
	if (rc != 0)
		return rc;
	w->begun = false;
	w->at = w->m.start + w->m.len;
	w->state = WRITE_BEGIN;
	return 0;
}

int writer_step(struct request *r, struct writer *w)
{
	int rc = 0;

	while (rc == 0 && !r->failed) {
		switch (w->state) {
		case WRITE_BEGIN:
			if (w->at == w->end)
				return 0;
			rc = begin(r, w);
			break;
		case WRITE_DECIDE:
			rc = decide(r, w);
			break;
		case WRITE_CLEARED:
			rc = cleared(r, w);
			break;
		case WRITE_CHUNK:
			rc = next_chunk(r, w);
			break;
		case WRITE_FILL:
			rc = fill(r, w);
			break;
		case WRITE_COMMIT:
			rc = commit(r, w);
			break;
		}
	}
	return rc;
}

/* Whether space was missing that a flush may bring; not twice at the same place. */
static bool can_recover(const struct request *r, const struct writer *w)
{
	int code = r->io->error.code;

	return !r->cancelled && r->img->driver->flush && w->safe < w->end && w->retried != w->safe + 1 &&
	       (code == ENOSPC || code == EDQUOT || code == EFBIG);
}

/* Transfers that started before the flush keep what it released from being used again. */
static bool must_settle(const struct request *r)
{
	const struct grace *g = &r->img->grace;

	return g->active[!g->parity] && r->rs->active;
}

int writer_recover(struct request *r, struct writer *w)
{
	struct qimg_error ignored;
	int rc;

	if (w->begun) {
		r->img->driver->abort(r->img, &w->m);
		w->begun = false;
		turn_kick(r->rs);
	}
	if (r->recovering == RECOVER_NOT) {
		if (!can_recover(r, w))
			return -1;
		w->retried = w->safe + 1;
		r->wait.ticket = 0;
		r->recovering = RECOVER_FLUSH;
	}
	if (r->recovering == RECOVER_WAIT) {
		if (must_settle(r))
			return turn_wait(r);
		r->recovering = RECOVER_AGAIN;
	}
	rc = request_flush(r, &ignored);
	if (rc == STEP_WAIT)
		return rc;
	if (rc == 0 && r->recovering == RECOVER_FLUSH && must_settle(r)) {
		r->recovering = RECOVER_WAIT;
		return turn_wait(r);
	}
	r->recovering = RECOVER_NOT;
	if (rc < 0)
		return -1;
	writer_free(w);
	w->at = w->safe;
	w->state = WRITE_BEGIN;
	w->reading = false;
	r->failed = false;
	return 0;
}
