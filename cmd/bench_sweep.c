// SPDX-License-Identifier: BSD-2-Clause
/*
 * The combinations of lists, from the slowest changing one to the fastest: format, cluster size, preallocation
 * and hint, which make an image, then the sizes of its caches, engine and depth. What the words of the
 * lists of sizes stand for depends on the image.
 *
 * Raw images have neither clusters nor caches: for them those lists are as good as empty.
 */
#include "bench_sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

#define STANDARD_CLUSTER 65536

struct sweep {
	struct bench_sweep *s;
	const struct bench_case *base;
	struct bench_values l2, entry, refcount, depth, cluster, hint;
};

/* Fields of which there are several values. */
static unsigned swept_by(const struct sweep *w)
{
	const struct bench_sweep *s = w->s;

	return (w->l2.n > 1) << BENCH_L2 | (w->entry.n > 1) << BENCH_ENTRY | (w->refcount.n > 1) << BENCH_REFCOUNT |
	       (w->depth.n > 1) << BENCH_DEPTH | (w->cluster.n > 1) << BENCH_CLUSTER | (w->hint.n > 1) << BENCH_HINT |
	       (s->aio.n > 1) << BENCH_AIO | (s->format.n > 1) << BENCH_FORMAT |
	       (s->preallocation.n > 1) << BENCH_PREALLOCATION;
}

static int add_case(struct bench_sweep *s, const struct bench_case *c)
{
	if (!s->cases) {
		s->cases = calloc(BENCH_MOST_ROWS, sizeof(*s->cases));
		if (!s->cases) {
			ui_error("Out of memory");
			return -1;
		}
	}
	if (s->n == BENCH_MOST_ROWS) {
		ui_error("These are more than %d combinations", BENCH_MOST_ROWS);
		return -1;
	}
	s->cases[s->n++] = *c;
	return 0;
}

/* ---- what the image is like ---- */

static struct qimg_opts *options_of(const struct bench_case *c, bool creation, struct qimg_error *e)
{
	const char *list = creation ? c->scratch.more : c->more;
	struct qimg_opts *opts = qimg_opts_new();

	*e = (struct qimg_error){ ENOMEM, "Out of memory" };
	if (opts && list && qimg_opts_parse(opts, list, e)) {
		qimg_opts_free(opts);
		return NULL;
	}
	return opts;
}

/* Of a scratch image, by its options. */
static int describe_scratch(const struct bench_case *c, struct qimg_cache_sizes *g, struct qimg_error *e)
{
	struct qimg_opts *opts = options_of(c, true, e);
	const char *extended, *bits;

	if (!opts)
		return -1;
	extended = qimg_opts_get(opts, "extended_l2");
	bits = qimg_opts_get(opts, "refcount_bits");
	*g = (struct qimg_cache_sizes){
		.size = c->scratch.size,
		.cluster_size = (uint32_t)(c->scratch.cluster_size ? c->scratch.cluster_size : STANDARD_CLUSTER),
		.extended_l2 = extended && !strcmp(extended, "on"),
		.refcount_bits = bits ? (unsigned)strtoul(bits, NULL, 10) : 16,
	};
	qimg_opts_free(opts);
	return 0;
}

static uint64_t number_of(const struct qimg_value *info, const char *key)
{
	return (uint64_t)qimg_value_int(qimg_value_get(info, key));
}

/* Of a named image, by its header. cluster_size 0: it has no caches. */
static int describe_file(const struct bench_case *c, struct qimg_cache_sizes *g, struct qimg_error *e)
{
	unsigned flags = QIMG_OPEN_HEADER_ONLY | QIMG_OPEN_NO_BACKING | QIMG_OPEN_SHARE;
	bool list = c->how.image_opts;
	struct qimg_opts *opts = list ? open_options(c->file, e) : NULL;
	struct qimg_value *info = NULL;
	struct qimg_image *img;
	struct qimg_error ignored;
	int ret = -1;

	*g = (struct qimg_cache_sizes){ .size = 0 };
	if ((list && !opts) || qimg_open(&img, list ? NULL : c->file, c->how.format, opts, flags, e)) {
		qimg_opts_free(opts);
		return -1;
	}
	if (!qimg_cache_info(img, &info, e)) {
		g->size = qimg_size(img);
		g->cluster_size = (uint32_t)number_of(info, "cluster-size");
		g->extended_l2 = number_of(info, "l2-entry-size") == 16;
		g->refcount_bits = (unsigned)number_of(info, "refcount-bits");
		ret = 0;
	}
	qimg_value_free(info);
	qimg_close(img, &ignored);
	qimg_opts_free(opts);
	return ret;
}

