// SPDX-License-Identifier: BSD-2-Clause
/*
 * The open options of the format. What contradicts each other is refused, with both values, rather than
 * one of them ignored. Sizes of caches are cachesize.c's.
 */
#include "qcow2/option.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "qcow2/cachesize.h"
#include "qcow2/qcow2.h"

#define DEFAULT_CLEAN_INTERVAL 600	/* seconds */
#define MAX_METADATA_DEPTH 65536
/* Bytes for slices in compact form: this part of the cache, within these limits. */
#define COMPACT_PART 8
#define LEAST_COMPACT (16 * KIB)
#define MOST_COMPACT (256 * KIB)	/* of a cache that shares what its chain has */

/* Beside cachesize_keys. data-file.* are open.c's. */
static const char *const known[] = {
	"cache-clean-interval",
	"lazy-refcounts",
	"pass-discard-request",
	"pass-discard-snapshot",
	"pass-discard-other",
	"discard-no-unref",
	"overlap-check",
	"overlap-check.",
	"data-file.",
	"metadata-cache",
	"metadata-depth",
	"metadata-writeback",
	"l2-cache-file",
	"l2-cache-file-size",
	"l2-cache-file-direct",
	"l2-cache-compact",
	NULL,
};

/* What overlap-check can be told about one by one. */
static const char *const overlap_parts[] = {
	"overlap-check.main-header",      "overlap-check.active-l1",
	"overlap-check.active-l2",        "overlap-check.refcount-table",
	"overlap-check.refcount-block",   "overlap-check.snapshot-table",
	"overlap-check.inactive-l1",      "overlap-check.inactive-l2",
	"overlap-check.bitmap-directory", NULL,
};

static int contradict(const struct qimg_opts *opts, const char *one, const char *two,
		      struct qimg_error *e)
{
	return error_set(e, EINVAL, "Options '%s' (%s) and '%s' (%s) contradict each other", one,
			 qimg_opts_get(opts, one), two, qimg_opts_get(opts, two));
}

void option_cache_need(const struct qcow2 *q, struct qimg_cache_sizes *s)
{
	*s = (struct qimg_cache_sizes){
		.size = q->h.size,
		.cluster_size = q->cluster_size,
		.extended_l2 = q->extended,
		.refcount_bits = q->refcount_bits,
	};
	cachesize_need(s);
}

static int read_caches(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	static const char *const writebacks[] = { "shared", "single", NULL };
	static const char *const of_memory[] = { "l2-cache-size", "cache-size", "l2-cache-file", NULL };
	const char *rule = qimg_opts_get(opts, "cache-rule");
	bool old = rule && !strcmp(rule, "2015"), on = true;
	uint64_t interval = old ? 0 : DEFAULT_CLEAN_INTERVAL, depth = 0;
	struct qimg_cache_sizes s;
	unsigned writeback = 0;

	option_cache_need(q, &s);
	if (cachesize_read(&s, opts, e) < 0)
		return -1;
	q->l2_cache_size = s.l2_size;
	q->l2_entry_size = s.l2_entry_size;
	q->rc_cache_size = s.refcount_size;
	q->cache_size_given = old || qimg_opts_get(opts, "l2-cache-size") ||
			      qimg_opts_get(opts, "cache-size");
	if (opts_number(opts, "cache-clean-interval", 0, UINT32_MAX, &interval, e) < 0 ||
	    opts_number(opts, "metadata-depth", 1, MAX_METADATA_DEPTH, &depth, e) < 0 ||
	    opts_choice(opts, "metadata-writeback", writebacks, &writeback, e) < 0 ||
	    opts_bool(opts, "metadata-cache", &on, e) < 0)
		return -1;
	q->clean_interval = (uint32_t)interval;
	q->metadata_depth = (unsigned)depth;
	q->no_cache = !on;
	q->writeback_single = writeback;
	for (unsigned i = 0; q->no_cache && of_memory[i]; i++)
		if (qimg_opts_get(opts, of_memory[i]))
			return contradict(opts, "metadata-cache", of_memory[i], e);
	return 0;
}

/* A second level of the L2 cache, in a file. */
static int read_second_level(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	static const char *const dependent[] = { "l2-cache-file-size", "l2-cache-file-direct", NULL };
	const char *path = qimg_opts_get(opts, "l2-cache-file");
	struct qimg_cache_sizes s;
	uint64_t size;

	if (!path) {
		for (unsigned i = 0; dependent[i]; i++)
			if (qimg_opts_get(opts, dependent[i]))
				return error_set(e, EINVAL, "Option '%s' (%s) needs 'l2-cache-file', "
						 "which is not given", dependent[i],
						 qimg_opts_get(opts, dependent[i]));
		return 0;
	}
	if (!*path)
		return error_set(e, EINVAL, "Option 'l2-cache-file' is empty: give a path, or leave it out");
	option_cache_need(q, &s);
	size = max_u64(s.l2_full, q->l2_entry_size);
	q->l2_file_direct = true;
	if (opts_size(opts, "l2-cache-file-size", &size, e) < 0 ||
	    opts_bool(opts, "l2-cache-file-direct", &q->l2_file_direct, e) < 0)
		return -1;
	if (size < q->l2_entry_size)
		return error_set(e, EINVAL, "Option 'l2-cache-file-size' (%" PRIu64 ") is less than one entry "
				 "('l2-cache-entry-size', %" PRIu64 ")", size, q->l2_entry_size);
	q->l2_file_size = min_u64(round_down(size, q->l2_entry_size),
				  max_u64(s.l2_full, q->l2_entry_size));
	q->l2_file = mem_strdup(path, e);
	return q->l2_file ? 0 : -1;
}

