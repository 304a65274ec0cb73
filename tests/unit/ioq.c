// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/io/ioq: every engine, with many requests in flight at once, against a model in memory; on file
 * systems and devices, buffered and direct; what the hook sees and fails; syncs that fail; queues in
 * several threads; descriptors; the ends of direct files.
 *
 * An argument is another seed.
 */
#include "io/ioq.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/range.h"
#include "io/file_priv.h"
#include "io/sparse.h"
#include "scratch.h"
#include "tap.h"

#define SPACE	(1024 * 1024)
#define DEPTH	64
#define LONGEST (128 * 1024)

static const char *const engines[] = { "sync", "threads", "native", "io_uring" };
#define ENGINES 4

/* One thread's play with one file. */
struct play {
	uint64_t seed, size;
	struct file *f;
	struct ioq *q;
	unsigned bad, failed, count, flying, stuck;
	struct one {
		struct ioq_req req;
		struct qimg_error error;
		bool used;
		uint8_t *buf, *want; /* LONGEST + 4096 */
	} one[DEPTH];
	uint8_t model[SPACE], got[SPACE];
	char why[1100];
};

static struct qimg_error e;
static uint64_t first_seed = 1;

static uint64_t rnd(struct play *p, uint64_t below)
{
	p->seed ^= p->seed << 13;
	p->seed ^= p->seed >> 7;
	p->seed ^= p->seed << 17;
	return p->seed % below;
}

static bool play_open(struct play *p, const char *path, unsigned flags, const char *engine,
		      unsigned depth)
{
	unsigned i;

	memset(p->model, 0, SPACE);
	p->bad = p->failed = p->count = p->flying = p->stuck = 0;
	p->why[0] = '\0';
	if (file_open(&p->f, path, FILE_WRITE | FILE_CREATE | flags, &e))
		return false;
	if (ioq_new(&p->q, engine, depth, &e)) {
		file_close(p->f);
		return false;
	}
	p->size = file_size(p->f);
	if (p->size)
		file_read(p->f, 0, p->model, SPACE, &e);
	for (i = 0; i < DEPTH; i++) {
		p->one[i].used = false;
		p->one[i].buf = aligned_alloc(4096, LONGEST + 4096);
		p->one[i].want = malloc(LONGEST + 4096);
	}
	return true;
}

static void play_close(struct play *p)
{
	unsigned i;

	for (i = 0; i < DEPTH; i++) {
		free(p->one[i].buf);
		free(p->one[i].want);
	}
	ioq_free(p->q);
	file_close(p->f);
}

static void ended(struct play *p, struct ioq_req *r)
{
	struct one *o = (struct one *)((char *)r - offsetof(struct one, req));

	p->flying--;
	o->used = false;
	if (r->code) {
		p->failed++;
		snprintf(p->why, sizeof(p->why), "%s", o->error.msg);
	} else if (r->op == IOQ_READ && memcmp(r->buf, o->want, r->len)) {
		p->bad++;
		snprintf(p->why, sizeof(p->why), "read 0x%" PRIx64 " +0x%" PRIx64, r->off, r->len);
	}
}

/* Whatever has completed, in one of the ways to learn of it. At least one where `must` is set. */
static void collect(struct play *p, bool must)
{
	struct ioq_req *r;
	int fd;

	if (must) {
		if (rnd(p, 4) == 0 && (fd = ioq_fd(p->q)) >= 0) {
			struct pollfd pfd = { .fd = fd, .events = POLLIN };

			while (!(r = ioq_poll(p->q)) && !p->stuck)
				p->stuck += poll(&pfd, 1, 20000) != 1;
		} else {
			r = ioq_reap(p->q);
		}
		if (r)
			ended(p, r);
		else
			p->stuck++;
	}
	while (rnd(p, 3) && (r = ioq_poll(p->q)))
		ended(p, r);
}

