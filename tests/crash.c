// SPDX-License-Identifier: BSD-2-Clause
/*
 * The power-failure test. A random program runs on an image while all that reaches the disk is recorded;
 * then, for points all over the record, the disk is rebuilt as a crash may have left it (what was
 * synced, and any part of the rest) and judged by a reader of its own (qcheck.c):
 *
 * - the image opens, entries are aligned and inside the file;
 * - no refcount is below the number of references, no cluster is used twice, COPIED is set on nothing
 *   that is shared; with the dirty bit refcounts may be anything;
 * - each sector the guest reads holds what the last completed flush left or a later write brought;
 *   snapshots have not changed at all;
 * - now and then the library itself takes the image over: reads all of it, writes, closes.
 *
 * That the test can fail is a test, too: with syncs taken out of the record each kind of damage
 * has to show up.
 *
 *	crash [--seed N] [--points N] [--setting NAME] [--keep] [--verbose]
 */
#include "qimg.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"
#include "points.h"
#include "program.h"
#include "qcheck.h"
#include "setting.h"
#include "unit/tap.h"

enum { OPS = 70, DEFAULT_POINTS = 15000, TAKE_OVER_EVERY = 40, REPORTS = 3 };

enum mutation { MUTATE_NOTHING, MUTATE_INNER_SYNCS, MUTATE_ALL_SYNCS };

struct damage {
	unsigned metadata, foreign, lost, snapshot, library;
};

struct run {
	const struct setting *s;
	struct program p;
	struct disk disk;
	uint64_t seed, first_seed; /* of the crashes: the complement of the program's */
	bool faults;		   /* calls to the host fail now and then */
	struct damage damage;
	unsigned points, told;
	/* the point that is being judged */
	size_t event;
	unsigned floor;
	const char *how;
	unsigned bad;  /* sectors, in the walk that runs */
	bool pristine; /* the image says that nothing has changed since the start */
	uint8_t *seen; /* what the walk read, for the library to agree with */
};

static const char *const kind_name[] = { "hole", "zero", "data" };
static bool verbose, keep;
static char *base_dir;

static void tell(struct run *r, const char *what, const char *detail)
{
	if (r->told++ < REPORTS || verbose)
		diag("%s, seed %" PRIu64 ": %s after event %zu of %zu, %s surviving: %s",
		     r->s->name, ~r->first_seed, what, r->event, r->disk.events, r->how, detail);
}

static void list_events(const struct run *r)
{
	static const char *const name[] = { "read",	"write",    "zero", "punch",
					    "truncate", "allocate", "sync" };

	for (size_t i = 0; i < r->disk.events; i++) {
		const struct disk_event *ev = &r->disk.event[i];

		diag("event %zu: %s %s 0x%" PRIx64 " +0x%" PRIx64, i, ev->file ? "data" : "image",
		     name[ev->op], ev->off, ev->len);
	}
}

/* Some of the next calls to the host will fail. */
static void arm(struct run *r)
{
	struct disk *d = &r->disk;

	if (!random_chance(&r->seed, 25))
		return;
	d->fail_after = random_below(&r->seed, 8);
	d->fail_count = random_chance(&r->seed, 70) ? 1 : 1 + random_below(&r->seed, 5);
	d->fail_code = random_chance(&r->seed, 50) ? EIO : ENOSPC;
	d->fail_reads = random_chance(&r->seed, 30);
}

/*
 * A step with failing calls. What it was to do may be there or not; whatever else the guest had must
 * be there, and the program goes on. A failed sync is another matter: the library then refuses to go on.
 * So is a failed close: a new open that changes nothing has nothing to sync, whatever came before.
 */
static bool faulty_step(struct run *r, bool *over, struct qimg_error *e)
{
	struct disk *d = &r->disk;
	unsigned failed = d->failed;
	bool good, closed;

	arm(r);
	good = program_step(&r->p, e);
	d->fail_after = d->fail_count = 0;
	if (good)
		return true;
	if (d->failed == failed) {
		*over = d->failed_syncs > 0;
		return *over;
	}
	closed = !r->p.img;
	if (program_recover(&r->p, e)) {
		*over = closed || d->failed_syncs;
		return true;
	}
	/* With lazy refcounts an image that could not be closed has to be repaired first. */
	*over = e->code != EILSEQ && (d->failed_syncs || r->s->lazy);
	return *over;
}

