/* SPDX-License-Identifier: BSD-2-Clause */
/* Big-endian loads and stores, rounding, and arithmetic that notices overflow. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static inline uint16_t be16_get(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap16(v);
}

static inline uint32_t be32_get(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap32(v);
}

static inline uint64_t be64_get(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap64(v);
}

static inline void be16_put(void *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void be32_put(void *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void be64_put(void *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, sizeof(v));
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "base/bytes.h swaps unconditionally: add the big-endian host here"
#endif

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool is_pow2(uint64_t v)
{
	return v && !(v & (v - 1));
}

/* The position of the highest set bit; v must not be 0. */
static inline unsigned log2_u64(uint64_t v)
{
	return 63 - (unsigned)__builtin_clzll(v);
}

/* a must be a power of two. round_up does not check for overflow: see round_up_checked. */
static inline uint64_t round_down(uint64_t v, uint64_t a)
{
	return v & ~(a - 1);
}

static inline uint64_t round_up(uint64_t v, uint64_t a)
{
	return (v + a - 1) & ~(a - 1);
}

static inline uint64_t div_up(uint64_t v, uint64_t d)
{
	return v / d + (v % d != 0);
}

static inline bool is_aligned(uint64_t v, uint64_t a)
{
	return !(v & (a - 1));
}

/* These return false, and leave *r alone, when the result does not fit. */
static inline bool add_u64(uint64_t a, uint64_t b, uint64_t *r)
{
	uint64_t v;

	if (__builtin_add_overflow(a, b, &v))
		return false;
	*r = v;
	return true;
}

static inline bool mul_u64(uint64_t a, uint64_t b, uint64_t *r)
{
	uint64_t v;

	if (__builtin_mul_overflow(a, b, &v))
		return false;
	*r = v;
	return true;
}

static inline bool round_up_checked(uint64_t v, uint64_t a, uint64_t *r)
{
	uint64_t s;

	if (!add_u64(v, a - 1, &s))
		return false;
	*r = s & ~(a - 1);
	return true;
}

#endif
