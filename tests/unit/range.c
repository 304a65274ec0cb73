// SPDX-License-Identifier: BSD-2-Clause
/* Ranges and checked memory: all small cases against counting bytes, and the ends of 64 bits. */
#include "base/range.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "tap.h"

static bool is_range(struct range r, uint64_t start, uint64_t len)
{
	return r.len == len && (!len || r.start == start);
}

static void clipping(void)
{
	unsigned a, n, from, to, i, bad = 0, bad_overlap = 0, bad_within = 0;

	for (a = 0; a < 9; a++)
	for (n = 0; n < 9; n++)
	for (from = 0; from < 9; from++)
	for (to = 0; to < 9; to++) {
		unsigned first = 99, count = 0, common = 0;

		for (i = 0; i < 20; i++) {
			bool in = i >= a && i < a + n;

			if (in && i >= from && i < to) {
				first = count++ ? first : i;
			}
			common += in && i >= from && i < from + to;
		}
		bad += !is_range(range_clip(a, n, from, to), first, count);
		bad_overlap += range_overlaps(a, n, from, to) != !!common;
		bad_within += range_within(a, n, to) != (a + n <= to);
	}
	is_u64(bad, 0, "range_clip agrees with counting");
	is_u64(bad_overlap, 0, "range_overlaps agrees with counting");
	is_u64(bad_within, 0, "range_within agrees with counting");

	ok(is_range(range_clip(UINT64_MAX - 9, 9, 0, UINT64_MAX), UINT64_MAX - 9, 9), "clip at the top");
	ok(is_range(range_clip(5, UINT64_MAX, 0, 10), 5, 5), "clip what would overflow");
	ok(is_range(range_clip(UINT64_MAX, UINT64_MAX, 0, UINT64_MAX), 0, 0), "clip nothing left");
	ok(!range_within(UINT64_MAX, 2, UINT64_MAX), "within does not overflow");
	ok(range_within(UINT64_MAX, 0, UINT64_MAX), "nothing at the end is within");
	ok(!range_within(1, UINT64_MAX, 100), "a huge length is not");
	ok(range_overlaps(UINT64_MAX - 1, UINT64_MAX, UINT64_MAX, 1), "overlap at the top");
	{
		struct range r = { 5, 7 };

		is_u64(range_end(&r), 12, "range_end");
	}
}

static void rounding(void)
{
	unsigned off, len, align, bad_inner = 0, bad_outer = 0;

	for (off = 0; off < 40; off++)
	for (len = 0; len < 40; len++)
	for (align = 1; align <= 16; align *= 2) {
		unsigned lo = (off + align - 1) / align * align, hi = (off + len) / align * align;
		unsigned out = off / align * align, end = (off + len + align - 1) / align * align;

		bad_inner += !is_range(range_inner(off, len, align), lo, hi > lo ? hi - lo : 0);
		bad_outer += !is_range(range_outer(off, len, align), out, len ? end - out : 0);
	}
	is_u64(bad_inner, 0, "range_inner agrees with arithmetic");
	is_u64(bad_outer, 0, "range_outer agrees with arithmetic");
	is_u64(range_inner(UINT64_MAX - 100, 50, 4096).len, 0, "range_inner at the top");
}

static void memory(void)
{
	struct qimg_error e;
	uint32_t *p = NULL;
	void *v = NULL;
	char *s;
	unsigned i, bad = 0;

	free(mem_alloc(0, &e));
	ok(!mem_array(SIZE_MAX / 2, 4, &e) && e.code == ENOMEM, "an array whose size overflows");
	ok(!mem_grow(&v, 0, 4, sizeof(*p), &e), "grow from nothing");
	p = v;
	for (i = 0; i < 4; i++)
		bad += p[i] != 0;
	memset(p, 0xff, 16);
	ok(!mem_grow(&v, 4, 1000, sizeof(*p), &e), "grow");
	p = v;
	for (i = 0; i < 1000; i++)
		bad += p[i] != (i < 4 ? UINT32_MAX : 0);
	is_u64(bad, 0, "what is new is zero, what was there stays");
	ok(mem_grow(&v, 1000, SIZE_MAX / 2, 4, &e) == -1 && v == p && e.code == ENOMEM,
	   "growing to what overflows");
	ok(!mem_grow(&v, 1000, 10, 4, &e) && v == p, "growing to less does nothing");
	free(v);
	v = mem_buffer(1000, &e);
	ok(v && !((uintptr_t)v & 4095), "a buffer is aligned");
	free(v);
	s = mem_printf(&e, "%d-%s", 5, "x");
	is_str(s, "5-x", "mem_printf");
	free(s);
	s = mem_strndup("abcdef", 3, &e);
	is_str(s, "abc", "mem_strndup");
	free(s);
}

int main(void)
{
	clipping();
	rounding();
	memory();
	return done_testing();
}
