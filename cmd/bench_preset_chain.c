// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory down a chain of images. Each image has an L2 cache of its own. When data has moved up by being
 * written anew, what the images below hold of their tables is of no use any more, and stays all the same,
 * unless cache-clean-interval gives it back.
 *
 * No time is measured, so none is modelled. The clusters are small, so that little data has many tables.
 */
#include "bench_preset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plot.h"
#include "ui.h"

#define SIZE (UINT64_C(256) << 20)
#define CLUSTER 4096U			/* each request is a whole one: nothing has to be copied */
#define LAYERS 3
#define INTERVAL 1			/* seconds */
#define WAIT_NS UINT64_C(2300000000)	/* two ticks of that interval, and something */
#define NAP_NS 50000000

enum stage { READ_0, HALF_IN_1, READ_1, ALL_IN_2, LATER, STAGES };

static const char *const stage_names[STAGES] = {
	[READ_0] = "hd1 is new: all is read",
	[HALF_IN_1] = "half of it is written to hd1",
	[READ_1] = "hd2 is new: all is read",
	[ALL_IN_2] = "all is written to hd2",
	[LATER] = "hd2 is read for a while",
};

static const unsigned intervals[] = { 0, INTERVAL };
enum { WAYS = sizeof(intervals) / sizeof(intervals[0]) };

struct chain {
	const struct preset *p;
	const struct preset_how *how;
	struct preset_rows *rows;
	uint64_t size;
	char *name[LAYERS];		/* hd0 first; NULL: not there */
	struct qimg_image *top;		/* open, or NULL */
	unsigned way;
	uint64_t memory[WAYS][STAGES][LAYERS];	/* of the L2 cache */
};

static int failed(const struct qimg_error *e)
{
	ui_error("%s", e->msg);
	return -1;
}

/* ---- images ---- */

static int set_number(struct qimg_opts *opts, const char *key, uint64_t value, struct qimg_error *e)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return qimg_opts_set(opts, key, text, e);
}

/* Over the one before; the lowest has all of its tables. */
static int creation_options(const struct chain *c, unsigned layer, struct qimg_opts *opts, struct qimg_error *e)
{
	const char *below = layer ? strrchr(c->name[layer - 1], '/') : NULL;

	if (set_number(opts, "cluster_size", CLUSTER, e) || set_number(opts, "size", c->size, e))
		return -1;
	if (!layer)
		return qimg_opts_set(opts, "preallocation", "metadata", e);
	/* The name is taken from the folder of the image, in which the other one is, too. */
	return qimg_opts_set(opts, "backing_file", below ? below + 1 : c->name[layer - 1], e) ||
	       qimg_opts_set(opts, "backing_fmt", "qcow2", e) ? -1 : 0;
}

static int create(struct chain *c, unsigned layer)
{
	/* Signals are to be noticed from now on: there is something to be removed. */
	struct qimg_progress p = { .cancel = ui_cancel_flag() };
	struct qimg_opts *opts = qimg_opts_new();
	struct qimg_error e = { ENOMEM, "Out of memory" };
	struct qimg_creation *creation = NULL;
	int ret = -1;

	if (opts)
		c->name[layer] = qimg_scratch_new(c->how->folder, "", &e);
	if (c->name[layer] && !creation_options(c, layer, opts, &e) &&
	    !qimg_create_prepare(&creation, c->name[layer], "qcow2", opts, QIMG_CREATE_NO_SYNC, &e))
		ret = qimg_create_run(creation, &p, &e);
	if (ret)
		bench_scratch_failed(c->name[layer], &e);
	qimg_create_free(creation);
	qimg_opts_free(opts);
	return ret;
}

/* An option for each image of the chain. */
static int set_all(struct qimg_opts *opts, unsigned top, const char *key, const char *value, struct qimg_error *e)
{
	char name[64] = "";

	for (unsigned i = 0; i <= top; i++) {
		size_t len = strlen(name);

		snprintf(name + len, sizeof(name) - len, "%s", key);
		if (qimg_opts_set(opts, name, value, e))
			return -1;
		snprintf(name + len, sizeof(name) - len, "backing.");
	}
	return 0;
}

static int open_top(struct chain *c, unsigned top)
{
	struct qimg_opts *opts = qimg_opts_new();
	struct qimg_error e = { ENOMEM, "Out of memory" };
	char interval[16];
	int ret = -1;

	snprintf(interval, sizeof(interval), "%u", intervals[c->way]);
	/* What is compact is small as well as old, which is not what is to be seen here. */
	if (opts && !set_all(opts, top, "cache-clean-interval", interval, &e) &&
	    !set_all(opts, top, "l2-cache-compact", "off", &e) &&
	    (!c->how->aio || !qimg_opts_set(opts, "aio", c->how->aio, &e)))
		ret = qimg_open(&c->top, c->name[top], "qcow2", opts, QIMG_OPEN_WRITE | QIMG_OPEN_NO_FLUSH, &e);
	if (ret)
		open_failed(c->name[top], &e);
	qimg_opts_free(opts);
	return ret;
}

