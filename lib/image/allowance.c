// SPDX-License-Identifier: BSD-2-Clause
/* Sharing memory for metadata along a chain. */
#include "image/allowance.h"

#include <stdlib.h>

#include "base/mem.h"
#include "image/image.h"

struct allowance {
	unsigned images, users;
	uint64_t bytes, used;
	uint64_t missed;		/* asked for in vain since everybody aged last */
	bool no_idle, no_more;		/* nobody could give anything idle, or at all, since then */
	struct allowance_user *first;
};

int allowance_new(struct qimg_image *img, struct qimg_error *e)
{
	struct allowance *a = mem_zalloc(sizeof(*a), e);

	if (!a)
		return -1;
	a->images = 1;
	a->bytes = img->flags & QIMG_OPEN_ONCE ? ALLOWANCE_ONCE : ALLOWANCE_BYTES;
	img->allowance = a;
	return 0;
}

void allowance_free(struct qimg_image *img)
{
	struct allowance *a = img->allowance;

	img->allowance = NULL;
	if (a && !--a->images)
		free(a);
}

void allowance_share(struct qimg_image *img, struct qimg_image *below)
{
	struct allowance *a = img->allowance, *old = below->allowance;
	struct allowance_user *u, *next;

	for (u = old->first; u; u = next) {
		next = u->next;
		u->of = a;
		u->next = a->first;
		a->first = u;
	}
	a->users += old->users;
	a->used += old->used;
	old->first = NULL;
	allowance_free(below);
	below->allowance = a;
	a->images++;
}

void allowance_join(struct qimg_image *img, struct allowance_user *u)
{
	struct allowance *a = img->allowance;

	u->of = a;
	u->used = 0;
	u->next = a->first;
	a->first = u;
	a->users++;
}

void allowance_leave(struct allowance_user *u)
{
	struct allowance *a = u->of;
	struct allowance_user **link;

	if (!a)
		return;
	for (link = &a->first; *link != u; link = &(*link)->next)
		;
	*link = u->next;
	a->users--;
	a->used -= u->used;
	u->of = NULL;
}

void allowance_put(struct allowance_user *u, uint64_t bytes)
{
	u->used -= bytes;
	u->of->used -= bytes;
}

static void age_all(struct allowance *a)
{
	for (struct allowance_user *u = a->first; u; u = u->next)
		u->age(u);
	a->missed = 0;
	a->no_idle = a->no_more = false;
}

/* Who has the most idle bytes, and more than `self`. */
static struct allowance_user *most_idle(const struct allowance *a, struct allowance_user *self)
{
	uint64_t most = self->idle(self);
	struct allowance_user *found = NULL;

	for (struct allowance_user *u = a->first; u; u = u->next) {
		uint64_t idle = u == self || u->used <= u->least ? 0 : u->idle(u);

		if (idle > most) {
			most = idle;
			found = u;
		}
	}
	return found;
}

static struct allowance_user *most_used(const struct allowance *a, uint64_t above)
{
	struct allowance_user *found = NULL;

	for (struct allowance_user *u = a->first; u; u = u->next) {
		if (u->used > above && u->used > u->least) {
			above = u->used;
			found = u;
		}
	}
	return found;
}

static void make_room(struct allowance *a, struct allowance_user *u, uint64_t bytes)
{
	uint64_t share = a->bytes / a->users, used;
	struct allowance_user *from;

	a->missed += bytes;
	if (a->missed >= a->bytes / 2)
		age_all(a);
	while (a->used + bytes > a->bytes) {
		from = a->no_idle ? NULL : most_idle(a, u);
		if (from) {
			used = a->used;
			from->give(from, a->used + bytes - a->bytes, false);
			if (a->used == used)	/* it cannot do without after all */
				from = NULL;
		}
		if (!from)
			break;
	}
	if (a->used + bytes <= a->bytes)
		return;
	a->no_idle = true;
	from = u->used + bytes <= share && !a->no_more ? most_used(a, share) : NULL;
	if (!from)
		return;
	from->give(from, a->used + bytes - a->bytes, true);
	a->no_more = a->used + bytes > a->bytes;
}

bool allowance_take(struct allowance_user *u, uint64_t bytes)
{
	struct allowance *a = u->of;

	if (a->used + bytes > a->bytes && u->used + bytes > u->least) {
		make_room(a, u, bytes);
		if (a->used + bytes > a->bytes)
			return false;
	}
	u->used += bytes;
	a->used += bytes;
	return true;
}

bool allowance_is_full(const struct allowance_user *u)
{
	/* What is left may be too little for a slice. */
	return u->of->used >= u->of->bytes - u->of->bytes / 64;
}

uint64_t allowance_used(const struct qimg_image *img)
{
	return img->allowance->used;
}
