// SPDX-License-Identifier: BSD-2-Clause
/* See program.h. */
#include "program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

void program_prepare(struct program *p, const struct setting *s, const char *base, uint64_t seed,
		     const size_t *clock)
{
	memset(p, 0, sizeof(*p));
	p->s = s;
	p->seed = seed;
	p->stamp = 1;
	p->clock = clock;
	snprintf(p->dir, sizeof(p->dir), "%s/%s-%" PRIu64, base, s->name, seed);
	if (mkdir(p->dir, 0700)) {
		perror(p->dir);
		exit(1);
	}
	snprintf(p->path, sizeof(p->path), "%s/image.qcow2", p->dir);
	setting_build(s, p->dir, &p->seed, &p->content);
	guest_start(&p->guest, p->content.active, s->size);
}

void program_free(struct program *p, bool keep)
{
	static const char *const names[] = { "image.qcow2", "data.raw", "backing.raw" };
	char path[300];

	for (unsigned i = 0; i < 3 && !keep; i++) {
		snprintf(path, sizeof(path), "%s/%s", p->dir, names[i]);
		unlink(path);
	}
	if (!keep)
		rmdir(p->dir);
	guest_free(&p->guest);
	setting_free(&p->content);
}

static void set(struct qimg_opts *o, const char *key, const char *value)
{
	struct qimg_error e;

	if (qimg_opts_set(o, key, value, &e) < 0)
		abort();
}

/*
 * Open options that make caches small, so that they are evicted all the time, and that clear what is
 * around a write and handle zeros in each of the ways there are.
 */
static struct qimg_opts *choose_options(struct program *p)
{
	static const char *const cow[] = { "auto", "on", "off" };
	struct qimg_opts *o = must(qimg_opts_new());
	unsigned room = p->s->cluster_bits - 9 + 1;
	char text[32];

	if (random_chance(&p->seed, 75)) {
		snprintf(text, sizeof(text), "%u",
			 512u << random_below(&p->seed, room < 4 ? room : 4));
		set(o, "l2-cache-entry-size", text);
		set(o, "l2-cache-size", "1024");
		set(o, "refcount-cache-size", "1024");
	} else if (random_chance(&p->seed, 30)) {
		set(o, "metadata-cache", "off");
	}
	if (random_chance(&p->seed, 25))
		set(o, "metadata-writeback", "single");
	if (!qimg_opts_get(o, "metadata-cache"))
		set(o, "l2-cache-compact", random_chance(&p->seed, 50) ? "on" : "off");
	set(o, "cow-zero-range", cow[random_below(&p->seed, 3)]);
	set(o, "detect-zeroes", random_chance(&p->seed, 30) ? "on" : "off");
	set(o, "pass-discard-other", random_chance(&p->seed, 50) ? "on" : "off");
	if (p->s->version >= 3 && random_chance(&p->seed, 25))
		set(o, "discard-no-unref", "on");
	if (p->engines && random_chance(&p->seed, 50))
		set(o, "aio", random_chance(&p->seed, 50) ? "threads" : "io_uring");
	return o;
}

bool program_open(struct program *p, struct qimg_error *e)
{
	unsigned flags = QIMG_OPEN_WRITE | (random_chance(&p->seed, 70) ? QIMG_OPEN_UNMAP : 0);
	struct qimg_opts *o = choose_options(p);
	bool good = qimg_open(&p->img, p->path, "qcow2", o, flags, e) == 0;

	p->since_open = 0;
	qimg_opts_free(o);
	return good;
}

bool program_close(struct program *p, struct qimg_error *e)
{
	bool good;

	guest_op(&p->guest);
	good = qimg_close(p->img, e) == 0;
	p->img = NULL;
	if (good)
		guest_flushed(&p->guest, *p->clock, p->guest.op);
	return good;
}

