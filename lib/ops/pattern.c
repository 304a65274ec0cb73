// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sequences of requests.
 *
 * Zipf's law over n numbers without a table: rejection-inversion (W. Hoermann, G. Derflinger,
 * "Rejection-inversion to generate variates from monotone discrete distributions", 1996). The histogram of
 * k^-theta lies below the integral of x^-theta around each k; a point below the curve is drawn by inverting
 * the integral, and is drawn again when it is not below the histogram, which is rare for any n and theta.
 *
 * Popularity becomes position by a permutation: a Feistel network over the smallest even number of bits
 * that can count the blocks, applied until the result is a block, which takes four rounds of it at most
 * on average.
 */
#include "ops/pattern.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#define MOST_THETA 10

/* splitmix64: one addition and a few multiplications, and every seed will do. */
static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t pattern_random(uint64_t *state)
{
	return mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Below n; the bias of a 128-bit product is beyond measuring. */
static uint64_t random_below(uint64_t *state, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)pattern_random(state) * n) >> 64);
}

/* expm1(x) / x and log1p(x) / x, also where that is 0 / 0. */
static double expm1_over(double x)
{
	return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

static double log1p_over(double x)
{
	return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

static double power(const struct zipf *z, double x)
{
	return exp(-z->theta * log(x));
}

/* The integral of t^-theta from 1 to x, and the x that has it. */
static double integral(const struct zipf *z, double x)
{
	double l = log(x);

	return l * expm1_over((1 - z->theta) * l);
}

static double inverse(const struct zipf *z, double y)
{
	double t = (1 - z->theta) * y;

	return exp(y * log1p_over(t < -1 ? -1 : t));
}

void pattern_zipf_init(struct zipf *z, double theta, uint64_t n)
{
	*z = (struct zipf){ .theta = theta, .n = n };
	z->low = integral(z, 1.5) - 1;
	z->high = integral(z, (double)n + 0.5);
	z->sure = 2 - inverse(z, integral(z, 2.5) - power(z, 2));
}

uint64_t pattern_zipf(const struct zipf *z, uint64_t *state)
{
	for (;;) {
		double unit = (double)(pattern_random(state) >> 11) * 0x1p-53;
		double y = z->high + unit * (z->low - z->high);
		double x = inverse(z, y), k = floor(x + 0.5);

		k = k < 1 ? 1 : k > (double)z->n ? (double)z->n : k;
		if (k - x <= z->sure || y >= integral(z, k + 0.5) - power(z, k))
			return min_u64((uint64_t)k, z->n) - 1;
	}
}

static void permute_init(struct pattern *p)
{
	uint64_t state = p->w->seed ^ UINT64_C(0x5a69706673656564);

	p->half = p->blocks > 1 ? log2_u64(p->blocks - 1) / 2 + 1 : 1;
	for (unsigned i = 0; i < ARRAY_SIZE(p->key); i++)
		p->key[i] = pattern_random(&state);
}

uint64_t pattern_permute(const struct pattern *p, uint64_t i)
{
	uint64_t mask = (UINT64_C(1) << p->half) - 1;

	do {
		uint64_t left = i >> p->half, right = i & mask;

		for (unsigned k = 0; k < ARRAY_SIZE(p->key); k++) {
			uint64_t was = right;

			right = left ^ (mix(right + p->key[k]) & mask);
			left = was;
		}
		i = left << p->half | right;
	} while (i >= p->blocks);
	return i;
}

/* What cannot be sent to a disk of that size. */
static int check(const struct pattern *p, const char *name, struct qimg_error *e)
{
	const struct qimg_workload *w = p->w;

	if (!w->size)
		return error_set(e, EINVAL, "Requests of 0 bytes measure nothing");
	if (!w->step && w->order == QIMG_IN_STEPS)
		return error_set(e, EINVAL, "With a step of 0 all requests would be for the same bytes");
	if (w->size > p->disk)
		return error_set(e, EINVAL, "A request of %" PRIu64 " bytes does not fit into '%s', which has %"
				 PRIu64, w->size, name, p->disk);
	if (w->offset > p->disk - w->size)
		return error_set(e, EINVAL, "A request of %" PRIu64 " bytes at offset %" PRIu64
				 " reaches beyond the end of '%s', which has %" PRIu64 " bytes",
				 w->size, w->offset, name, p->disk);
	if (w->order == QIMG_ZIPF && !(w->theta > 0 && w->theta <= MOST_THETA))
		return error_set(e, EINVAL, "Zipf's exponent is %g; it must be above 0 and at most %d",
				 w->theta, MOST_THETA);
	return 0;
}

int pattern_open(struct pattern *p, const struct qimg_workload *w, uint64_t disk, const char *name,
		 struct qimg_error *e)
{
	*p = (struct pattern){ .w = w, .disk = disk, .random = w->seed };
	if (w->order == QIMG_RECORDED) {
		if (!w->recording)
			return error_set(e, EINVAL, "A recorded workload needs a recording");
		return qimg_recording_fits(w->recording, disk, e);
	}
	if (check(p, name, e) < 0)
		return -1;
	if (w->order == QIMG_IN_STEPS) {
		p->next = w->offset;
		return 0;
	}
	p->blocks = (disk - w->offset) / w->size;
	if (w->order == QIMG_ZIPF) {
		pattern_zipf_init(&p->zipf, w->theta, p->blocks);
		permute_init(p);
	}
	return 0;
}

static bool is_write(struct pattern *p)
{
	unsigned percent = p->w->write_percent;

	if (percent == 0 || percent >= 100)
		return percent;
	return random_below(&p->random, 100) < percent;
}

static void next_recorded(struct pattern *p, struct pattern_request *r)
{
	const struct qimg_recording *of = p->w->recording;
	struct qimg_recorded q;

	qimg_recording_get(of, p->next, &q);
	p->next = (p->next + 1) % qimg_recording_info(of)->requests;
	*r = (struct pattern_request){ .off = q.off, .len = q.len, .write = q.op == QIMG_RECORDED_WRITE };
	if (q.op == QIMG_RECORDED_EITHER)
		r->write = is_write(p);
}

static uint64_t next_step(struct pattern *p)
{
	uint64_t at = p->next;

	if (at > p->disk - p->w->size)
		at = 0;
	p->next = (at + p->w->step % p->disk) % p->disk;
	return at;
}

void pattern_next(struct pattern *p, struct pattern_request *r)
{
	const struct qimg_workload *w = p->w;

	if (w->order == QIMG_RECORDED) {
		next_recorded(p, r);
		return;
	}
	r->len = w->size;
	r->write = is_write(p);
	switch (w->order) {
	case QIMG_AT_RANDOM:
		r->off = w->offset + random_below(&p->random, p->blocks) * w->size;
		break;
	case QIMG_ZIPF:
		r->off = w->offset + pattern_permute(p, pattern_zipf(&p->zipf, &p->random)) * w->size;
		break;
	default:
		r->off = next_step(p);
	}
}

uint64_t pattern_longest(const struct pattern *p)
{
	return p->w->order == QIMG_RECORDED ? qimg_recording_info(p->w->recording)->longest : p->w->size;
}
