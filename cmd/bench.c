// SPDX-License-Identifier: BSD-2-Clause
/*
 * `qimg bench`: how fast requests on an image are. Without --rw it does and prints what the reference
 * does.
 */
#include "commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "open.h"
#include "ui.h"

enum { PATTERN = 256, FLUSH_INTERVAL, NO_DRAIN, RW, SEED, RUNTIME };

/* What --rw asks for, in the order of its words. */
static const struct {
	enum qimg_order order;
	unsigned write_percent;
} ways[] = {
	{ QIMG_IN_STEPS, 0 }, { QIMG_IN_STEPS, 100 }, { QIMG_AT_RANDOM, 0 }, { QIMG_AT_RANDOM, 100 },
	{ QIMG_AT_RANDOM, 50 },
};

static const struct opt options[] = {
	OPEN_OPT_FORMAT("Format of the image (default: found by content)"),
	OPEN_OPT_IMAGE_OPTS,
	{ .id = 'c', .letter = 'c', .name = "count", .kind = OPT_NUMBER, .arg = "N", .max = INT32_MAX,
	  .help = "Number of requests (default: 75000)" },
	{ .id = 'd', .letter = 'd', .name = "depth", .kind = OPT_NUMBER, .arg = "N", .min = 1,
	  .max = INT32_MAX, .help = "Requests in flight at a time (default: 64)" },
	{ .id = 's', .letter = 's', .name = "buffer-size", .kind = OPT_SIZE, .arg = "SIZE",
	  .help = "Size of a request (default: 4k)" },
	{ .id = 'S', .letter = 'S', .name = "step-size", .kind = OPT_SIZE, .arg = "SIZE",
	  .help = "From the start of a request to that of the next one\n(default: the size of a request)" },
	{ .id = 'o', .letter = 'o', .name = "offset", .kind = OPT_SIZE, .arg = "OFFSET",
	  .help = "Where the first request starts (default: 0)" },
	{ .id = RW, .name = "rw", .kind = OPT_CHOICE, .arg = "HOW",
	  .values = "read write randread randwrite randrw",
	  .help = "One after the other or at random offsets; prints requests a\n"
		  "second and latencies. What writes needs -w, too" },
	{ .id = RUNTIME, .name = "runtime", .kind = OPT_NUMBER, .arg = "SECONDS", .min = 1, .max = 1000000,
	  .help = "With --rw: for so long, instead of -c requests" },
	{ .id = SEED, .name = "seed", .kind = OPT_NUMBER, .arg = "N", .max = UINT64_MAX,
	  .help = "The same seed, the same random requests (default: 1)" },
	{ .id = 'w', .letter = 'w', .name = "write", .help = "Write to the image: what it has is overwritten" },
	{ .id = PATTERN, .name = "pattern", .kind = OPT_NUMBER, .arg = "BYTE", .max = 255,
	  .help = "What is written (default: 0)" },
	{ .id = FLUSH_INTERVAL, .name = "flush-interval", .kind = OPT_NUMBER, .arg = "N", .max = INT32_MAX,
	  .help = "A flush after each N writes, when these have ended" },
	{ .id = NO_DRAIN, .name = "no-drain", .help = "Flushes do not wait for that" },
	{ .id = 't', .letter = 't', .name = "cache", .kind = OPT_CACHE, .arg = "CACHE",
	  .help = "Cache mode (default: writeback)" },
	{ .id = 'i', .letter = 'i', .name = "aio", .kind = OPT_CHOICE, .arg = "AIO",
	  .values = "threads native io_uring sync", .help = "How I/O is done (default: threads)" },
	{ .id = 'n', .letter = 'n', .name = "native", .help = "The same as -i native" },
	OPEN_OPT_SHARE,
	OPEN_OPT_OUTPUT,
	{ .id = 'q', .letter = 'q', .name = "quiet", .help = "Print nothing but errors" },
	{ 0 }
};

static uint64_t number(const struct args *a, int id, uint64_t otherwise)
{
	return args_has(a, id) ? args_last(a, id)->number : otherwise;
}