/* Two at the same time may read the same bytes, but not change what another one uses. */
static bool clashes(struct play *p, enum ioq_op op, uint64_t off, uint64_t len)
{
	unsigned i;

	for (i = 0; i < DEPTH; i++) {
		const struct ioq_req *r = &p->one[i].req;

		if (p->one[i].used && !(op == IOQ_READ && r->op == IOQ_READ) &&
		    range_overlaps(off, len, r->off, r->len))
			return true;
	}
	return false;
}

static uint64_t rnd_place(struct play *p, uint64_t *len)
{
	uint64_t unit = UINT64_C(1) << (rnd(p, 2) ? 12 : rnd(p, 2) ? 9 : 0), off;

	*len = UINT64_C(1) << rnd(p, 17);
	*len = rnd(p, 2) ? *len : *len + rnd(p, *len + 1);
	*len = (*len + unit - 1) & ~(unit - 1);
	*len = *len > LONGEST ? LONGEST : *len;
	/* Crowded places, so that requests meet in blocks and at the end. */
	off = rnd(p, 3) ? rnd(p, SPACE) : p->size > 8192 ? p->size - rnd(p, 8192) : rnd(p, 8192);
	off &= ~(unit - 1);
	off = off >= SPACE ? SPACE - unit : off;
	*len = *len > SPACE - off ? SPACE - off : *len;
	return off;
}

static void submit(struct play *p)
{
	static const enum ioq_op ops[] = { IOQ_READ,  IOQ_READ,	 IOQ_READ, IOQ_WRITE,	IOQ_WRITE,
					   IOQ_WRITE, IOQ_WRITE, IOQ_ZERO, IOQ_DISCARD, IOQ_SYNC };
	enum ioq_op op = ops[rnd(p, 10)];
	uint64_t len, off = rnd_place(p, &len), i, inside;
	struct one *o;

	/* Not what takes long on real disks, all the time. */
	if ((op == IOQ_DISCARD && file_is_device(p->f)) || (op == IOQ_SYNC && rnd(p, 5)))
		return;
	if (op == IOQ_SYNC)
		off = len = 0;
	/* What a discard clears ends with the file: it would depend on what is in flight. */
	while (p->flying &&
	       (clashes(p, op, off, len) || (op == IOQ_DISCARD && off + len > file_size(p->f))))
		collect(p, true);
	for (o = p->one; o->used; o++)
		;
	o->used = true;
	o->req = (struct ioq_req){
		.op = op, .file = p->f, .off = off, .len = len, .error = &o->error
	};
	o->req.buf = o->buf + (rnd(p, 4) ? 0 : rnd(p, 4096));
	switch (op) {
	case IOQ_READ:
		memcpy(o->want, p->model + off, len);
		memset(o->req.buf, 0xee, len);
		break;
	case IOQ_WRITE:
		for (i = 0; i < len; i++)
			((uint8_t *)o->req.buf)[i] = (uint8_t)((i * p->count) >> 5 | p->count);
		memcpy(p->model + off, o->req.buf, len);
		break;
	case IOQ_ZERO:
		o->req.flags = rnd(p, 2) ? SPARSE_UNMAP : rnd(p, 2) ? SPARSE_RESERVE : 0;
		memset(p->model + off, 0, len);
		break;
	case IOQ_DISCARD:
		inside = off < file_size(p->f) ? file_size(p->f) - off : 0;
		memset(p->model + off, 0, inside < len ? inside : len);
		break;
	default:
		break;
	}
	if ((op == IOQ_WRITE || op == IOQ_ZERO) && off + len > p->size)
		p->size = off + len;
	p->flying++;
	p->count++;
	ioq_submit(p->q, &o->req);
}

static bool same(struct play *p)
{
	struct stat st;

	return !file_read(p->f, 0, p->got, SPACE, &e) && !memcmp(p->got, p->model, SPACE) &&
	       file_size(p->f) == p->size && !fstat(file_fd(p->f), &st) &&
	       (S_ISBLK(st.st_mode) || (uint64_t)st.st_size == p->size);
}

/* Holes that are remembered are holes. */
static bool holes_hold(struct play *p)
{
	struct file_extent x;
	uint64_t off, i;

	for (off = 0; off < SPACE; off += x.len) {
		if (file_extent(p->f, off, SPACE - off, &x, &e) || !x.len)
			return false;
		for (i = 0; x.hole && i < x.len; i++) {
			if (p->model[off + i])
				return false;
		}
	}
	return true;
}

