// SPDX-License-Identifier: BSD-2-Clause
/*
 * Rows as JSON and CSV. The keys, once released, stay: version 1 may get more of them. What is not known or
 * does not apply is null (CSV: empty).
 */
#include "bench_report.h"
#include "ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One figure of a row, in both forms. */
struct field {
	const char *key;
	enum { NONE, WORD, COUNT, REAL, YES } kind;
	const char *word;
	uint64_t count;
	double real;
	int digits;
};

enum { MOST_FIELDS = 64 };

struct fields {
	struct field list[MOST_FIELDS];
	unsigned n;
};

static void add(struct fields *all, struct field f)
{
	if (all->n < MOST_FIELDS)
		all->list[all->n++] = f;
}

static void add_word(struct fields *all, const char *key, const char *word)
{
	add(all, (struct field){ .key = key, .kind = word ? WORD : NONE, .word = word });
}

static void add_count(struct fields *all, const char *key, uint64_t count)
{
	add(all, (struct field){ .key = key, .kind = COUNT, .count = count });
}

static void add_maybe(struct fields *all, const char *key, uint64_t count, bool known)
{
	add(all, (struct field){ .key = key, .kind = known ? COUNT : NONE, .count = count });
}

static void add_real(struct fields *all, const char *key, double real, int digits, bool known)
{
	add(all, (struct field){ .key = key, .kind = known ? REAL : NONE, .real = real, .digits = digits });
}

static void add_yes(struct fields *all, const char *key, bool yes)
{
	add(all, (struct field){ .key = key, .kind = YES, .count = yes });
}

static void add_what(struct fields *all, const struct bench_row *row)
{
	const struct bench_case *c = &row->c;
	bool scratch = !c->file;

	add_word(all, "rw", bench_rw(c));
	add_word(all, "preset", c->preset);
	add_word(all, "label", c->label);
	add_word(all, "file", c->file);
	add_word(all, "format", row->format);
	add_word(all, "file-system", row->file_system);
	add_count(all, "virtual-size", row->size);
	add_maybe(all, "cluster-size", row->cluster_size, row->cluster_size);
	add_word(all, "preallocation", !scratch ? NULL : c->scratch.preallocation ? c->scratch.preallocation :
		 "off");
	add_word(all, "preallocated-by", c->scratch.preallocated_by);
	add_maybe(all, "extent-size-hint", row->extent_size_hint, scratch && row->extent_size_hint != BENCH_DEFAULT);
	add_word(all, "cache", c->how.cache);
	add_word(all, "aio", c->aio ? c->aio : c->how.aio);
	add_maybe(all, "l2-cache-size", row->l2_cache_size, row->l2_cache_size);
	add_maybe(all, "l2-cache-entry-size", row->l2_cache_entry_size, row->l2_cache_entry_size);
	add_maybe(all, "refcount-cache-size", row->refcount_cache_size, row->refcount_cache_size);
	add_maybe(all, "metadata-depth", c->metadata_depth, c->metadata_depth);
	add_word(all, "metadata-writeback", c->writeback);
	add_word(all, "open-options", c->more);
	add_count(all, "depth", c->work.depth);
	add_maybe(all, "request-size", c->work.size, c->work.order != QIMG_RECORDED);
	add_maybe(all, "seed", c->work.seed, c->work.order != QIMG_IN_STEPS);
	add_real(all, "zipf", c->work.theta, 4, c->work.order == QIMG_ZIPF);
	add_yes(all, "fill", c->fill);
}

static void add_seen(struct fields *all, const struct bench_row *row)
{
	const struct qimg_workload_result *r = &row->result;
	uint64_t reads = bench_metadata_reads(row), writes = bench_metadata_writes(row);
	double published = row->c.published;
	bool timed = bench_timed(row);

	add_count(all, "ops", r->requests);
	add_count(all, "writes", r->writes);
	add_count(all, "warmup-ops", r->warm_requests);
	add_real(all, "seconds", (double)r->ns / 1e9, 9, true);
	/* A model that was never asked has none. */
	add_real(all, "iops", row->iops, 3, timed);
	add_count(all, "runs", row->c.runs);
	add_real(all, "iops-least", row->iops_least, 3, timed);
	add_real(all, "iops-most", row->iops_most, 3, timed);
	add_real(all, "published-iops", published, 1, published > 0);
	add_real(all, "ratio", published > 0 ? row->iops / published : 0, 4, published > 0);
	add_real(all, "bytes-per-second", bench_bytes_per_second(row), 0, timed);
	add_real(all, "cpu-seconds", (double)r->cpu_ns / 1e9, 6, true);
	add_count(all, "metadata-reads", reads);
	add_count(all, "metadata-writes", writes);
	add_real(all, "metadata-reads-per-op", bench_per_op(row, reads), 6, true);
	add_real(all, "metadata-writes-per-op", bench_per_op(row, writes), 6, true);
	add_real(all, "l2-hit-ratio", bench_hit_ratio(row), 6, bench_hit_ratio(row) >= 0);
	add_count(all, "evictions", bench_evictions(row));
	add_count(all, "cache-bytes", bench_cache_memory(row));
	add_maybe(all, "resident-bytes", row->resident, row->resident);
	add_maybe(all, "image-cached-bytes", row->image_cached, row->image_cached != BENCH_UNKNOWN);
	add_maybe(all, "cache-file-cached-bytes", row->cache_file_cached,
		  row->cache_file_cached != BENCH_UNKNOWN);
	add_count(all, "unallocated-percent", row->unallocated);
	add_yes(all, "page-cache", row->page_cache);
	add_yes(all, "virtual-time", r->virtual_time);
}

