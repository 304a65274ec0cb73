// SPDX-License-Identifier: BSD-2-Clause
/*
 * The L2 cache on a disk, and the question that the thread ends with: whether that is but the page cache,
 * which no limit counts. So the page cache is looked at.
 */
#include "bench_preset_table.h"

#include <stdio.h>

#include "ui.h"

#define K UINT64_C(1024)
#define M (K * K)
#define G (K * M)

/* A cell of each table; the last row has no figure of the thread. */
#define CELLS(random, in_order)										\
	{ .row = "in memory", .column = "", .published = (random) ? 99 : 21000,		\
	  .l2_cache_size = 5 * M / 2, .l2_cache_entry_size = 64 * K },					\
	{ .row = "in a file, O_DIRECT", .column = "", .published = (random) ? 99 : 21000,		\
	  .l2_cache_size = 128 * K, .l2_cache_entry_size = 64 * K, .file_direct = "on" },		\
	{ .row = "in a file, page cache", .column = "", .published = (random) ? 99 : 21000,		\
	  .l2_cache_size = 128 * K, .l2_cache_entry_size = 64 * K, .file_direct = "off" },		\
	{ .row = "default of then, 1 MiB", .column = "", .published = (random) ? 60 : 21000,		\
	  .l2_cache_size = M, .l2_cache_entry_size = 64 * K },						\
	{ .row = "none", .column = "", .published = (random) ? 49 : 14000,				\
	  .more = "metadata-cache=off" }

static const struct preset_cell random_cells[] = {
	CELLS(true, false),
	{ .row = "none, image by page cache", .column = "", .more = "metadata-cache=off", .buffered = true },
};
static const struct preset_cell order_cells[] = { CELLS(false, true) };

static const struct preset_table tables[] = {
	{ .title = "random", .head = "L2 cache", .cell = random_cells,
	  .cells = sizeof(random_cells) / sizeof(random_cells[0]), .warm = 400, .count = 2000 },
	{ .title = "sequential", .head = "L2 cache", .cell = order_cells,
	  .cells = sizeof(order_cells) / sizeof(order_cells[0]), .what = PRESET_READS, .warm = 100,
	  .count = 4000 },
};

static const struct preset_thread thread = {
	.title = "4K reads of a disk on a slow device, the L2 cache on a fast one",
	.brief = "4K reads, slow disk, 20 GiB",
	.published = "A. Garcia and K. Wolf, 'Allow storing the qcow2 L2 cache in disk', qemu-devel, December 2016",
	.model = "model=hdd-2016",
	.assumed = "Random access takes the disk 10.1 ms, it streams 84 MB/s, and a table that was read just\n"
		   "before comes from its buffer in 24 us. Nobody has said how fast the SSD was: 100 us and 500\n"
		   "MB/s. (60 random reads a second with the default cache were published as 200 KB/s, which is\n"
		   "50.)",
	.size = 20 * G, .cluster_size = 64 * K, .preallocation = "metadata", .cold = true,
	.table = tables, .tables = 2,
};

static void print_bytes(uint64_t bytes)
{
	char text[UI_SIZE_LEN];

	if (bytes == BENCH_UNKNOWN)
		printf("  %12s", "unknown");
	else
		printf("  %12s", bytes ? ui_size(bytes, text, sizeof(text)) : "0");
}

/* Where the tables were at the end of the random reads. */
static void print_memory(const struct bench_row *row)
{
	printf("\nIs it but the page cache? After the random reads there was\n%-25s  %12s  %12s\n"
	       "%-25s  %12s  %12s  %12s\n", "", "in memory,", "in the page cache, of", "L2 cache", "of caches",
	       "the image", "cache file");
	for (unsigned i = 0; i < tables[0].cells; i++, row++) {
		printf("%-25s", tables[0].cell[i].row);
		print_bytes(bench_cache_memory(row));
		print_bytes(row->image_cached);
		print_bytes(row->cache_file_cached);
		printf("\n");
	}
	printf("(The last row has data, too, and is about memory alone: a model has no page cache for an image.)\n");
}

static int run(const struct preset *p, const struct preset_how *how, struct preset_rows *rows)
{
	unsigned first = rows->n;

	if (preset_thread_run(p, &thread, how, rows))
		return -1;
	if (how->form == BENCH_HUMAN && !how->quiet)
		print_memory(rows->row + first);
	return 0;
}

const struct preset preset_l2_on_disk = {
	.name = "l2-on-disk", .summary = "The L2 cache in memory, in a file, or none, on a slow disk",
	.draws = true, .run = run,
};
