// SPDX-License-Identifier: BSD-2-Clause
/*
 * Measuring one case. Each run opens the image anew, so that the caches of metadata are empty at its start;
 * a scratch image that is written to is made anew, too, since the second writes would find everything
 * allocated. One that is only read may serve several cases. Whatever happens, it is removed.
 */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

enum { FILL_PIECE = 1 << 20, FILL_DEPTH = 8, SAMPLES = 256 };

/* A read in less time than this was answered from memory: no device is that fast. */
#define TOO_FAST_NS 8000

static struct {
	unsigned row, rows;		/* which one is under way; rows 0: nobody counts */
} place;

void bench_case_init(struct bench_case *c)
{
	*c = (struct bench_case){
		.scratch = { .format = "qcow2", .extent_size_hint = BENCH_DEFAULT },
		.l2_cache_size = BENCH_DEFAULT,
		.l2_cache_entry_size = BENCH_DEFAULT,
		.refcount_cache_size = BENCH_DEFAULT,
		.work = { .order = QIMG_AT_RANDOM, .count = 75000, .depth = 64, .size = 4096,
			  .step = 4096, .seed = 1 },
		.runs = 1,
	};
}

static bool is_model(const char *aio)
{
	return aio && !strncmp(aio, "model=", 6);
}

static const char *engine(const struct bench_case *c)
{
	return c->aio ? c->aio : c->how.aio;
}

/* ---- progress ---- */

static void show(void *ctx, uint64_t done, uint64_t total)
{
	const char *what = ctx;
	double percent = total ? 100.0 * (double)done / (double)total : 0;

	if (place.rows > 1)
		ui_status("Row %u of %u: %s %.0f%%", place.row, place.rows, what, percent);
	else
		ui_status("%s %.0f%%", what, percent);
}

static struct qimg_progress progress_of(const char *what)
{
	show((void *)what, 0, 1);
	return (struct qimg_progress){ .report = show, .ctx = (void *)what, .cancel = ui_cancel_flag() };
}

/* ---- the image ---- */

static int set_number(struct qimg_opts *opts, const char *key, uint64_t value, struct qimg_error *e)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return qimg_opts_set(opts, key, text, e);
}

static int set_size(struct qimg_opts *opts, const char *key, uint64_t value, struct qimg_error *e)
{
	return value == BENCH_DEFAULT ? 0 : set_number(opts, key, value, e);
}

static int creation_options(const struct bench_scratch *s, struct qimg_opts *opts, struct qimg_error *e)
{
	if (set_number(opts, "size", s->size, e) ||
	    (s->cluster_size && set_number(opts, "cluster_size", s->cluster_size, e)) ||
	    (s->preallocation && qimg_opts_set(opts, "preallocation", s->preallocation, e)) ||
	    set_size(opts, "extent_size_hint", s->extent_size_hint, e) ||
	    (s->more && qimg_opts_parse(opts, s->more, e)))
		return -1;
	return 0;
}

void bench_scratch_failed(const char *name, const struct qimg_error *e)
{
	/* Who has stopped it knows why. */
	ui_error("%s%s", name && e->code != ECANCELED ? "Could not make a scratch image: " : "", e->msg);
}

/* Makes the scratch image; *name is its name, also on failure, and NULL when there is none. */
static int make(const struct bench_case *c, char **name)
{
	unsigned flags = is_model(engine(c)) && !c->cold ? QIMG_CREATE_NO_SYNC : 0;
	struct qimg_progress p = progress_of("creating");
	struct qimg_creation *creation = NULL;
	struct qimg_opts *opts = qimg_opts_new();
	struct qimg_error e = { ENOMEM, "Out of memory" };
	int ret = -1;

	if (!*name)
		*name = opts ? qimg_scratch_new(c->scratch.folder, "", &e) : NULL;
	if (*name && !creation_options(&c->scratch, opts, &e) &&
	    !qimg_create_prepare(&creation, *name, c->scratch.format, opts, flags, &e))
		ret = qimg_create_run(creation, &p, &e);
	if (ret)
		bench_scratch_failed(*name, &e);
	qimg_create_free(creation);
	qimg_opts_free(opts);
	return ret;
}