/* Mostly in one region, so that clusters meet again; of any alignment, often a sector's or cluster's. */
static void choose_range(struct program *p, uint64_t *off, uint64_t *len)
{
	uint64_t size = p->guest.size, cluster = UINT64_C(1) << p->s->cluster_bits;
	uint64_t most = cluster * 5 < size / 2 ? cluster * 5 : size / 2;
	unsigned grain = random_below(&p->seed, 4);
	uint64_t unit = grain == 0 ? 1 : grain == 1 ? cluster : SECTOR;

	*off = random_below(&p->seed, random_chance(&p->seed, 50) ? size : size / 4) / unit * unit;
	*len = (random_below(&p->seed, random_chance(&p->seed, 60) ? cluster : most) / unit + 1) *
	       unit;
	if (*len > size - *off)
		*len = size - *off;
}

static bool compare(struct program *p, uint64_t off, uint64_t len, struct qimg_error *e)
{
	uint8_t *buf = must(malloc(len + 1));
	bool good = qimg_read(p->img, off, buf, len, e) == 0;

	for (uint64_t i = 0; i < len && good; i++) {
		uint64_t at = off + i;

		if (buf[i] == guest_now(&p->guest, at / SECTOR)[at % SECTOR])
			continue;
		e->code = EIO;
		snprintf(e->msg, sizeof(e->msg),
			 "byte 0x%" PRIx64 " reads 0x%02x instead of 0x%02x", at, buf[i],
			 guest_now(&p->guest, at / SECTOR)[at % SECTOR]);
		good = false;
	}
	free(buf);
	return good;
}

bool program_read_all(struct program *p, struct qimg_error *e)
{
	snprintf(p->last, sizeof(p->last), "read all");
	return compare(p, 0, p->guest.size, e);
}

bool program_recover(struct program *p, struct qimg_error *e)
{
	unsigned floor = guest_floor(&p->guest, *p->clock);
	uint8_t now[SECTOR];

	guest_failed(&p->guest);
	if (!p->img && !program_open(p, e))
		return false;
	if (!guest_size_allowed(&p->guest, *p->clock, qimg_size(p->img))) {
		e->code = EILSEQ;
		snprintf(e->msg, sizeof(e->msg), "the size is %" PRIu64 " now", qimg_size(p->img));
		return false;
	}
	guest_op(&p->guest);
	guest_resize(&p->guest, *p->clock, qimg_size(p->img));
	for (uint64_t i = 0; i < p->guest.size / SECTOR; i++) {
		if (qimg_read(p->img, i * SECTOR, now, SECTOR, e) < 0)
			return false;
		if (!memcmp(now, guest_now(&p->guest, i), SECTOR))
			continue;
		if (!guest_allowed(&p->guest, *p->clock, floor, i, now)) {
			e->code = EILSEQ;
			snprintf(e->msg, sizeof(e->msg), "0x%" PRIx64 " then shows stamp %" PRIx64,
				 i * SECTOR, stamp_read(now));
			return false;
		}
		guest_write(&p->guest, *p->clock, i * SECTOR, now, SECTOR);
	}
	return true;
}

static bool op_write(struct program *p, uint64_t off, uint64_t len, bool packed,
		     struct qimg_error *e)
{
	uint8_t *buf = must(malloc(len + 1));
	bool good;

	if (random_chance(&p->seed, 8))
		memset(buf, 0, len);
	else
		stamp_fill(buf, off, len, p->stamp++);
	guest_write(&p->guest, *p->clock, off, buf, len);
	good = (packed ? qimg_write_compressed(p->img, off, buf, len, e)
		       : qimg_write(p->img, off, buf, len, e)) == 0;
	free(buf);
	return good;
}

static bool op_pack(struct program *p, uint64_t off, struct qimg_error *e)
{
	uint64_t len = UINT64_C(1) << p->s->cluster_bits;

	off = off / len * len;
	if (len > p->guest.size - off)
		len = p->guest.size - off;
	return op_write(p, off, len, true, e);
}

static bool op_zero(struct program *p, uint64_t off, uint64_t len, struct qimg_error *e)
{
	unsigned flags = random_chance(&p->seed, 50) ? QIMG_ZERO_UNMAP : 0;

	guest_write(&p->guest, *p->clock, off, NULL, len);
	return qimg_zero(p->img, off, len, flags, e) == 0;
}

