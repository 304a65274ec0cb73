/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside a copy: pieces of it on their way from the sources to the target.
 *
 * A piece passes the stages
 *
 *	READ -> DEFLATE (compressed: in a worker, zeros are looked for there, too)
 *	     -> READY -> WRITE (each run of data or zeros a request) -> FREE
 *
 * Pieces have numbers in the order of their offsets. In order, the requests of a piece are submitted
 * after those of the piece before, so that places in the target do not depend on timing; the transfers
 * themselves overlap.
 */
#ifndef OPS_RING_H
#define OPS_RING_H

#include "io/loop.h"
#include "ops/budget.h"
#include "ops/copy.h"
#include "ops/plan.h"

enum { PIECE_REQUESTS = 8 };	/* in flight for one piece at most */

enum piece_state { PIECE_FREE, PIECE_READ, PIECE_DEFLATE, PIECE_READY, PIECE_WRITE };

/* A cluster to be written, or a run of zeros, after deflating. */
struct part {
	enum { PART_ZERO, PART_PLAIN, PART_PACKED } kind;
	uint64_t off;		/* within the piece */
	uint32_t len;		/* plain bytes */
	uint32_t packed;	/* PACKED: bytes at off in piece->packed */
};

struct piece {
	struct ring *ring;
	enum piece_state state;
	struct step step;
	uint64_t number;
	uint8_t *buf;			/* ring->budget.piece bytes */
	/* reading */
	uint64_t read;			/* bytes that have arrived */
	uint64_t salvage;		/* length of the read under way when that is tried; else 0 */
	/* deflating */
	struct loop_job job;
	uint8_t *packed;		/* as long as buf */
	struct part *parts;
	unsigned part_count, part;	/* part: the next to write */
	int code;
	struct qimg_error error;
	/* writing */
	uint64_t at;			/* all before it was submitted */
	uint64_t zeros;			/* zeros at `at` that were found already */
	uint64_t zeroed;		/* of the run at `at`, in a target that is not blank */
	bool zeroing;
	unsigned pending;		/* requests in flight */
	unsigned busy;			/* the same as bits in io */
	struct qimg_io io[PIECE_REQUESTS];
};

struct ring {
	const struct copy *copy;
	struct budget budget;
	struct loop *loop;
	struct plan plan;
	uint64_t unit;			/* in which data and zeros are told apart */
	uint64_t pos;			/* all before it was planned */
	uint64_t done, reported;	/* bytes that are through */
	struct piece *pieces;		/* budget.pieces of them */
	unsigned active;		/* pieces that are not FREE */
	bool ordered;
	uint64_t next_number;		/* of the next piece */
	uint64_t turn;			/* in order: the number of the piece that submits */
	struct codec_ctx **codecs;	/* of each worker, and one for the owner */
	uint64_t lost;			/* bytes that could not be read */
	uint64_t lost_at;		/* the first of them */
	bool failed;
	struct qimg_error error;	/* the first one */
};

/* ---- ring.c ---- */

int ring_open(struct ring *r, const struct copy *c, struct qimg_error *e);
void ring_close(struct ring *r);	/* drains it; right after a failed open, too */
struct piece *ring_free_piece(struct ring *r);	/* NULL: all are in use */
void ring_fail(struct ring *r, const struct qimg_error *e);
/* Has those pieces that are ready, and whose turn it is, submit what they can. */
void ring_submit(struct ring *r);
/* Tells the user how much is through. */
void ring_report(struct ring *r);
bool ring_alone(const struct piece *p);	/* no other piece is under way before it */

/* ---- piece.c ---- */

/* Starts a DATA step, or a ZERO step of a target that is not blank. */
void piece_start(struct piece *p, const struct step *s);
/* Submits what it can; true when nothing is left to submit. */
bool piece_submit(struct piece *p);
/* The data is there and in order. */
void piece_ready(struct piece *p);

/* ---- salvage.c ---- */

/* A read has failed: tries again in smaller parts. */
void salvage_failed(struct piece *p);
/* The read of p->salvage bytes went well, more may be tried. */
void salvage_succeeded(struct piece *p);

/* ---- squeeze.c ---- */

void squeeze_start(struct piece *p);

/* ---- share.c ---- */

/* Whether it is worth trying to have the host copy a part of [pos, pos+len), a DATA step. */
bool share_find(struct ring *r, uint64_t pos, uint64_t len, enum copy_share *how);
/*
 * Has the host copy the front part. Returns its length; 0: it has to be read and written. *how becomes
 * NEVER when there is no use in trying again. Nothing may be in flight.
 */
uint64_t share_step(struct ring *r, uint64_t pos, uint64_t len, enum copy_share *how);

#endif