static int open_options_of(const struct bench_case *c, struct qimg_opts *opts, struct qimg_error *e)
{
	if (set_size(opts, "l2-cache-size", c->l2_cache_size, e) ||
	    set_size(opts, "l2-cache-entry-size", c->l2_cache_entry_size, e) ||
	    set_size(opts, "refcount-cache-size", c->refcount_cache_size, e) ||
	    (c->metadata_depth && set_number(opts, "metadata-depth", c->metadata_depth, e)) ||
	    (c->writeback && qimg_opts_set(opts, "metadata-writeback", c->writeback, e)) ||
	    (c->more && qimg_opts_parse(opts, c->more, e)))
		return -1;
	return 0;
}

enum purpose { TO_MEASURE, TO_FILL, TO_LOOK };

/* The options that are to be measured are used for that alone. */
static int open_it(const struct bench_case *c, const char *name, enum purpose why, struct qimg_image **img)
{
	const char *format = c->file ? c->how.format : c->scratch.format;
	bool list = c->file && c->how.image_opts, writes = why != TO_LOOK && (why == TO_FILL || c->work.write_percent);
	const char *aio = why != TO_MEASURE && is_model(engine(c)) ? NULL : engine(c);
	unsigned flags = c->how.flags | (writes ? QIMG_OPEN_WRITE : 0);
	struct qimg_error e = { ENOMEM, "Out of memory" };
	struct qimg_opts *opts = list ? open_options(name, &e) : qimg_opts_new();
	int ret = -1;

	if (opts && (!aio || !qimg_opts_set(opts, "aio", aio, &e)) &&
	    (why != TO_MEASURE || !open_options_of(c, opts, &e)))
		ret = qimg_open(img, list ? NULL : name, format, opts, flags, &e);
	if (ret)
		open_failed(name, &e);
	qimg_opts_free(opts);
	return ret;
}

static int close_it(struct qimg_image *img, int ret)
{
	struct qimg_error e;

	if (!qimg_close(img, &e))
		return ret;
	if (!ret)
		ui_error("%s", e.msg);
	return -1;
}

/* What does not make a whole piece at the end. */
static int fill_rest(struct qimg_image *img, const struct qimg_workload *w, struct qimg_error *e)
{
	uint64_t size = qimg_size(img), from = size - size % w->size;
	void *buf = size > from ? malloc((size_t)(size - from)) : NULL;
	int ret = 0;

	if (size > from && !buf) {
		*e = (struct qimg_error){ ENOMEM, "Out of memory" };
		ret = -1;
	} else if (buf) {
		memset(buf, w->pattern, (size_t)(size - from));
		ret = qimg_write(img, from, buf, (size_t)(size - from), e);
	}
	free(buf);
	return ret;
}

/* Zeros would not do: some image might know better than to store them. */
static int fill(const struct bench_case *c, const char *name)
{
	struct qimg_progress p = progress_of("filling");
	struct qimg_workload w = {
		.order = QIMG_IN_STEPS, .write_percent = 100, .depth = FILL_DEPTH, .size = FILL_PIECE,
		.step = FILL_PIECE, .pattern = c->work.pattern ? c->work.pattern : 0xa5, .progress = &p,
	};
	struct qimg_workload_result r;
	struct qimg_error e;
	int ret = 0;

	if (open_it(c, name, TO_FILL, &w.image))
		return -1;
	w.count = qimg_size(w.image) / w.size;
	if (w.count)
		ret = qimg_workload_run(&w, &r, &e);
	if (!ret)
		ret = fill_rest(w.image, &w, &e);
	if (ret)
		ui_error("%s", e.msg);
	return close_it(w.image, ret);
}

/* ---- what is seen ---- */

static unsigned count_images(struct qimg_image *img)
{
	unsigned n = 1;

	while ((img = qimg_backing(img)))
		n++;
	return n;
}

static void read_counters(struct qimg_image *img, struct bench_cache *cache)
{
	for (; img; img = qimg_backing(img), cache++) {
		cache->has_l2 = qimg_cache_stats(img, QIMG_CACHE_L2, &cache->l2);
		cache->has_refcount = qimg_cache_stats(img, QIMG_CACHE_REFCOUNT, &cache->refcount);
	}
}

/* What is counted from then on; what is there now stays. */
static void subtract(struct qimg_cache_stats *s, const struct qimg_cache_stats *then)
{
	s->lookups -= then->lookups;
	s->hits -= then->hits;
	s->misses -= then->misses;
	s->loads -= then->loads;
	s->evictions -= then->evictions;
	s->expired -= then->expired;
	s->writebacks -= then->writebacks;
	s->second_hits -= then->second_hits;
	s->compact_hits -= then->compact_hits;
}

