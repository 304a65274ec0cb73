// SPDX-License-Identifier: BSD-2-Clause
/* lib/ops/{distance,clock,reuse} against caches that are kept as plain lists. */
#include "qimg.h"

#include <errno.h>
#include <string.h>

#include "ops/clock.h"
#include "ops/distance.h"
#include "ops/pattern.h"
#include "tap.h"

enum { KEYS = 300, ACCESSES = 40000, MOST = 150000 };

static struct qimg_error e;
static uint64_t seq[MOST];
static uint64_t random_state = 1;

static uint64_t below(uint64_t n)
{
	return pattern_random(&random_state) % n;
}

/* Distances, as a list of keys by last use tells them. */
static void test_distances(uint64_t keys, uint64_t spread, unsigned accesses)
{
	static uint64_t list[MOST];
	unsigned n = 0, bad = 0;
	struct distances *d;

	ok(!distance_open(&d, &e), "distances over %" PRIu64 " keys", keys);
	for (unsigned i = 0; i < accesses && !bad; i++) {
		uint64_t key = (below(2) ? below(keys) : below(keys / 10 + 1)) * spread;
		uint32_t id = 0, distance = 0;
		unsigned at = 0;

		while (at < n && list[at] != key)
			at++;
		if (distance_access(d, key, &id, &distance, &e) < 0)
			bad++;
		bad += distance != (at < n ? at + 1 : 0) || id >= distance_pieces(d) || distance_id(d, key) != id;
		n += at == n;
		memmove(list + 1, list, at * sizeof(list[0]));
		list[0] = key;
		bad += distance_pieces(d) != n;
	}
	is_u64(bad, 0, "each is as the list says");
	distance_close(d);
}

/* The clock of qcow2/cache.c, once more: new ones are marked, marked ones get a round. */
static uint64_t plain_clock(unsigned size, unsigned accesses, unsigned warm)
{
	static uint64_t ring[KEYS];
	static bool marked[KEYS];
	unsigned n = 0, hand = 0;
	uint64_t hits = 0;

	for (unsigned i = 0; i < accesses; i++) {
		unsigned at = 0;

		while (at < n && ring[at] != seq[i])
			at++;
		if (at < n) {
			hits += i >= warm;
			marked[at] = true;
			continue;
		}
		if (n < size) {
			at = n++;
		} else {
			while (marked[hand]) {
				marked[hand] = false;
				hand = (hand + 1) % size;
			}
			at = hand;
			hand = (hand + 1) % size;
		}
		ring[at] = seq[i];
		marked[at] = true;
	}
	return hits;
}

static uint64_t plain_lru(unsigned size, unsigned accesses, unsigned warm)
{
	static uint64_t list[KEYS + 1];
	uint64_t hits = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < accesses; i++) {
		unsigned at = 0;

		while (at < n && list[at] != seq[i])
			at++;
		hits += at < n && i >= warm;
		n += at == n && n < size;
		at = at < n ? at : n - 1;
		memmove(list + 1, list, at * sizeof(list[0]));
		list[0] = seq[i];
	}
	return hits;
}

/* Requests for slices, as a recording that is played; geometry: 512 bytes of 8 an entry, clusters of 512. */
#define COVER (UINT64_C(64) * 512)
static const struct qimg_cache_sizes geometry = { .size = KEYS * COVER, .cluster_size = 512,
						  .l2_entry_size = 512, .refcount_bits = 16 };

/* What the workload requests, slice by slice. */
static unsigned slices_of(const struct qimg_workload *w)
{
	struct pattern p;
	unsigned n = 0;

	pattern_open(&p, w, geometry.size, "x", &e);
	for (uint64_t i = 0; i < w->warm_count + w->count; i++) {
		struct pattern_request q;

		pattern_next(&p, &q);
		for (uint64_t s = q.off / COVER; s <= (q.off + q.len - 1) / COVER && n < MOST; s++)
			seq[n++] = s;
	}
	return n;
}