/* The least that the caches can be. */
static int least_sizes(struct qimg_cache_sizes *g, struct qimg_error *e)
{
	struct qimg_opts *opts = options_of(&(struct bench_case){ .more = NULL }, false, e);
	int ret = -1;

	if (opts && !qimg_opts_set(opts, "l2-cache-size", "1", e) &&
	    !qimg_opts_set(opts, "refcount-cache-size", "1", e))
		ret = qimg_cache_sizes(g, opts, e);
	qimg_opts_free(opts);
	return ret;
}

/* Refcounts of all clusters of a full image, its tables included. */
static uint64_t all_refcounts(const struct qimg_cache_sizes *g)
{
	uint64_t clusters = (g->size + g->l2_full) / g->cluster_size + 2;
	uint64_t bytes = clusters * g->refcount_bits / 8 + 1;

	bytes += bytes * g->refcount_bits / 8 / g->cluster_size;
	return (bytes + g->cluster_size - 1) / g->cluster_size * g->cluster_size;
}

static int expand_caches(struct sweep *w, const struct bench_case *c)
{
	static const uint64_t none = BENCH_DEFAULT;
	struct qimg_cache_sizes g;
	struct qimg_error e;
	bool raw = !c->file && strcmp(c->scratch.format, "qcow2");

	w->l2.n = w->entry.n = w->refcount.n = 1;
	w->l2.value[0] = c->l2_cache_size;
	w->entry.value[0] = c->l2_cache_entry_size;
	w->refcount.value[0] = c->refcount_cache_size;
	if (raw || (!w->s->l2.n && !w->s->entry.n && !w->s->refcount.n))
		return 0;
	if (c->file ? describe_file(c, &g, &e) : describe_scratch(c, &g, &e)) {
		if (c->file)
			open_failed(c->file, &e);
		else
			ui_error("%s", e.msg);
		return -1;
	}
	if (!g.cluster_size) {
		ui_error("'%s' has no metadata caches whose size could be chosen", c->file);
		return -1;
	}
	if (least_sizes(&g, &e)) {
		ui_error("%s", e.msg);
		return -1;
	}

	const struct bench_words l2 = { g.l2_full > g.l2_size ? g.l2_full : g.l2_size, g.l2_size, none, 0,
					INT64_MAX };
	const struct bench_words entry = { g.cluster_size, 512, none, 512, g.cluster_size };
	const struct bench_words refcount = { all_refcounts(&g) > g.refcount_size ? all_refcounts(&g) :
					      g.refcount_size, g.refcount_size, none, 0, INT64_MAX };

	if (bench_list_expand(&w->s->l2, &l2, c->l2_cache_size, &w->l2) ||
	    bench_list_expand(&w->s->entry, &entry, c->l2_cache_entry_size, &w->entry) ||
	    bench_list_expand(&w->s->refcount, &refcount, c->refcount_cache_size, &w->refcount))
		return -1;
	return 0;
}

/* ---- the combinations of one image ---- */

static int set(struct qimg_opts *opts, const char *key, uint64_t value, struct qimg_error *e)
{
	char text[24];

	if (value == BENCH_DEFAULT)
		return 0;
	snprintf(text, sizeof(text), "%" PRIu64, value);
	return qimg_opts_set(opts, key, text, e);
}

/* That an image will take the sizes of its caches. */
static int check_sizes(const struct bench_case *c)
{
	struct qimg_cache_sizes g;
	struct qimg_error e;
	struct qimg_opts *opts;
	int ret = -1;

	if (c->file || strcmp(c->scratch.format, "qcow2"))
		return 0;
	opts = options_of(c, false, &e);
	if (opts && !describe_scratch(c, &g, &e) && !set(opts, "l2-cache-size", c->l2_cache_size, &e) &&
	    !set(opts, "l2-cache-entry-size", c->l2_cache_entry_size, &e) &&
	    !set(opts, "refcount-cache-size", c->refcount_cache_size, &e))
		ret = qimg_cache_sizes(&g, opts, &e);
	if (ret)
		ui_error("%s", e.msg);
	qimg_opts_free(opts);
	return ret;
}

static int check(const struct bench_case *c)
{
	uint64_t size = (c->scratch.size + 511) / 512 * 512;
	const char *aio = c->aio ? c->aio : c->how.aio;

	if (!c->file && c->work.order != QIMG_RECORDED &&
	    (c->work.size > size || c->work.offset > size - c->work.size)) {
		ui_error("Requests of %" PRIu64 " bytes from offset %" PRIu64 " on do not fit into a disk of %" PRIu64,
			 c->work.size, c->work.offset, size);
		return -1;
	}

	if (aio && !strcmp(aio, "native") && !(c->how.flags & QIMG_OPEN_DIRECT) && !c->how.image_opts) {
		ui_error("--aio=native needs a cache mode that passes the page cache by: -t none or directsync");
		return -1;
	}
	if (c->work.flush_interval && c->work.flush_interval < c->work.depth) {
		ui_error("Flush interval can't be smaller than depth");
		return -1;
	}
	return check_sizes(c);
}