/* The first byte behind what is asked for at most. */
static uint64_t range_end(const struct qimg_workload *w, uint64_t size)
{
	uint64_t end;

	if (w->order != QIMG_IN_STEPS || !w->count || w->run_ns ||
	    __builtin_mul_overflow(w->count, w->step, &end) || end > size - w->offset)
		return size;
	return w->offset + (end > w->size ? end : w->size);
}

/* Where one of the samples of a recording is. */
static uint64_t recorded(const struct qimg_recording *r, unsigned i)
{
	uint64_t n = qimg_recording_info(r)->requests;
	struct qimg_recorded q;

	qimg_recording_get(r, n < SAMPLES ? i % n : n / SAMPLES * i, &q);
	return q.off;
}

/*
 * How much of what is read is not there: per cent, of a number of places. A model does not know of holes in
 * files. Looked for apart from the run, whose caches it would fill.
 */
static int look_for_holes(const struct bench_case *c, const char *name, unsigned *percent)
{
	uint64_t end, from = c->work.offset, holes = 0, step;
	enum qimg_source source = QIMG_SOURCE_DISK;
	struct qimg_image *img;
	struct qimg_error e;
	int ret = 0;

	*percent = 0;
	if (c->work.write_percent >= 100)
		return 0;
	if (open_it(c, name, TO_LOOK, &img))
		return -1;
	end = range_end(&c->work, qimg_size(img));
	step = end > from ? (end - from) / SAMPLES : 0;
	for (unsigned i = 0; i < SAMPLES && end > from && !ret; i++) {
		uint64_t at = from + i * step;

		if (c->work.order == QIMG_RECORDED)
			at = recorded(c->work.recording, i);
		/* The run tells what is beyond the end. */
		if (at >= end)
			continue;
		ret = qimg_source(img, at, &source, &e);
		holes += is_model(engine(c)) ? source == QIMG_SOURCE_NONE : source != QIMG_SOURCE_DISK;
	}
	if (ret)
		ui_error("%s", e.msg);
	*percent = (unsigned)(holes * 100 / SAMPLES);
	return close_it(img, ret);
}

static uint64_t image_cached(struct qimg_image *img)
{
	uint64_t bytes, all = 0;

	for (; img; img = qimg_backing(img)) {
		if (!qimg_cached(img, QIMG_FILE_IMAGE, &bytes))
			return BENCH_UNKNOWN;
		all += bytes;
	}
	return all;
}

static void read_cached(struct qimg_image *img, struct bench_row *row)
{
	uint64_t bytes;

	row->image_cached = image_cached(img);
	for (; img; img = qimg_backing(img))
		if (qimg_cached(img, QIMG_FILE_CACHE, &bytes))
			row->cache_file_cached += bytes;
}

static uint64_t disk_read(void)
{
	uint64_t bytes;

	return qimg_disk_read(&bytes) ? bytes : BENCH_UNKNOWN;
}

/* What the file has got, which is not always what was asked for. */
static uint64_t read_hint(struct qimg_image *img, const struct bench_scratch *s)
{
	const struct qimg_value *file;
	struct qimg_abilities can;
	struct qimg_value *info;
	struct qimg_error e;
	const char *key;
	int64_t hint = 0;

	if (!qimg_info(img, &info, &e)) {
		file = qimg_value_get(qimg_value_at(qimg_value_get(info, "children"), 0, &key), "info");
		file = qimg_value_get(qimg_value_get(file, "format-specific"), "data");
		hint = qimg_value_int(qimg_value_get(file, "extent-size-hint"));
		qimg_value_free(info);
	}
	if (hint)
		return (uint64_t)hint;
	/* None: that is what was asked for, if there could be one. */
	return s->extent_size_hint || qimg_abilities(s->folder, &can, &e) || !can.extent_size_hints ?
	       BENCH_DEFAULT : 0;
}

static void read_sizes(struct qimg_image *img, struct bench_row *row)
{
	struct qimg_value *info;
	struct qimg_error e;

	row->format = qimg_format(img);
	row->file_system = qimg_file_system(qimg_name(img));
	row->size = qimg_size(img);
	row->cluster_size = qimg_cluster_size(img);
	row->extent_size_hint = row->c.file ? BENCH_DEFAULT : read_hint(img, &row->c.scratch);
	if (qimg_cache_info(img, &info, &e))
		return;
	row->l2_cache_size = (uint64_t)qimg_value_int(qimg_value_get(info, "l2-cache-size"));
	row->l2_cache_entry_size = (uint64_t)qimg_value_int(qimg_value_get(info, "l2-cache-entry-size"));
	row->refcount_cache_size = (uint64_t)qimg_value_int(qimg_value_get(info, "refcount-cache-size"));
	qimg_value_free(info);
}