/* Runs the program. What was recorded before a failure can still be judged. */
static bool run_program(struct run *r)
{
	struct qimg_error e;
	bool good = program_open(&r->p, &e), over = false;

	if (!good)
		snprintf(r->p.last, sizeof(r->p.last), "open");
	for (unsigned i = 0; i < OPS && good && !over; i++) {
		size_t before = r->disk.events;

		good = r->faults ? faulty_step(r, &over, &e) : program_step(&r->p, &e);
		if (verbose)
			diag("%s: events %zu to %zu, %u failed: %s", r->s->name, before,
			     r->disk.events, r->disk.failed, r->p.last);
	}
	if (!good)
		diag("%s, seed %" PRIu64 "%s: operation %u (%s): %s", r->s->name, ~r->first_seed,
		     r->faults ? ", failing calls" : "", r->p.ran, r->p.last, e.msg);
	if (over) {
		qimg_close(r->p.img, &e);
		r->p.img = NULL;
	} else if (r->p.img && !program_close(&r->p, &e)) {
		diag("%s, seed %" PRIu64 ": close: %s", r->s->name, ~r->first_seed, e.msg);
		good = false;
	}
	return good;
}

/* ---- judging ---- */

static const uint8_t *shown(const struct run *r, uint64_t guest, enum qcheck_kind kind,
			    const uint8_t *bytes, uint64_t at)
{
	static const uint8_t zeros[SECTOR];

	if (kind == QCHECK_DATA)
		return bytes ? bytes + at : NULL;
	if (kind == QCHECK_HOLE && r->p.content.backing && guest + at < r->p.content.size)
		return r->p.content.backing + guest + at;
	return zeros;
}

static void judge_active(void *ctx, uint64_t guest, uint64_t len, enum qcheck_kind kind,
			 const uint8_t *bytes)
{
	struct run *r = ctx;
	char text[200];

	for (uint64_t at = 0; at < len; at += SECTOR) {
		const uint8_t *have = shown(r, guest, kind, bytes, at);
		uint64_t sector = (guest + at) / SECTOR;
		bool old;

		if (have && r->seen)
			memcpy(r->seen + guest + at, have, SECTOR);
		if (have && r->pristine &&
		    memcmp(have, r->p.guest.sector[sector].version[0]->bytes, SECTOR)) {
			r->damage.metadata++;
			snprintf(text, sizeof(text),
				 "bitmaps are valid, and 0x%" PRIx64 " has changed", guest + at);
			if (r->bad++ == 0)
				tell(r, "bitmap", text);
		}
		if (have && sector < r->p.guest.sectors &&
		    guest_allowed(&r->p.guest, r->event, r->floor, sector, have))
			continue;
		old = have && sector < r->p.guest.sectors &&
		      guest_is_old(&r->p.guest, sector, have);
		if (old)
			r->damage.lost++;
		else
			r->damage.foreign++;
		snprintf(text, sizeof(text), "guest 0x%" PRIx64 " (%s) shows stamp %" PRIx64 " (%s)",
			 guest + at, kind_name[kind], have ? stamp_read(have) : 0,
			 old ? "flushed data lost" : "foreign or unreadable");
		if (r->bad++ == 0)
			tell(r, "content", text);
	}
}

static void judge_snapshot(void *ctx, uint64_t guest, uint64_t len, enum qcheck_kind kind,
			   const uint8_t *bytes)
{
	struct run *r = ctx;
	char text[100];

	for (uint64_t at = 0; at < len; at += SECTOR) {
		const uint8_t *have = shown(r, guest, kind, bytes, at);

		if (have && !memcmp(have, r->p.content.snapshot + guest + at, SECTOR))
			continue;
		snprintf(text, sizeof(text), "0x%" PRIx64 " of the snapshot shows stamp %" PRIx64,
			 guest + at, have ? stamp_read(have) : 0);
		if (r->bad++ == 0)
			tell(r, "content", text);
		r->damage.snapshot++;
	}
}

