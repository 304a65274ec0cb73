// SPDX-License-Identifier: BSD-2-Clause
/* lib/qcow2/refmap against plain arrays: counts of every width, marks, windows, the limit of memory. */
#include "qcow2/refmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tap.h"

#define FAR (UINT64_C(1) << 40)

enum { N = 40000 };		/* clusters: five regions */

static uint64_t count[N];
static bool mark[REFMAP_MARKS][N];
static uint64_t seed = 3;
static struct qimg_error e;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static void range(uint64_t *from, uint64_t *n)
{
	*from = rnd(N);
	*n = rnd(rnd(4) ? 100 : N) + 1;
	if (*n > N - *from)
		*n = N - *from;
}

static bool alike_is_right(struct refmap *m, uint64_t base, uint64_t i)
{
	uint64_t cluster = (base + i) / REFMAP_SOME * REFMAP_SOME;
	int got = refmap_alike(m, cluster);

	if (cluster < base || cluster + REFMAP_SOME > base + N)
		return true;
	i = cluster - base;
	for (unsigned k = 0; got != REFMAP_MIXED && k < REFMAP_SOME; k++)
		if (count[i + k] != (uint64_t)got)
			return false;
	return true;
}

/* base: where in a file the arrays are. times: by how much counts grow at most. */
static void random_steps(uint64_t base, uint64_t times)
{
	struct refmap *m = NULL;
	unsigned wrong = 0, end_wrong = 0;
	uint64_t end = 0;

	memset(count, 0, sizeof(count));
	memset(mark, 0, sizeof(mark));
	if (!ok(!refmap_open(&m, base, base + N, UINT64_C(64) << 20, &e), "a map of %d clusters", N))
		return;
	for (unsigned step = 0; step < 2000; step++) {
		uint64_t from, n, which = 0, add = rnd(2) ? 1 : rnd(times) + 1;
		enum refmap_mark k = (enum refmap_mark)rnd(REFMAP_MARKS);
		bool any = false;

		range(&from, &n);
		if (rnd(3) == 0) {
			wrong += refmap_add(m, base + from, n, add, &e) < 0;
			for (uint64_t i = 0; i < n; i++)
				count[from + i] += add;
			end = from + n > end ? from + n : end;
		} else if (rnd(3) == 0) {
			wrong += refmap_set(m, k, base + from, n, &e) < 0;
			memset(&mark[k][from], 1, n);
		} else {
			for (uint64_t i = from; !any && i < from + n; i++)
				if ((any = mark[k][i]))
					which = i;
			wrong += refmap_any(m, k, base + from, n, &n) != any || (any && n != base + which);
		}
		for (unsigned i = 0; i < 20; i++) {
			uint64_t c = rnd(N);

			wrong += refmap_count(m, base + c) != count[c] || refmap_is(m, k, base + c) != mark[k][c] ||
				 !alike_is_right(m, base, c);
		}
		end_wrong += refmap_end(m) != (end ? base + end : 0);
	}
	is_u64(wrong, 0, "counts grow by up to %llu: as in the arrays", (unsigned long long)times);
	is_u64(end_wrong, 0, "and the end of what is used is known");
	wrong = 0;
	for (uint64_t i = 0; i < N; i++)
		wrong += refmap_count(m, base + i) != count[i];
	is_u64(wrong, 0, "each count is exact");
	refmap_close(m);
}

static void exact(void)
{
	static const uint64_t counts[] = { 1, 2, 3, 4, 5, 255, 256, 300, 65535, 65536, UINT32_MAX,
					   UINT64_C(1) << 32, UINT64_MAX };
	struct refmap *m = NULL;

	if (!ok(!refmap_open(&m, 0, UINT64_MAX, UINT64_C(64) << 20, &e), "a map of all clusters there can be"))
		return;
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint64_t cluster = FAR * i + i;

		ok(!refmap_add(m, cluster, 1, counts[i], &e) && refmap_count(m, cluster) == counts[i] &&
		   !refmap_count(m, cluster + 1), "%llu references", (unsigned long long)counts[i]);
	}
	ok(!refmap_add(m, FAR * 12 + 12, 1, 5, &e) && refmap_count(m, FAR * 12 + 12) == UINT64_MAX,
	   "a count that is full stays so");
	ok(refmap_blank(m, FAR / 2) > 0 && !refmap_blank(m, FAR), "what nothing refers to is skipped");
	ok(!refmap_add(m, UINT64_MAX - 1, 100, 1, &e) && refmap_count(m, UINT64_MAX - 1) == 1,
	   "a range does not wrap around");
	ok(refmap_memory(m) < 4 << 20, "it takes %llu KiB", (unsigned long long)refmap_memory(m) >> 10);
	refmap_close(m);
}

