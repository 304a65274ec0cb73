// SPDX-License-Identifier: BSD-2-Clause
/* Rows for people: one in sentences, several as a table. What they mean is told by warnings behind them. */
#include "bench_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_report.h"
#include "ui.h"

static double micros(uint64_t ns)
{
	return (double)ns / 1000;
}

double bench_per_op(const struct bench_row *row, uint64_t n)
{
	return row->result.requests ? (double)n / (double)row->result.requests : 0;
}

double bench_bytes_per_second(const struct bench_row *row)
{
	return row->result.ns ? (double)row->result.bytes * 1e9 / (double)row->result.ns : 0;
}

void bench_print_plan(const struct qimg_workload *w)
{
	const char *what = w->write_percent == 100 ? "write" : w->write_percent ? "read and write" : "read";

	if (w->run_ns)
		printf("Sending %s requests for %" PRIu64 " seconds, %" PRIu64 " bytes each, %u in parallel",
		       what, w->run_ns / 1000000000, w->size, w->depth);
	else
		printf("Sending %" PRIu64 " %s requests, %" PRIu64 " bytes each, %u in parallel",
		       w->count, what, w->size, w->depth);
	if (w->order == QIMG_IN_STEPS)
		printf(" (starting at offset %" PRIu64 ", step size %" PRIu64 ")\n", w->offset, w->step);
	else
		printf(" (at random offsets, seed %" PRIu64 ")\n", w->seed);
	if (w->flush_interval)
		printf("Sending flush every %" PRIu64 " requests\n", w->flush_interval);
}

/* ---- one row ---- */

static void print_cache(unsigned image, const char *name, const struct qimg_cache_stats *s)
{
	printf("Image %u, %s cache: %" PRIu64 " lookups, %" PRIu64 " hits, %" PRIu64 " loads, %" PRIu64
	       " evictions, %" PRIu64 " writes, %" PRIu64 " bytes in memory", image, name, s->lookups, s->hits,
	       s->loads, s->evictions, s->writebacks, s->ram_bytes);
	if (s->compact_hits)
		printf(", %" PRIu64 " from compact form", s->compact_hits);
	if (s->second_hits || s->file_bytes)
		printf(", %" PRIu64 " from the second level of %" PRIu64 " bytes", s->second_hits, s->file_bytes);
	printf("\n");
}

static void print_memory(const struct bench_row *row)
{
	char text[UI_SIZE_LEN];

	printf("Memory: %s resident", ui_size(row->resident, text, sizeof(text)));
	if (row->image_cached != BENCH_UNKNOWN)
		printf(", %s of the image in the page cache", ui_size(row->image_cached, text, sizeof(text)));
	if (row->cache_file_cached)
		printf(", %s of the cache file", ui_size(row->cache_file_cached, text, sizeof(text)));
	printf("\n");
}

static void print_one(const struct bench_row *row)
{
	const struct qimg_workload_result *r = &row->result;
	double rate = bench_bytes_per_second(row), ratio = bench_hit_ratio(row);

	printf("Run completed in %.3f seconds.\n", (double)r->ns / 1e9);
	if (r->requests && !r->ns)
		printf("No device was asked, so that took none of its time\n");
	printf("%.0f requests a second, ", row->iops);
	if (rate < 1e6)
		printf("%.1f KB/s", rate / 1e3);
	else
		printf("%.2f MB/s", rate / 1e6);
	printf(", %.3f seconds of CPU\n", (double)r->cpu_ns / 1e9);
	if (row->c.runs > 1)
		printf("The median of %u runs, which had %.0f to %.0f\n", row->c.runs, row->iops_least,
		       row->iops_most);
	printf("Latency in us: mean %.1f, 50%% %.1f, 95%% %.1f, 99%% %.1f, 99.9%% %.1f, max %.1f\n",
	       micros(r->mean), micros(r->p50), micros(r->p95), micros(r->p99), micros(r->p999),
	       micros(r->max));
	if (ratio >= 0)
		printf("Metadata: %.4g reads and %.4g writes a request, %.2f%% of L2 lookups answered from "
		       "memory\n", bench_per_op(row, bench_metadata_reads(row)),
		       bench_per_op(row, bench_metadata_writes(row)), 100 * ratio);
	print_memory(row);
	for (unsigned i = 0; i < row->images; i++) {
		if (row->image[i].has_l2)
			print_cache(i, "l2", &row->image[i].l2);
		if (row->image[i].has_refcount)
			print_cache(i, "refcount", &row->image[i].refcount);
	}
}

/* ---- a table ---- */

enum { CELL = 32, FIELDS = 22 };

/*
 * What a row has in a column. Numbers come last; what a sweep varies comes first, and is left out where it is
 * the same in all rows.
 */
static const char *const heads[FIELDS] = {
	"", "format", "cluster", "prealloc", "hint", "L2 cache", "L2 entry", "refcount", "aio", "depth",
	"mdepth", "IOPS", "spread", "MB/s", "mean us", "p99 us", "reads/op", "writes/op", "L2 hits", "evicted",
	"resident", "page cache",
};
enum { VARIED = 11, SPREAD = 12 };

/* An exact size, as short as it can be told: "64K", "1.5M", "1000". */
static char *size_text(uint64_t bytes, char *buf, size_t len)
{
	static const char units[] = "KMGTPE";
	int i = -1;
	uint64_t n = bytes;

	while (n && n % 512 == 0 && n >= 1024 && i < 5) {
		i++;
		if (n % 1024) {
			snprintf(buf, len, "%.1f%c", (double)n / 1024, units[i]);
			return buf;
		}
		n /= 1024;
	}
	if (i < 0)
		snprintf(buf, len, "%" PRIu64, n);
	else
		snprintf(buf, len, "%" PRIu64 "%c", n, units[i]);
	return buf;
}