static bool holds_half(uint64_t cached, uint64_t touched)
{
	return cached != BENCH_UNKNOWN && cached >= touched / 2;
}

/*
 * Whether memory answered where a disk was meant to. Reads did not if a disk was read for most of them. Else it
 * was memory if that had the data before; or if they were that fast, since it has from the first read on what is
 * read again. Where that is not told, what was there before decides: reads bring in themselves what is there
 * afterwards. Writes stay in memory unless each is flushed.
 */
static bool from_page_cache(const struct bench_row *row)
{
	const struct qimg_workload_result *r = &row->result;
	uint64_t touched = r->bytes < row->size ? r->bytes : row->size;
	uint64_t asked = r->requests ? r->bytes / r->requests * (r->requests - r->writes) : 0;
	bool fast = r->p50 < TOO_FAST_NS;

	if (is_model(engine(&row->c)) || row->c.how.flags & QIMG_OPEN_DIRECT || !r->requests ||
	    row->unallocated >= 50)
		return false;
	if (!asked)
		return !(row->c.how.flags & QIMG_OPEN_WRITETHROUGH) &&
		       (holds_half(row->image_cached, touched) || fast);
	if (row->disk_read == BENCH_UNKNOWN)
		return holds_half(row->cached_before, touched) || (row->cached_before == BENCH_UNKNOWN && fast);
	return row->disk_read < asked / 2 && (holds_half(row->cached_before, touched) || fast);
}

/* ---- one run ---- */

struct seen {
	struct bench_row *row;
	struct qimg_image *img;
	struct bench_cache *then;	/* the counters when the warm-up had ended */
	uint64_t disk_read;		/* by then */
	FILE *trace;
};

static void warmed(void *ctx)
{
	struct seen *s = ctx;

	read_counters(s->img, s->then);
	s->row->cached_before = image_cached(s->img);
	s->disk_read = disk_read();
}

static void trace(void *ctx, uint64_t off, uint64_t len, bool write)
{
	struct seen *s = ctx;
	unsigned percent = s->row->c.work.write_percent;
	bool mixed = percent && percent < 100;

	fprintf(s->trace, "%" PRIu64 " %" PRIu64 "%s\n", off, len, !mixed ? "" : write ? " w" : " r");
}

static int run_open(const struct bench_case *c, struct seen *s)
{
	struct qimg_progress p = progress_of(c->work.write_percent == 100 ? "writing" : c->work.write_percent ?
					     "reading and writing" : "reading");
	struct qimg_workload w = c->work;
	struct bench_row *row = s->row;
	struct qimg_error e;

	row->images = count_images(s->img);
	row->image = calloc(row->images, sizeof(*row->image));
	s->then = calloc(row->images, sizeof(*s->then));
	if (!row->image || !s->then) {
		ui_error("Out of memory");
		return -1;
	}
	read_sizes(s->img, row);
	if (c->cold)
		qimg_drop_cached(s->img);
	w.image = s->img;
	w.progress = &p;
	w.warmed = warmed;
	w.trace = s->trace ? trace : NULL;
	w.ctx = s;
	if (qimg_workload_run(&w, &row->result, &e)) {
		ui_error("%s", e.msg);
		return -1;
	}
	read_counters(s->img, row->image);
	for (unsigned i = 0; i < row->images; i++) {
		subtract(&row->image[i].l2, &s->then[i].l2);
		subtract(&row->image[i].refcount, &s->then[i].refcount);
	}
	row->disk_read = disk_read();
	if (row->disk_read != BENCH_UNKNOWN)
		row->disk_read -= s->disk_read;
	row->resident = qimg_resident();
	read_cached(s->img, row);
	row->page_cache = from_page_cache(row);
	row->iops = row->result.ns ? (double)row->result.requests * 1e9 / (double)row->result.ns : 0;
	return 0;
}

/* The file to trace to: made when the image is open, so that it is known not to be that. */
static int open_trace(const char *path, struct seen *s)
{
	if (qimg_same_file(s->img, path) == 1) {
		ui_error("'%s' is the image that is measured, and would be overwritten by --trace", path);
		return -1;
	}
	s->trace = ui_output(path);
	return s->trace ? 0 : -1;
}