static void window(void)
{
	struct refmap *m = NULL;

	if (!ok(!refmap_open(&m, 1000, 2000, 1 << 20, &e), "a window"))
		return;
	ok(!refmap_add(m, 0, 5000, 1, &e) && !refmap_set(m, REFMAP_COPIED, 0, 1500, &e), "is given more");
	ok(!refmap_count(m, 999) && refmap_count(m, 1000) == 1 && refmap_count(m, 1999) == 1 &&
	   !refmap_count(m, 2000), "and takes its part of the counts");
	ok(!refmap_is(m, REFMAP_COPIED, 999) && refmap_is(m, REFMAP_COPIED, 1000) &&
	   !refmap_is(m, REFMAP_COPIED, 1500), "and of the marks");
	is_u64(refmap_end(m), 2000, "it ends where it ends");
	refmap_close(m);
}

static void limit(void)
{
	struct refmap *m = NULL;
	uint64_t i = 0;

	if (!ok(!refmap_open(&m, 0, UINT64_MAX, 100000, &e), "a limit of 100000 bytes"))
		return;
	while (i < 1000 && !refmap_add(m, i * 1000000, 1, 1, &e))
		i++;
	ok(i > 20 && i < 1000 && e.code == E2BIG, "is reached after %u regions", (unsigned)i);
	ok(refmap_memory(m) <= 100000, "and not exceeded");
	refmap_relax(m);
	ok(!refmap_add(m, i * 1000000, 1, 1, &e) && refmap_count(m, i * 1000000) == 1, "until it is lifted");
	refmap_close(m);
}

/* The promise of 20 MiB for 1 TiB in clusters of 64 KiB. */
static void one_tebibyte(void)
{
	struct refmap *m = NULL;

	if (!ok(!refmap_open(&m, 0, UINT64_MAX, UINT64_C(20) << 20, &e), "20 MiB"))
		return;
	ok(!refmap_add(m, 0, 1 << 24, 1, &e) && !refmap_set(m, REFMAP_COPIED, 0, 1 << 24, &e) &&
	   !refmap_add(m, 0, 1 << 24, 1, &e), "2^24 clusters twice: %u KiB", (unsigned)(refmap_memory(m) >> 10));
	refmap_close(m);
}

/* However far apart they are. */
static void next_piece(void)
{
	struct refmap *m = NULL;
	uint64_t at = 0, seen = 0, which = 0;

	if (!ok(!refmap_open(&m, 0, UINT64_MAX, 1 << 20, &e), "a long file"))
		return;
	ok(refmap_next(m, 0) == UINT64_MAX && refmap_next(m, UINT64_C(1) << 50) == UINT64_MAX, "nothing is in there");
	for (uint64_t i = 0; i < 20; i++)
		refmap_add(m, i << 46, 1, 1, &e);
	for (at = refmap_next(m, 0); at != UINT64_MAX; at = refmap_next(m, at + 8192))
		seen += refmap_count(m, at) && at == seen << 46;
	is_u64(seen, 20, "each piece is found");
	ok(!refmap_any(m, REFMAP_FREED, 0, UINT64_MAX, NULL), "none has a mark");
	refmap_set(m, REFMAP_FREED, UINT64_C(19) << 46, 1, &e);
	ok(refmap_any(m, REFMAP_FREED, 1, UINT64_MAX - 1, &which) && which == UINT64_C(19) << 46,
	   "the last one has");
	ok(!refmap_any(m, REFMAP_FREED, 0, UINT64_C(19) << 46, NULL), "which is not before it");
	refmap_close(m);
}

int main(void)
{
	random_steps(0, 1);
	random_steps(8192 - 7, 5);
	random_steps(FAR + 13, 300);
	random_steps(77, 100000);
	random_steps(1, UINT64_C(1) << 33);
	exact();
	window();
	limit();
	one_tebibyte();
	next_piece();
	return done_testing();
}
