// SPDX-License-Identifier: BSD-2-Clause
/*
 * `qimg bench`: how fast requests on an image are. Without options of our own mode it does and prints what
 * the reference does.
 */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench_mrc.h"
#include "bench_preset.h"
#include "bench_replay.h"
#include "bench_sweep.h"
#include "commands.h"
#include "ui.h"

enum { PATTERN = 256, FLUSH_INTERVAL, NO_DRAIN, RW, SEED, RUNTIME, WARMUP, ZIPF, FILL, L2_SIZE, L2_ENTRY,
       REFCOUNT_SIZE, CLUSTER_SIZE, PREALLOCATION, HINT, SIZE, SCRATCH, CREATE_OPTIONS, OPEN_OPTIONS,
       METADATA_DEPTH, RUNS, TRACE, WRITEBACK, PRESET, REAL, PLOT, REPLAY, MRC,
       CACHE_RULE };

/* Without --rw these ask for random requests; the second ones are about scratch images. */
static const int own_options[] = { WARMUP, ZIPF, FILL, L2_SIZE, L2_ENTRY, REFCOUNT_SIZE, OPEN_OPTIONS,
				   METADATA_DEPTH, RUNS, TRACE, WRITEBACK, PLOT, REPLAY, MRC, CACHE_RULE };
static const int scratch_options[] = { CLUSTER_SIZE, PREALLOCATION, HINT, SIZE, SCRATCH, CREATE_OPTIONS };

/* What --mrc has no use for: it measures nothing, and finds the size of the cache itself. */
static const int measuring_options[] = { RUNTIME, FILL, L2_SIZE, TRACE, RUNS, PLOT };

/* What --rw asks for, in the order of its words. */
static const struct {
	enum qimg_order order;
	unsigned write_percent;
} ways[] = {
	{ QIMG_IN_STEPS, 0 }, { QIMG_IN_STEPS, 100 }, { QIMG_AT_RANDOM, 0 }, { QIMG_AT_RANDOM, 100 },
	{ QIMG_AT_RANDOM, 50 },
};

