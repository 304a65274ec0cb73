// SPDX-License-Identifier: BSD-2-Clause
/*
 * The cap on the L2 cache rounded down and up: what one table less costs, and which disks it concerns. The
 * second is arithmetic, with the sizes that the library would use.
 */
#include "bench_preset_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ui.h"

#define K UINT64_C(1024)
#define M (K * K)
#define G (K * M)
#define LEAST_TABLES 2			/* that a cache has room for */

static const struct preset_cell cells[] = {
	{ .row = "128K, single", .column = "", .published = 500,
	  .l2_cache_size = 128 * K, .l2_cache_entry_size = 64 * K, .writeback = "single" },
	{ .row = "128K, shared", .column = "", .published = 500, .beside = true,
	  .l2_cache_size = 128 * K, .l2_cache_entry_size = 64 * K, .writeback = "shared" },
	{ .row = "192K", .column = "", .published = 16000,
	  .l2_cache_size = 192 * K, .l2_cache_entry_size = 64 * K },
};

static const struct preset_table table = {
	.head = "L2 cache, write-back", .cell = cells, .cells = sizeof(cells) / sizeof(cells[0]),
	.what = PRESET_RANDOM_WRITES, .count = 5000,
};

static const struct preset_thread thread = {
	.title = "5,000 random 4K writes to a thin disk of 3 tables, room for 2 (rounded down) and for 3",
	.brief = "random 4K writes, 1280 MiB, thin",
	.published = "A. Garcia, 'qcow2: Fix the calculation of the maximum L2 cache size', qemu-block, 2019",
	.model = "model=thin-2019",
	.assumed = "A hit is 62.5 us of the thread that owns the image. A table that has changed and has to make\n"
		   "room for another one is written when all before it is on stable storage: write, flush, read\n"
		   "take 6.6 ms. With single each is written by itself, as the reference does; with shared, which\n"
		   "is our own way, all that have changed are, since they have that to wait for in common.",
	.size = 1280 * M, .cluster_size = 64 * K, .table = &table, .tables = 1,
};

/* ---- arithmetic ---- */

struct caps {
	uint64_t tables, down, up;	/* that the disk has, and that a cache may have */
};

/* The largest cache that is of use, as computed until 2019 and since. 0, or -1 after a message. */
static int find_caps(uint64_t size, uint32_t cluster, bool extended, struct caps *caps)
{
	struct qimg_cache_sizes s = { .size = size, .cluster_size = cluster, .extended_l2 = extended,
				      .refcount_bits = 16 };
	struct qimg_error e;

	if (qimg_cache_sizes(&s, NULL, &e)) {
		ui_error("%s", e.msg);
		return -1;
	}
	caps->tables = s.l2_tables;
	caps->up = s.l2_tables < LEAST_TABLES ? LEAST_TABLES : s.l2_tables;
	caps->down = size / (cluster / (extended ? 16 : 8)) / cluster;
	if (caps->down < LEAST_TABLES)
		caps->down = LEAST_TABLES;
	return 0;
}

/*
 * Rounding down does no harm to a multiple of what one table maps, and takes a table from every other disk that
 * has three or more.
 */
static int print_multiples(void)
{
	char a[32], b[32];

	printf("\nRounding down does no harm to disks whose size is a multiple of\n%-12s  %-11s  %s\n",
	       "cluster size", "multiple of", "for a cluster more than 4 of them there is room for");
	for (uint32_t cluster = 4 * K; cluster <= 2 * M; cluster *= 2) {
		uint64_t span = (uint64_t)cluster * cluster / 8;
		struct caps more, whole;

		if (find_caps(4 * span, cluster, false, &whole) ||
		    find_caps(4 * span + cluster, cluster, false, &more))
			return -1;
		printf("%-12s  %-11s  %" PRIu64 " of %" PRIu64 " tables\n", preset_size(cluster, a, sizeof(a)),
		       preset_size(span, b, sizeof(b)), more.down, more.tables);
		if (whole.down != whole.tables) {
			ui_error("Rounding down does harm to a multiple of %s", b);
			return -1;
		}
	}
	return 0;
}

/* Adds to a list of the cluster sizes where there is a difference. */
static void note(char *list, size_t len, uint32_t cluster)
{
	char size[32];

	snprintf(list + strlen(list), len - strlen(list), "%s%s", *list ? ", " : "",
		 preset_size(cluster, size, sizeof(size)));
}

static int print_comparison(void)
{
	char size[32], lists[2][128] = { "", "" };

	printf("\nThe comparison of cluster sizes on 40 GiB: tables, and room for them rounded down and up\n"
	       "(2 at least)\n%-12s  %-24s  %s\n%-12s  %6s  %6s  %6s    %6s  %6s  %6s\n", "", "entries of 8 bytes",
	       "entries of 16 bytes (subclusters)", "cluster size", "tables", "down", "up", "tables", "down",
	       "up");
	for (uint32_t cluster = 64 * K; cluster <= 2 * M; cluster *= 2) {
		struct caps c[2];

		printf("%-12s", preset_size(cluster, size, sizeof(size)));
		for (unsigned i = 0; i < 2; i++) {
			if (find_caps(40 * G, cluster, i, &c[i]))
				return -1;
			printf("%s  %6" PRIu64 "  %6" PRIu64 "  %6" PRIu64, i ? "  " : "", c[i].tables, c[i].down,
			       c[i].up);
			if (c[i].down != c[i].up)
				note(lists[i], sizeof(lists[i]), cluster);
		}
		printf("\n");
	}
	printf("Rounding makes a difference, with entries of 8 bytes: %s; of 16: %s.\n",
	       *lists[0] ? lists[0] : "nowhere", *lists[1] ? lists[1] : "nowhere");
	printf("With 8 bytes 512K has two tables, which there is room for in any case. The thread's one odd\n"
	       "row, 512K, is what comes out with 16, the entries of subclusters, which were being discussed\n"
	       "then. Nor are 40 GB in powers of 1000 the answer: there 64K to 256K would lose a table with\n"
	       "entries of any size, and 512K with those of 8 bytes none.\n");
	return 0;
}

static int run(const struct preset *p, const struct preset_how *how, struct preset_rows *rows)
{
	if (preset_thread_run(p, &thread, how, rows))
		return -1;
	if (how->form != BENCH_HUMAN || how->quiet)
		return 0;
	return print_multiples() || print_comparison() ? -1 : 0;
}

const struct preset preset_l2_rounding = {
	.name = "l2-rounding", .summary = "Allocating writes with room for all L2 tables, and for one less",
	.draws = true, .run = run,
};
