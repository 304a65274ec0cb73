// SPDX-License-Identifier: BSD-2-Clause
/*
 * The open options of the format.
 *
 * Cache sizes follow the rules of the reference, so that a command line that was tuned for it has
 * the same effect here: the L2 cache holds all tables of the image up to 32 MiB, the refcount cache
 * four clusters, and with cache-size alone L2 is served first.
 */
#include "qcow2/option.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/opts.h"
#include "qcow2/qcow2.h"

#define DEFAULT_L2_CACHE (32 * MIB)
#define DEFAULT_L2_ENTRY (4 * KIB)
#define MIN_L2_ENTRIES 2
#define MIN_REFCOUNT_CLUSTERS 4
#define MAX_CACHE_ENTRIES INT32_MAX

static const char *const known[] = {
	"l2-cache-size",        "l2-cache-entry-size",
	"refcount-cache-size",  "cache-size",
	"cache-clean-interval", "lazy-refcounts",
	"pass-discard-request", "pass-discard-snapshot",
	"pass-discard-other",   "overlap-check",
	"overlap-check.",       "data-file.filename",
	"data-file.driver",     NULL,
};

/* What overlap-check can be told about one by one. */
static const char *const overlap_parts[] = {
	"overlap-check.main-header",      "overlap-check.active-l1",
	"overlap-check.active-l2",        "overlap-check.refcount-table",
	"overlap-check.refcount-block",   "overlap-check.snapshot-table",
	"overlap-check.inactive-l1",      "overlap-check.inactive-l2",
	"overlap-check.bitmap-directory", NULL,
};

static int set_cache_sizes(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	bool has_l2 = qimg_opts_get(opts, "l2-cache-size");
	bool has_rc = qimg_opts_get(opts, "refcount-cache-size");
	bool has_both = qimg_opts_get(opts, "cache-size");
	uint64_t clusters = div_up(q->h.size, q->cluster_size);
	uint64_t max_l2 = round_up(clusters * q->entry_size, q->cluster_size);
	uint64_t min_rc = (uint64_t)MIN_REFCOUNT_CLUSTERS * q->cluster_size;
	uint64_t l2 = DEFAULT_L2_CACHE, rc = min_rc, both = 0;

	if (opts_size(opts, "l2-cache-size", &l2, e) < 0 ||
	    opts_size(opts, "refcount-cache-size", &rc, e) < 0 ||
	    opts_size(opts, "cache-size", &both, e) < 0)
		return -1;
	if (has_both && has_l2 && has_rc)
		return error_set(
		    e, EINVAL,
		    "Options 'cache-size', 'l2-cache-size' and "
		    "'refcount-cache-size' exclude each other; two of them are enough");
	if (has_both && has_l2 && l2 > both)
		return error_set(e, EINVAL,
				 "Option 'l2-cache-size' (%" PRIu64 ") is more than "
				 "'cache-size' (%" PRIu64 ")",
				 l2, both);
	if (has_both && has_rc && rc > both)
		return error_set(e, EINVAL,
				 "Option 'refcount-cache-size' (%" PRIu64 ") is more than "
				 "'cache-size' (%" PRIu64 ")",
				 rc, both);
	if (has_both && has_l2)
		rc = both - l2;
	else if (has_both && has_rc)
		l2 = both - rc;
	else if (has_both && both >= max_l2 + min_rc)
		l2 = max_l2, rc = both - max_l2;
	else if (has_both)
		rc = min_u64(both, min_rc), l2 = both - rc;
	q->l2_cache_size = min_u64(l2, max_l2);
	q->rc_cache_size = max_u64(rc, min_rc);

	/* Whole tables where all of them fit, else pieces, which waste less of a small cache. */
	q->l2_entry_size =
	    l2 >= max_l2 ? q->cluster_size : min_u64(DEFAULT_L2_ENTRY, q->cluster_size);
	if (opts_size(opts, "l2-cache-entry-size", &q->l2_entry_size, e) < 0)
		return -1;
	if (!is_pow2(q->l2_entry_size) || q->l2_entry_size < 512 ||
	    q->l2_entry_size > q->cluster_size)
		return error_set(e, EINVAL,
				 "Option 'l2-cache-entry-size' is %" PRIu64 ", which is not a "
				 "power of two between 512 and the cluster size %" PRIu32,
				 q->l2_entry_size, q->cluster_size);
	q->l2_cache_size = max_u64(q->l2_cache_size, MIN_L2_ENTRIES * q->l2_entry_size);
	if (q->l2_cache_size / q->l2_entry_size > MAX_CACHE_ENTRIES)
		return error_set(e, EINVAL, "An L2 cache of %" PRIu64 " bytes is too large",
				 q->l2_cache_size);
	if (q->rc_cache_size / q->cluster_size > MAX_CACHE_ENTRIES)
		return error_set(e, EINVAL, "A refcount cache of %" PRIu64 " bytes is too large",
				 q->rc_cache_size);
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
		return error_set(e, EINVAL,
				 "Options 'overlap-check' (%s) and 'overlap-check.template' "
				 "(%s) contradict each other",
				 one, two);
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

int option_read(struct qcow2 *q, const struct qimg_opts *opts, struct qimg_error *e)
{
	uint64_t interval = 0;

	if (opts_check_known(opts, known, "qcow2", e) < 0 || set_cache_sizes(q, opts, e) < 0 ||
	    check_overlap_options(opts, e) < 0)
		return -1;
	/* Nothing is dropped from the caches by time: commands do not live long enough for it. */
	if (opts_number(opts, "cache-clean-interval", 0, UINT32_MAX, &interval, e) < 0)
		return -1;
	q->lazy_refcounts = q->h.compatible & COMPAT_LAZY_REFCOUNTS;
	q->discard_passed[0] = q->img->flags & QIMG_OPEN_UNMAP;
	q->discard_passed[1] = true;
	q->discard_passed[2] = false;
	if (opts_bool(opts, "lazy-refcounts", &q->lazy_refcounts, e) < 0 ||
	    opts_bool(opts, "pass-discard-request", &q->discard_passed[0], e) < 0 ||
	    opts_bool(opts, "pass-discard-snapshot", &q->discard_passed[1], e) < 0 ||
	    opts_bool(opts, "pass-discard-other", &q->discard_passed[2], e) < 0)
		return -1;
	if (q->lazy_refcounts && q->h.version < 3)
		return error_set(e, EINVAL,
				 "Option 'lazy-refcounts' needs an image of version 3 "
				 "(compat=1.1), this one has version 2");
	return 0;
}