/* A discard is a hint, so what it did is asked for: each sector is as before or reads as zeros. */
static bool learn_discard(struct program *p, size_t event, uint64_t off, uint64_t len,
			  struct qimg_error *e)
{
	static const uint8_t zeros[SECTOR];
	uint64_t end = off + len;
	uint8_t now[SECTOR];

	for (off = (off + SECTOR - 1) / SECTOR * SECTOR; off + SECTOR <= end; off += SECTOR) {
		if (qimg_read(p->img, off, now, SECTOR, e) < 0) {
			guest_write(&p->guest, event, off, NULL, end - off);
			return false;
		}
		if (!memcmp(now, guest_now(&p->guest, off / SECTOR), SECTOR))
			continue;
		if (memcmp(now, zeros, SECTOR)) {
			e->code = EIO;
			snprintf(e->msg, sizeof(e->msg), "0x%" PRIx64 " then shows stamp %" PRIx64,
				 off, stamp_read(now));
			return false;
		}
		guest_write(&p->guest, event, off, NULL, SECTOR);
	}
	return true;
}

static bool op_discard(struct program *p, uint64_t off, uint64_t len, struct qimg_error *e)
{
	size_t event = *p->clock;

	if (qimg_discard(p->img, off, len, e) == 0)
		return learn_discard(p, event, off, len, e);
	guest_write(&p->guest, event, off, NULL, len);
	return false;
}

/* ---- several requests at once ---- */

enum { BURST = 12 };

struct burst {
	struct qimg_io io[BURST];
	size_t event[BURST];		/* when it was submitted */
	unsigned count;
};

/* The part of the disk that the i-th request of a burst may touch: none shares a sector with another. */
static void choose_part(struct program *p, unsigned i, uint64_t *off, uint64_t *len)
{
	uint64_t part = p->guest.size / BURST / SECTOR * SECTOR, from, to;

	/* Neighbours meet in the middle of clusters and L2 slices all the time. */
	from = random_below(&p->seed, part / 2) / SECTOR * SECTOR;
	to = from + (1 + random_below(&p->seed, (part - from) / SECTOR)) * SECTOR;
	*off = i * part + from;
	*len = to - from;
	if (random_chance(&p->seed, 30) && *len > SECTOR) {
		*off += 1 + random_below(&p->seed, SECTOR / 2);
		*len -= SECTOR;
	}
}

static void burst_flushed(struct qimg_io *io)
{
	struct program *p = io->user;

	if (!io->code)
		guest_flushed(&p->guest, *p->clock, p->guest.op - 1);
}

static void burst_add(struct program *p, struct burst *b)
{
	static const enum qimg_io_op ops[] = { QIMG_IO_WRITE, QIMG_IO_WRITE, QIMG_IO_WRITE,
					       QIMG_IO_ZERO, QIMG_IO_DISCARD };
	struct qimg_io *io = &b->io[b->count];

	*io = (struct qimg_io){ .op = ops[random_below(&p->seed, 5)], .user = p };
	choose_part(p, b->count, &io->off, &io->len);
	b->event[b->count++] = *p->clock;
	if (io->op == QIMG_IO_WRITE) {
		io->buf = must(malloc(io->len));
		stamp_fill(io->buf, io->off, io->len, p->stamp++);
	} else if (io->op == QIMG_IO_ZERO) {
		io->flags = random_chance(&p->seed, 50) ? QIMG_ZERO_UNMAP : 0;
	}
	if (io->op != QIMG_IO_DISCARD)
		guest_write(&p->guest, *p->clock, io->off, io->buf, io->len);
	qimg_submit(p->img, io);
}