/*
 * What leaves the L2 cache stays in compact form, beside it. Not with a second level in a file, which takes
 * it instead, where nothing is looked at twice, and not by the rules of 2015, unless that is asked for.
 */
static int read_compact(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	const char *rule = qimg_opts_get(opts, "cache-rule");
	bool on = !q->l2_file && !q->no_cache && !(q->img->flags & QIMG_OPEN_ONCE) &&
		  (!rule || strcmp(rule, "2015"));

	if (opts_bool(opts, "l2-cache-compact", &on, e) < 0)
		return -1;
	if (on && q->no_cache)
		return contradict(opts, "metadata-cache", "l2-cache-compact", e);
#ifdef QIMG_SECOND_LEVEL
	on = false;
#endif
	if (on)
		q->compact_size = min_u64(max_u64(q->l2_cache_size / COMPACT_PART, LEAST_COMPACT),
					  q->cache_size_given ? UINT64_MAX : MOST_COMPACT);
	return 0;
}

static int read_discards(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	q->discard_passed[0] = q->img->flags & QIMG_OPEN_UNMAP;
	q->discard_passed[1] = true;
	q->discard_passed[2] = false;
	if (opts_bool(opts, "pass-discard-request", &q->discard_passed[0], e) < 0 ||
	    opts_bool(opts, "pass-discard-snapshot", &q->discard_passed[1], e) < 0 ||
	    opts_bool(opts, "pass-discard-other", &q->discard_passed[2], e) < 0 ||
	    opts_bool(opts, "discard-no-unref", &q->discard_no_unref, e) < 0)
		return -1;
	if (q->discard_no_unref && q->h.version < 3)
		return error_set(e, EINVAL, "Option 'discard-no-unref' needs an image of version 3 "
				 "(compat=1.1), this one has version 2");
	return 0;
}

/*
 * Metadata is never written where other metadata is: the allocator and the checks on every entry
 * see to that, whatever this option says. It is accepted with the values the reference knows.
 */
static int check_overlap_options(const struct qimg_opts *opts, struct qimg_error *e)
{
	static const char *const templates[] = { "none", "constant", "cached", "all", NULL };
	const char *one = qimg_opts_get(opts, "overlap-check");
	const char *two = qimg_opts_get(opts, "overlap-check.template");
	unsigned choice = 0;
	bool on = false;
	size_t i;

	if (opts_choice(opts, "overlap-check", templates, &choice, e) < 0 ||
	    opts_choice(opts, "overlap-check.template", templates, &choice, e) < 0)
		return -1;
	if (one && two && strcmp(one, two))
		return contradict(opts, "overlap-check", "overlap-check.template", e);
	for (i = 0; overlap_parts[i]; i++)
		if (opts_bool(opts, overlap_parts[i], &on, e) < 0)
			return -1;
	for (i = 0; i < opts_count(opts); i++) {
		const char *value, *key = opts_at(opts, i, &value);
		size_t j;

		if (strncmp(key, "overlap-check.", 14) || !strcmp(key, "overlap-check.template"))
			continue;
		for (j = 0; overlap_parts[j] && strcmp(key, overlap_parts[j]); j++)
			;
		if (!overlap_parts[j])
			return error_set(e, EINVAL, "Unknown option '%s' of qcow2", key);
	}
	return 0;
}

/* All that were given are known, here or in cachesize.c. */
static int check_names(const struct qimg_opts *opts, struct qimg_error *e)
{
	struct qimg_opts *others = opts_copy(opts, e);
	int ret;

	if (!others)
		return -1;
	for (unsigned i = 0; cachesize_keys[i]; i++)
		opts_remove(others, cachesize_keys[i]);
	ret = opts_check_known(others, known, "qcow2", e);
	qimg_opts_free(others);
	return ret;
}

int option_read(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	if (check_names(opts, e) < 0 || read_caches(q, opts, e) < 0 || read_second_level(q, opts, e) < 0 ||
	    read_compact(q, opts, e) < 0 ||
	    read_discards(q, opts, e) < 0 || check_overlap_options(opts, e) < 0)
		return -1;
	q->lazy_refcounts = q->h.compatible & COMPAT_LAZY_REFCOUNTS;
	if (opts_bool(opts, "lazy-refcounts", &q->lazy_refcounts, e) < 0)
		return -1;
	if (q->lazy_refcounts && q->h.version < 3)
		return error_set(e, EINVAL, "Option 'lazy-refcounts' needs an image of version 3 "
				 "(compat=1.1), this one has version 2");
	return 0;
}

void option_free(struct qcow2 *q)
{
	free(q->l2_file);
	q->l2_file = NULL;
}
