// SPDX-License-Identifier: BSD-2-Clause
/*
 * Hit ratios of L2 caches of all sizes, from the requests alone.
 *
 * The first pass takes reuse distances, and follows clocks of up to 64 sizes, as near to each other as they
 * may be. What is known of a size is then exact (the clock's), or the number for the least recently used
 * with the difference of its exact neighbours. Further passes look closer around the sizes that are going
 * to be recommended: the requests are made again, since they depend on nothing but the workload.
 */
#include "qimg.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "image/image.h"
#include "ops/clock.h"
#include "ops/distance.h"
#include "ops/pattern.h"

enum { PASSES = 4, LEAST = 2, REPORT_EVERY = 1 << 16 };

static const unsigned targets[] = { 900, 950, 990, 1000 };

struct known {
	uint64_t slices, hits;
};

struct qimg_reuse {
	struct qimg_reuse_info info;
	const struct qimg_workload *w;	/* while it is made */
	const char *name;
	uint64_t disk;
	struct distances *distances;
	uint64_t *hits;			/* by distance, then up to it */
	size_t room;
	struct known *known;		/* exact, by slices */
	unsigned knowns;
	unsigned pass;
	uint64_t done;			/* requests, in all passes */
};

static int count_distance(struct qimg_reuse *r, uint32_t distance, struct qimg_error *e)
{
	struct qimg_reuse_info *info = &r->info;

	info->lookups++;
	info->cold += !distance;
	if (!distance)
		return 0;
	if (distance >= r->room) {
		size_t room = max_u64(1024, 2 * (uint64_t)distance);

		if (mem_grow((void **)&r->hits, r->room, room, sizeof(*r->hits), e) < 0)
			return -1;
		r->room = room;
	}
	r->hits[distance]++;
	return 0;
}

static int look_up(struct qimg_reuse *r, struct clock_hands *c, uint64_t slice, bool count,
		   struct qimg_error *e)
{
	uint32_t id, distance;

	if (r->pass)
		return clock_access(c, distance_id(r->distances, slice), count, e);
	if (distance_access(r->distances, slice, &id, &distance, e) < 0 ||
	    (count && count_distance(r, distance, e) < 0))
		return -1;
	return clock_access(c, id, count, e);
}

static int request(struct qimg_reuse *r, struct clock_hands *c, const struct pattern_request *q,
		   bool count, struct qimg_error *e)
{
	uint64_t cover = r->info.slice_cover, last = (q->off + q->len - 1) / cover;

	for (uint64_t slice = q->off / cover; slice <= last; slice++)
		if (look_up(r, c, slice, count, e) < 0)
			return -1;
	return 0;
}

/* All requests once, on clocks of these sizes, which are known then. */
static int pass(struct qimg_reuse *r, const uint64_t *size, unsigned sizes, struct qimg_error *e)
{
	const struct qimg_progress *progress = r->w->progress;
	uint64_t total = r->w->warm_count + r->w->count;
	struct clock_hands *c = NULL;
	struct pattern p;
	int ret = -1;

	if (pattern_open(&p, r->w, r->disk, r->name, e) < 0 || clock_open(&c, size, sizes, e) < 0)
		return -1;
	for (uint64_t i = 0; i < total; i++) {
		struct pattern_request q;

		if (progress && progress->cancel && *progress->cancel) {
			error_set(e, ECANCELED, "Interrupted");
			goto out;
		}
		pattern_next(&p, &q);
		if (request(r, c, &q, i >= r->w->warm_count, e) < 0)
			goto out;
		if (progress && progress->report && ++r->done % REPORT_EVERY == 0)
			progress->report(progress->ctx, r->done, total * PASSES);
	}
	for (unsigned i = 0; i < sizes; i++)
		r->known[r->knowns++] = (struct known){ size[i], clock_hits(c, i) };
	r->pass++;
	ret = 0;
out:
	clock_close(c);
	return ret;
}

/* Sizes from the least one to `most`, as evenly in proportion as whole numbers are. */
static unsigned spread(uint64_t *size, uint64_t most)
{
	uint64_t at = min_u64(LEAST, most);
	unsigned n = 0;

	while (n < CLOCK_MOST) {
		unsigned left = CLOCK_MOST - 1 - n;
		double step = left ? pow((double)most / (double)at, 1.0 / left) : 1;

		size[n++] = at;
		if (at >= most)
			break;
		at = left == 1 ? most : min_u64(most, max_u64(at + 1, (uint64_t)((double)at * step)));
	}
	return n;
}

static int by_slices(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	return x->slices < y->slices ? -1 : x->slices > y->slices;
}

/* The first known size that has so many of the possible hits; all of them are had by the last. */
static unsigned find_need(const struct qimg_reuse *r, unsigned per_mille)
{
	uint64_t possible = r->info.lookups - r->info.cold;
	uint64_t want = (uint64_t)(((unsigned __int128)possible * min_u64(per_mille, 1000) + 999) / 1000);
	unsigned i = 0;

	while (i + 1 < r->knowns && r->known[i].hits < want)
		i++;
	return i;
}