/* What the options say about the requests. -1 after a message. */
static int read_workload(const struct args *a, struct qimg_workload *w)
{
	*w = (struct qimg_workload){
		.count = number(a, 'c', args_has(a, RUNTIME) ? 0 : 75000),
		.run_ns = number(a, RUNTIME, 0) * 1000000000,
		.depth = (unsigned)number(a, 'd', 64),
		.size = number(a, 's', 4096),
		.offset = number(a, 'o', 0),
		.seed = number(a, SEED, 1),
		.write_percent = args_has(a, 'w') ? 100 : 0,
		.pattern = (uint8_t)number(a, PATTERN, 0),
		.flush_interval = number(a, FLUSH_INTERVAL, 0),
		.no_drain = args_has(a, NO_DRAIN),
	};
	w->step = number(a, 'S', w->size);
	if (args_has(a, RW)) {
		w->order = ways[args_last(a, RW)->number].order;
		w->write_percent = ways[args_last(a, RW)->number].write_percent;
		if (w->write_percent && !args_has(a, 'w')) {
			ui_error("--rw=%s overwrites the image: say -w, too, if that is meant",
				 args_text(a, RW));
			return -1;
		}
	} else if (args_has(a, RUNTIME)) {
		ui_error("--runtime needs --rw");
		return -1;
	}
	if (w->size > INT32_MAX || w->step > INT32_MAX) {
		ui_error("The %s of requests is at most 2147483647 bytes", w->size > INT32_MAX ? "size" : "step");
		return -1;
	}
	if (!w->write_percent && w->flush_interval) {
		ui_error("--flush-interval is only available in write tests");
		return -1;
	}
	if (w->flush_interval && w->flush_interval < w->depth) {
		ui_error("Flush interval can't be smaller than depth");
		return -1;
	}
	return 0;
}

/* -i, -n, with what they need. -1 after a message. */
static int read_engine(const struct args *a, struct open_how *how)
{
	how->aio = args_text(a, 'i');
	if (args_has(a, 'n') && how->aio && strcmp(how->aio, "native")) {
		ui_error("-n is -i native: it excludes -i %s", how->aio);
		return -1;
	}
	if (args_has(a, 'n'))
		how->aio = "native";
	if (!how->aio && !how->image_opts)
		how->aio = "threads";
	return 0;
}

static void print_plan(const struct qimg_workload *w)
{
	const char *what = w->write_percent == 100 ? "write" : w->write_percent ? "read and write" : "read";

	if (w->run_ns)
		printf("Sending %s requests for %" PRIu64 " seconds, %" PRIu64 " bytes each, %u in parallel",
		       what, w->run_ns / 1000000000, w->size, w->depth);
	else
		printf("Sending %" PRIu64 " %s requests, %" PRIu64 " bytes each, %u in parallel",
		       w->count, what, w->size, w->depth);
	if (w->order == QIMG_AT_RANDOM)
		printf(" (at random offsets, seed %" PRIu64 ")\n", w->seed);
	else
		printf(" (starting at offset %" PRIu64 ", step size %" PRIu64 ")\n", w->offset, w->step);
	if (w->flush_interval)
		printf("Sending flush every %" PRIu64 " requests\n", w->flush_interval);
}

static double micros(uint64_t ns)
{
	return (double)ns / 1000;
}

static const char *const cache_names[] = { "l2", "refcount" };

/* What the caches of each image of the chain have done. */
static void print_caches(struct qimg_image *img)
{
	for (unsigned depth = 0; img; img = qimg_backing(img), depth++) {
		for (unsigned i = 0; i < 2; i++) {
			struct qimg_cache_stats s;

			if (!qimg_cache_stats(img, i, &s))
				continue;
			printf("Image %u, %s cache: %" PRIu64 " lookups, %" PRIu64 " hits, %" PRIu64 " loads, %"
			       PRIu64 " evictions, %" PRIu64 " writes, %" PRIu64 " bytes in memory", depth,
			       cache_names[i], s.lookups, s.hits, s.loads, s.evictions, s.writebacks,
			       s.ram_bytes);
			if (s.second_hits || s.file_bytes)
				printf(", %" PRIu64 " from the second level of %" PRIu64 " bytes", s.second_hits,
				       s.file_bytes);
			printf("\n");
		}
	}
}

static void print_result(const struct args *a, struct qimg_image *img,
			 const struct qimg_workload_result *r)
{
	double seconds = (double)r->ns / 1e9;
	double rate = r->ns ? (double)r->requests / seconds : 0;

	printf("Run completed in %.3f seconds.\n", seconds);
	if (!args_has(a, RW))
		return;
	printf("%.0f requests a second, %.2f MB/s, %.3f seconds of CPU\n", rate,
	       r->ns ? (double)r->bytes / seconds / 1e6 : 0, (double)r->cpu_ns / 1e9);
	printf("Latency in us: mean %.1f, 50%% %.1f, 95%% %.1f, 99%% %.1f, 99.9%% %.1f, max %.1f\n",
	       micros(r->mean), micros(r->p50), micros(r->p95), micros(r->p99), micros(r->p999),
	       micros(r->max));
	print_caches(img);
}

