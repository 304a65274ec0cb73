// SPDX-License-Identifier: BSD-2-Clause
/* How fast random reads are by what the L2 cache has: two published tables. */
#include "bench_preset_table.h"

#define K UINT64_C(1024)
#define M (K * K)
#define G (K * M)

#define ONE_BY_ONE "one load at a time"
#define OVERLAP "overlapping, depth 8"
#define COMPACT "compact, one at a time"

/* ---- l2-size ---- */

#define SIZE_ROW(name, iops, bytes)									\
	{ .row = name, .column = ONE_BY_ONE, .published = iops, .l2_cache_size = bytes,			\
	  .l2_cache_entry_size = 64 * K, .metadata_depth = 1 },						\
	{ .row = name, .column = OVERLAP, .published = iops, .beside = true, .l2_cache_size = bytes,	\
	  .l2_cache_entry_size = 64 * K, .depth = 8 },							\
	{ .row = name, .column = COMPACT, .published = iops, .beside = true, .l2_cache_size = bytes,	\
	  .l2_cache_entry_size = 64 * K, .metadata_depth = 1, .compact = true }

static const struct preset_cell size_cells[] = {
	SIZE_ROW("1 MiB", 5100, M),
	SIZE_ROW("1.5 MiB", 7300, 3 * M / 2),
	SIZE_ROW("2 MiB", 12700, 2 * M),
	SIZE_ROW("2.5 MiB", 63600, 5 * M / 2),
};

static const struct preset_table size_table = {
	.head = "L2 cache", .sizes = true, .cell = size_cells,
	.cells = sizeof(size_cells) / sizeof(size_cells[0]), .warm = 1000, .count = 20000,
};

static const struct preset_thread size_thread = {
	.title = "random 4K reads of a fully populated disk, by the size of the L2 cache",
	.brief = "random 4K reads, 20 GiB",
	.published = "A. Garcia, 'Improving disk I/O performance in QEMU 2.5 with the qcow2 L2 cache', 2015",
	.model = "model=ssd-2015",
	.assumed = "A hit is 15.7 us of the thread that owns the image, loading a table of 64K takes the device\n"
		   "305 us; the reference held a lock meanwhile. Overlapping loads have 8 channels. Our own\n"
		   "cache also keeps what had to leave in a compact form, small for a disk in one piece as this\n"
		   "one: without it but in the last column.",
	.size = 20 * G, .cluster_size = 64 * K, .preallocation = "metadata",
	.table = &size_table, .tables = 1,
};

static int run_size(const struct preset *p, const struct preset_how *how, struct preset_rows *rows)
{
	return preset_thread_run(p, &size_thread, how, rows);
}

const struct preset preset_l2_size = {
	.name = "l2-size", .summary = "Random reads by the size of the L2 cache, 20 GiB",
	.draws = true, .run = run_size,
};

/* ---- l2-entry-size ---- */

#define ENTRY_CELL(name, bytes, entry, iops)								\
	{ .row = name, .column = #entry "K entries", .published = iops, .l2_cache_size = bytes,		\
	  .l2_cache_entry_size = (entry) * K, .metadata_depth = 1 }
#define ENTRY_ROW(name, bytes, a, iops_a, b, iops_b, c, iops_c)						\
	ENTRY_CELL(name, bytes, a, iops_a), ENTRY_CELL(name, bytes, b, iops_b),				\
	ENTRY_CELL(name, bytes, c, iops_c)

static const struct preset_cell entry_cells[] = {
	ENTRY_ROW("1 MiB", M, 4, 6545, 16, 5177, 64, 2718),
	ENTRY_ROW("3 MiB", 3 * M, 4, 12045, 16, 9798, 64, 5326),
	ENTRY_ROW("5 MiB", 5 * M, 4, 55680, 16, 56278, 64, 57355),
};

static const struct preset_cell large_cells[] = {
	ENTRY_ROW("512 KiB", 512 * K, 4, 8539, 64, 3598, 256, 1415),
	ENTRY_ROW("1 MiB", M, 4, 21071, 64, 9772, 256, 4120),
	ENTRY_ROW("1.25 MiB", 1280 * K, 4, 55417, 64, 57687, 256, 58001),
};

static const struct preset_table entry_tables[] = {
	{ .title = "clusters of 64K", .head = "L2 cache", .sizes = true, .cell = entry_cells,
	  .cells = sizeof(entry_cells) / sizeof(entry_cells[0]), .warm = 12000, .count = 10000 },
	{ .title = "clusters of 256K, which the model was not made after", .head = "L2 cache", .sizes = true,
	  .cell = large_cells, .cells = sizeof(large_cells) / sizeof(large_cells[0]),
	  .cluster_size = 256 * K, .warm = 4000, .count = 6000 },
};

static const struct preset_thread entry_thread = {
	.title = "random 4K reads of a fully populated disk, by the size of the L2 cache and of its entries",
	.brief = "random 4K reads, 40 GiB",
	.published = "A. Garcia, 'qcow2: Default to 4KB for the qcow2 cache entry size', QEMU commit af39bd0d9a88",
	.model = "model=ssd-2018",
	.assumed = "A hit is 17.9 us of the thread that owns the image; a load takes 147 us and the time for its\n"
		   "bytes at 225 MB/s, one at a time.",
	.size = 40 * G, .cluster_size = 64 * K, .preallocation = "metadata",
	.table = entry_tables, .tables = 2,
};

static int run_entry(const struct preset *p, const struct preset_how *how, struct preset_rows *rows)
{
	return preset_thread_run(p, &entry_thread, how, rows);
}

const struct preset preset_l2_entry_size = {
	.name = "l2-entry-size", .summary = "Random reads by the size of the L2 cache and of its entries, 40 GiB",
	.draws = true, .run = run_entry,
};
