// SPDX-License-Identifier: BSD-2-Clause
/*
 * Miss-ratio curves: how often an L2 cache would have what requests need, for every size of it.
 *
 * Shares of hits are of all lookups; the shares that sizes are recommended for are of the hits that are
 * possible, since the first lookup of an entry is a miss with any cache.
 */
#include "bench_mrc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_report.h"
#include "ui.h"

#define DEFAULT_CLUSTER 65536
#define DEFAULT_ENTRY 4096
#define MOST_POINTS 4096

static const unsigned targets[] = { 900, 950, 990, 1000 };
enum { TARGETS = 4 };

/* What is told of one case. */
struct curve {
	const struct bench_case *c;
	struct qimg_cache_sizes sizes;
	struct qimg_reuse *reuse;
	const struct qimg_reuse_info *info;
};

/* ---- the numbers of the image ---- */

static uint64_t integer(const struct qimg_value *info, const char *key)
{
	return (uint64_t)qimg_value_int(qimg_value_get(info, key));
}

static int measure_image(const struct bench_case *c, struct qimg_cache_sizes *s)
{
	struct open_how how = c->how;
	struct qimg_value *info = NULL;
	struct qimg_image *img;
	struct qimg_error e;
	int ret;

	how.aio = NULL;
	how.flags = (how.flags & ~(unsigned)QIMG_OPEN_WRITE) | QIMG_OPEN_HEADER_ONLY;
	if (open_image(c->file, &how, &img))
		return -1;
	ret = qimg_cache_info(img, &info, &e);
	if (ret) {
		ui_error("%s", e.msg);
	} else if (!integer(info, "l2-entry-size")) {
		ui_error("'%s' is %s, which has no L2 tables: --mrc is about caches of them", c->file,
			 qimg_format(img));
		ret = -1;
	} else {
		s->size = qimg_size(img);
		s->cluster_size = qimg_cluster_size(img);
		s->extended_l2 = integer(info, "l2-entry-size") == 16;
		s->refcount_bits = (unsigned)integer(info, "refcount-bits");
	}
	qimg_value_free(info);
	qimg_close(img, &e);
	return ret;
}

static int measure_scratch(const struct bench_scratch *scratch, struct qimg_cache_sizes *s)
{
	struct qimg_opts *opts = qimg_opts_new();
	struct qimg_error e = { 0, "Out of memory" };
	const char *extended;

	if (strcmp(scratch->format, "qcow2")) {
		ui_error("%s images have no L2 tables: --mrc is about caches of them", scratch->format);
		qimg_opts_free(opts);
		return -1;
	}
	if (!opts || (scratch->more && qimg_opts_parse(opts, scratch->more, &e))) {
		ui_error("%s", e.msg);
		qimg_opts_free(opts);
		return -1;
	}
	extended = qimg_opts_get(opts, "extended_l2");
	s->size = (scratch->size + 511) / 512 * 512;
	s->cluster_size = (uint32_t)(scratch->cluster_size ? scratch->cluster_size : DEFAULT_CLUSTER);
	s->extended_l2 = extended && (!strcmp(extended, "on") || !strcmp(extended, "yes") ||
				      !strcmp(extended, "true") || !strcmp(extended, "y"));
	s->refcount_bits = 16;
	qimg_opts_free(opts);
	return 0;
}

/* The size of entries, which is the last that is missing; checked with the rest. */
static int choose_entry(const struct bench_case *c, struct qimg_cache_sizes *s)
{
	struct qimg_error e = { 0, "Out of memory" };
	struct qimg_opts *opts = qimg_opts_new();
	uint64_t entry = c->l2_cache_entry_size;
	char text[24];
	int ret = -1;

	if (entry == BENCH_DEFAULT)
		entry = s->cluster_size < DEFAULT_ENTRY ? s->cluster_size : DEFAULT_ENTRY;
	snprintf(text, sizeof(text), "%" PRIu64, entry);
	if (opts && !qimg_opts_set(opts, "l2-cache-entry-size", text, &e))
		ret = qimg_cache_sizes(s, opts, &e);
	if (ret)
		ui_error("%s", e.msg);
	qimg_opts_free(opts);
	return ret;
}

/* ---- what is told of it ---- */

static uint64_t possible(const struct curve *v)
{
	return v->info->lookups - v->info->cold;
}

static double share(uint64_t hits, uint64_t of)
{
	return of ? (double)hits / (double)of : 0;
}

static double hit_ratio(const struct curve *v, uint64_t entries)
{
	return share(qimg_reuse_hits(v->reuse, entries, NULL), v->info->lookups);
}

static uint64_t bytes(const struct curve *v, uint64_t entries)
{
	return entries * v->info->slice_size;
}

/*
 * A miss costs so much more than a hit that all possible hits are worth their memory, unless that is more
 * than a chain takes when nothing is said.
 */