/* The state of the disk against what the event allows. strict: nothing may leak, either. */
static void judge(struct run *r, bool strict)
{
	struct qcheck_buf file = { r->disk.state[0].p, r->disk.state[0].len }, data = { NULL, 0 };
	struct qcheck q;
	char text[2300];

	r->floor = guest_floor(&r->p.guest, r->event);
	r->bad = 0;
	r->points++;
	if (r->s->external)
		data = (struct qcheck_buf){ r->disk.state[1].p, r->disk.state[1].len };
	if (qcheck_open(&q, file, data) &&
	    !guest_size_allowed(&r->p.guest, r->event, q.view[0].size)) {
		r->damage.lost++;
		tell(r, "size", "neither the flushed one nor a later one");
	}
	if (!q.count[QCHECK_HEADER]) {
		qcheck_refs(&q);
		r->pristine = q.bitmaps_valid;
		qcheck_walk(&q, 0, judge_active, r);
		r->pristine = false;
		if (r->p.content.snapshot && q.views == 2)
			qcheck_walk(&q, 1, judge_snapshot, r);
	}
	if (qcheck_corruptions(&q) ||
	    (strict && (q.dirty || q.count[QCHECK_LEAK] || q.count[QCHECK_UNMARKED]))) {
		r->damage.metadata++;
		snprintf(text, sizeof(text), "%s%s", strict && q.dirty ? "left dirty\n" : "",
			 q.text);
		for (char *p = text; *p; p++)
			if (*p == '\n')
				*p = p[1] ? ';' : 0;
		tell(r, strict ? "metadata at the end" : "metadata", text);
	}
	qcheck_close(&q);
}

/* A raw data file is an image by itself: it may never show anything else than the guest may see. */
static void judge_raw(struct run *r)
{
	const struct disk_state *s = &r->disk.state[1];
	static const uint8_t zeros[SECTOR];
	uint8_t *seen = r->seen;

	r->bad = 0;
	r->seen = NULL;
	for (uint64_t off = 0; r->s->raw && off < r->p.guest.size; off += SECTOR)
		judge_active(r, off, SECTOR, QCHECK_DATA, off < s->len ? s->p + off : zeros);
	r->seen = seen;
}

/* ---- the library takes over ---- */

static bool take_over_write(struct run *r, const char *path, uint8_t *want, uint64_t size,
			    struct qimg_error *e)
{
	struct qimg_image *img;
	bool good = true;

	if (qimg_open(&img, path, "qcow2", NULL, QIMG_OPEN_WRITE | QIMG_OPEN_UNMAP, e) < 0)
		return false;
	for (unsigned i = 0; i < 12 && good; i++) {
		uint64_t off = random_below(&r->seed, size),
			 len = random_below(&r->seed, 20000) + 1;

		if (len > size - off)
			len = size - off;
		stamp_fill(want + off, off, len, r->p.stamp++);
		good = qimg_write(img, off, want + off, len, e) == 0;
	}
	if (!good) {
		struct qimg_error ignored;

		qimg_close(img, &ignored);
		return false;
	}
	return qimg_close(img, e) == 0;
}

struct compare {
	struct run *r;
	const uint8_t *want;
	unsigned bad;
};

static void compare_run(void *ctx, uint64_t guest, uint64_t len, enum qcheck_kind kind,
			const uint8_t *bytes)
{
	struct compare *c = ctx;

	for (uint64_t at = 0; at < len; at += SECTOR) {
		const uint8_t *have = shown(c->r, guest, kind, bytes, at);

		c->bad += !have || memcmp(have, c->want + guest + at, SECTOR);
	}
}

static bool take_over_judge(struct run *r, const char *dir, const uint8_t *want, char *text,
			    size_t n)
{
	struct qcheck_buf file = { NULL, 0 }, data = { NULL, 0 };
	struct compare c = { r, want, 0 };
	struct qcheck q;
	bool good = points_get(dir, "image.qcow2", &file) &&
		    (!r->s->external || points_get(dir, "data.raw", &data)) &&
		    qcheck_open(&q, file, data);

	if (good) {
		qcheck_refs(&q);
		qcheck_walk(&q, 0, compare_run, &c);
		good = !qcheck_corruptions(&q) && !c.bad;
		snprintf(text, n, "%u sectors wrong after writing; %.900s", c.bad, q.text);
		qcheck_close(&q);
	}
	free((void *)file.p);
	free((void *)data.p);
	return good;
}

