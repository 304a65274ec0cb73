// SPDX-License-Identifier: BSD-2-Clause
/* What the figures of a row come to. */
#include "bench.h"

uint64_t bench_metadata_reads(const struct bench_row *row)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < row->images; i++)
		n += row->image[i].l2.loads - row->image[i].l2.second_hits + row->image[i].refcount.loads;
	return n;
}

uint64_t bench_metadata_writes(const struct bench_row *row)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < row->images; i++)
		n += row->image[i].l2.writebacks + row->image[i].refcount.writebacks;
	return n;
}

uint64_t bench_evictions(const struct bench_row *row)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < row->images; i++)
		n += row->image[i].l2.evictions + row->image[i].refcount.evictions;
	return n;
}

uint64_t bench_cache_memory(const struct bench_row *row)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < row->images; i++)
		n += row->image[i].l2.ram_bytes + row->image[i].refcount.ram_bytes;
	return n;
}

bool bench_timed(const struct bench_row *row)
{
	return row->result.ns || !row->result.requests;
}

double bench_hit_ratio(const struct bench_row *row)
{
	uint64_t hits = 0, lookups = 0;

	for (unsigned i = 0; i < row->images; i++) {
		hits += row->image[i].l2.hits + row->image[i].l2.compact_hits;
		lookups += row->image[i].l2.lookups;
	}
	return lookups ? (double)hits / (double)lookups : -1;
}

const char *bench_rw(const struct bench_case *c)
{
	static const char *const names[2][3] = {
		{ "read", "rw", "write" }, { "randread", "randrw", "randwrite" },
	};
	unsigned percent = c->work.write_percent;

	if (c->work.order == QIMG_RECORDED)
		return "replay";
	return names[c->work.order != QIMG_IN_STEPS][percent >= 100 ? 2 : percent > 0];
}