static uint64_t recommended(const struct curve *v)
{
	uint64_t all = qimg_reuse_need(v->reuse, 1000);

	return bytes(v, all) <= QIMG_SHARED_CACHE ? all : qimg_reuse_need(v->reuse, 990);
}

static void print_options(const struct curve *v, uint64_t entries)
{
	printf("l2-cache-size=%" PRIu64 ",l2-cache-entry-size=%" PRIu64, bytes(v, entries), v->info->slice_size);
}

/*
 * The sizes of a curve, from the smallest cache to one that has room for all that is touched: all of them, or
 * so many as are worth a line. The one behind `entries`; 0: there is none.
 */
static uint64_t next_point(const struct curve *v, uint64_t entries)
{
	uint64_t last = v->info->touched > 2 ? v->info->touched : 2;
	uint64_t step = (last - 2) / MOST_POINTS + 1, next = entries < 2 ? 2 : entries + step;

	if (entries >= last)
		return 0;
	for (unsigned i = 0; i < TARGETS; i++) {
		uint64_t need = qimg_reuse_need(v->reuse, targets[i]);

		if (need > entries && need < next)
			next = need;
	}
	return next < last ? next : last;
}

/* ---- for people ---- */

static void print_line(const struct curve *v, uint64_t entries)
{
	uint64_t hits = qimg_reuse_hits(v->reuse, entries, NULL);

	printf("%14" PRIu64 " %10" PRIu64 " %8.2f %% %8.2f %%\n", bytes(v, entries), entries,
	       100 * share(hits, v->info->lookups), 100 * share(hits, possible(v)));
}

static void print_requests(const struct curve *v)
{
	const struct qimg_reuse_info *info = v->info;
	char text[3][UI_SIZE_LEN];

	printf("Disk%s%s: %s, clusters of %s\n", v->c->file ? " of " : "", v->c->file ? v->c->file : "",
	       ui_size(v->sizes.size, text[0], sizeof(text[0])),
	       ui_size(v->sizes.cluster_size, text[1], sizeof(text[1])));
	printf("Cache entries of %" PRIu64 " bytes, for %s each: the disk has %" PRIu64
	       ", %" PRIu64 " of them are touched\n", info->slice_size,
	       ui_size(info->slice_cover, text[2], sizeof(text[2])), info->slices, info->touched);
	printf("%" PRIu64 " requests, %" PRIu64 " lookups; %" PRIu64 " of these are the first of their entry "
	       "and miss in any cache,\nso that %.2f %% can be hits\n\n", info->requests, info->lookups, info->cold,
	       100 * share(possible(v), info->lookups));
}

static void print_human(const struct curve *v)
{
	uint64_t last = v->info->touched > 2 ? v->info->touched : 2, best = recommended(v);

	print_requests(v);
	if (!possible(v)) {
		printf("No entry is looked up twice: a cache of any size is as good as another.\n");
		return;
	}
	printf("      L2 cache    entries       hits   of possible\n");
	for (uint64_t entries = 2; entries < last; entries *= 2)
		print_line(v, entries);
	print_line(v, last);
	printf("\n");
	for (unsigned i = 0; i < TARGETS; i++) {
		uint64_t need = qimg_reuse_need(v->reuse, targets[i]);

		printf("%4u %% of the possible hits: ", targets[i] / 10);
		print_options(v, need);
		printf("  (%" PRIu64 " entries)\n", need);
	}
	printf("\nRecommended: ");
	print_options(v, best);
	printf("\n");
	printf("That is for loads one after the other. Those of requests in flight at the same time are shared, and\n"
	       "tables may stay in memory in compact form: both make more hits; few entries for many requests,\n"
	       "fewer.\n");
}

/* ---- for programs ---- */