/* Opens what the crash left as a user would. r->seen is what the second reader found there. */
static void take_over(struct run *r, uint64_t size, bool dirty)
{
	char dir[300], path[400], text[1000] = "";
	uint8_t *buf = malloc(size + 1);
	struct qimg_image *img = NULL;
	struct qimg_error e;
	bool good;

	if (!buf)
		abort();
	snprintf(dir, sizeof(dir), "%s/after", r->p.dir);
	snprintf(path, sizeof(path), "%s/image.qcow2", dir);
	good = points_put(dir, "image.qcow2", &r->disk.state[0]) &&
	       (!r->s->external || points_put(dir, "data.raw", &r->disk.state[1])) &&
	       qimg_open(&img, path, "qcow2", NULL, 0, &e) == 0 &&
	       qimg_read(img, 0, buf, size, &e) == 0;
	if (!good)
		snprintf(text, sizeof(text), "%.900s", e.msg);
	for (uint64_t off = 0; good && !*text && off < size; off += SECTOR)
		if (memcmp(buf + off, r->seen + off, SECTOR))
			snprintf(text, sizeof(text),
				 "guest 0x%" PRIx64 ": the library reads stamp %" PRIx64
				 ", the second reader %" PRIx64,
				 off, stamp_read(buf + off), stamp_read(r->seen + off));
	if (img && qimg_close(img, &e) < 0)
		snprintf(text, sizeof(text), "%.900s", e.msg);
	if (!*text && !dirty) {
		if (!take_over_write(r, path, buf, size, &e))
			snprintf(text, sizeof(text), "%.900s", e.msg);
		else if (take_over_judge(r, dir, buf, text, sizeof(text)))
			*text = 0;
	}
	if (*text) {
		r->damage.library++;
		tell(r, "library", text);
	}
	free(buf);
}

static void judge_point(struct run *r, size_t event, enum disk_survival how, bool also_library)
{
	struct damage before = r->damage;
	struct qcheck q;

	disk_advance(&r->disk, event);
	r->event = event;
	r->how = points_how[how];
	disk_crash(&r->disk, how, &r->seed);
	r->seen = also_library ? calloc(1, r->p.guest.size + 1) : NULL;
	judge(r, false);
	judge_raw(r);
	if (also_library && !memcmp(&before, &r->damage, sizeof(before))) {
		struct qcheck_buf file = { r->disk.state[0].p, r->disk.state[0].len };

		if (qcheck_open(&q, file, file))
			take_over(r, q.view[0].size, q.dirty);
		qcheck_close(&q);
	}
	free(r->seen);
	r->seen = NULL;
	disk_restore(&r->disk);
}

/* Syncs that are not the last one before a flush returns, or all of them, did not happen. */
static void mutate(struct run *r, enum mutation mutation)
{
	for (size_t i = 0, f = 0; i < r->disk.events; i++) {
		bool last = true;

		while (f < r->p.guest.flushes && r->p.guest.flush[f].done <= i)
			f++;
		for (size_t j = i + 1; f < r->p.guest.flushes && j < r->p.guest.flush[f].done; j++)
			last &= r->disk.event[j].op != FILE_OP_SYNC;
		if (r->disk.event[i].op == FILE_OP_SYNC && mutation != MUTATE_NOTHING)
			r->disk.event[i].dropped = mutation == MUTATE_ALL_SYNCS || !last;
	}
}

static void judge_nth(void *ctx, size_t event, enum disk_survival how, unsigned n)
{
	judge_point(ctx, event, how, n % TAKE_OVER_EVERY == TAKE_OVER_EVERY / 2);
}

static void prepare(struct run *r, const struct setting *s, uint64_t seed)
{
	char path[400], link[420];

	memset(r, 0, sizeof(*r));
	r->s = s;
	r->seed = r->first_seed = ~seed;
	program_prepare(&r->p, s, base_dir, seed, &r->disk.events);
	snprintf(path, sizeof(path), "%s/after", r->p.dir);
	snprintf(link, sizeof(link), "%s/backing.raw", path);
	if (mkdir(path, 0700) || (s->backing && symlink("../backing.raw", link))) {
		perror(path);
		exit(1);
	}
	snprintf(path, sizeof(path), "%s/data.raw", r->p.dir);
	disk_record(&r->disk, r->p.path, s->external ? path : NULL);
}

static void clean_up(struct run *r)
{
	static const char *const names[] = { "image.qcow2", "data.raw", "backing.raw", "" };
	char path[400];

	for (unsigned i = 0; i < 4 && !keep; i++) {
		snprintf(path, sizeof(path), "%s/after/%s", r->p.dir, names[i]);
		if (*names[i])
			unlink(path);
		else
			rmdir(path);
	}
	program_free(&r->p, keep);
	disk_free(&r->disk);
}