static int close_top(struct chain *c, int ret)
{
	struct qimg_error e;

	if (c->top && qimg_close(c->top, &e) && !ret)
		ret = failed(&e);
	c->top = NULL;
	return ret;
}

/* ---- requests ---- */

/* One for each cluster, or each `step` bytes; adds to *sum. */
static int pass(const struct chain *c, bool write, uint64_t step, struct qimg_workload_result *sum)
{
	struct qimg_progress p = { .cancel = ui_cancel_flag() };
	struct qimg_workload w = {
		.image = c->top, .order = QIMG_IN_STEPS, .write_percent = write ? 100 : 0, .depth = 16,
		.size = CLUSTER, .step = step, .pattern = 0xa5, .count = c->size / step, .progress = &p,
	};
	struct qimg_workload_result r;
	struct qimg_error e;

	if (qimg_workload_run(&w, &r, &e))
		return failed(&e);
	sum->requests += r.requests;
	sum->writes += r.writes;
	sum->bytes += r.bytes;
	sum->ns += r.ns;
	sum->cpu_ns += r.cpu_ns;
	return 0;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Touches every slice of the tables again and again, for as long as others need to become old. */
static int read_for_a_while(const struct chain *c, struct qimg_workload_result *sum)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t slice = (uint64_t)CLUSTER / 8 * CLUSTER, until = now() + WAIT_NS;

	if (slice > c->size)
		slice = c->size;
	do {
		if (pass(c, false, slice, sum))
			return -1;
		if (!intervals[c->way])
			return 0;
		nanosleep(&nap, NULL);
	} while (now() < until);
	return pass(c, false, slice, sum);
}

/* ---- what is seen ---- */

static int look(struct chain *c, enum stage s, const struct qimg_workload_result *r)
{
	struct qimg_image *img = c->top;
	unsigned top = 0;

	while ((img = qimg_backing(img)))
		top++;
	for (img = c->top; img; img = qimg_backing(img), top--) {
		struct bench_row *row = preset_row(c->rows);

		if (!row)
			return -1;
		bench_case_init(&row->c);
		row->c.preset = c->p->name;
		row->c.label = preset_text(c->rows, "hd%u: %s", top, stage_names[s]);
		row->c.more = preset_text(c->rows, "cache-clean-interval=%u", intervals[c->way]);
		row->c.aio = c->how->aio;
		row->c.scratch.size = c->size;
		row->c.work = (struct qimg_workload){ .order = QIMG_IN_STEPS, .size = CLUSTER, .depth = 16,
			.write_percent = r->writes ? 100 : 0 };
		row->image = calloc(1, sizeof(*row->image));
		if (!row->c.label || !row->c.more || !row->image)
			return -1;
		row->images = 1;
		row->format = qimg_format(img);
		row->file_system = qimg_file_system(qimg_name(img));
		row->size = qimg_size(img);
		row->cluster_size = qimg_cluster_size(img);
		row->result = *r;
		row->iops = row->iops_least = row->iops_most =
			r->ns ? (double)r->requests * 1e9 / (double)r->ns : 0;
		row->resident = qimg_resident();
		if (!qimg_cached(img, QIMG_FILE_IMAGE, &row->image_cached))
			row->image_cached = BENCH_UNKNOWN;
		row->image->has_l2 = qimg_cache_stats(img, QIMG_CACHE_L2, &row->image->l2);
		row->image->has_refcount = qimg_cache_stats(img, QIMG_CACHE_REFCOUNT, &row->image->refcount);
		c->memory[c->way][s][top] = row->image->l2.ram_bytes;
	}
	return 0;
}

static int run_stage(struct chain *c, enum stage s)
{
	struct qimg_workload_result r = { .requests = 0 };
	int ret = 0;

	ui_status("%s, cache-clean-interval=%u", stage_names[s], intervals[c->way]);
	switch (s) {
	case READ_0:
	case READ_1:
		ret = pass(c, false, CLUSTER, &r);
		break;
	case HALF_IN_1:
		ret = pass(c, true, UINT64_C(2) * CLUSTER, &r);
		break;
	case ALL_IN_2:
		ret = pass(c, true, CLUSTER, &r);
		break;
	case LATER:
	case STAGES:
		ret = read_for_a_while(c, &r);
	}
	return ret ? ret : look(c, s, &r);
}