static void print_json_caches(struct qimg_image *img)
{
	const char *comma = "";

	printf("            \"caches\": [");
	for (unsigned depth = 0; img; img = qimg_backing(img), depth++) {
		for (unsigned i = 0; i < 2; i++) {
			struct qimg_cache_stats s;

			if (!qimg_cache_stats(img, i, &s))
				continue;
			printf("%s\n                { \"image\": %u, \"cache\": \"%s\", \"lookups\": %" PRIu64
			       ", \"hits\": %" PRIu64 ", \"misses\": %" PRIu64 ", \"loads\": %" PRIu64
			       ", \"evictions\": %" PRIu64 ", \"expired\": %" PRIu64 ", \"writebacks\": %" PRIu64
			       ", \"second-hits\": %" PRIu64 ", \"ram-bytes\": %" PRIu64
			       ", \"file-bytes\": %" PRIu64 " }", comma, depth, cache_names[i], s.lookups,
			       s.hits, s.misses, s.loads, s.evictions, s.expired, s.writebacks,
			       s.second_hits, s.ram_bytes, s.file_bytes);
			comma = ",";
		}
	}
	printf("%s],\n", *comma ? "\n            " : "");
}

static void print_json(const struct args *a, const struct open_how *how, const struct qimg_workload *w,
		       const struct qimg_workload_result *r)
{
	const char *rw = args_has(a, RW) ? args_text(a, RW) : w->write_percent ? "write" : "read";
	uint64_t ns = r->ns ? r->ns : 1;

	printf("{\n    \"version\": 1,\n    \"runs\": [\n        {\n");
	printf("            \"rw\": \"%s\",\n            \"aio\": %s%s%s,\n", rw, how->aio ? "\"" : "",
	       how->aio ? how->aio : "null", how->aio ? "\"" : "");
	printf("            \"depth\": %u,\n            \"request-size\": %" PRIu64 ",\n", w->depth, w->size);
	printf("            \"ops\": %" PRIu64 ",\n            \"seconds\": %.6f,\n", r->requests,
	       (double)r->ns / 1e9);
	printf("            \"iops\": %.1f,\n            \"bytes-per-second\": %.0f,\n",
	       (double)r->requests * 1e9 / (double)ns, (double)r->bytes * 1e9 / (double)ns);
	printf("            \"cpu-seconds\": %.6f,\n", (double)r->cpu_ns / 1e9);
	print_json_caches(w->image);
	printf("            \"latency-ns\": {\n");
	printf("                \"mean\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"p95\": %" PRIu64
	       ", \"p99\": %" PRIu64 ", \"p99.9\": %" PRIu64 ", \"max\": %" PRIu64 "\n",
	       r->mean, r->p50, r->p95, r->p99, r->p999, r->max);
	printf("            }\n        }\n    ]\n}\n");
}

static int bench(const struct args *a, const struct open_how *how, struct qimg_workload *w)
{
	const char *form = args_text(a, OPEN_OUTPUT);
	bool json = form && !strcmp(form, "json"), text = !json && !args_has(a, 'q');
	struct qimg_workload_result r;
	struct qimg_error e;
	int ret;

	if (open_image(a->operands[0], how, &w->image))
		return -1;
	if (text)
		print_plan(w);
	ret = ui_flush();
	if (!ret) {
		ret = qimg_workload_run(w, &r, &e);
		if (ret)
			ui_error("%s", e.msg);
	}
	if (!ret && text)
		print_result(a, w->image, &r);
	if (!ret && json)
		print_json(a, how, w, &r);
	if (qimg_close(w->image, &e)) {
		ui_error("%s", e.msg);
		ret = -1;
	}
	return ret;
}

static int run(const struct args *a)
{
	struct qimg_progress progress = { .cancel = NULL };
	struct qimg_workload w;
	struct open_how how;

	if (read_workload(a, &w) || open_how(a, 't', &how) || read_engine(a, &how))
		return 1;
	if (w.write_percent)
		how.flags |= QIMG_OPEN_WRITE;
	progress.cancel = ui_cancel_flag();
	w.progress = &progress;
	return bench(a, &how, &w) ? 1 : 0;
}

const struct command bench_command = {
	.name = "bench",
	.summary = "Measure how fast requests on an image are",
	.operands = "FILE",
	.min_operands = 1,
	.max_operands = 1,
	.missing = "image file name",
	.options = options,
	.run = run,
};