/* Runs and judges; adds to *sum. Returns whether the program itself ran without an error. */
static bool test_one(const struct setting *s, uint64_t seed, unsigned points,
		     enum mutation mutation, bool faults, struct damage *sum, unsigned *judged)
{
	struct run r;
	bool good;

	prepare(&r, s, seed);
	r.faults = faults;
	good = run_program(&r);
	disk_stop(&r.disk);
	if (verbose)
		list_events(&r);
	mutate(&r, mutation);
	r.told = mutation ? REPORTS : 0;
	points_spread(&r.disk, points, &r.seed, judge_nth, &r);
	if (good && !mutation && !faults) {
		r.event = r.disk.events;
		r.how = "all";
		judge(&r, true);
	}
	sum->metadata += r.damage.metadata;
	sum->foreign += r.damage.foreign;
	sum->lost += r.damage.lost;
	sum->snapshot += r.damage.snapshot;
	sum->library += r.damage.library;
	*judged += r.points;
	if (verbose)
		diag("%s seed %" PRIu64 ": %zu events, %u points", s->name, seed, r.disk.events,
		     r.points);
	clean_up(&r);
	return good;
}

static bool undamaged(const struct damage *d)
{
	return !(d->metadata | d->foreign | d->lost | d->snapshot | d->library);
}

static unsigned test_setting(const struct setting *s, uint64_t seed, unsigned points, bool faults)
{
	/* A long run is many programs rather than many crashes of one; so is one with failing calls. */
	unsigned most = faults ? 60 : 600, each = points < most ? points : most, judged = 0;
	const char *what = faults ? ", failing calls" : "";
	struct damage sum = { 0 };
	bool good = true;

	for (uint64_t i = 0; judged < points && good; i++)
		good = test_one(s, seed + i * 1000003, each ? each : 1, MUTATE_NOTHING, faults,
				&sum, &judged);
	ok(good, "%s%s: the program runs", s->name, what);
	ok(undamaged(&sum),
	   "%s%s: %u crashes: metadata %u, foreign %u, lost %u, snapshot %u, library %u", s->name,
	   what, judged, sum.metadata, sum.foreign, sum.lost, sum.snapshot, sum.library);
	return judged;
}

static void test_mutations(uint64_t seed)
{
	struct damage inner = { 0 }, all = { 0 };
	unsigned judged = 0;

	for (const struct setting *s = settings; s->name; s++) {
		if (s->lazy || s->external)
			continue;
		test_one(s, seed, 120, MUTATE_INNER_SYNCS, false, &inner, &judged);
		test_one(s, seed + 1, 60, MUTATE_ALL_SYNCS, false, &all, &judged);
	}
	ok(inner.metadata > 20,
	   "without the syncs inside flushes metadata is found damaged (%u of %u)", inner.metadata,
	   judged);
	ok(inner.foreign > 20, "and foreign data is seen (%u sectors)", inner.foreign);
	ok(all.lost > 20, "without any sync flushed data is found lost (%u sectors)", all.lost);
}

static void remove_base(void)
{
	if (!keep)
		rmdir(base_dir);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "seed", required_argument, NULL, 's' },
					       { "points", required_argument, NULL, 'p' },
					       { "setting", required_argument, NULL, 't' },
					       { "keep", no_argument, NULL, 'k' },
					       { "verbose", no_argument, NULL, 'v' },
					       { NULL, 0, NULL, 0 } };
	unsigned points = DEFAULT_POINTS, count = 0, total = 0;
	const char *only = NULL;
	uint64_t seed = 1;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'p')
			points = strtoul(optarg, NULL, 0);
		else if (c == 't')
			only = optarg;
		else if (c == 'k')
			keep = true;
		else if (c == 'v')
			verbose = true;
		else
			return 2;
	}
	base_dir = points_scratch("qimg-crash");
	if (!base_dir)
		return 1;
	atexit(remove_base);
	for (const struct setting *s = settings; s->name; s++)
		count += !only || !strcmp(only, s->name);
	for (const struct setting *s = settings; s->name; s++) {
		if (only && strcmp(only, s->name))
			continue;
		total += test_setting(s, seed, points / (count ? count : 1), false);
		total += test_setting(s, seed + 7, points / (count ? count : 1) / 2, true);
	}
	if (!only)
		test_mutations(seed);
	diag("%u crash points", total);
	return done_testing();
}