static int run_once(const struct bench_case *c, const char *name, const char *trace_to, unsigned unallocated,
		    struct bench_row *row)
{
	struct seen s = { .row = row };
	int ret = 0;

	*row = (struct bench_row){ .c = *c, .unallocated = unallocated };
	if (open_it(c, name, TO_MEASURE, &s.img))
		return -1;
	if (trace_to)
		ret = open_trace(trace_to, &s);
	if (!ret)
		ret = run_open(c, &s);
	if (s.trace && ui_output_end(s.trace, trace_to))
		ret = -1;
	ret = close_it(s.img, ret);
	free(s.then);
	return ret;
}

static int by_iops(const void *a, const void *b)
{
	const struct bench_row *x = a, *y = b;

	return (x->iops > y->iops) - (x->iops < y->iops);
}

/* Keeps that of the median, which is moved to *row. */
static void choose(struct bench_row *runs, unsigned n, struct bench_row *row)
{
	unsigned middle = (n - 1) / 2;

	qsort(runs, n, sizeof(*runs), by_iops);
	*row = runs[middle];
	row->iops_least = runs[0].iops;
	row->iops_most = runs[n - 1].iops;
	runs[middle].image = NULL;
}

/*
 * A scratch image that is only read (or c->keep) serves the next case, too, if that wants the same one: large
 * ones that are full take long to make.
 */
static struct kept {
	char *name;			/* NULL: there is none */
	const struct bench_case *c;	/* what it was made for */
} kept;

static void drop(char *name)
{
	if (name)
		qimg_scratch_remove(name);
	free(name);
}

static bool alike(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool serves(const struct bench_case *made, const struct bench_case *c)
{
	const struct bench_scratch *a = &made->scratch, *b = &c->scratch;

	return !c->file && (!c->work.write_percent || c->keep) && made->keep == c->keep &&
	       alike(a->folder, b->folder) && alike(a->format, b->format) && a->size == b->size &&
	       a->cluster_size == b->cluster_size &&
	       alike(a->preallocation, b->preallocation) && a->extent_size_hint == b->extent_size_hint &&
	       alike(a->more, b->more) && made->cold == c->cold && made->fill == c->fill &&
	       made->work.pattern == c->work.pattern;
}

/* The name of one that is there already; NULL: none that serves. */
static char *take_kept(const struct bench_case *c)
{
	char *name = kept.name;

	kept.name = NULL;
	if (!name || serves(kept.c, c))
		return name;
	drop(name);
	return NULL;
}

int bench_measure(const struct bench_case *c, struct bench_row *row)
{
	unsigned n = c->runs ? c->runs : 1, unallocated = 0;
	struct bench_row *runs = calloc(n, sizeof(*runs));
	bool anew = !c->file && c->work.write_percent && !c->keep, there;
	char *scratch = take_kept(c);
	int ret = runs ? 0 : -1;

	if (!runs)
		ui_error("Out of memory");
	there = scratch;
	for (unsigned i = 0; i < n && !ret; i++) {
		bool new = anew || (!i && !there);
		const char *name;

		if (!c->file && new)
			ret = make(c, &scratch);
		name = c->file ? c->file : scratch;
		if (!ret && c->fill && (c->file ? !i && place.row <= 1 : new))
			ret = fill(c, name);
		if (!ret && !i)
			ret = look_for_holes(c, name, &unallocated);
		if (!ret)
			ret = run_once(c, name, i ? NULL : c->trace, unallocated, &runs[i]);
	}
	ui_status_end();
	if (!ret)
		choose(runs, n, row);
	for (unsigned i = 0; runs && i < n; i++)
		bench_row_free(&runs[i]);
	free(runs);
	if (!ret && !anew && place.rows)
		kept = (struct kept){ scratch, c };
	else
		drop(scratch);
	return ret;
}

void bench_row_free(struct bench_row *row)
{
	free(row->image);
	row->image = NULL;
}

int bench_measure_all(const struct bench_case *c, struct bench_row *row, unsigned n, unsigned *done)
{
	int ret = 0;

	place.rows = n;
	for (*done = 0; *done < n && !ret; *done += !ret) {
		place.row = *done + 1;
		ret = bench_measure(&c[*done], &row[*done]);
	}
	place.row = place.rows = 0;
	drop(kept.name);
	kept.name = NULL;
	return ret;
}