static const struct opt options[] = {
	OPEN_OPT_FORMAT("Format of the image (default: found by content);\n"
			"a list of formats for scratch images (default: qcow2)"),
	OPEN_OPT_IMAGE_OPTS,
	{ .id = 'c', .letter = 'c', .name = "count", .kind = OPT_NUMBER, .arg = "N", .max = INT32_MAX,
	  .help = "Number of requests (default: 75000)" },
	{ .id = 'd', .letter = 'd', .name = "depth", .kind = OPT_TEXT, .arg = "LIST",
	  .help = "Requests in flight at a time (default: 64)" },
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
	{ .id = ZIPF, .name = "zipf", .kind = OPT_TEXT, .arg = "THETA",
	  .help = "Random requests prefer some places: the k-th by k^-THETA" },
	{ .id = WARMUP, .name = "warmup", .kind = OPT_TEXT, .arg = "N",
	  .help = "So many requests, or seconds as in '2s', do not count" },
	{ .id = RUNS, .name = "runs", .kind = OPT_NUMBER, .arg = "N", .min = 1, .max = 1000,
	  .help = "Measure so often; tells the median and the spread" },
	{ .id = FILL, .name = "fill", .help = "Write the whole image first; on FILE it needs -w, too" },
	{ .id = REPLAY, .name = "replay", .kind = OPT_FILE, .arg = "FILE",
	  .help = "Requests as recorded: lines \"OFFSET LENGTH\" (with r or w\n"
		  "behind), an iolog of fio, or what blkparse prints" },
	{ .id = MRC, .name = "mrc", .help = "Send nothing, tell how large an L2 cache the requests need" },
	{ .id = TRACE, .name = "trace", .kind = OPT_FILE, .arg = "FILE",
	  .help = "Write \"OFFSET LENGTH\" of each request to a file" },
	{ .id = PLOT, .name = "plot", .kind = OPT_FILE, .arg = "FILE.svg",
	  .help = "Draw the requests a second of all rows" },
	{ .id = 'w', .letter = 'w', .name = "write", .help = "Write to the image: what it has is overwritten" },
	{ .id = PATTERN, .name = "pattern", .kind = OPT_NUMBER, .arg = "BYTE", .max = 255,
	  .help = "What is written (default: 0)" },
	{ .id = FLUSH_INTERVAL, .name = "flush-interval", .kind = OPT_NUMBER, .arg = "N", .max = INT32_MAX,
	  .help = "A flush after each N writes, when these have ended" },
	{ .id = NO_DRAIN, .name = "no-drain", .help = "Flushes do not wait for that" },
	{ .id = L2_SIZE, .name = "l2-cache-size", .kind = OPT_TEXT, .arg = "LIST",
	  .help = "Sizes of the L2 cache, one row each" },
	{ .id = L2_ENTRY, .name = "l2-cache-entry-size", .kind = OPT_TEXT, .arg = "LIST",
	  .help = "Sizes of its entries" },
	{ .id = REFCOUNT_SIZE, .name = "refcount-cache-size", .kind = OPT_TEXT, .arg = "LIST",
	  .help = "Sizes of the refcount cache" },
	{ .id = CACHE_RULE, .name = "cache-rule", .kind = OPT_CHOICE, .arg = "RULE", .values = "current 2015",
	  .help = "How the sizes of caches follow from each other" },
	{ .id = METADATA_DEPTH, .name = "metadata-depth", .kind = OPT_NUMBER, .arg = "N", .min = 1, .max = 65536,
	  .help = "Loads of metadata in flight at most" },
	{ .id = WRITEBACK, .name = "writeback", .kind = OPT_CHOICE, .arg = "HOW",
	  .values = "shared single",
	  .help = "What is written when a changed L2 table has to make\n"
		  "room: all that have changed, or that one" },
	{ .id = OPEN_OPTIONS, .name = "open-options", .kind = OPT_TEXT, .arg = "KEY=VALUE,...",
	  .help = "Further options to open the image with" },
	{ .id = SIZE, .name = "size", .kind = OPT_SIZE, .arg = "SIZE",
	  .help = "Without FILE: make a scratch image of that size (default: 1G)" },
	{ .id = CLUSTER_SIZE, .name = "cluster-size", .kind = OPT_TEXT, .arg = "LIST",
	  .help = "Cluster sizes of scratch images" },
	{ .id = PREALLOCATION, .name = "preallocation", .kind = OPT_TEXT, .arg = "LIST",
	  .help = "What scratch images have: off, metadata, falloc, full" },
	{ .id = HINT, .name = "extent-size-hint", .kind = OPT_TEXT, .arg = "LIST",
	  .help = "Extent size hints of scratch images" },
	{ .id = CREATE_OPTIONS, .name = "create-options", .kind = OPT_TEXT, .arg = "KEY=VALUE,...",
	  .help = "Further options to create scratch images with" },
	{ .id = SCRATCH, .name = "scratch", .kind = OPT_FILE, .arg = "FOLDER",
	  .help = "Where these are made (default: $TMPDIR, else /var/tmp)" },
	{ .id = PRESET, .name = "preset", .kind = OPT_WORDS, .arg = "NAMES",
	  .values = "l2-size l2-entry-size l2-rounding l2-on-disk chain preallocation all help",
	  .help = "Measure again what others have published, beside their\n"
		  "figures; '--preset=help' tells what there is" },
	{ .id = REAL, .name = "real",
	  .help = "With --preset: on this machine's disk, not on a model of\nthe one that was measured" },
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

/* Of the options in the list the first that was given, NULL: none. */
static const char *given(const struct args *a, const int *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (args_has(a, ids[i]))
			return args_last(a, ids[i])->opt->name;
	return NULL;
}

#define GIVEN(a, ids) given(a, ids, sizeof(ids) / sizeof((ids)[0]))

static bool is_own(const struct args *a)
{
	return args_has(a, RW) || GIVEN(a, own_options) || GIVEN(a, scratch_options);
}

/* ---- the requests ---- */

static int read_zipf(const char *text, struct qimg_workload *w)
{
	char *end;

	if (!text)
		return 0;
	if (w->order != QIMG_AT_RANDOM) {
		ui_error("--zipf is about random requests: --rw=randread, randwrite or randrw");
		return -1;
	}
	w->theta = strtod(text, &end);
	if (end != text && !*end && w->theta > 0 && w->theta <= 10) {
		w->order = QIMG_ZIPF;
		return 0;
	}
	ui_error("'%s' is not a value of option '--zipf': it must be a number above 0, at most 10", text);
	return -1;
}

static int read_warmup(const char *text, struct qimg_workload *w)
{
	unsigned long long n;
	char *end;

	if (!text)
		return 0;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !errno && !*end && n <= INT32_MAX) {
		w->warm_count = n;
		return 0;
	}
	if (*text >= '0' && *text <= '9' && !errno && !strcmp(end, "s") && n <= 1000000) {
		w->warm_ns = n * 1000000000;
		return 0;
	}
	ui_error("'%s' is not a value of option '--warmup': it must be a number of requests, or of seconds as in "
		 "'2s'", text);
	return -1;
}

