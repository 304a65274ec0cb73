// SPDX-License-Identifier: BSD-2-Clause
/*
 * Looking for zeros in memory, at the speed of memory.
 *
 * Long ranges are taken in strides of 256 bytes as vectors, which the compiler turns into what the
 * processor has; on x86 a second copy uses AVX2 where the machine does. Data that is not zero is
 * mostly not zero at its start, so that is looked at first.
 */
#include "base/zero.h"

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

typedef uint64_t vec __attribute__((vector_size(32), aligned(1), may_alias));

#define STRIDE 256u

/* How many bytes at the start, in whole strides, are zero. */
static inline __attribute__((always_inline)) size_t strides(const uint8_t *p, size_t len)
{
	size_t at;

	for (at = 0; at + STRIDE <= len; at += STRIDE) {
		const vec *v = (const vec *)(p + at);
		vec a = v[0] | v[1], b = v[2] | v[3], c = v[4] | v[5], d = v[6] | v[7];

		a = (a | b) | (c | d);
		if (a[0] | a[1] | a[2] | a[3])
			break;
	}
	return at;
}

static size_t strides_plain(const uint8_t *p, size_t len)
{
	return strides(p, len);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static size_t strides_avx2(const uint8_t *p, size_t len)
{
	return strides(p, len);
}
#endif

static size_t zero_strides(const uint8_t *p, size_t len)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		return strides_avx2(p, len);
#endif
	return strides_plain(p, len);
}

static bool zero_short(const uint8_t *p, size_t len)
{
	uint64_t word, all = 0;
	size_t at;

	if (len < 8) {
		for (at = 0; at < len; at++)
			all |= p[at];
		return !all;
	}
	for (at = 0; at + 8 <= len; at += 8) {
		memcpy(&word, p + at, 8);
		all |= word;
	}
	/* The last word overlaps the one before where len is no multiple of 8. */
	memcpy(&word, p + len - 8, 8);
	return !(all | word);
}

bool zero_is(const void *buf, size_t len)
{
	const uint8_t *p = buf;
	size_t at;

	if (len < STRIDE)
		return zero_short(p, len);
	if (!zero_short(p, 16))
		return false;
	at = zero_strides(p, len);
	return len - at < STRIDE && zero_short(p + at, len - at);
}

size_t zero_run(const void *buf, size_t len, size_t block, bool *zero)
{
	const uint8_t *p = buf;
	size_t at = len < block ? len : block;

	*zero = zero_is(p, at);
	if (*zero && at < len && block >= STRIDE) {
		/* One pass over all of it; the block in which it ended is looked at again below. */
		size_t n = at + zero_strides(p + at, len - at);

		at = round_down(n, block);
	}
	while (at < len) {
		size_t n = len - at < block ? len - at : block;

		if (zero_is(p + at, n) != *zero)
			break;
		at += n;
	}
	return at;
}