static int add_engines(struct sweep *w, struct bench_case *c)
{
	unsigned n = w->s->aio.n ? w->s->aio.n : 1;

	for (unsigned i = 0; i < n; i++) {
		if (w->s->aio.n)
			c->aio = w->s->aio.word[i];
		for (unsigned j = 0; j < w->depth.n; j++) {
			c->work.depth = (unsigned)w->depth.value[j];
			if (check(c) || add_case(w->s, c))
				return -1;
		}
	}
	return 0;
}

static int add_image(struct sweep *w, const struct bench_case *image)
{
	struct bench_case c = *image;

	if (expand_caches(w, &c))
		return -1;
	c.swept = swept_by(w);
	for (unsigned i = 0; i < w->refcount.n; i++) {
		c.refcount_cache_size = w->refcount.value[i];
		for (unsigned j = 0; j < w->l2.n; j++) {
			c.l2_cache_size = w->l2.value[j];
			for (unsigned k = 0; k < w->entry.n; k++) {
				c.l2_cache_entry_size = w->entry.value[k];
				if (add_engines(w, &c))
					return -1;
			}
		}
	}
	return 0;
}

/* ---- the images ---- */

static bool is_pow2(uint64_t n)
{
	return n && !(n & (n - 1));
}

static int add_preallocations(struct sweep *w, struct bench_case *c)
{
	const struct bench_texts *p = &w->s->preallocation;
	bool raw = strcmp(c->scratch.format, "qcow2");

	for (unsigned i = 0; i < (p->n ? p->n : 1); i++) {
		c->scratch.preallocation = p->n ? p->word[i] : raw ? NULL : w->base->scratch.preallocation;
		if (raw && p->n && !strcmp(p->word[i], "metadata"))
			continue;	/* there is no such thing */
		for (unsigned j = 0; j < w->hint.n; j++) {
			c->scratch.extent_size_hint = w->hint.value[j];
			if (add_image(w, c))
				return -1;
		}
	}
	return 0;
}

static int add_scratch(struct sweep *w)
{
	const struct bench_texts *f = &w->s->format;
	struct bench_case c = *w->base;

	for (unsigned i = 0; i < (f->n ? f->n : 1); i++) {
		if (f->n)
			c.scratch.format = f->word[i];
		for (unsigned j = 0; j < w->cluster.n; j++) {
			uint64_t size = w->cluster.value[j] == BENCH_DEFAULT ? 0 : w->cluster.value[j];

			if (size && !is_pow2(size)) {
				ui_error("Option '--cluster-size': %" PRIu64 " is not a power of two", size);
				return -1;
			}
			if (strcmp(c.scratch.format, "qcow2") && j)
				break;
			c.scratch.cluster_size = strcmp(c.scratch.format, "qcow2") ? 0 : size;
			if (add_preallocations(w, &c))
				return -1;
		}
	}
	return 0;
}

int bench_sweep_cases(struct bench_sweep *s, const struct bench_case *base)
{
	const struct bench_words depth = { BENCH_UNKNOWN, 1, base->work.depth, 1, INT32_MAX };
	const struct bench_words cluster = { 2 << 20, 512, BENCH_DEFAULT, 512, 2 << 20 };
	const struct bench_words hint = { BENCH_UNKNOWN, BENCH_UNKNOWN, BENCH_DEFAULT, 0, UINT32_MAX };
	struct sweep *w = calloc(1, sizeof(*w));
	int ret = -1;

	if (!w) {
		ui_error("Out of memory");
		return -1;
	}
	w->s = s;
	w->base = base;
	if (!bench_list_expand(&s->depth, &depth, base->work.depth, &w->depth) &&
	    !bench_list_expand(&s->cluster, &cluster, base->scratch.cluster_size ? base->scratch.cluster_size :
			       BENCH_DEFAULT, &w->cluster) &&
	    !bench_list_expand(&s->hint, &hint, base->scratch.extent_size_hint, &w->hint))
		ret = base->file ? add_image(w, base) : add_scratch(w);
	if (!ret && !s->n) {
		ui_error("There is no combination to measure: raw images have no preallocation=metadata");
		ret = -1;
	}
	free(w);
	return ret;
}

void bench_sweep_free(struct bench_sweep *s)
{
	bench_texts_free(&s->aio);
	bench_texts_free(&s->preallocation);
	bench_texts_free(&s->format);
	free(s->more);
	free(s->cases);
	s->more = NULL;
	s->cases = NULL;
}
