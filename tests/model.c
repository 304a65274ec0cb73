// SPDX-License-Identifier: BSD-2-Clause
/*
 * Long random programs (program.c) through the public interface, against what the guest must read. Each
 * time the image is closed, the second reader (qcheck.c) judges the file without mercy: nothing may
 * be leaked, COPIED must be set wherever the refcount is one, the content must be right to the byte,
 * snapshots and backing files untouched.
 *
 *	model [--seed N] [--steps N] [--setting NAME] [--keep] [--verbose]
 *
 * --steps is per setting. A failure prints seed and setting that repeat it.
 */
#include "qimg.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"
#include "qcheck.h"
#include "setting.h"
#include "unit/tap.h"

enum { DEFAULT_STEPS = 1500, PER_IMAGE = 300, PER_SESSION = 40 };

static bool verbose;
static const size_t no_clock;

struct view {
	const struct program *p;
	const uint8_t *snapshot; /* NULL: the active view */
	uint64_t bad, first;	 /* wrong sectors */
};

static void compare(void *ctx, uint64_t guest, uint64_t len, enum qcheck_kind kind,
		    const uint8_t *bytes)
{
	static const uint8_t zeros[SECTOR];
	struct view *v = ctx;
	const uint8_t *backing = v->p->content.backing;

	for (uint64_t at = 0; at < len; at += SECTOR) {
		uint64_t off = guest + at;
		const uint8_t *have = zeros;
		const uint8_t *want =
			v->snapshot ? v->snapshot + off : guest_now(&v->p->guest, off / SECTOR);

		if (kind == QCHECK_DATA)
			have = bytes ? bytes + at : NULL;
		else if (kind == QCHECK_HOLE && backing && off < v->p->content.size)
			have = backing + off;
		if (have && !memcmp(have, want, SECTOR))
			continue;
		if (v->bad++ == 0)
			v->first = off;
	}
}

static bool map_file(const struct program *p, const char *name, struct qcheck_buf *b)
{
	char path[400];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", p->dir, name);
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		return false;
	*b = (struct qcheck_buf){ mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0),
				  st.st_size };
	close(fd);
	return b->p != MAP_FAILED;
}

/* A raw data file by itself reads as the image does. */
static bool judge_raw(const struct program *p, const struct qcheck_buf *data)
{
	uint64_t bad = 0;

	for (uint64_t off = 0; p->s->raw && off < p->guest.size && off < data->len; off += SECTOR)
		bad += !!memcmp(data->p + off, guest_now(&p->guest, off / SECTOR), SECTOR);
	if (bad)
		diag("the raw data file differs in %" PRIu64 " sectors", bad);
	return bad == 0;
}

/* The closed file. */
static bool judge(const struct program *p)
{
	struct qcheck_buf file = { NULL, 0 }, data = { NULL, 0 };
	struct view active = { .p = p }, snapshot = { .p = p, .snapshot = p->content.snapshot };
	struct qcheck q;
	bool good = map_file(p, "image.qcow2", &file) &&
		    (!p->s->external || map_file(p, "data.raw", &data));

	if (!good)
		return diag("the files cannot be read"), false;
	good = qcheck_open(&q, file, data);
	if (good) {
		qcheck_refs(&q);
		qcheck_walk(&q, 0, compare, &active);
		if (p->content.snapshot)
			qcheck_walk(&q, 1, compare, &snapshot);
	}
	good = good && !qcheck_corruptions(&q) && !q.count[QCHECK_LEAK] &&
	       !q.count[QCHECK_UNMARKED] && !q.dirty && !active.bad && !snapshot.bad &&
	       q.view[0].size == p->guest.size && judge_raw(p, &data);
	if (!good)
		diag("second reader: %" PRIu64 " wrong sectors from 0x%" PRIx64 ", %" PRIu64
		     " in the snapshot; "
		     "size %" PRIu64 " of %" PRIu64 "%s; %s",
		     active.bad, active.first, snapshot.bad, q.view[0].size, p->guest.size,
		     q.dirty ? ", dirty" : "", q.text);
	qcheck_close(&q);
	munmap((void *)file.p, file.len);
	if (data.p)
		munmap((void *)data.p, data.len);
	return good;
}

/* One image from its making to its end. */
static bool run_image(const struct setting *s, const char *base, uint64_t seed, unsigned steps,
		      bool keep)
{
	struct program p;
	struct qimg_error e = { 0 };
	bool good = true;

	program_prepare(&p, s, base, seed, &no_clock);
	p.engines = true;
	for (unsigned done = 0; done < steps && good; done += PER_SESSION) {
		good = program_open(&p, &e);
		for (unsigned i = 0; i < PER_SESSION && good; i++) {
			good = program_step(&p, &e);
			if (verbose)
				diag("%s: %u: %s", s->name, p.ran, p.last);
		}
		good = good && program_read_all(&p, &e);
		if (p.img && !program_close(&p, &e))
			good = false;
		guest_forget(&p.guest);
		if (!good)
			diag("%s: operation %u (%s): %s", s->name, p.ran, p.last, e.msg);
		if (good && !judge(&p)) {
			diag("%s: closed after operation %u (%s)", s->name, p.ran, p.last);
			good = false;
		}
	}
	program_free(&p, keep && !good);
	return good;
}

static const char *base_dir;

static void remove_base(void)
{
	rmdir(base_dir); /* stays where a failed image was kept in it */
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "seed", required_argument, NULL, 's' },
					       { "steps", required_argument, NULL, 'n' },
					       { "setting", required_argument, NULL, 't' },
					       { "keep", no_argument, NULL, 'k' },
					       { "verbose", no_argument, NULL, 'v' },
					       { NULL, 0, NULL, 0 } };
	const char *only = NULL, *tmp = getenv("TMPDIR");
	unsigned steps = DEFAULT_STEPS;
	uint64_t seed = 1;
	static char dir[200];
	bool keep = false;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'n')
			steps = strtoul(optarg, NULL, 0);
		else if (c == 't')
			only = optarg;
		else if (c == 'k')
			keep = true;
		else if (c == 'v')
			verbose = true;
		else
			return 2;
	}
	snprintf(dir, sizeof(dir), "%s/qimg-model-XXXXXX",
		 tmp			    ? tmp
		 : access("/dev/shm", W_OK) ? "/tmp"
					    : "/dev/shm");
	base_dir = mkdtemp(dir);
	if (!base_dir) {
		perror(dir);
		return 1;
	}
	atexit(remove_base);
	for (const struct setting *s = settings; s->name; s++) {
		uint64_t this = seed;
		bool good = true;

		if (only && strcmp(only, s->name))
			continue;
		for (unsigned done = 0; done < steps && good; done += PER_IMAGE, this ++)
			good = run_image(s, base_dir, this, steps < PER_IMAGE ? steps : PER_IMAGE,
					 keep);
		ok(good, "%s: %u operations from seed %" PRIu64, s->name, steps,
		   good ? seed : this - 1);
		if (!good)
			diag("repeat with: model --setting %s --seed %" PRIu64 " --steps %u",
			     s->name, this - 1, PER_IMAGE);
	}
	return done_testing();
}