/* Sizes between those that have enough and the ones below them. 0: there are none. */
static unsigned closer(const struct qimg_reuse *r, uint64_t *size)
{
	const unsigned each = CLOCK_MOST / ARRAY_SIZE(targets);
	unsigned n = 0, before = 0;

	for (unsigned t = 0; t < ARRAY_SIZE(targets); t++) {
		unsigned i = find_need(r, targets[t]);
		uint64_t low, gap;

		if (!i || i == before)
			continue;
		before = i;
		low = r->known[i - 1].slices;
		gap = r->known[i].slices - low;
		for (unsigned k = 1; k <= each && k < gap; k++)
			size[n++] = gap <= each + 1 ? low + k : low + gap * k / (each + 1);
	}
	return n;
}

static int passes(struct qimg_reuse *r, struct qimg_error *e)
{
	uint64_t size[CLOCK_MOST];
	unsigned n = spread(size, min_u64(r->info.slices, DISTANCE_PIECES));

	r->known = mem_array(PASSES * CLOCK_MOST + 1, sizeof(*r->known), e);
	if (!r->known)
		return -1;
	do {
		if (pass(r, size, n, e) < 0)
			return -1;
		if (r->pass == 1) {
			r->info.touched = distance_pieces(r->distances);
			/* From there on nothing ever leaves a cache. */
			while (r->knowns && r->known[r->knowns - 1].slices >= r->info.touched)
				r->knowns--;
			r->known[r->knowns++] = (struct known){ max_u64(LEAST, r->info.touched),
								r->info.lookups - r->info.cold };
			for (size_t i = 1; i < r->room; i++)
				r->hits[i] += r->hits[i - 1];
		}
		qsort(r->known, r->knowns, sizeof(*r->known), by_slices);
		n = closer(r, size);
	} while (n && r->pass < PASSES);
	return 0;
}

static int check(const struct qimg_reuse *r, const struct qimg_cache_sizes *s, struct qimg_error *e)
{
	if (!r->w->count)
		return error_set(e, EINVAL, "Without a number of requests their reuse can't be told");
	if (!is_pow2(s->cluster_size) || s->l2_entry_size < (s->extended_l2 ? 16 : 8))
		return error_set(e, EINVAL, "Without L2 entries of %" PRIu64 " bytes there is no L2 cache",
				 s->l2_entry_size);
	return 0;
}

int qimg_reuse_new(struct qimg_reuse **out, const struct qimg_cache_sizes *s,
		   const struct qimg_workload *w, struct qimg_error *e)
{
	struct qimg_reuse *r = mem_zalloc(sizeof(*r), e);
	uint64_t cover;

	if (!r)
		return -1;
	r->w = w;
	r->name = w->image ? w->image->name : "disk";
	r->disk = s->size;
	if (check(r, s, e) < 0)
		goto fail;
	if (!mul_u64(s->l2_entry_size / (s->extended_l2 ? 16 : 8), s->cluster_size, &cover))
		cover = UINT64_MAX;
	r->info = (struct qimg_reuse_info){
		.requests = w->count,
		.slices = div_up(s->size, cover),
		.slice_size = s->l2_entry_size,
		.slice_cover = cover,
	};
	if (distance_open(&r->distances, e) < 0 || passes(r, e) < 0)
		goto fail;
	distance_close(r->distances);
	r->distances = NULL;
	r->w = NULL;
	r->name = NULL;
	*out = r;
	return 0;
fail:
	qimg_reuse_free(r);
	return -1;
}

void qimg_reuse_free(struct qimg_reuse *r)
{
	if (!r)
		return;
	distance_close(r->distances);
	free(r->hits);
	free(r->known);
	free(r);
}

const struct qimg_reuse_info *qimg_reuse_info(const struct qimg_reuse *r)
{
	return &r->info;
}

uint64_t qimg_reuse_lru_hits(const struct qimg_reuse *r, uint64_t slices)
{
	return r->room ? r->hits[min_u64(slices, r->room - 1)] : 0;
}

uint64_t qimg_reuse_hits(const struct qimg_reuse *r, uint64_t slices, bool *exact)
{
	const struct known *last = &r->known[r->knowns - 1], *a, *b = r->known;
	double part, gain, hits;
	bool ignored = false;

	exact = exact ? exact : &ignored;
	*exact = true;
	if (slices >= last->slices)
		return last->hits;
	while (b->slices < slices)
		b++;
	if (b->slices == slices)
		return b->hits;
	*exact = false;
	if (b == r->known)
		return min_u64(qimg_reuse_lru_hits(r, slices), b->hits);
	a = b - 1;
	part = (double)(slices - a->slices) / (double)(b->slices - a->slices);
	gain = (1 - part) * ((double)a->hits - (double)qimg_reuse_lru_hits(r, a->slices)) +
	       part * ((double)b->hits - (double)qimg_reuse_lru_hits(r, b->slices));
	hits = (double)qimg_reuse_lru_hits(r, slices) + gain;
	hits = fmax(hits, (double)min_u64(a->hits, b->hits));
	return (uint64_t)fmin(hits, (double)max_u64(a->hits, b->hits));
}

uint64_t qimg_reuse_need(const struct qimg_reuse *r, unsigned per_mille)
{
	return r->known[find_need(r, per_mille)].slices;
}