static void test_reuse(const struct qimg_workload *w, const char *what)
{
	unsigned n = slices_of(w), warm = (unsigned)w->warm_count, followed = 0, bad = 0, lru_bad = 0;
	uint64_t cold = 0, before = 0, possible;
	const struct qimg_reuse_info *info;
	struct qimg_reuse *r = NULL;
	bool seen[KEYS] = { false };
	double far = 0;

	if (!ok(!qimg_reuse_new(&r, &geometry, w, &e), "%s", what)) {
		diag("%s", e.msg);
		return;
	}
	info = qimg_reuse_info(r);
	for (unsigned i = 0; i < n; i++) {
		cold += !seen[seq[i]] && i >= warm;
		before += !seen[seq[i]];
		seen[seq[i]] = true;
	}
	is_u64(info->lookups, n - warm, "lookups");
	is_u64(info->cold, cold, "cold ones");
	is_u64(info->touched, before, "slices touched");
	possible = info->lookups - cold;
	for (unsigned c = 2; c <= KEYS; c += c < 20 ? 1 : 7) {
		uint64_t want = plain_clock(c, n, warm), got;
		double off;
		bool exact;

		got = qimg_reuse_hits(r, c, &exact);
		off = (double)got - (double)want;
		off = (off < 0 ? -off : off) * 100 / (double)info->lookups;
		far = off > far ? off : far;
		followed += exact;
		bad += exact && got != want;
		lru_bad += qimg_reuse_lru_hits(r, c) != plain_lru(c, n, warm);
	}
	ok(followed > 5, "some sizes were followed (%u)", followed);
	is_u64(bad, 0, "and these are exact");
	is_u64(lru_bad, 0, "the least recently used: exact");
	ok(far < 1, "between the sizes that were followed less than a point is missing (%.2f)", far);
	for (unsigned t = 900; t <= 1000; t += 50) {
		uint64_t need = qimg_reuse_need(r, t);

		ok(plain_clock((unsigned)need, n, warm) * 1000 >= possible * t &&
			   (need == 2 || plain_clock((unsigned)need - 1, n, warm) * 1000 < possible * t),
		   "%u of 1000 need %" PRIu64 " slices and no fewer", t, need);
	}
	qimg_reuse_free(r);
}

static void refused(struct qimg_workload w, struct qimg_cache_sizes s, const char *why)
{
	struct qimg_reuse *r;

	e.msg[0] = 0;
	ok(qimg_reuse_new(&r, &s, &w, &e) == -1, "%s", why);
	diag("%s", e.msg);
}

static void test_limits(void)
{
	struct qimg_workload w = { .order = QIMG_IN_STEPS, .size = 4096, .step = 65536 * 64, .count = 1000 };
	struct qimg_cache_sizes s = geometry;
	struct qimg_progress stop = { .cancel = NULL };
	volatile sig_atomic_t flag = 1;
	struct qimg_reuse *r = NULL;

	s.size = INT64_MAX;
	ok(!qimg_reuse_new(&r, &s, &w, &e), "the largest disk");
	is_u64(qimg_reuse_info(r)->cold, 1000, "no slice of which is touched twice");
	is_u64(qimg_reuse_need(r, 1000), 2, "needs no cache");
	qimg_reuse_free(r);
	s.size = 512;
	w.size = w.step = 512;
	ok(!qimg_reuse_new(&r, &s, &w, &e), "the smallest disk");
	is_u64(qimg_reuse_hits(r, 1, NULL), 999, "has one slice");
	is_u64(qimg_reuse_hits(r, 1000, NULL), 999, "and no more");
	qimg_reuse_free(r);
	stop.cancel = &flag;
	w.progress = &stop;
	refused(w, s, "interrupted");
	w.progress = NULL;
	w.count = 0;
	refused(w, s, "without a number of requests");
	w.count = 1;
	w.size = 1024;
	refused(w, s, "a request larger than the disk");
	w.size = 512;
	s.l2_entry_size = 0;
	refused(w, s, "no entries");
}

int main(void)
{
	struct qimg_workload w = { .order = QIMG_AT_RANDOM, .size = 4096, .step = 4096, .count = 30000,
				   .seed = 3, .depth = 1 };

	test_distances(KEYS, 1, ACCESSES);
	test_distances(3000, UINT64_C(1) << 40, ACCESSES);
	test_distances(1, 1, 10000);
	test_reuse(&w, "uniform");
	w.warm_count = 5000;
	w.order = QIMG_ZIPF;
	w.theta = 0.9;
	test_reuse(&w, "Zipf 0.9 after a warm-up");
	w.theta = 1.2;
	test_reuse(&w, "Zipf 1.2");
	w.warm_count = 0;
	w.order = QIMG_IN_STEPS;
	test_reuse(&w, "one after the other");
	w.step = COVER + 512;
	test_reuse(&w, "a slice after the other");
	w.size = 3 * COVER;
	test_reuse(&w, "requests of several slices");
	test_limits();
	return done_testing();
}