static void play_round(struct play *p, unsigned depth, unsigned requests)
{
	while (requests-- && !p->stuck) {
		while (p->flying >= DEPTH || (p->flying >= depth && rnd(p, 4)))
			collect(p, true);
		submit(p);
		if (!rnd(p, 4))
			collect(p, false);
	}
	while (p->flying && !p->stuck)
		collect(p, true);
}

static void random_requests(const char *path, unsigned flags, const char *what)
{
	static const unsigned depths[] = { 1, 5, 64 };
	static struct play p;
	unsigned i, d, round;

	p.seed = first_seed * UINT64_C(0x9e3779b97f4a7c15);
	for (i = 0; i < ENGINES; i++) {
		for (d = 0; d < 3; d++) {
			if (!play_open(&p, path, flags, engines[i], depths[d])) {
				skip("%s: %s", engines[i], e.msg);
				continue;
			}
			for (round = 0; round < 3; round++) {
				play_round(&p, depths[d], 100);
				p.bad += !holes_hold(&p);
				/* The kernel says here what it was not pleased with. */
				if (file_sync(p.f, &e)) {
					p.failed++;
					snprintf(p.why, sizeof(p.why), "%s", e.msg);
				}
				if (!file_is_device(p.f) && !p.stuck) {
					uint64_t size = rnd(&p, p.size + 1);

					p.failed += !!file_truncate(p.f, size, &e);
					p.size = size;
					memset(p.model + size, 0, SPACE - size);
				}
			}
			ok(!p.bad && !p.failed && !p.stuck && same(&p),
			   "%s, %s, depth %u: bad %u, failed %u, stuck %u %s", what, engines[i],
			   depths[d], p.bad, p.failed, p.stuck, p.why);
			play_close(&p);
		}
	}
}

static void places(void)
{
	char dev[64];

	random_requests("buffered", 0, "buffered file");
	random_requests("direct", FILE_DIRECT, "direct file");
	random_requests("serial", FILE_SERIAL, "serial file");
	if (scratch_mount("tmpfs", "tmpfs", 8))
		random_requests("tmpfs/file", 0, "tmpfs");
	else
		skip("no tmpfs here");
	if (scratch_mount("xfs", "xfs", 300))
		random_requests("xfs/file", FILE_DIRECT, "direct file on XFS");
	else
		skip("no XFS here");
	if (scratch_mount("ext4", "ext4", 64))
		random_requests("ext4/file", FILE_DIRECT, "direct file on ext4");
	else
		skip("no ext4 here");
	if (scratch_loop("dev512", SPACE, dev)) {
		random_requests(dev, 0, "device");
		random_requests(dev, FILE_DIRECT, "direct device");
	} else {
		skip("no loop devices here");
	}
	if (scratch_loop("dev4k", SPACE, dev) &&
	    sh("PATH=$PATH:/usr/sbin:/sbin losetup --sector-size 4096 %s", dev))
		random_requests(dev, FILE_DIRECT, "direct device of 4096");
	else
		skip("no loop devices with sectors of 4096 bytes here");
}

/* ---- the ends of direct files ---- */

#define PAGE 4096

/* The byte of a file at off, when it was written last in `turn`. */
static uint8_t byte_at(uint64_t off, unsigned turn)
{
	return (uint8_t)(off / 512 + turn * 7 + 1);
}

static void fill(uint8_t *buf, uint64_t off, size_t len, unsigned turn)
{
	size_t i;

	for (i = 0; i < len; i++)
		buf[i] = byte_at(off + i, turn);
}

/*
 * In each turn the file grows by a page: by direct requests in flight, and an end in the same page which
 * is written meanwhile, through the queue or by the owner of the file.
 */
