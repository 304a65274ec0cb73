// SPDX-License-Identifier: BSD-2-Clause
/*
 * The plan of a copy against a model: random disks of 512-byte sectors, each sector a hole, zeros, data
 * or a matter of the backing file, in one to three sources; random units and piece sizes.
 */
#include "ops/plan.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "image/image.h"
#include "tap.h"

enum { SECTOR = 512, SECTORS = 400 };

struct disk {
	enum extent_kind kind[SECTORS];
	unsigned calls;
};

/* Runs of at most eight sectors, so that the plan has to join some. */
static int fake_map(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x,
		    struct wait *w, struct qimg_error *e)
{
	struct disk *d = img->state;
	uint64_t s = off / SECTOR, n = 1;

	(void)w;
	(void)e;
	d->calls++;
	while (n < 8 && (s + n) * SECTOR < off + len && d->kind[s + n] == d->kind[s])
		n++;
	*x = (struct extent){
		.start = off, .len = min_u64(len, (s + n) * SECTOR - off), .kind = d->kind[s],
		.allocated = d->kind[s] != EXTENT_HOLE,
	};
	if (x->kind == EXTENT_DATA) {
		x->host_valid = true;
		x->file = (struct file *)img;
		x->host = off;
	}
	return 0;
}

static const struct driver fake = { .name = (char *)"fake", .map = fake_map };

static void fill(struct disk *d)
{
	static const enum extent_kind kinds[] = { EXTENT_HOLE, EXTENT_ZERO, EXTENT_DATA };
	unsigned longest = 1 + rand() % 60;

	d->calls = 0;
	for (unsigned i = 0; i < SECTORS;) {
		unsigned n = 1 + rand() % longest;
		enum extent_kind kind = kinds[rand() % 3];

		while (n-- && i < SECTORS)
			d->kind[i++] = kind;
	}
}

/* What the model says of a sector; backing: the image below, or NULL. */
static enum step_kind want(const struct qimg_image *img, uint64_t sector, const struct plan *p)
{
	const struct disk *top = img->state, *below = img->backing ? img->backing->state : NULL;
	enum extent_kind kind = top->kind[sector];
	enum step_kind zero = p->all_data ? STEP_DATA : STEP_ZERO;

	if (kind != EXTENT_HOLE)
		return kind == EXTENT_DATA ? STEP_DATA : zero;
	if (!below)
		return p->keep_depth ? STEP_KEEP : zero;
	if (sector * SECTOR >= img->backing->size)
		return zero;
	if (p->keep_depth)
		return STEP_KEEP;
	return below->kind[sector] == EXTENT_DATA ? STEP_DATA : zero;
}

struct world {
	struct disk disk[4];
	struct qimg_image img[4], *sources[3];
	enum step_kind model[3 * SECTORS];
	struct plan plan;
};

static void make_world(struct world *w)
{
	struct plan *p = &w->plan;
	uint64_t at = 0;

	memset(w, 0, sizeof(*w));
	p->source_count = 1 + rand() % 3;
	p->all_data = rand() % 4 == 0;
	p->unit = SECTOR << (rand() % 7);
	p->sources = w->sources;
	for (unsigned i = 0; i < 4; i++) {
		fill(&w->disk[i]);
		w->img[i] = (struct qimg_image){ .driver = &fake, .state = &w->disk[i], .name = (char *)"fake",
						 .size = (rand() % (SECTORS + 1)) * SECTOR };
	}
	if (rand() % 2) {
		w->img[0].backing = &w->img[3];
		w->img[3].depth = 1;
		p->keep_depth = rand() % 2;
		if (p->keep_depth)
			p->source_count = 1;
	}
	for (unsigned i = 0; i < p->source_count; i++) {
		w->sources[i] = &w->img[i];
		for (uint64_t s = 0; s < w->img[i].size / SECTOR; s++)
			w->model[at++] = want(&w->img[i], s, p);
	}
	p->size = at * SECTOR;
}

