// SPDX-License-Identifier: BSD-2-Clause
/* lib/qcow2/entry: what is put comes back, the bits are where the specification has them. */
#include <errno.h>

#include "base/bytes.h"
#include "qcow2/entry.h"
#include "qcow2/qcow2.h"
#include "tap.h"

static struct qimg_image img = { .name = (char *)"test" };
static struct qimg_error e;

static struct qcow2 image(unsigned cluster_bits, unsigned version, bool extended, bool external)
{
	struct qcow2 q = { .img = &img, .cluster_bits = cluster_bits, .extended = extended,
			   .external = external };

	q.cluster_size = UINT32_C(1) << cluster_bits;
	q.h.version = version;
	q.entry_size = extended ? 16 : 8;
	return q;
}

static bool comes_back(const struct qcow2 *q, const struct entry *want, uint64_t guest)
{
	uint8_t raw[16];
	struct entry got;

	memset(raw, 0xff, sizeof(raw));
	entry_put(q, raw, want);
	if (entry_get(q, raw, guest, &got, &e) < 0) {
		diag("%s", e.msg);
		return false;
	}
	return got.kind == want->kind && got.copied == want->copied && got.host == want->host &&
		got.alloc == want->alloc && got.zero == want->zero &&
		/* in the descriptor, a length reaches to the end of its last sector */
		round_up(got.packed + (got.host & 511), 512) ==
		round_up(want->packed + (want->host & 511), 512);
}

static void round_trips(void)
{
	for (unsigned bits = 9; bits <= 21; bits++) {
		struct qcow2 q = image(bits, 3, false, false);
		uint64_t host = UINT64_C(5) << bits, last = (UINT64_C(1) << 56) - q.cluster_size;
		unsigned shift = 62 - (bits - 8);
		uint64_t edge = min_u64(UINT64_C(1) << shift, UINT64_C(1) << 56) - 511;
		struct entry all[] = {
			{ .kind = ENTRY_HOLE },
			{ .kind = ENTRY_ZERO },
			{ .kind = ENTRY_ZERO_HOST, .host = host, .copied = true },
			{ .kind = ENTRY_DATA, .host = host },
			{ .kind = ENTRY_DATA, .host = last, .copied = true },
			{ .kind = ENTRY_PACKED, .host = host + 1, .packed = 1 },
			{ .kind = ENTRY_PACKED, .host = host + 511, .packed = q.cluster_size },
			{ .kind = ENTRY_PACKED, .host = edge, .packed = 511 },
		};
		unsigned good = 0;

		for (unsigned i = 0; i < ARRAY_SIZE(all); i++)
			good += comes_back(&q, &all[i], 0);
		is_u64(good, ARRAY_SIZE(all), "clusters of %u bytes: entries come back", q.cluster_size);
		ok(entry_can_pack(&q, edge, 511) && entry_can_pack(&q, host + 511, q.cluster_size) &&
		   !entry_can_pack(&q, min_u64(UINT64_C(1) << shift, UINT64_C(1) << 56), 1) &&
		   !entry_can_pack(&q, host, 0),
		   "clusters of %u bytes: the limits of compressed clusters", q.cluster_size);
	}
}

static void bits(void)
{
	struct qcow2 q = image(16, 3, false, false), x = image(16, 3, true, false);
	struct qcow2 v2 = image(16, 2, false, false), d = image(16, 3, false, true);
	struct entry en = { .kind = ENTRY_DATA, .host = 0x50000, .copied = true };
	uint8_t raw[16];

	entry_put(&q, raw, &en);
	is_u64(be64_get(raw), UINT64_C(0x8000000000050000), "COPIED is bit 63");
	en = (struct entry){ .kind = ENTRY_PACKED, .host = 0x50123, .packed = 1000 };
	entry_put(&q, raw, &en);
	is_u64(be64_get(raw), UINT64_C(0x4000000000050123) | UINT64_C(2) << 54,
	       "compressed: bit 62, sectors beyond the first from bit 54 on");
	en = (struct entry){ .kind = ENTRY_DATA, .host = 0x50000, .alloc = 1, .zero = 2 };
	entry_put(&x, raw, &en);
	is_u64(be64_get(raw + 8), UINT64_C(0x200000001), "subclusters: allocated low, zero high");

	be64_put(raw + 8, UINT64_C(0x100000001));
	ok(entry_get(&x, raw, 0, &en, &e) < 0 && e.code == EIO, "both bits of a subcluster: refused");
	be64_put(raw, 0);
	be64_put(raw + 8, 1);
	ok(entry_get(&x, raw, 0, &en, &e) < 0, "allocated subcluster without a cluster: refused");
	be64_put(raw, 0x50200);
	ok(entry_get(&q, raw, 0, &en, &e) < 0, "unaligned host offset: refused");
	be64_put(raw, 1);
	ok(entry_get(&v2, raw, 0, &en, &e) < 0, "zero cluster in version 2: refused");
	ok(!entry_get(&q, raw, 0, &en, &e) && en.kind == ENTRY_ZERO, "zero cluster in version 3");
	be64_put(raw, UINT64_C(1) << 63);
	ok(!entry_get(&d, raw, 0, &en, &e) && en.kind == ENTRY_DATA && en.host == 0,
	   "data file: offset 0 is a place when COPIED is set");
	ok(entry_get(&d, raw, 0x10000, &en, &e) < 0, "data file: offsets other than the guest's: refused");
	be64_put(raw, UINT64_C(1) << 62 | 0x50000);
	ok(entry_get(&d, raw, 0, &en, &e) < 0, "data file: compressed cluster: refused");
}

static void refcounts(void)
{
	for (unsigned order = 0; order <= 6; order++) {
		uint64_t max = UINT64_MAX >> (64 - (1u << order)), want[64];
		uint8_t block[64 * 8], guard[64 * 8];
		bool good = true;
		uint64_t seed = order + 1;

		memset(block, 0, sizeof(block));
		memset(want, 0, sizeof(want));
		for (unsigned i = 0; i < 2000; i++) {
			size_t at;

			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
			at = (seed >> 33) % 64;
			want[at] = (seed >> 20 ^ seed << 30) & max;
			entry_refcount_put(block, order, at, want[at]);
			for (size_t k = 0; k < 64; k++)
				good = good && entry_refcount_get(block, order, k) == want[k];
		}
		ok(good, "refcounts of %u bits: none disturbs its neighbours", 1u << order);
		memset(guard, 0, sizeof(guard));
		entry_refcount_put(guard, order, 1, 1);
		is_u64(guard[order <= 2 ? 0 : (2u << (order - 3)) - 1], order <= 2 ? 1u << (1u << order) : 1,
		       "refcounts of %u bits: bit 0 is the least significant, wide ones big-endian",
		       1u << order);
	}
}

int main(void)
{
	round_trips();
	bits();
	refcounts();
	return done_testing();
}
