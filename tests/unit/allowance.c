// SPDX-License-Identifier: BSD-2-Clause
/* lib/image/allowance: users that take and give at random stay within what there is, and get their share. */
#include <stdlib.h>

#include "base/error.h"
#include "image/allowance.h"
#include "image/image.h"
#include "tap.h"

#define UNIT 65536
#define IMAGES 20

/* Keeps how much of what it has was touched since when. */
struct fake {
	struct allowance_user u;
	uint64_t fresh, last, old;	/* this round, the last one, before */
	uint64_t stuck;			/* cannot be given */
	unsigned asked;
};

static struct qimg_image img[IMAGES];
static struct fake fake[IMAGES];
static struct qimg_error e;

static struct fake *fake_of(struct allowance_user *u)
{
	return (struct fake *)((char *)u - offsetof(struct fake, u));
}

static uint64_t idle(struct allowance_user *u)
{
	return fake_of(u)->old;
}

static void age(struct allowance_user *u)
{
	struct fake *f = fake_of(u);

	f->old += f->last;
	f->last = f->fresh;
	f->fresh = 0;
}

static void take_from(uint64_t *part, struct fake *f, uint64_t *bytes)
{
	while (*part && *bytes && f->u.used > f->stuck) {
		*part -= UNIT;
		*bytes -= *bytes < UNIT ? *bytes : UNIT;
		allowance_put(&f->u, UNIT);
	}
}

static void give(struct allowance_user *u, uint64_t bytes, bool any)
{
	struct fake *f = fake_of(u);

	f->asked++;
	take_from(&f->old, f, &bytes);
	if (any) {
		take_from(&f->last, f, &bytes);
		take_from(&f->fresh, f, &bytes);
	}
	if (bytes && !any)
		f->old = 0;
}

/* One that it needs: another one, or in place of one of its own. */
static bool need(struct fake *f)
{
	uint64_t *own;

	if (allowance_take(&f->u, UNIT)) {
		f->fresh += UNIT;
		return true;
	}
	own = f->old ? &f->old : f->last ? &f->last : &f->fresh;
	if (!*own)
		return false;
	*own -= UNIT;
	f->fresh += UNIT;
	return true;
}

static void touch_all(struct fake *f)
{
	f->fresh += f->last + f->old;
	f->last = f->old = 0;
}

static void set_up(void)
{
	for (unsigned i = 0; i < IMAGES; i++) {
		img[i].allowance = NULL;
		if (allowance_new(&img[i], &e) < 0)
			return;
		fake[i] = (struct fake){ .u = { .least = 2 * UNIT, .idle = idle, .give = give, .age = age } };
		allowance_join(&img[i], &fake[i].u);
		/* Some have memory already when they come into the chain. */
		if (i % 3 == 0)
			need(&fake[i]);
	}
	for (unsigned i = 1; i < IMAGES; i++)
		allowance_share(&img[0], &img[i]);
}

static void tear_down(void)
{
	for (unsigned i = 0; i < IMAGES; i++) {
		allowance_leave(&fake[i].u);
		if (i == IMAGES - 1)
			is_u64(allowance_used(&img[i]), 0, "nothing is left of it");
		allowance_free(&img[i]);
	}
}

static void one_after_the_other(void)
{
	unsigned bad = 0;

	set_up();
	is_u64(allowance_used(&img[7]), 7 * UNIT, "what they had is counted together");
	for (unsigned i = 0; i < IMAGES; i++) {
		for (unsigned n = 0; n < 3 * ALLOWANCE_BYTES / UNIT; n++)
			bad += !need(&fake[i]) || allowance_used(&img[0]) > ALLOWANCE_BYTES + IMAGES * 2 * UNIT;
		bad += fake[i].u.used < ALLOWANCE_BYTES * 7 / 10;
		for (unsigned j = 0; j < i; j++)
			bad += fake[j].u.used < 2 * UNIT;
	}
	is_u64(bad, 0, "each gets most of it in its turn, and the others keep two");
	tear_down();
}

static void share_of_a_busy_one(void)
{
	set_up();
	for (unsigned n = 0; n < 4 * ALLOWANCE_BYTES / UNIT; n++)
		need(&fake[0]);
	for (unsigned n = 0; n < 4 * ALLOWANCE_BYTES / UNIT; n++) {
		touch_all(&fake[0]);
		touch_all(&fake[1]);
		need(&fake[1]);
	}
	ok(fake[1].u.used >= ALLOWANCE_BYTES / IMAGES - UNIT && fake[1].u.used <= ALLOWANCE_BYTES / IMAGES,
	   "of one that uses all it has, others get an equal share: %u", (unsigned)(fake[1].u.used / UNIT));
	ok(allowance_used(&img[0]) <= ALLOWANCE_BYTES, "together they stay within it");
	tear_down();
}

static void stuck(void)
{
	unsigned bad = 0;

	set_up();
	for (unsigned n = 0; n < 4 * ALLOWANCE_BYTES / UNIT; n++)
		need(&fake[0]);
	fake[0].stuck = UINT64_MAX;
	for (unsigned n = 0; n < 8 * ALLOWANCE_BYTES / UNIT; n++)
		bad += !need(&fake[1]);
	is_u64(bad, 0, "beside one that can give nothing, the other one does with what it has");
	is_u64(fake[1].u.used, 2 * UNIT, "which is the least");
	ok(fake[0].asked < 2000, "and it is not asked for it all the time: %u", fake[0].asked);
	tear_down();
}

int main(void)
{
	one_after_the_other();
	share_of_a_busy_one();
	stuck();
	return done_testing();
}