/* A unit that starts at pos is of one kind, and that is not data: it need not be copied. */
static bool left_out(const struct world *w, uint64_t pos)
{
	uint64_t end = min_u64(pos + w->plan.unit, w->plan.size);
	enum step_kind kind = w->model[pos / SECTOR];

	for (uint64_t s = pos / SECTOR; s < end / SECTOR; s++)
		if (w->model[s] != kind)
			return false;
	return kind != STEP_DATA;
}

/* What is wrong with a step, or NULL. */
static const char *judge(const struct world *w, const struct step *s, uint64_t pos, uint64_t max)
{
	const struct plan *p = &w->plan;

	if (s->start != pos || s->len == 0 || s->len > p->size - pos)
		return "is out of bounds";
	if (!is_aligned(pos + s->len, p->unit) && pos + s->len != p->size)
		return "does not end at a unit";
	if (s->kind == STEP_DATA && (s->len > max || (pos % max) + s->len > max))
		return "is larger than asked for";
	for (uint64_t at = pos; at < pos + s->len; at += SECTOR)
		if (s->kind != STEP_DATA && w->model[at / SECTOR] != s->kind)
			return "leaves out what it must not";
	for (uint64_t at = pos; at < pos + s->len; at += p->unit)
		if (s->kind == STEP_DATA && left_out(w, at))
			return "copies what could be left out";
	return NULL;
}

static bool walk(unsigned seed)
{
	static struct world w;
	struct qimg_error e;
	struct step s;
	uint64_t pos, max;

	srand(seed);
	make_world(&w);
	max = w.plan.unit << (rand() % 4);
	for (pos = 0; pos < w.plan.size; pos += s.len) {
		const char *wrong;

		if (plan_next(&w.plan, pos, max, &s, &e) < 0) {
			diag("seed %u, 0x%" PRIx64 ": %s", seed, pos, e.msg);
			return false;
		}
		wrong = judge(&w, &s, pos, max);
		if (wrong) {
			diag("seed %u: step 0x%" PRIx64 "+0x%" PRIx64 " of kind %d %s", seed, s.start,
			     s.len, s.kind, wrong);
			return false;
		}
	}
	return pos == w.plan.size;
}

static void test_random(void)
{
	unsigned good = 0, seeds = 20000;

	for (unsigned seed = 1; seed <= seeds && good + 1 >= seed; seed++)
		good += walk(seed);
	is_u64(good, seeds, "random disks are planned as the model says");
}

/* A long run costs one look each extent, however small the units are. */
static void test_calls(void)
{
	struct disk d = { .calls = 0 };
	struct qimg_image img = { .driver = &fake, .state = &d, .name = (char *)"fake",
				  .size = SECTORS * SECTOR }, *sources[] = { &img };
	struct plan p = { .sources = sources, .source_count = 1, .size = img.size, .unit = SECTOR };
	struct qimg_error e;
	struct step s;

	for (unsigned i = 0; i < SECTORS; i++)
		d.kind[i] = i < SECTORS / 2 ? EXTENT_DATA : EXTENT_ZERO;
	for (uint64_t pos = 0; pos < p.size; pos += s.len)
		if (!ok(plan_next(&p, pos, 4 * SECTOR, &s, &e) == 0, "a step at 0x%" PRIx64, pos))
			return;
	is_u64(d.calls, SECTORS / 8, "each extent was looked up once");
}

static void test_misuse(void)
{
	struct disk d = { .calls = 0 };
	struct qimg_image img = { .driver = &fake, .state = &d, .name = (char *)"fake", .size = 4096 },
			  *sources[] = { &img };
	struct plan p = { .sources = sources, .source_count = 1, .size = 4096, .unit = 1024 };
	struct qimg_error e;
	struct step s;

	ok(plan_next(&p, 512, 4096, &s, &e) == -1, "a position inside a unit is an error");
	ok(plan_next(&p, 4096, 4096, &s, &e) == -1, "a position at the end is an error");
}

int main(void)
{
	test_random();
	test_calls();
	test_misuse();
	return done_testing();
}
