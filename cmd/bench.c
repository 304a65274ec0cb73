// SPDX-License-Identifier: BSD-2-Clause
/*
 * `qimg bench`: how fast requests on an image are. Without --rw it does and prints what the reference
 * does.
 */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
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
	{ .id = 'i', .letter = 'i', .name = "aio", .kind = OPT_WORDS, .arg = "AIO",
	  .values = "threads native io_uring sync",
	  .help = "How I/O is done (default: threads); '-i help' lists models\nof devices, too" },
	{ .id = 'n', .letter = 'n', .name = "native", .help = "The same as -i native" },
	OPEN_OPT_SHARE,
	{ .id = OPEN_OUTPUT, .name = "output", .kind = OPT_CHOICE, .arg = "FORM",
	  .values = "human json csv", .help = "Text for people (human, the default), json or csv" },
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

static void list_engines(void)
{
	const char *aio, *source;

	for (unsigned i = 0; (aio = qimg_aio(i, &source)); i++)
		printf("%s%s%s\n", aio, source ? "  explains " : "", source ? source : "");
}

/* -1 after a message. */
static int check_engine(const char *aio)
{
	const char *known, *source;

	for (unsigned i = 0; (known = qimg_aio(i, &source)); i++)
		if (!strcmp(known, aio))
			return 0;
	ui_error("'%s' is not a value of option '--aio': it can be one of:", aio);
	for (unsigned i = 0; (known = qimg_aio(i, &source)); i++)
		ui_more("  %s", known);
	return -1;
}

/* -i, -n, with what they need. -1 after a message, 1 when only a list was asked for. */
static int read_engine(const struct args *a, struct open_how *how)
{
	how->aio = args_text(a, 'i');
	if (how->aio && !strcmp(how->aio, "help")) {
		list_engines();
		return 1;
	}
	if (how->aio && check_engine(how->aio))
		return -1;
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

/* ---- the mode of the reference: nothing is done beside it ---- */

static int run_compatible(const struct args *a, const struct bench_case *c)
{
	struct qimg_progress progress = { .cancel = ui_cancel_flag() };
	struct qimg_workload w = c->work;
	struct qimg_workload_result r;
	struct open_how how = c->how;
	struct qimg_error e;
	int ret;

	if (w.write_percent)
		how.flags |= QIMG_OPEN_WRITE;
	if (open_image(c->file, &how, &w.image))
		return -1;
	w.progress = &progress;
	if (!args_has(a, 'q'))
		bench_print_plan(&w);
	ret = ui_flush();
	if (!ret) {
		ret = qimg_workload_run(&w, &r, &e);
		if (ret)
			ui_error("%s", e.msg);
	}
	if (!ret && !args_has(a, 'q'))
		printf("Run completed in %.3f seconds.\n", (double)r.ns / 1e9);
	if (qimg_close(w.image, &e)) {
		ui_error("%s", e.msg);
		ret = -1;
	}
	return ret;
}

/* ---- our own ---- */

static int run_own(const struct args *a, const struct bench_case *c)
{
	enum bench_form form = (enum bench_form)number(a, OPEN_OUTPUT, BENCH_HUMAN);
	struct bench_row row;

	if (form == BENCH_HUMAN && !args_has(a, 'q'))
		bench_print_plan(&c->work);
	if (ui_flush() || bench_measure(c, &row))
		return -1;
	if (!args_has(a, 'q') || form != BENCH_HUMAN)
		bench_report(&row, 1, form);
	bench_row_free(&row);
	return 0;
}

static int run(const struct args *a)
{
	struct bench_case c;
	int ret;

	bench_case_init(&c);
	if (read_workload(a, &c.work) || open_how(a, 't', &c.how))
		return 1;
	ret = read_engine(a, &c.how);
	if (ret)
		return ret < 0 ? 1 : 0;
	if (!a->operand_count) {
		ui_error("Expecting image file name");
		opt_see_help(&bench_command);
		return 1;
	}
	c.file = a->operands[0];
	if (args_has(a, RW) || number(a, OPEN_OUTPUT, BENCH_HUMAN) != BENCH_HUMAN)
		ret = run_own(a, &c);
	else
		ret = run_compatible(a, &c);
	return ret ? 1 : 0;
}

const struct command bench_command = {
	.name = "bench",
	.summary = "Measure how fast requests on an image are",
	.operands = "FILE",
	.max_operands = 1,
	.missing = "image file name",
	.options = options,
	.run = run,
};
