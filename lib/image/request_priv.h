/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside a request: what request, turn, transfer, reader, writer, packed, packer and clear share.
 *
 * A request is run whenever something that it waited for has happened. Its step functions carry it as far
 * as it gets, and are called again from the place where they stopped. They return 0 when they are through
 * (transfers may still be under way), STEP_WAIT, or -1 with the error in the caller's qimg_io. While
 * a request waits for metadata (`waiting`) it is not run; transfers and jobs under way are counted in
 * `pending`. It ends when nothing is pending any more, whether it succeeded or not.
 */
#ifndef IMAGE_REQUEST_PRIV_H
#define IMAGE_REQUEST_PRIV_H

#include <limits.h>

#include "image/request.h"
#include "io/loop.h"

enum { STEP_WAIT = 1 };
enum { SCRATCH = 1 << 20 };		/* bytes moved at a time where they pass through memory */
enum { PENDING_MAX = 32 };		/* transfers of one request under way at once */

struct inflated;

/* The worker of a job that runs in the thread that owns the loop. */
#define JOB_OWNER UINT_MAX

#define container(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/* What the images of a chain share. */
struct requests {
	unsigned refs;			/* images */
	struct loop *loop;
	bool own_loop;
	bool in_place;			/* jobs run in the owner: nobody asked for threads */
	struct request *first, *last;	/* not ended, in the order of submission */
	unsigned count;			/* those and the ended ones whose done was not called */
	uint64_t delivered;		/* calls of done */
	unsigned exclusive;		/* of the first */
	unsigned active;		/* transfers, waits and jobs under way */
	unsigned background;		/* background.c's under way */
	unsigned patience;		/* loads in a row for one step, before it blocks */
	uint64_t seq;
	struct request *turn_first, *turn_last;	/* waiting for their turn, oldest first */
	struct loop_task kick, deliver;
	bool kicked, delivering;	/* the tasks are with the loop */
	void *ended, **ended_last;	/* requests that are over, linked by ->request */
	struct inflated *inflated;	/* packed.c */
};

/* Reads guest data: the bytes from `at` to `end` go to `buf`. */
struct reader {
	uint64_t at, end;
	uint8_t *buf;
};

enum side_need { SIDE_NOTHING, SIDE_ZEROS, SIDE_COPY };

/* What is to be filled before or behind the data of a write. */
struct side {
	uint64_t start, len;		/* guest range */
	enum side_need need;
	bool decided;
};

/* Writes guest data: the bytes from `at` to `end`, from `buf` or zeros. One piece of it is begun at a time. */
struct writer {
	uint64_t at, end;
	uint64_t from;
	const uint8_t *buf;		/* of the byte at `from`; NULL: zeros */
	enum { WRITE_BEGIN, WRITE_DECIDE, WRITE_CLEARED, WRITE_CHUNK, WRITE_FILL, WRITE_COMMIT } state;
	struct wmap m;			/* between begin and commit: begun */
	bool begun;
	struct side head, tail;
	uint64_t chunk, chunk_end, region_end;	/* of the place that is written, in guest offsets */
	int filled;			/* parts of the chunk: head, data, tail */
	struct reader reader;
	bool reading;
	uint8_t *scratch;
	uint64_t safe;			/* all before it has been written */
	uint64_t retried;		/* `safe` when space ran out last, + 1 */
};

struct clearer {
	uint64_t at, end;
	bool on_host, writing;
};

struct packer {
	enum { PACK_START, PACK_DEFLATE, PACK_PLACE, PACK_COMMIT, PACK_PLAIN,
	       PACK_DONE } state;
	const uint8_t *data;		/* the compressed bytes */
	size_t len;
	struct deflating *deflating;
};