/* The recording, kept by w, is the caller's to free, also on failure. */
static int read_replay(const struct args *a, struct qimg_workload *w)
{
	static const int others[] = { ZIPF, 's', 'S', 'o' };
	const char *other = GIVEN(a, others);

	if (!args_has(a, REPLAY))
		return 0;
	if (other) {
		ui_error("--replay says where requests go and how long they are: --%s is of no use", other);
		return -1;
	}
	if (bench_replay(args_text(a, REPLAY), args_has(a, RW), w))
		return -1;
	if (!args_has(a, 'c') && !w->run_ns)
		w->count = qimg_recording_info(w->recording)->requests;
	return 0;
}

/* --mrc without what it can't do. -1 after a message. */
static int check_mrc(const struct args *a, const struct qimg_workload *w)
{
	const char *other = GIVEN(a, measuring_options);

	if (!args_has(a, MRC))
		return 0;
	if (other)
		ui_error("--mrc measures nothing, and finds sizes of the L2 cache itself: --%s is of no use", other);
	else if (w->warm_ns)
		ui_error("--mrc needs the warm-up as a number of requests, since it takes no time");
	else
		return 0;
	return -1;
}

static int read_order(const struct args *a, struct qimg_workload *w)
{
	if (args_has(a, RW)) {
		w->order = ways[args_last(a, RW)->number].order;
		w->write_percent = ways[args_last(a, RW)->number].write_percent;
	} else if (is_own(a)) {
		w->order = QIMG_AT_RANDOM;
	} else if (args_has(a, RUNTIME)) {
		ui_error("--runtime needs --rw");
		return -1;
	}
	return 0;
}

/* Whether what is there may be overwritten. -1 after a message. */
static int check_writes(const struct args *a, const struct qimg_workload *w)
{
	/* A scratch image has nothing to lose. */
	if (!a->operand_count || args_has(a, 'w') || args_has(a, MRC))
		return 0;
	if (!w->write_percent && !args_has(a, FILL))
		return 0;
	if (w->order == QIMG_RECORDED)
		ui_error("What is recorded writes to the image: say -w, too, if that is meant");
	else if (w->write_percent)
		ui_error("--rw=%s overwrites the image: say -w, too, if that is meant", args_text(a, RW));
	else
		ui_error("--fill overwrites the image: say -w, too, if that is meant");
	return -1;
}