static void end_in_flight(const char *path, const char *engine, bool owner, unsigned turns)
{
	static _Alignas(PAGE) uint8_t buf[8][PAGE], all[64 * PAGE];
	struct qimg_error err[8], se;
	struct ioq_req r[8], *back;
	unsigned turn, i, block, blocks, failed = 0, bad = 0;
	uint64_t base = 0, end = 0;
	struct ioq *q = NULL;
	struct stat st;
	struct file *f;

	unlink(path);
	if (ioq_new(&q, engine, 16, &e) ||
	    file_open(&f, path, FILE_WRITE | FILE_CREATE | FILE_DIRECT, &e)) {
		ioq_free(q);
		skip("%s: %s", engine, e.msg);
		return;
	}
	block = f->direct_align ? f->direct_align : PAGE;
	blocks = block < PAGE ? PAGE / block - 1 : 1;
	blocks = blocks > 7 ? 7 : blocks;
	se.msg[0] = '\0';
	for (turn = 0; turn < turns; turn++, base = (turn % 60) * PAGE) {
		end = base + (blocks + 1) * block - 100 - turn % 200;
		if (turn % 60 == 0)
			failed += !!file_truncate(f, 0, &e);
		for (i = 0; i <= blocks; i++) {
			size_t len = i < blocks ? block : (size_t)(end - base - i * block);

			fill(buf[i], base + i * block, len, turn % 60);
			memset(&err[i], 0, sizeof(err[i]));
			r[i] = (struct ioq_req){ .op = IOQ_WRITE, .file = f, .off = base + i * block,
						 .buf = buf[i], .len = len, .error = &err[i] };
			if (i < blocks || !owner)
				ioq_submit(q, &r[i]);
			else
				failed += !!file_write(f, r[i].off, r[i].buf, len, &e);
			if (i + 1 == blocks)
				ioq_poll(q);
		}
		while ((back = ioq_reap(q)))
			failed += !!back->code;
		/* This is where the kernel says so. */
		if ((turn % 8 == 7 || turn + 1 == turns) && file_sync(f, &se)) {
			failed++;
			break;
		}
		bad += fstat(file_fd(f), &st) || (uint64_t)st.st_size != end || file_size(f) != end;
		memset(all, 0, end);
		bad += !!file_read(f, base, all, end - base, &e);
		for (i = 0; i < end - base; i++)
			bad += all[i] != byte_at(base + i, turn % 60);
	}
	ok(!failed && !bad, "%s: the end of %s, by %s: turn %u, failed %u, bad %u %s", engine, path,
	   owner ? "the owner" : "the queue", turn, failed, bad, se.msg);
	file_close(f);
	ioq_free(q);
}

static void ends(unsigned turns)
{
	static const char *const paths[] = { "direct", "xfs/end", "ext4/end" };
	unsigned i, p, owner;

	for (p = 0; p < 3; p++) {
		if (p && !sh("mountpoint -q `dirname %s`", paths[p])) {
			skip("%s is not mounted", paths[p]);
			continue;
		}
		for (i = 0; i < ENGINES; i++) {
			for (owner = 0; owner < 2; owner++)
				end_in_flight(paths[p], engines[i], owner, turns);
		}
	}
}

/* In a process of its own. */
static void ends_without_proc(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/proc", "tmpfs", 0, NULL)) {
		skip("/proc can not be hidden here");
		return;
	}
	ends(40);
}

/* ---- the hook ---- */

struct seen {
	unsigned calls[FILE_OP_SYNC + 1];
	enum file_op fail;
	int code;
	uint64_t off, len;
	pthread_t thread;
	unsigned elsewhere;
};

static int look(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		uint64_t len)
{
	struct seen *s = ctx;

	(void)f;
	(void)buf;
	s->calls[op]++;
	s->elsewhere += !pthread_equal(s->thread, pthread_self());
	s->off = off;
	s->len = len;
	if (!s->code || op != s->fail)
		return 0;
	len = (uint64_t)s->code;
	s->code = 0;
	return (int)len;
}