static void size_cell(uint64_t bytes, char *cell)
{
	if (!bytes || bytes == BENCH_DEFAULT)
		snprintf(cell, CELL, "-");
	else
		size_text(bytes, cell, CELL);
}

static void about_size(uint64_t bytes, char *cell)
{
	if (bytes == BENCH_UNKNOWN)
		snprintf(cell, CELL, "?");
	else
		ui_size(bytes, cell, CELL);
}

static void word(const char *text, char *cell)
{
	snprintf(cell, CELL, "%s", text ? text : "-");
}

static void fill_number(const struct bench_row *row, unsigned field, char *cell)
{
	const struct qimg_workload_result *r = &row->result;
	double ratio = bench_hit_ratio(row);

	switch (field) {
	case 11: snprintf(cell, CELL, "%.0f", row->iops); break;
	case SPREAD: snprintf(cell, CELL, "%.0f-%.0f", row->iops_least, row->iops_most); break;
	case 13: snprintf(cell, CELL, "%.3g", bench_bytes_per_second(row) / 1e6); break;
	case 14: snprintf(cell, CELL, "%.1f", micros(r->mean)); break;
	case 15: snprintf(cell, CELL, "%.1f", micros(r->p99)); break;
	case 16: snprintf(cell, CELL, "%.3f", bench_per_op(row, bench_metadata_reads(row))); break;
	case 17: snprintf(cell, CELL, "%.3f", bench_per_op(row, bench_metadata_writes(row))); break;
	case 18: snprintf(cell, CELL, ratio < 0 ? "-" : "%.1f%%", 100 * ratio); break;
	case 19: snprintf(cell, CELL, "%" PRIu64, bench_evictions(row)); break;
	case 20: about_size(row->resident, cell); break;
	case 21: about_size(row->image_cached == BENCH_UNKNOWN ? BENCH_UNKNOWN :
			    row->image_cached + row->cache_file_cached, cell); break;
	}
}

static void fill_cell(const struct bench_row *row, unsigned field, char *cell)
{
	const struct bench_case *c = &row->c;

	switch (field) {
	case 0: word(c->label, cell); break;
	case 1: word(row->format, cell); break;
	case 2: size_cell(row->cluster_size, cell); break;
	case 3: word(c->file ? NULL : c->scratch.preallocation ? c->scratch.preallocation : "off", cell); break;
	case 4: size_cell(c->file ? 0 : c->scratch.extent_size_hint, cell); break;
	case 5: size_cell(row->l2_cache_size, cell); break;
	case 6: size_cell(row->l2_cache_entry_size, cell); break;
	case 7: size_cell(row->refcount_cache_size, cell); break;
	case 8: word(c->aio ? c->aio : c->how.aio, cell); break;
	case 9: snprintf(cell, CELL, "%u", c->work.depth); break;
	case 10: snprintf(cell, CELL, c->metadata_depth ? "%u" : "-", c->metadata_depth); break;
	default: fill_number(row, field, cell);
	}
}

/* How wide the column is; 0: it is left out. */
static int width(const struct bench_row *rows, unsigned n, unsigned field)
{
	size_t most = strlen(heads[field]);
	bool same = true, spread = false;
	char first[CELL], cell[CELL];

	for (unsigned i = 0; i < n; i++) {
		fill_cell(&rows[i], field, cell);
		if (!i)
			memcpy(first, cell, CELL);
		same = same && !strcmp(first, cell);
		most = strlen(cell) > most ? strlen(cell) : most;
		spread = spread || rows[i].c.runs > 1;
	}
	return (field == SPREAD ? spread : field >= VARIED || !same) ? (int)most : 0;
}

static void print_table(const struct bench_row *rows, unsigned n)
{
	int widths[FIELDS];
	char cell[CELL];

	for (unsigned f = 0; f < FIELDS; f++)
		widths[f] = width(rows, n, f);
	for (unsigned i = 0; i <= n; i++) {
		const char *gap = "";

		for (unsigned f = 0; f < FIELDS; f++) {
			if (!widths[f])
				continue;
			if (i)
				fill_cell(&rows[i - 1], f, cell);
			printf(f ? "%s%*s" : "%s%-*s", gap, widths[f], i ? cell : heads[f]);
			gap = "  ";
		}
		printf("\n");
	}
}

/* ---- warnings ---- */

static void warn(const struct bench_row *rows, unsigned n)
{
	unsigned unallocated = 0, cached = 0, most = 0;

	for (unsigned i = 0; i < n; i++) {
		unallocated += rows[i].unallocated > 0;
		most = rows[i].unallocated > most ? rows[i].unallocated : most;
		cached += rows[i].page_cache;
	}
	if (unallocated && n == 1)
		ui_warning("%u%% of what is read is not allocated, or was never written: no disk is asked for "
			   "that; --fill writes the image first", most);
	else if (unallocated)
		ui_warning("In %u of %u rows up to %u%% of what is read is not allocated, or was never written: no "
			   "disk is asked for that; --fill writes the image first", unallocated, n, most);
	if (cached && n == 1)
		ui_warning("The page cache has answered, not a disk; -t none passes it by");
	else if (cached)
		ui_warning("In %u of %u rows the page cache has answered, not a disk; -t none passes it by",
			   cached, n);
}

void bench_report(const struct bench_row *rows, unsigned n, enum bench_form form)
{
	if (form == BENCH_JSON)
		bench_report_json(rows, n);
	else if (form == BENCH_CSV)
		bench_report_csv(rows, n);
	else if (n == 1)
		print_one(rows);
	else if (n)
		print_table(rows, n);
	warn(rows, n);
}