/* Waits for all, and looks at what became of them. */
static bool burst_end(struct program *p, struct burst *b, struct qimg_error *e)
{
	bool good = true;

	while (qimg_poll(p->img, true))
		;
	for (unsigned i = 0; i < b->count; i++) {
		free(b->io[i].buf);
		if (b->io[i].code) {
			*e = b->io[i].error;
			good = false;
		}
	}
	for (unsigned i = 0; i < b->count; i++) {
		const struct qimg_io *io = &b->io[i];

		if (io->op != QIMG_IO_DISCARD)
			continue;
		if (good)
			good = learn_discard(p, b->event[i], io->off, io->len, e);
		else	/* whether it took place, the next look at the disk will show */
			guest_write(&p->guest, b->event[i], io->off, NULL, io->len);
	}
	return good;
}

/* Some requests, and when these have ended some more, and a flush, which covers the first ones. */
static bool op_burst(struct program *p, struct qimg_error *e)
{
	struct burst b = { .count = 0 };
	struct qimg_io flush = { .op = QIMG_IO_FLUSH, .user = p, .done = burst_flushed };
	unsigned n = 2 + random_below(&p->seed, BURST - 1), at = random_below(&p->seed, n);

	while (b.count < n)
		burst_add(p, &b);
	if (!burst_end(p, &b, e))
		return false;
	guest_op(&p->guest);
	b.count = 0;
	while (b.count < n) {
		if (b.count == at)
			qimg_submit(p->img, &flush);
		burst_add(p, &b);
	}
	if (!burst_end(p, &b, e))
		return false;
	if (flush.code)
		*e = flush.error;
	return !flush.code;
}

static bool op_resize(struct program *p, struct qimg_error *e)
{
	uint64_t most = random_chance(&p->seed, 10) ? 2000 : 200;
	uint64_t size = p->guest.size + (1 + random_below(&p->seed, most)) * SECTOR;

	snprintf(p->last, sizeof(p->last), "resize to %" PRIu64, size);
	guest_resize(&p->guest, *p->clock, size);
	return qimg_resize(p->img, size, "off", e) == 0;
}

static bool op_flush(struct program *p, struct qimg_error *e)
{
	if (qimg_flush(p->img, e) < 0)
		return false;
	guest_flushed(&p->guest, *p->clock, p->guest.op);
	return true;
}

enum op { OP_FLUSH, OP_REOPEN, OP_ZERO, OP_DISCARD, OP_RESIZE, OP_PACK, OP_READ, OP_BURST, OP_WRITE };

static enum op choose_op(struct program *p)
{
	unsigned dice = random_below(&p->seed, 100);

	/* A zero as the first change and nothing after it: what a flush could forget. */
	if (p->since_open < 2 && random_chance(&p->seed, 40))
		return p->since_open ? OP_FLUSH : OP_ZERO;
	if (dice < 10)
		return OP_FLUSH;
	if (dice < 13)
		return OP_REOPEN;
	if (dice < 28)
		return OP_ZERO;
	if (dice < 42)
		return OP_DISCARD;
	if (dice < 48)
		return OP_READ;
	if (dice < 55 && p->s->resize)
		return OP_RESIZE;
	if (dice < 68 && p->s->packed)
		return OP_PACK;
	if (dice < 72)
		return OP_BURST;
	return OP_WRITE;
}

bool program_step(struct program *p, struct qimg_error *e)
{
	static const char *const name[] = { "flush",  "reopen",	  "zero", "discard",
					    "resize", "compress", "read", "burst", "write" };
	enum op op = choose_op(p);
	uint64_t off, len;

	choose_range(p, &off, &len);
	guest_op(&p->guest);
	p->ran++;
	snprintf(p->last, sizeof(p->last), "%s 0x%" PRIx64 " +0x%" PRIx64, name[op], off, len);
	p->since_open++;
	switch (op) {
	case OP_FLUSH:
		return op_flush(p, e);
	case OP_REOPEN:
		return program_close(p, e) && program_open(p, e);
	case OP_ZERO:
		return op_zero(p, off, len, e);
	case OP_DISCARD:
		return op_discard(p, off, len, e);
	case OP_RESIZE:
		return op_resize(p, e);
	case OP_PACK:
		return op_pack(p, off, e);
	case OP_READ:
		return compare(p, off, len, e);
	case OP_BURST:
		return op_burst(p, e);
	default:
		return op_write(p, off, len, false, e);
	}
}