static const struct {
	enum ioq_op op;
	enum file_op sees;
	uint64_t off, len;
} wishes[] = {
	{ IOQ_READ, FILE_OP_READ, 4096, 8192 },	  { IOQ_READ, FILE_OP_READ, 1, 3 },
	{ IOQ_WRITE, FILE_OP_WRITE, 4096, 8192 }, { IOQ_WRITE, FILE_OP_WRITE, 1, 3 },
	{ IOQ_ZERO, FILE_OP_ZERO, 4096, 4096 },	  { IOQ_ZERO, FILE_OP_ZERO, 8, 5000 },
	{ IOQ_ZERO, FILE_OP_ZERO, 90000, 50000 }, { IOQ_DISCARD, FILE_OP_PUNCH, 4096, 8192 },
	{ IOQ_SYNC, FILE_OP_SYNC, 0, 0 },
};

static void hooked(const char *engine, unsigned flags)
{
	struct seen s = { .thread = pthread_self() };
	const struct file_hook hook = { look, &s };
	_Alignas(4096) static uint8_t buf[8192];
	struct ioq *q = NULL;
	unsigned i, n, bad = 0;
	uint64_t size;
	struct file *f;

	if (ioq_new(&q, engine, 4, &e)) {
		skip("%s: %s", engine, e.msg);
		return;
	}
	unlink("hooked");
	file_open(&f, "hooked", FILE_WRITE | FILE_CREATE | flags, &e);
	file_truncate(f, 100000, &e);
	file_set_hook(&hook);
	for (i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		struct ioq_req r = { .op = wishes[i].op,
				     .file = f,
				     .off = wishes[i].off,
				     .len = wishes[i].len,
				     .buf = buf };

		for (n = 0; n < 2; n++) {
			memset(s.calls, 0, sizeof(s.calls));
			s.fail = wishes[i].sees;
			s.code = n ? 0 : ENOSPC;
			size = file_size(f);
			memset(&e, 0, sizeof(e));
			if (r.op == IOQ_SYNC && !n)
				continue;
			bad += ioq_run(q, &r, &e) != (n ? 0 : -1) || r.code != (n ? 0 : ENOSPC);
			bad += !n && (e.code != ENOSPC || !strstr(e.msg, "'hooked'") ||
				      file_size(f) != size);
			bad += s.calls[wishes[i].sees] != 1 || s.off != wishes[i].off ||
			       s.len != wishes[i].len;
			if (bad) {
				diag("wish %u, %u: %s", i, n, e.msg);
				break;
			}
		}
	}
	ok(!bad && !s.elsewhere,
	   "%s, flags %u: the hook sees all, once, in its thread, and can refuse", engine, flags);
	is_u64(file_size(f), 140000, "zeros have made the file longer");
	memset(buf, 9, 4);
	{
		struct ioq_req r = {
			.op = IOQ_READ, .file = f, .off = 139998, .len = 4, .buf = buf
		};

		ok(!ioq_run(q, &r, &e) && !memcmp(buf, "\0\0\0\0", 4), "beyond the end are zeros");
		r.op = IOQ_WRITE;
		r.len = 0;
		r.off = 200000;
		ok(!ioq_run(q, &r, &e) && file_size(f) == 140000,
		   "to write nothing changes nothing");
		r.off = UINT64_MAX - 1;
		r.len = 4;
		ok(ioq_run(q, &r, &e) == -1 && e.code == EFBIG, "too far: %s", e.msg);
		r.op = IOQ_READ;
		ok(ioq_run(q, &r, &e) == -1 && e.code == EINVAL, "too far: %s", e.msg);
	}
	{
		struct qimg_error err[4];
		struct ioq_req r[4];

		s.fail = FILE_OP_SYNC;
		s.code = EIO;
		for (i = 0; i < 4; i++) {
			r[i] = (struct ioq_req){ .op = i == 2 ? IOQ_WRITE : IOQ_SYNC,
						 .file = f,
						 .len = i == 2 ? 512 : 0,
						 .buf = buf,
						 .error = &err[i] };
			ioq_submit(q, &r[i]);
		}
		while (ioq_reap(q))
			;
		ok(r[0].code == EIO && r[1].code == EIO && r[2].code == EIO && r[3].code == EIO,
		   "after a sync that failed nothing works: %s; %s; %s", err[0].msg, err[1].msg,
		   err[2].msg);
		r[0] = (struct ioq_req){ .op = IOQ_READ, .file = f, .len = 10, .buf = buf };
		ok(!ioq_run(q, &r[0], &e), "except for reading");
	}
	file_set_hook(NULL);
	file_close(f);
	file_open(&f, "hooked", 0, &e);
	for (i = bad = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
		struct ioq_req r = { .op = wishes[i].op,
				     .file = f,
				     .off = wishes[i].off,
				     .len = wishes[i].len,
				     .buf = buf };

		if (r.op != IOQ_READ && r.op != IOQ_SYNC)
			bad += ioq_run(q, &r, &e) != -1 || r.code != EBADF;
	}
	ok(!bad, "a file open for reading is not changed: %s", e.msg);
	file_close(f);
	ioq_free(q);
}