static int run_way(struct chain *c)
{
	int ret = create(c, 0) || create(c, 1) || open_top(c, 1) || run_stage(c, READ_0) ||
		  run_stage(c, HALF_IN_1) ? -1 : 0;

	ret = close_top(c, ret);
	if (!ret)
		ret = create(c, 2) || open_top(c, 2) || run_stage(c, READ_1) || run_stage(c, ALL_IN_2) ||
		      run_stage(c, LATER) ? -1 : 0;
	ret = close_top(c, ret);
	for (unsigned i = 0; i < LAYERS; i++) {
		if (c->name[i])
			qimg_scratch_remove(c->name[i]);
		free(c->name[i]);
		c->name[i] = NULL;
	}
	ui_status_end();
	return ret;
}

/* ---- the table ---- */

static void print_bytes(uint64_t bytes)
{
	char text[UI_SIZE_LEN];

	printf("  %8s", bytes ? ui_size(bytes, text, sizeof(text)) : "0");
}

static void print_stage(const struct chain *c, enum stage s)
{
	printf("%-28s", stage_names[s]);
	for (unsigned way = 0; way < WAYS; way++) {
		uint64_t all = 0;

		printf(way ? "    " : " ");
		for (unsigned i = 0; i < LAYERS; i++) {
			all += c->memory[way][s][i];
			if (i == 2 && s < READ_1)
				printf("  %8s", "-");
			else
				print_bytes(c->memory[way][s][i]);
		}
		print_bytes(all);
	}
	printf("\n");
}

static void print(const struct chain *c)
{
	char size[UI_SIZE_LEN], full[UI_SIZE_LEN];

	printf("%s: Memory of the L2 caches of hd2, over hd1, over hd0\n", c->p->name);
	printf("Published: A. Garcia, 'Improving disk I/O performance in QEMU 2.5 with the qcow2 L2 cache', 2015,\n"
	       "    which gives no figures\n");
	ui_size(c->size, size, sizeof(size));
	ui_size(c->size / CLUSTER * 8, full, sizeof(full));
	printf("Here: a disk of %s in clusters of %u bytes: %s of tables for each image\n\n", size, CLUSTER, full);
	printf("%-28s", "");
	for (unsigned way = 0; way < WAYS; way++)
		printf(way ? "      cache-clean-interval=%u\n" : "   cache-clean-interval=%-17u", intervals[way]);
	printf("%-28s", "");
	for (unsigned way = 0; way < WAYS; way++)
		printf("%s  %8s  %8s  %8s  %8s", way ? "    " : " ", "hd0", "hd1", "hd2", "all");
	printf("\n");
	for (unsigned s = 0; s < STAGES; s++)
		print_stage(c, s);
}

/* ---- the plot ---- */

/* Bars over the stages, one for each image and interval. */
static int draw(const struct chain *c)
{
	struct plot_point point[WAYS * LAYERS][STAGES];
	struct plot_series series[WAYS * LAYERS];
	char label[WAYS * LAYERS][64];
	struct plot plot = {
		.title = "Memory of the L2 caches of hd2, over hd1, over hd0",
		.x = { .label = "what has been done", .name = stage_names, .names = STAGES },
		.y = { .label = "bytes", .scale = PLOT_LINEAR, .unit = PLOT_SIZE },
		.series = series, .count = WAYS * LAYERS,
	};

	for (unsigned i = 0; i < WAYS * LAYERS; i++) {
		unsigned way = i / LAYERS, layer = i % LAYERS;

		for (unsigned s = 0; s < STAGES; s++)
			point[i][s] = (struct plot_point){ s, (double)c->memory[way][s][layer] };
		snprintf(label[i], sizeof(label[i]), "hd%u, cache-clean-interval=%u", layer, intervals[way]);
		series[i] = (struct plot_series){ .label = label[i], .point = point[i], .count = STAGES };
	}
	return plot_write(c->how->plot, &plot);
}

static int run(const struct preset *p, const struct preset_how *how, struct preset_rows *rows)
{
	struct chain c = { .p = p, .how = how, .rows = rows, .size = SIZE };

	if (how->size != BENCH_DEFAULT)
		c.size = how->size;
	if (c.size < UINT64_C(2) * CLUSTER || c.size % CLUSTER) {
		ui_error("The preset '%s' needs a size in multiples of %u, at least two of them", p->name, CLUSTER);
		return -1;
	}
	for (c.way = 0; c.way < WAYS; c.way++)
		if (run_way(&c))
			return -1;
	if (how->form == BENCH_HUMAN && !how->quiet)
		print(&c);
	return how->plot ? draw(&c) : 0;
}

const struct preset preset_chain = {
	.name = "chain", .summary = "Memory of the L2 caches of a chain, when data has moved up", .draws = true,
	.run = run,
};
