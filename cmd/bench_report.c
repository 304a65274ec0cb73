// SPDX-License-Identifier: BSD-2-Clause
/* Rows for people: one in sentences, several as a table. What they mean is told by warnings behind them. */
#include "bench_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void print_recorded(const struct qimg_workload *w)
{
	const struct qimg_recording_info *info = qimg_recording_info(w->recording);

	if (w->run_ns)
		printf("Sending requests for %" PRIu64 " seconds", w->run_ns / 1000000000);
	else
		printf("Sending %" PRIu64 " requests", w->count);
	printf(" as recorded (%" PRIu64 ", up to %" PRIu64 " bytes each), %u in parallel\n", info->requests,
	       info->longest, w->depth);
}

void bench_print_plan(const struct qimg_workload *w)
{
	const char *what = w->write_percent == 100 ? "write" : w->write_percent ? "read and write" : "read";

	if (w->order == QIMG_RECORDED)
		print_recorded(w);
	else if (w->run_ns)
		printf("Sending %s requests for %" PRIu64 " seconds, %" PRIu64 " bytes each, %u in parallel",
		       what, w->run_ns / 1000000000, w->size, w->depth);
	else
		printf("Sending %" PRIu64 " %s requests, %" PRIu64 " bytes each, %u in parallel",
		       w->count, what, w->size, w->depth);
	if (w->order == QIMG_IN_STEPS)
		printf(" (starting at offset %" PRIu64 ", step size %" PRIu64 ")\n", w->offset, w->step);
	else if (w->order == QIMG_ZIPF)
		printf(" (at random offsets, popular by Zipf's law with theta %g, seed %" PRIu64 ")\n", w->theta,
		       w->seed);
	else if (w->order == QIMG_AT_RANDOM)
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
	if (!bench_timed(row))
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

/* ---- tables: what differs, then figures; latencies have one of their own ---- */

enum figure {
	IOPS, SPREAD, RATE, READS, WRITES, HITS, EVICTED, CPU, RESIDENT, IMAGE_CACHED, CACHE_FILE_CACHED,
	MEAN, P50, P95, P99, P999, MAX, FIGURES,
};

static const char *const heads[FIGURES] = {
	[IOPS] = "IOPS", [SPREAD] = "spread", [RATE] = "MB/s", [READS] = "reads/op", [WRITES] = "writes/op",
	[HITS] = "L2 hits", [EVICTED] = "evicted", [CPU] = "CPU s", [RESIDENT] = "resident",
	[IMAGE_CACHED] = "page cache", [CACHE_FILE_CACHED] = "of cache file", [MEAN] = "mean", [P50] = "50%",
	[P95] = "95%", [P99] = "99%", [P999] = "99.9%", [MAX] = "max",
};

enum { COLUMNS = BENCH_FIELDS + FIGURES };

static void about_size(uint64_t bytes, char *cell)
{
	if (bytes == BENCH_UNKNOWN)
		snprintf(cell, BENCH_CELL, "?");
	else
		ui_size(bytes, cell, BENCH_CELL);
}

static void latency(uint64_t ns, char *cell)
{
	snprintf(cell, BENCH_CELL, "%.1f", micros(ns));
}

static void fill_figure(const struct bench_row *row, enum figure figure, char *cell)
{
	double ratio = bench_hit_ratio(row), rate = bench_bytes_per_second(row) / 1e6;
	const struct qimg_workload_result *r = &row->result;

	if (!bench_timed(row) && (figure <= RATE || figure >= MEAN)) {
		snprintf(cell, BENCH_CELL, "-");
		return;
	}
	switch (figure) {
	case IOPS: snprintf(cell, BENCH_CELL, "%.0f", row->iops); break;
	case SPREAD: snprintf(cell, BENCH_CELL, "%.0f-%.0f", row->iops_least, row->iops_most); break;
	case RATE: snprintf(cell, BENCH_CELL, rate < 100 ? "%.3g" : "%.0f", rate); break;
	case READS: snprintf(cell, BENCH_CELL, "%.3f", bench_per_op(row, bench_metadata_reads(row))); break;
	case WRITES: snprintf(cell, BENCH_CELL, "%.3f", bench_per_op(row, bench_metadata_writes(row))); break;
	case HITS: snprintf(cell, BENCH_CELL, ratio < 0 ? "-" : "%.1f%%", 100 * ratio); break;
	case EVICTED: snprintf(cell, BENCH_CELL, "%" PRIu64, bench_evictions(row)); break;
	case CPU: snprintf(cell, BENCH_CELL, "%.3f", (double)r->cpu_ns / 1e9); break;
	case RESIDENT: about_size(row->resident, cell); break;
	case IMAGE_CACHED: about_size(row->image_cached, cell); break;
	case CACHE_FILE_CACHED: about_size(row->cache_file_cached, cell); break;
	case MEAN: latency(r->mean, cell); break;
	case P50: latency(r->p50, cell); break;
	case P95: latency(r->p95, cell); break;
	case P99: latency(r->p99, cell); break;
	case P999: latency(r->p999, cell); break;
	default: latency(r->max, cell); break;
	}
}

static const char *head(unsigned column)
{
	return column < BENCH_FIELDS ? bench_field_name((enum bench_field)column) : heads[column - BENCH_FIELDS];
}

static void fill_cell(const struct bench_row *row, unsigned column, char *cell)
{
	if (column < BENCH_FIELDS)
		bench_field_text(row, (enum bench_field)column, cell);
	else
		fill_figure(row, (enum figure)(column - BENCH_FIELDS), cell);
}

/* Whether a column has anything to say about these rows. */
static bool is_wanted(const struct bench_row *rows, unsigned n, unsigned column)
{
	bool several = false, file = false, swept = false;

	for (unsigned i = 0; i < n; i++) {
		swept = swept || (column < BENCH_FIELDS && rows[i].c.swept & 1U << column);
		several = several || rows[i].c.runs > 1;
		file = file || rows[i].cache_file_cached;
	}
	/* What was asked to vary is shown also where all have come to the same. */
	if (column < BENCH_FIELDS)
		return swept || bench_field_varies(rows, n, (enum bench_field)column);
	return (column != BENCH_FIELDS + SPREAD || several) &&
	       (column != BENCH_FIELDS + CACHE_FILE_CACHED || file);
}

static int width(const struct bench_row *rows, unsigned n, unsigned column)
{
	size_t most = strlen(head(column));
	char cell[BENCH_CELL];

	for (unsigned i = 0; i < n; i++) {
		fill_cell(&rows[i], column, cell);
		most = strlen(cell) > most ? strlen(cell) : most;
	}
	return (int)most;
}

/* What tells the rows apart, and the figures from one to another. */
static void print_table(const struct bench_row *rows, unsigned n, enum figure from, enum figure to)
{
	int widths[COLUMNS] = { 0 };
	char cell[BENCH_CELL];

	for (unsigned c = 0; c < COLUMNS; c++)
		if ((c < BENCH_FIELDS || (c >= BENCH_FIELDS + from && c <= BENCH_FIELDS + to)) &&
		    is_wanted(rows, n, c))
			widths[c] = width(rows, n, c);
	for (unsigned i = 0; i <= n; i++) {
		const char *gap = "";

		for (unsigned c = 0; c < COLUMNS; c++) {
			if (!widths[c])
				continue;
			if (i)
				fill_cell(&rows[i - 1], c, cell);
			printf(c == BENCH_LABEL ? "%s%-*s" : "%s%*s", gap, widths[c], i ? cell : head(c));
			gap = "  ";
		}
		printf("\n");
	}
}

/* ---- warnings ---- */

static void warn_of_hints(const struct bench_row *rows, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct bench_row *row = &rows[i];
		uint64_t asked = row->c.scratch.extent_size_hint;

		if (row->c.file || !asked || asked == BENCH_DEFAULT || row->extent_size_hint != BENCH_DEFAULT)
			continue;
		ui_warning("There are no extent size hints on %s, XFS has them: scratch images have none",
			   row->file_system ? row->file_system : "this file system");
		return;
	}
}

static void print_warnings(const struct bench_row *rows, unsigned n)
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
	warn_of_hints(rows, n);
}

void bench_report(const struct bench_row *rows, unsigned n, enum bench_form form)
{
	if (form == BENCH_JSON)
		bench_report_json(rows, n);
	else if (form == BENCH_CSV)
		bench_report_csv(rows, n);
	else if (n == 1)
		print_one(rows);
	if (form == BENCH_HUMAN && n > 1) {
		print_table(rows, n, IOPS, CACHE_FILE_CACHED);
		printf("\nLatency in us\n");
		print_table(rows, n, MEAN, MAX);
	}
	print_warnings(rows, n);
}