/* A sync is done only with all those of the same file that it met. */
static void syncs(const char *engine)
{
	static struct qimg_error err[32];
	struct ioq_req r[32];
	static uint8_t buf[16][65536];
	struct ioq *q = NULL;
	struct file *f;
	unsigned i, n = 0, bad = 0;

	if (ioq_new(&q, engine, 8, &e)) {
		skip("%s: %s", engine, e.msg);
		return;
	}
	file_open(&f, "syncs", FILE_WRITE | FILE_CREATE, &e);
	for (i = 0; i < 32; i++) {
		r[i] = (struct ioq_req){ .op = i % 2 ? IOQ_SYNC : IOQ_WRITE,
					 .file = f,
					 .off = i * 65536,
					 .len = i % 2 ? 0 : 65536,
					 .buf = buf[i / 2],
					 .error = &err[i] };
		ioq_submit(q, &r[i]);
	}
	while (ioq_reap(q))
		n++;
	for (i = 0; i < 32; i++)
		bad += r[i].code;
	ok(n == 32 && !bad, "%s: %u requests ended, syncs among them", engine, n);
	file_close(f);
	ioq_free(q);
}

/* ---- threads ---- */

static void *play_alone(void *arg)
{
	struct play *p = arg;

	play_round(p, 16, 400);
	return NULL;
}

static void two_threads(const char *engine)
{
	static struct play p[2];
	pthread_t t[2];
	unsigned i;

	for (i = 0; i < 2; i++) {
		p[i].seed = 7 + i;
		unlink(i ? "two" : "one");
		if (!play_open(&p[i], i ? "two" : "one", FILE_DIRECT, engine, 8)) {
			skip("%s: %s", engine, e.msg);
			if (i)
				play_close(&p[0]);
			return;
		}
	}
	for (i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, play_alone, &p[i]);
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < 2; i++) {
		ok(!p[i].bad && !p[i].failed && !p[i].stuck && same(&p[i]),
		   "%s: thread %u: bad %u, failed %u %s", engine, i, p[i].bad, p[i].failed,
		   p[i].why);
		play_close(&p[i]);
	}
}

int main(int argc, char **argv)
{
	struct ioq *q = NULL;
	unsigned i;
	int status;
	pid_t pid;

	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 0);
	scratch_enter();
	ok(!ioq_new(&q, NULL, 1 << 30, &e), "some engine always works");
	diag("it is %s", ioq_engine_name(q));
	ok(!ioq_reap(q) && !ioq_poll(q), "it has nothing to do");
	ioq_free(q);
	ok(!ioq_new(&q, "auto", 1, &e), "has a name");
	ioq_free(q);
	for (i = 0; i < ENGINES; i++) {
		hooked(engines[i], 0);
		hooked(engines[i], FILE_DIRECT);
		syncs(engines[i]);
		two_threads(engines[i]);
	}
	places();
	ends(120);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		/* Its checks count as one. */
		dup2(STDERR_FILENO, STDOUT_FILENO);
		tap_failed = 0;
		ends_without_proc();
		fflush(stdout);
		_exit(tap_failed ? 1 : 0);
	}
	ok(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "ends without /proc");
	return done_testing();
}
