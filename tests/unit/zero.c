// SPDX-License-Identifier: BSD-2-Clause
/* zero_is and zero_run against looking at each byte, for all alignments and single bytes in all places. */
#include "base/zero.h"

#include "tap.h"

#define ROOM 20000

static uint8_t buf[ROOM + 64];
static uint64_t seed = 88172645463325252u;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static bool slow_is(const uint8_t *p, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if (p[i])
			return false;
	}
	return true;
}

static size_t slow_run(const uint8_t *p, size_t len, size_t block, bool *zero)
{
	size_t at = 0;

	do {
		size_t n = len - at < block ? len - at : block;
		bool z = slow_is(p + at, n);

		if (at && z != *zero)
			break;
		*zero = z;
		at += n;
	} while (at < len);
	return at;
}

int main(void)
{
	size_t len, shift, at;
	unsigned bad = 0, bad_run = 0, i;

	ok(zero_is(buf, 0), "nothing is zero");
	for (len = 0; len < 1100; len++) {
		for (shift = 0; shift < 9; shift++)
			bad += !zero_is(buf + shift, len);
	}
	is_u64(bad, 0, "zeros of all short lengths are zeros");
	/* Only one byte is not zero, just before, in, or just behind the range. */
	for (len = 1; len < 1100; len += 1 + len / 16) {
		for (at = 0; at < len + 2; at++) {
			shift = 1 + at % 8;
			buf[shift + at - 1] = 0x80;
			bad += zero_is(buf + shift, len) != (at == 0 || at == len + 1);
			buf[shift + at - 1] = 0;
		}
	}
	is_u64(bad, 0, "one bit in any place is seen, and none outside");

	for (i = 0; i < 4000; i++) {
		size_t block = (size_t)1 << rnd(13);
		bool zero, want = false;
		size_t n, expect;

		shift = rnd(16);
		len = 1 + rnd(ROOM - 1);
		memset(buf, 0, sizeof(buf));
		for (n = rnd(4); n; n--) {
			size_t from = rnd(ROOM), m = rnd(3) ? 1 : rnd(ROOM - from + 1);

			memset(buf + from, 1 + (int)rnd(255), m);
		}
		for (n = rnd(4); n; n--) {
			size_t from = rnd(ROOM), m = rnd(ROOM - from + 1);

			memset(buf + from, 0, m);
		}
		expect = slow_run(buf + shift, len, block, &want);
		n = zero_run(buf + shift, len, block, &zero);
		bad_run += n != expect || zero != want;
		bad += zero_is(buf + shift, len) != slow_is(buf + shift, len);
	}
	is_u64(bad, 0, "random content: zero_is is right");
	is_u64(bad_run, 0, "random content: zero_run is right");
	return done_testing();
}