/* What the options say about the requests. -1 after a message. */
static int read_workload(const struct args *a, struct qimg_workload *w)
{
	*w = (struct qimg_workload){
		.count = number(a, 'c', args_has(a, RUNTIME) ? 0 : 75000),
		.run_ns = number(a, RUNTIME, 0) * 1000000000,
		.depth = 64,
		.size = number(a, 's', 4096),
		.offset = number(a, 'o', 0),
		.seed = number(a, SEED, 1),
		.write_percent = args_has(a, 'w') ? 100 : 0,
		.pattern = (uint8_t)number(a, PATTERN, 0),
		.flush_interval = number(a, FLUSH_INTERVAL, 0),
		.no_drain = args_has(a, NO_DRAIN),
	};
	w->step = number(a, 'S', w->size);
	if (read_order(a, w) || read_zipf(args_text(a, ZIPF), w) || read_warmup(args_text(a, WARMUP), w) ||
	    read_replay(a, w) || check_writes(a, w))
		return -1;
	if (w->size > INT32_MAX || w->step > INT32_MAX) {
		ui_error("The %s of requests is at most 2147483647 bytes", w->size > INT32_MAX ? "size" : "step");
		return -1;
	}
	if (!w->write_percent && w->flush_interval) {
		ui_error("--flush-interval is only available in write tests");
		return -1;
	}
	return 0;
}

/* ---- the image, and how it is opened ---- */

enum { MOST_ENGINES = 32 };

static void list_engines(void)
{
	const char *aio, *source;

	for (unsigned i = 0; (aio = qimg_aio(i, &source)); i++)
		printf("%s%s%s\n", aio, source ? "\n    explains " : "", source ? source : "");
}

/* -i, -n, with what they need. -1 after a message. */
static int read_engine(const struct args *a, struct bench_sweep *s, struct open_how *how)
{
	const char *known[MOST_ENGINES + 1] = { NULL }, *text = args_text(a, 'i'), *source;

	for (unsigned i = 0; i < MOST_ENGINES && (known[i] = qimg_aio(i, &source)); i++)
		;
	if (text && bench_texts_read(&s->aio, "--aio", text, known))
		return -1;
	if (args_has(a, 'n') && text && strcmp(text, "native")) {
		ui_error("-n is -i native: it excludes -i %s", text);
		return -1;
	}
	if (args_has(a, 'n'))
		how->aio = "native";
	else if (s->aio.n == 1)
		how->aio = s->aio.word[0];
	if (!how->aio && !how->image_opts)
		how->aio = "threads";
	return 0;
}

