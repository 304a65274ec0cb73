// SPDX-License-Identifier: BSD-2-Clause
/* lib/ops/pattern: where requests go, and how often. */
#include "ops/pattern.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "tap.h"

enum { DRAWS = 400000, BLOCKS = 1000 };

static struct qimg_error e;

/* The sum over all k of (seen - expected)^2 / expected, in standard deviations from its mean. */
static double chi(const unsigned *seen, const double *expected, unsigned n)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
	return (sum - (n - 1)) / sqrt(2.0 * (n - 1));
}

/* Expected counts by Zipf's law; those below 20 are put together at the end, their number returned. */
static unsigned expect(double *expected, double theta)
{
	double sum = 0, tail = 0;
	unsigned n = 0;

	for (unsigned k = 1; k <= BLOCKS; k++)
		sum += pow(k, -theta);
	for (unsigned k = 1; k <= BLOCKS; k++) {
		double x = DRAWS * pow(k, -theta) / sum;

		if (x >= 20)
			expected[n++] = x;
		else
			tail += x;
	}
	if (tail > 0)
		expected[n++] = tail;
	return n;
}

static void test_zipf(double theta, double judged_by, bool fits)
{
	static double expected[BLOCKS + 1];
	static unsigned seen[BLOCKS + 1];
	uint64_t state = 42;
	struct zipf z;
	unsigned n = expect(expected, judged_by);
	double far;

	memset(seen, 0, sizeof(seen));
	pattern_zipf_init(&z, theta, BLOCKS);
	for (unsigned i = 0; i < DRAWS; i++) {
		uint64_t k = pattern_zipf(&z, &state);

		if (k >= BLOCKS) {
			ok(false, "a number is below n");
			return;
		}
		seen[k < n ? k : n - 1]++;
	}
	far = chi(seen, expected, n);
	if (fits)
		ok(far < 5 && far > -5, "exponent %.2f: the law (%.1f deviations off)", theta, far);
	else
		ok(far > 5, "exponent %.2f is not %.2f (%.1f deviations off)", theta, judged_by, far);
}

static void test_edges(void)
{
	static const uint64_t sizes[] = { 1, 2, 3, 5, 16, 17, UINT64_C(1) << 40, UINT64_C(1) << 54 };
	static const double thetas[] = { 0.01, 0.5, 0.999999, 1, 1.000001, 2, 10 };
	uint64_t beyond = 0, twice = 0, state = 1;

	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct qimg_workload w = { .order = QIMG_ZIPF, .size = 1, .theta = 1, .seed = s };
		struct pattern p;
		bool seen[32] = { false };

		for (unsigned t = 0; t < sizeof(thetas) / sizeof(thetas[0]); t++) {
			struct zipf z;

			pattern_zipf_init(&z, thetas[t], sizes[s]);
			for (unsigned i = 0; i < 1000; i++)
				beyond += pattern_zipf(&z, &state) >= sizes[s];
		}
		pattern_open(&p, &w, sizes[s], "x", &e);
		for (uint64_t i = 0; i < 1000 && i < sizes[s]; i++)
			beyond += pattern_permute(&p, i) >= sizes[s];
		for (uint64_t i = 0; sizes[s] < 32 && i < sizes[s]; i++) {
			twice += seen[pattern_permute(&p, i) % 32];
			seen[pattern_permute(&p, i) % 32] = true;
		}
	}
	is_u64(beyond, 0, "no number is beyond the last, with any exponent");
	is_u64(twice, 0, "no two numbers have one place");
}

/* The hundred most popular blocks lie anywhere, and no more of them side by side than by chance. */
static void test_scattered(void)
{
	struct qimg_workload w = { .order = QIMG_ZIPF, .size = 1, .theta = 1, .seed = 3 }, other = w;
	static const double expected[10] = { 100, 100, 100, 100, 100, 100, 100, 100, 100, 100 };
	unsigned seen[10] = { 0 }, near = 0, same = 0;
	struct pattern p, q;
	uint64_t last = 0;

	other.seed = 4;
	pattern_open(&p, &w, 1000000, "x", &e);
	pattern_open(&q, &other, 1000000, "x", &e);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t at = pattern_permute(&p, i);

		seen[at / 100000]++;
		near += i && (at > last ? at - last : last - at) < 1000;
		same += at == pattern_permute(&q, i);
		last = at;
	}
	ok(chi(seen, expected, 10) < 5, "popular blocks are all over the disk");
	ok(near < 12, "and not side by side (%u of 1000)", near);
	ok(same < 5, "another seed has others");
}

