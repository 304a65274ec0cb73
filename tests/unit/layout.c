// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/qcow2/layout: for many images, that the parts of a new image lie one behind the other without
 * gaps, that the refcounts cover exactly what there is, and where the limits are.
 */
#include <errno.h>

#include "base/bytes.h"
#include "base/error.h"
#include "qcow2/header.h"
#include "qcow2/layout.h"
#include "tap.h"

static struct qimg_error e;
static unsigned wrong;

static void expect(bool cond, const struct layout *l, const char *what)
{
	if (cond || wrong++)
		return;
	diag("%s: size %" PRIu64 ", cluster bits %u, refcount order %u%s%s%s", what, l->size,
	     l->cluster_bits, l->refcount_order, l->extended ? ", extended" : "",
	     l->mapped ? ", mapped" : "", l->external ? ", external" : "");
}

static void check(const struct layout *l)
{
	uint64_t per_block = UINT64_C(1) << (l->cluster_bits + 3 - l->refcount_order);
	uint64_t per_table = UINT64_C(1) << (l->cluster_bits - 3);
	uint64_t cluster = UINT64_C(1) << l->cluster_bits;
	bool tail = l->mapped && !l->external && l->size;

	expect(l->rt_at == 1, l, "the refcount table comes first");
	expect(l->block_at == l->rt_at + l->rt_clusters, l, "then a refcount block");
	expect(l->l1_at == l->block_at + 1, l, "then L1");
	expect(l->l2_at == l->l1_at + l->l1_clusters, l, "then L2");
	expect(l->more_blocks_at == l->l2_at + l->l2_tables, l, "then more blocks");
	expect(l->data_at == l->more_blocks_at + l->blocks - 1, l, "then data");
	expect(l->clusters == l->data_at + l->data_clusters, l, "and nothing else");
	expect(l->blocks * per_block >= l->clusters, l, "the blocks cover all");
	expect((l->blocks - 1) * per_block < l->clusters, l, "no block is spare");
	expect(l->rt_clusters * per_table >= l->blocks, l, "the table covers all blocks");
	expect(l->l1_clusters * cluster >= l->l1_entries * 8, l, "L1 fits in its clusters");
	expect(l->guest_clusters * cluster >= l->size, l, "the guest clusters cover the size");
	expect(l->data_clusters == (tail ? l->guest_clusters : 0), l, "data where it is mapped");
	expect(l->file_len <= l->clusters * cluster, l, "the file does not end behind the last");
	expect(l->file_len > (l->clusters - 1) * cluster, l, "nor before it");
	expect(l->rt_clusters * cluster <= HEADER_MAX_RT_BYTES, l, "the table can be opened");
	expect(l->l1_entries * 8 <= HEADER_MAX_L1_BYTES, l, "L1 can be opened");
}

static void test_many(void)
{
	uint64_t seed = 88172645463325252u;
	unsigned done = 0, refused = 0;

	for (unsigned i = 0; i < 200000; i++) {
		struct layout l = { 0 };

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		l.cluster_bits = 9 + seed % 13;
		l.refcount_order = (seed >> 8) % 7;
		l.extended = l.cluster_bits >= 14 && (seed >> 12 & 1);
		l.mapped = seed >> 13 & 1;
		l.external = seed >> 14 & 1;
		l.size = (seed * 0x9e3779b97f4a7c15u) >> (1 + (seed >> 16) % 63) & ~UINT64_C(511);
		if (layout_compute(&l, &e) == 0) {
			check(&l);
			done++;
		} else {
			refused++;
		}
	}
	is_u64(wrong, 0, "the layouts of %u images are right", done);
	ok(refused > 1000 && done > 100000, "%u were too large", refused);
}

static int limit(uint64_t size, unsigned bits, bool extended, unsigned order, bool mapped)
{
	struct layout l = { .size = size, .cluster_bits = bits, .extended = extended,
			    .refcount_order = order, .mapped = mapped };

	return layout_compute(&l, &e);
}

int main(void)
{
	test_many();
	ok(!limit(128 * GIB, 9, false, 4, false), "clusters of 512: 128 GiB");
	ok(limit(128 * GIB + 512, 9, false, 4, false) && e.code == EFBIG, "and no more");
	ok(!limit(2048 * TIB, 16, false, 4, false), "clusters of 64K: 2 PiB");
	ok(limit(2048 * TIB + 512, 16, false, 4, false), "and no more");
	ok(!limit(1024 * TIB, 16, true, 4, false), "with extended L2 entries 1 PiB");
	ok(limit(1024 * TIB + 512, 16, true, 4, false), "and no more");
	ok(!limit(UINT64_C(1) << 61, 21, false, 4, false), "clusters of 2M: 2 EiB");
	ok(limit((UINT64_C(1) << 61) + 512, 21, false, 4, false), "and no more");
	ok(!limit(30 * GIB, 9, false, 6, true), "refcounts of 64 bits, clusters of 512: 30 GiB");
	ok(limit(33 * GIB, 9, false, 6, true) && strstr(e.msg, "refcount table"),
	   "but not 33: the refcount table would be too large");
	ok(limit(UINT64_C(1) << 60, 21, false, 4, true) && strstr(e.msg, "Preallocation"),
	   "entries cannot reach 1 EiB");
	ok(limit(INT64_MAX, 21, false, 4, false), "2^63-1 is too large");
	return done_testing();
}