/* ---- JSON ---- */

static void print_json_field(const struct field *f)
{
	printf("            \"%s\": ", f->key);
	switch (f->kind) {
	case NONE: printf("null"); break;
	case WORD: ui_json_string(f->word); break;
	case COUNT: printf("%" PRIu64, f->count); break;
	case REAL: printf("%.*f", f->digits, f->real); break;
	case YES: printf(f->count ? "true" : "false"); break;
	}
	printf(",\n");
}

static void print_json_cache(const char *comma, unsigned image, const char *name,
			     const struct qimg_cache_stats *s)
{
	const struct {
		const char *key;
		uint64_t count;
	} counters[] = {
		{ "lookups", s->lookups }, { "hits", s->hits }, { "misses", s->misses }, { "loads", s->loads },
		{ "evictions", s->evictions }, { "expired", s->expired }, { "writebacks", s->writebacks },
		{ "second-hits", s->second_hits }, { "compact-hits", s->compact_hits },
		{ "ram-bytes", s->ram_bytes }, { "file-bytes", s->file_bytes },
	};

	printf("%s\n                { \"image\": %u, \"cache\": \"%s\"", comma, image, name);
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		printf(", \"%s\": %" PRIu64, counters[i].key, counters[i].count);
	printf(" }");
}

static void print_json_caches(const struct bench_row *row)
{
	const char *comma = "";

	printf("            \"caches\": [");
	for (unsigned i = 0; i < row->images; i++) {
		if (row->image[i].has_l2) {
			print_json_cache(comma, i, "l2", &row->image[i].l2);
			comma = ",";
		}
		if (row->image[i].has_refcount) {
			print_json_cache(comma, i, "refcount", &row->image[i].refcount);
			comma = ",";
		}
	}
	printf("%s],\n", *comma ? "\n            " : "");
}

static void print_json_row(const struct bench_row *row)
{
	const struct qimg_workload_result *r = &row->result;
	struct fields all = { .n = 0 };

	add_what(&all, row);
	add_seen(&all, row);
	for (unsigned i = 0; i < all.n; i++)
		print_json_field(&all.list[i]);
	print_json_caches(row);
	printf("            \"latency-ns\": {\n");
	printf("                \"mean\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"p95\": %" PRIu64
	       ", \"p99\": %" PRIu64 ", \"p99.9\": %" PRIu64 ", \"max\": %" PRIu64 "\n",
	       r->mean, r->p50, r->p95, r->p99, r->p999, r->max);
	printf("            }\n");
}

void bench_report_json(const struct bench_row *rows, unsigned n)
{
	printf("{\n    \"version\": 1,\n    \"runs\": [");
	for (unsigned i = 0; i < n; i++) {
		printf("%s\n        {\n", i ? "," : "");
		print_json_row(&rows[i]);
		printf("        }");
	}
	printf("%s]\n}\n", n ? "\n    " : "");
}

/* ---- CSV ---- */

static void print_csv_word(const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		printf("%s", text);
		return;
	}
	putchar('"');
	for (; *text; text++)
		printf(*text == '"' ? "\"\"" : "%c", *text);
	putchar('"');
}

static void print_csv_field(const struct field *f)
{
	switch (f->kind) {
	case NONE: break;
	case WORD: print_csv_word(f->word); break;
	case COUNT: printf("%" PRIu64, f->count); break;
	case REAL: printf("%.*f", f->digits, f->real); break;
	case YES: printf(f->count ? "true" : "false"); break;
	}
}

void bench_report_csv(const struct bench_row *rows, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct qimg_workload_result *r = &rows[i].result;
		struct fields all = { .n = 0 };

		add_what(&all, &rows[i]);
		add_seen(&all, &rows[i]);
		add_count(&all, "latency-mean-ns", r->mean);
		add_count(&all, "latency-p50-ns", r->p50);
		add_count(&all, "latency-p95-ns", r->p95);
		add_count(&all, "latency-p99-ns", r->p99);
		add_count(&all, "latency-p99.9-ns", r->p999);
		add_count(&all, "latency-max-ns", r->max);
		for (unsigned j = 0; !i && j < all.n; j++)
			printf("%s%s", j ? "," : "", all.list[j].key);
		if (!i)
			printf("\n");
		for (unsigned j = 0; j < all.n; j++) {
			if (j)
				putchar(',');
			print_csv_field(&all.list[j]);
		}
		printf("\n");
	}
}