static void test_uniform(void)
{
	struct qimg_workload w = { .order = QIMG_AT_RANDOM, .size = 4096, .seed = 7, .offset = 8192,
				   .write_percent = 30 };
	static unsigned seen[BLOCKS];
	static double expected[BLOCKS];
	unsigned writes = 0, beyond = 0;
	struct pattern p;

	/* A last block that is not whole is never asked for. */
	ok(!pattern_open(&p, &w, 8192 + BLOCKS * 4096 + 512, "x", &e), "a disk with a partial last block");
	for (unsigned i = 0; i < DRAWS; i++) {
		struct pattern_request r;

		pattern_next(&p, &r);
		beyond += r.off < 8192 || (r.off - 8192) % 4096 || r.off >= 8192 + BLOCKS * 4096 || r.len != 4096;
		if (!beyond)
			seen[(r.off - 8192) / 4096]++;
		writes += r.write;
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		expected[i] = (double)DRAWS / BLOCKS;
	is_u64(beyond, 0, "requests are whole blocks within the disk");
	ok(fabs(chi(seen, expected, BLOCKS)) < 5, "all blocks are equally likely");
	ok(fabs(writes - 0.3 * DRAWS) < 5 * sqrt(DRAWS * 0.3 * 0.7), "30 of 100 are writes");
}

static void test_steps(void)
{
	struct qimg_workload w = { .order = QIMG_IN_STEPS, .size = 4096, .step = 6144, .offset = 512 };
	static const uint64_t want[] = { 512, 6656, 2048, 0, 6144 };
	struct pattern_request r;
	struct pattern p;

	ok(!pattern_open(&p, &w, 10752, "x", &e), "steps");
	for (unsigned i = 0; i < 5; i++) {
		pattern_next(&p, &r);
		is_u64(r.off, want[i], "step %u", i);
	}
	w = (struct qimg_workload){ .order = QIMG_IN_STEPS, .size = INT64_MAX, .step = UINT64_MAX };
	ok(!pattern_open(&p, &w, INT64_MAX, "x", &e), "the largest disk of all in one request");
	pattern_next(&p, &r);
	pattern_next(&p, &r);
	ok(r.off == 0 && r.len == INT64_MAX, "which has one place alone");
}

static void test_same(enum qimg_order order)
{
	struct qimg_workload w = { .order = order, .size = 512, .step = 512, .seed = 5, .theta = 0.9,
				   .write_percent = 50 }, x = w;
	struct pattern p, q, other;
	bool same = true, differs = false;

	x.seed = 6;
	pattern_open(&p, &w, 1 << 30, "x", &e);
	pattern_open(&q, &w, 1 << 30, "x", &e);
	pattern_open(&other, &x, 1 << 30, "x", &e);
	for (unsigned i = 0; i < 10000; i++) {
		struct pattern_request a, b, c;

		pattern_next(&p, &a);
		pattern_next(&q, &b);
		pattern_next(&other, &c);
		same = same && a.off == b.off && a.write == b.write;
		differs = differs || a.off != c.off || a.write != c.write;
	}
	ok(same && differs, "order %d: the same seed, the same requests; another one, others", order);
}

static void refused(struct qimg_workload w, const char *why)
{
	struct pattern p;

	e.code = 0;
	ok(pattern_open(&p, &w, 10000, "disk", &e) == -1 && e.code == EINVAL, "%s", why);
	diag("%s", e.msg);
}

int main(void)
{
	struct qimg_workload w = { .order = QIMG_ZIPF, .size = 4096, .step = 4096, .theta = 0.9 };

	test_zipf(0.3, 0.3, true);
	test_zipf(0.9, 0.9, true);
	test_zipf(1, 1, true);
	test_zipf(1.2, 1.2, true);
	test_zipf(3, 3, true);
	test_zipf(0.9, 0.92, false);
	test_zipf(1.2, 1, false);
	test_edges();
	test_scattered();
	test_uniform();
	test_steps();
	test_same(QIMG_AT_RANDOM);
	test_same(QIMG_ZIPF);
	test_same(QIMG_IN_STEPS);
	for (unsigned i = 0; i < 4; i++) {
		w.theta = (const double[]){ 0, -1, 10.5, (double)NAN }[i];
		refused(w, "an exponent that is none");
	}
	w.theta = 1;
	w.offset = 5905;
	refused(w, "an offset without room behind it");
	w.offset = UINT64_MAX;
	refused(w, "an offset that is none");
	w.size = 10001;
	refused(w, "a request larger than the disk");
	w.size = 0;
	refused(w, "a request of nothing");
	w = (struct qimg_workload){ .order = QIMG_RECORDED };
	refused(w, "no recording");
	return done_testing();
}