static int read_lists(const struct args *a, struct bench_sweep *s)
{
	const struct {
		int id;
		struct bench_list *list;
		const char *name;
	} lists[] = {
		{ 'd', &s->depth, "--depth" },
		{ L2_SIZE, &s->l2, "--l2-cache-size" },
		{ L2_ENTRY, &s->entry, "--l2-cache-entry-size" },
		{ REFCOUNT_SIZE, &s->refcount, "--refcount-cache-size" },
		{ CLUSTER_SIZE, &s->cluster, "--cluster-size" },
		{ HINT, &s->hint, "--extent-size-hint" },
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (args_has(a, lists[i].id) &&
		    bench_list_read(lists[i].list, lists[i].name, args_text(a, lists[i].id)))
			return -1;
	return 0;
}

static int read_scratch(const struct args *a, struct bench_sweep *s, struct bench_case *c)
{
	static const char *const preallocations[] = { "off", "metadata", "falloc", "full", NULL };
	const char *text;

	if (c->how.image_opts) {
		ui_error("--image-opts is about FILE, which is missing");
		return -1;
	}
	text = args_text(a, PREALLOCATION);
	if (text && bench_texts_read(&s->preallocation, "--preallocation", text, preallocations))
		return -1;
	text = args_text(a, 'f');
	if (text && bench_texts_read(&s->format, "--format", text, qimg_formats()))
		return -1;
	c->scratch.size = number(a, SIZE, bench_replay_size(&c->work));
	c->scratch.folder = args_text(a, SCRATCH);
	c->scratch.more = args_text(a, CREATE_OPTIONS);
	/* Without tables there would be no metadata to read. */
	if (c->work.write_percent < 100 && !c->fill)
		c->scratch.preallocation = "metadata";
	return 0;
}

/* --open-options, and those that have an option of their own and no place in a case. */
static int read_open_options(const struct args *a, struct bench_sweep *s, struct bench_case *c)
{
	const char *list = args_text(a, OPEN_OPTIONS);

	c->more = list;
	if (!args_has(a, CACHE_RULE))
		return 0;
	if (asprintf(&s->more, "cache-rule=%s%s%s", args_text(a, CACHE_RULE), list ? "," : "",
		     list ? list : "") < 0) {
		s->more = NULL;
		ui_error("Out of memory");
		return -1;
	}
	c->more = s->more;
	return 0;
}

/* -1 after a message. */
static int read_case(const struct args *a, struct bench_sweep *s, struct bench_case *c)
{
	const char *name = GIVEN(a, scratch_options);

	if (read_workload(a, &c->work) || check_mrc(a, &c->work) || open_how(a, 't', &c->how) ||
	    read_engine(a, s, &c->how) || read_lists(a, s))
		return -1;
	c->fill = args_has(a, FILL);
	c->runs = (unsigned)number(a, RUNS, 1);
	c->trace = args_text(a, TRACE);
	c->metadata_depth = (unsigned)number(a, METADATA_DEPTH, 0);
	if (read_open_options(a, s, c))
		return -1;
	c->writeback = args_text(a, WRITEBACK);
	if (args_has(a, REAL)) {
		ui_error("--real needs --preset");
		return -1;
	}
	if (!a->operand_count && !is_own(a)) {
		ui_error("Expecting image file name");
		opt_see_help(&bench_command);
		return -1;
	}
	if (!a->operand_count)
		return read_scratch(a, s, c);
	c->file = a->operands[0];
	if (!name)
		return 0;
	ui_error("--%s is about scratch images, which are made when no FILE is given", name);
	return -1;
}

/* ---- the mode of the reference: nothing is done beside it ---- */

static int run_compatible(const struct args *a, const struct bench_case *c)
{
	struct qimg_progress progress = { .cancel = ui_cancel_flag() };
	struct qimg_workload w = c->work;
	struct qimg_workload_result r = { .ns = 0 };
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

/* That there is something to draw, and that the chart does not replace the image. -1 after a message. */
static int check_plot(const char *path, const struct bench_sweep *s)
{
	const struct bench_case *c = &s->cases[0];
	struct open_how how = c->how;
	struct qimg_image *img;
	struct qimg_error e;
	int same;

	if (s->n < 2) {
		ui_error("--plot needs at least two rows: give a list");
		return -1;
	}
	if (!c->file)
		return 0;
	how.flags |= QIMG_OPEN_SHARE;
	if (open_image(c->file, &how, &img))
		return -1;
	same = qimg_same_file(img, path);
	qimg_close(img, &e);
	if (same != 1)
		return 0;
	ui_error("'%s' is the image that is measured, and would be overwritten by --plot", path);
	return -1;
}

static int run_own(const struct args *a, const struct bench_sweep *s)
{
	enum bench_form form = (enum bench_form)number(a, OPEN_OUTPUT, BENCH_HUMAN);
	struct bench_row *rows = calloc(s->n, sizeof(*rows));
	bool text = form == BENCH_HUMAN && !args_has(a, 'q');
	unsigned done = 0;
	int ret;

	if (!rows) {
		ui_error("Out of memory");
		return -1;
	}
	ret = bench_measure_all(s->cases, rows, s->n, &done);
	if (text && done && s->n == 1)
		bench_print_plan(&s->cases[0].work);
	/* What took long to find out is not thrown away with a later failure, where that can be seen. */
	if (text ? done > 0 : !ret && form != BENCH_HUMAN)
		bench_report(rows, done, form);
	if (!ret && args_has(a, PLOT))
		ret = bench_plot(args_text(a, PLOT), NULL, rows, done);
	for (unsigned i = 0; i < done; i++)
		bench_row_free(&rows[i]);
	free(rows);
	return ret;
}

/* ---- what others have measured ---- */

/* The requests and the images are those that were published: what would change them is refused. */
static int check_preset(const struct args *a)
{
	static const int allowed[] = { PRESET, REAL, WRITEBACK, SIZE, SCRATCH, PLOT, 'c', RUNS, 'i', 'n',
				       OPEN_OUTPUT, 'q' };
	unsigned n;

	if (a->operand_count) {
		ui_error("--preset makes images of its own: leave out '%s'", a->operands[0]);
		return -1;
	}
	for (const struct opt *o = options; o->id; o++) {
		for (n = 0; n < sizeof(allowed) / sizeof(allowed[0]) && allowed[n] != o->id; n++)
			;
		if (args_has(a, o->id) && n == sizeof(allowed) / sizeof(allowed[0])) {
			ui_error("--preset excludes --%s: it measures what was published", o->name);
			return -1;
		}
	}
	return 0;
}

static bool is_engine(const char *name)
{
	const char *aio = NULL, *source;

	for (unsigned i = 0; (aio = qimg_aio(i, &source)) && strcmp(aio, name); i++)
		;
	return aio;
}

static int run_preset(const struct args *a)
{
	struct preset_how how = {
		.real = args_has(a, REAL),
		.aio = args_has(a, 'n') ? "native" : args_text(a, 'i'),
		.folder = args_text(a, SCRATCH),
		.size = number(a, SIZE, BENCH_DEFAULT),
		.writeback = args_text(a, WRITEBACK),
		.plot = args_text(a, PLOT),
		.count = number(a, 'c', 0),
		.runs = (unsigned)number(a, RUNS, 0),
		.form = (enum bench_form)number(a, OPEN_OUTPUT, BENCH_HUMAN),
		.quiet = args_has(a, 'q'),
	};

	if (check_preset(a))
		return 1;
	if (how.aio && !is_engine(how.aio)) {
		ui_error("With --preset -i takes one of those that '-i help' lists, not '%s'", how.aio);
		return 1;
	}
	if (how.aio && how.real == !strncmp(how.aio, "model=", 6)) {
		ui_error(how.real ? "--real and -i %s exclude each other" :
			 "-i %s is about a real disk: it needs --real", how.aio);
		return 1;
	}
	return preset_main(args_text(a, PRESET), &how);
}

static int run(const struct args *a)
{
	struct bench_sweep *s = calloc(1, sizeof(*s));
	struct bench_case c;
	int ret;

	if (args_has(a, 'i') && !strcmp(args_text(a, 'i'), "help")) {
		free(s);
		list_engines();
		return 0;
	}
	if (args_has(a, SCRATCH) && !*args_text(a, SCRATCH)) {
		free(s);
		ui_error("--scratch needs the name of a folder");
		return 1;
	}
	if (args_has(a, PRESET)) {
		free(s);
		return run_preset(a);
	}
	if (!s) {
		ui_error("Out of memory");
		return 1;
	}
	bench_case_init(&c);
	ret = read_case(a, s, &c);
	if (!ret)
		ret = bench_sweep_cases(s, &c);
	if (!ret && c.trace && s->n > 1) {
		ui_error("--trace is for one row, these are %u", s->n);
		ret = -1;
	}
	if (!ret && args_has(a, PLOT))
		ret = check_plot(args_text(a, PLOT), s);
	if (!ret && args_has(a, MRC))
		ret = bench_mrc(s->cases, s->n, (enum bench_form)number(a, OPEN_OUTPUT, BENCH_HUMAN),
				args_has(a, 'q'));
	else if (!ret && (is_own(a) || s->n > 1 || number(a, OPEN_OUTPUT, BENCH_HUMAN) != BENCH_HUMAN))
		ret = run_own(a, s);
	else if (!ret)
		ret = run_compatible(a, &s->cases[0]);
	bench_sweep_free(s);
	free(s);
	bench_replay_free(&c.work);
	return ret ? 1 : 0;
}

const struct command bench_command = {
	.name = "bench",
	.summary = "Measure how fast requests on an image are",
	.operands = "[FILE]",
	.max_operands = 1,
	.notes = "A LIST is \"1M,2M\", \"64K..4M*2\", \"1M..3M+512K\" or \"min..full\", and makes a row for each\n"
		 "combination. Without FILE scratch images are made, and removed.",
	.options = options,
	.run = run,
};