static void print_json(const struct curve *v)
{
	const struct qimg_reuse_info *info = v->info;
	const char *comma = "";
	bool exact;

	printf("        {\n            \"file\": ");
	if (v->c->file)
		ui_json_string(v->c->file);
	else
		printf("null");
	printf(",\n            \"virtual-size\": %" PRIu64 ",\n            \"cluster-size\": %" PRIu32
	       ",\n            \"extended-l2\": %s,\n", v->sizes.size, v->sizes.cluster_size,
	       v->sizes.extended_l2 ? "true" : "false");
	printf("            \"l2-cache-entry-size\": %" PRIu64 ",\n            \"entry-cover\": %" PRIu64
	       ",\n            \"entries\": %" PRIu64 ",\n", info->slice_size, info->slice_cover, info->slices);
	printf("            \"entries-touched\": %" PRIu64 ",\n            \"requests\": %" PRIu64
	       ",\n            \"lookups\": %" PRIu64 ",\n            \"cold-misses\": %" PRIu64 ",\n",
	       info->touched, info->requests, info->lookups, info->cold);
	printf("            \"targets\": [");
	for (unsigned i = 0; i < TARGETS; i++) {
		uint64_t need = qimg_reuse_need(v->reuse, targets[i]);

		printf("%s\n                { \"percent\": %u, \"entries\": %" PRIu64 ", \"l2-cache-size\": %" PRIu64
		       ", \"hit-ratio\": %.6f, \"options\": \"", i ? "," : "", targets[i] / 10, need,
		       bytes(v, need), hit_ratio(v, need));
		print_options(v, need);
		printf("\" }");
	}
	printf("\n            ],\n            \"recommendation\": \"");
	print_options(v, recommended(v));
	printf("\",\n            \"curve\": [");
	for (uint64_t n = next_point(v, 0); n; n = next_point(v, n)) {
		uint64_t hits = qimg_reuse_hits(v->reuse, n, &exact);

		printf("%s\n                { \"entries\": %" PRIu64 ", \"l2-cache-size\": %" PRIu64
		       ", \"hit-ratio\": %.6f, \"lru-hit-ratio\": %.6f, \"followed\": %s }", comma, n, bytes(v, n),
		       share(hits, info->lookups), share(qimg_reuse_lru_hits(v->reuse, n), info->lookups),
		       exact ? "true" : "false");
		comma = ",";
	}
	printf("\n            ]\n        }");
}

static void print_csv(const struct curve *v)
{
	bool exact;

	for (uint64_t n = next_point(v, 0); n; n = next_point(v, n)) {
		uint64_t hits = qimg_reuse_hits(v->reuse, n, &exact);

		printf("%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.6f,%.6f,%d\n", v->sizes.size,
		       v->sizes.cluster_size, v->info->slice_size, n, bytes(v, n), share(hits, v->info->lookups),
		       share(qimg_reuse_lru_hits(v->reuse, n), v->info->lookups), exact);
	}
}

/* ---- all of them ---- */

/* The same curve as that of a case before. */
static bool told(const struct curve *all, unsigned n)
{
	const struct curve *v = &all[n];

	for (const struct curve *o = all; o < v; o++)
		if (o->sizes.size == v->sizes.size && o->sizes.cluster_size == v->sizes.cluster_size &&
		    o->sizes.extended_l2 == v->sizes.extended_l2 &&
		    o->sizes.l2_entry_size == v->sizes.l2_entry_size)
			return true;
	return false;
}

static void show(void *ctx, uint64_t done, uint64_t total)
{
	(void)ctx;
	ui_status("predicting %.0f%%", 100.0 * (double)done / (double)total);
}

static int predict(struct curve *v)
{
	struct qimg_progress progress = { .report = show, .cancel = ui_cancel_flag() };
	struct qimg_workload w = v->c->work;
	struct qimg_error e;
	int ret;

	w.progress = &progress;
	ret = qimg_reuse_new(&v->reuse, &v->sizes, &w, &e);
	ui_status_end();
	if (ret)
		ui_error("%s", e.msg);
	else
		v->info = qimg_reuse_info(v->reuse);
	return ret;
}

static void print(const struct curve *all, unsigned n, enum bench_form form)
{
	if (form == BENCH_JSON)
		printf("{\n    \"version\": 1,\n    \"mrc\": [\n");
	if (form == BENCH_CSV)
		printf("virtual-size,cluster-size,l2-cache-entry-size,entries,l2-cache-size,hit-ratio,"
		       "lru-hit-ratio,followed\n");
	for (unsigned i = 0; i < n; i++) {
		if (form == BENCH_CSV) {
			print_csv(&all[i]);
		} else if (form == BENCH_JSON) {
			print_json(&all[i]);
			printf("%s\n", i + 1 < n ? "," : "");
		} else {
			printf("%s", i ? "\n" : "");
			print_human(&all[i]);
		}
	}
	if (form == BENCH_JSON)
		printf("    ]\n}\n");
}

int bench_mrc(const struct bench_case *c, unsigned n, enum bench_form form, bool quiet)
{
	struct curve *all = calloc(n, sizeof(*all));
	unsigned count = 0;
	int ret = 0;

	if (!all) {
		ui_error("Out of memory");
		return -1;
	}
	/* Nothing is printed before all is known, so that no half of a document is. */
	for (unsigned i = 0; !ret && i < n; i++) {
		struct curve *v = &all[count];

		*v = (struct curve){ .c = &c[i] };
		ret = c[i].file ? measure_image(&c[i], &v->sizes) : measure_scratch(&c[i].scratch, &v->sizes);
		if (ret || choose_entry(&c[i], &v->sizes)) {
			ret = -1;
		} else if (!told(all, count)) {
			ret = predict(v);
			count += !ret;
		}
	}
	if (!ret && !(quiet && form == BENCH_HUMAN))
		print(all, count, form);
	for (unsigned i = 0; i < count; i++)
		qimg_reuse_free(all[i].reuse);
	free(all);
	return ret;
}