struct request {
	struct qimg_image *img;
	struct requests *rs;
	struct qimg_io *io;
	struct request *prev, *next;
	struct request *turn_prev, *turn_next;
	uint64_t seq;
	unsigned op, flags;		/* as in io, or what became of it */
	uint64_t off, len;		/* guest range */
	enum { STAGE_START, STAGE_WORK, STAGE_FLUSH, STAGE_END } stage;
	unsigned pending;
	unsigned loads;			/* in a row for one step */
	bool waiting, in_turn;
	bool blocks;			/* the driver was called, or is to be, without a wait */
	bool running, again;
	bool failed, cancelled;
	enum { RECOVER_NOT, RECOVER_FLUSH, RECOVER_WAIT, RECOVER_AGAIN } recovering;
	bool exclusive;			/* overlaps with nothing */
	bool ordered;			/* gets its place only after those before it, until `placed` */
	bool placed;
	bool blocking;			/* the caller waits for it */
	bool unsupported;		/* a transfer failed that was only tried */
	bool synced;
	bool told;			/* wait.done was called */
	struct wait wait;
	struct loop_io wait_io;
	struct reader reader;
	struct writer writer;
	struct clearer clearer;
	struct packer packer;
	unsigned part;			/* of a zeroing */
};

/* ---- request.c ---- */

void request_deliver(struct loop_task *task);
/* The requests of img's chain, made when missing. NULL: error. */
struct requests *requests_of(struct qimg_image *img, struct qimg_error *e);
void requests_put(struct qimg_image *img);	/* when img is freed */
void requests_drain(struct qimg_image *img);	/* steps the loop until nothing of the chain is under way */
void request_wake(struct request *r);
/* The first failure counts. e NULL: it is in io->error. */
void request_fail(struct request *r, const struct qimg_error *e);
/* Something under way: wakes the request when it ends. */
void request_part(struct request *r);
void request_part_ended(struct request *r);

/* ---- turn.c ---- */

/* The wait for a driver's call, or NULL when it is to block. */
struct wait *turn_waits(struct request *r);
/*
 * What became of such a call: 0 and failures (in e) are passed on; MAP_WAIT becomes STEP_WAIT, and the
 * request will be run again.
 */
int turn_answer(struct request *r, int rc, const struct qimg_error *e);
int turn_wait(struct request *r);	/* until something has happened; STEP_WAIT */
void turn_leave(struct request *r);
void turn_kick(struct requests *rs);	/* something has happened */
void turn_call(struct loop_task *task);

/* ---- transfer.c ---- */

struct transfer_spec {
	enum ioq_op op;
	struct file *file;
	uint64_t off;
	void *buf;
	uint64_t len;
	unsigned flags;
	struct qimg_image *grace;	/* whose place it is, or NULL: the place cannot be given up meanwhile */
	bool attempt;			/* ENOTSUP is no failure: sets r->unsupported */
};

/* Starts a transfer that is part of the request. */
int transfer_start(struct request *r, const struct transfer_spec *t);
/* Counts a transfer on a place of img; the caller lowers the counter when it has ended. */
unsigned *transfer_grace(struct qimg_image *img);
/* Runs a job in a worker, or here, as part of a request that was counted by request_part already. */
void transfer_job(struct request *r, struct loop_job *job);

/* ---- reader.c, writer.c, clear.c, packer.c, packed.c ---- */

/* [off, off+len) to buf; what lies behind the end of the image is zeros. */
void reader_init(struct reader *rd, const struct request *r, uint64_t off, uint64_t len, void *buf);
int reader_step(struct request *r, struct reader *rd);
void writer_init(struct writer *w, uint64_t off, uint64_t len, const void *buf);
int writer_step(struct request *r, struct writer *w);
/* After a failure, with nothing pending: 0 when it goes on, -1 when it stays a failure. */
int writer_recover(struct request *r, struct writer *w);
void writer_free(struct writer *w);
/* All has landed: from here on nothing is left to be written again. */
void writer_over(struct writer *w);
int clear_zero_step(struct request *r);
int clear_discard_step(struct request *r);
int clear_write_step(struct request *r);
int packer_step(struct request *r);
void packer_free(struct packer *p);
/* All ordered requests before this one have their place. */
bool packer_is_next(const struct request *r);
/* Starts reading the guest data of a PACKED run, x->len bytes to buf. */
int packed_start(struct request *r, const struct extent *x, uint8_t *buf);
/* The codecs, for jobs: each worker has contexts of its own. NULL: no memory. */
struct inflated *packed_codecs(struct requests *rs, struct qimg_error *e);
int packed_deflate(struct inflated *c, unsigned worker, enum codec codec, int level, const void *src,
		   size_t src_len, void *dst, size_t *dst_len, struct qimg_error *e);
void packed_free(struct requests *rs);
/* request.c: one flush, as a step; e: where failures go. */
int request_flush(struct request *r, struct qimg_error *e);

#endif
