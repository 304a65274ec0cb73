// SPDX-License-Identifier: BSD-2-Clause
/*
 * The arithmetic of cache sizes.
 *
 * The rules are those of the reference, so that a command line that was tuned for it has the same effect
 * here. L2 tables count whole, since each of them takes a whole cluster: what an image needs is rounded
 * up, never down. A cache of that size holds tables in one piece; a smaller one is divided into pieces
 * of 4 KiB, of which less is read for nothing. No cache has fewer than two entries.
 *
 * With cache-rule=2015 the rules are those of that year, for figures that were measured then: 1 MiB
 * (or eight tables), the cache of refcounts a quarter of it, one option setting both, tables whole.
 */
#include "qcow2/cachesize.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/opts.h"

#define DEFAULT_L2_ENTRY (4 * KIB)
#define DEFAULT_OVER_FILE MIB		/* in memory, over a second level */
#define MIN_L2_ENTRIES 2
#define MIN_REFCOUNT_CLUSTERS 4
#define MAX_CACHE_ENTRIES INT32_MAX

/* In 2015 */
#define OLD_L2 MIB
#define OLD_L2_CLUSTERS 8
#define OLD_RATIO 4			/* L2 to refcounts */

const char *const cachesize_keys[] = {
	"l2-cache-size", "l2-cache-entry-size", "refcount-cache-size", "cache-size", "cache-rule", NULL
};

static const char *const rules[] = { "current", "2015", NULL };

/* The options as given. */
struct given {
	bool has_l2, has_rc, has_both, has_entry, has_file;
	uint64_t l2, rc, both, entry;
	unsigned rule;
};

static unsigned entry_bytes(const struct qimg_cache_sizes *s)
{
	return s->extended_l2 ? 16 : 8;
}

static uint64_t min_refcount(const struct qimg_cache_sizes *s)
{
	return (uint64_t)MIN_REFCOUNT_CLUSTERS * s->cluster_size;
}

/* The product, or as much as an off_t holds. */
static uint64_t mul_most(uint64_t a, uint64_t b)
{
	uint64_t r = INT64_MAX;

	mul_u64(a, b, &r);
	return min_u64(r, INT64_MAX);
}

void cachesize_need(struct qimg_cache_sizes *s)
{
	uint64_t clusters = div_up(s->size, s->cluster_size);

	s->table_cover = (uint64_t)s->cluster_size / entry_bytes(s) * s->cluster_size;
	s->l2_full = round_up(clusters * entry_bytes(s), s->cluster_size);
	s->l2_tables = s->l2_full / s->cluster_size;
}

uint64_t cachesize_l2_cover(const struct qimg_cache_sizes *s, uint64_t bytes)
{
	return min_u64(mul_most(bytes / entry_bytes(s), s->cluster_size), s->size);
}

uint64_t cachesize_refcount_cover(const struct qimg_cache_sizes *s, uint64_t bytes)
{
	uint64_t refcounts = s->refcount_bits < 8 ? mul_most(bytes, 8 / s->refcount_bits)
						  : bytes / (s->refcount_bits / 8);

	return mul_most(refcounts, s->cluster_size);
}

uint64_t cachesize_refcount_need(const struct qimg_cache_sizes *s, uint64_t file_size)
{
	uint64_t clusters = div_up(file_size, s->cluster_size);
	uint64_t bytes = s->refcount_bits < 8 ? div_up(clusters, 8 / s->refcount_bits)
					      : clusters * (s->refcount_bits / 8);

	return max_u64(round_up(bytes, s->cluster_size), min_refcount(s));
}

static int read_given(struct given *g, const struct qimg_opts *opts, struct qimg_error *e)
{
	*g = (struct given){
		.has_l2 = qimg_opts_get(opts, "l2-cache-size"),
		.has_rc = qimg_opts_get(opts, "refcount-cache-size"),
		.has_both = qimg_opts_get(opts, "cache-size"),
		.has_entry = qimg_opts_get(opts, "l2-cache-entry-size"),
		.has_file = qimg_opts_get(opts, "l2-cache-file"),
	};
	if (opts_size(opts, "l2-cache-size", &g->l2, e) < 0 ||
	    opts_size(opts, "refcount-cache-size", &g->rc, e) < 0 ||
	    opts_size(opts, "cache-size", &g->both, e) < 0 ||
	    opts_size(opts, "l2-cache-entry-size", &g->entry, e) < 0 ||
	    opts_choice(opts, "cache-rule", rules, &g->rule, e) < 0)
		return -1;
	if (!g->has_both)
		return 0;
	if (g->has_l2 && g->has_rc)
		return error_set(e, EINVAL, "Options 'cache-size' (%" PRIu64 "), 'l2-cache-size' (%" PRIu64
				 ") and 'refcount-cache-size' (%" PRIu64 ") exclude each other; two of "
				 "them are enough", g->both, g->l2, g->rc);
	if (g->l2 > g->both)
		return error_set(e, EINVAL, "Option 'l2-cache-size' (%" PRIu64 ") is more than "
				 "'cache-size' (%" PRIu64 "), which includes it", g->l2, g->both);
	if (g->rc > g->both)
		return error_set(e, EINVAL, "Option 'refcount-cache-size' (%" PRIu64 ") is more than "
				 "'cache-size' (%" PRIu64 "), which includes it", g->rc, g->both);
	return 0;
}

/* L2 tables come first, refcounts get what is left. */
static void divide(struct qimg_cache_sizes *s, const struct given *g)
{
	uint64_t min_rc = min_refcount(s);
	uint64_t l2 = min_u64(s->l2_full, g->has_l2   ? g->l2 :
					  g->has_file ? DEFAULT_OVER_FILE : QIMG_SHARED_CACHE);

	s->l2_size = l2;
	s->refcount_size = g->rc;
	if (!g->has_both)
		return;
	if (g->has_l2) {
		s->refcount_size = g->both - l2;
	} else if (g->has_rc) {
		s->l2_size = g->both - g->rc;
	} else if (g->both >= s->l2_full + min_rc) {
		s->l2_size = s->l2_full;
		s->refcount_size = g->both - s->l2_full;
	} else {
		s->refcount_size = min_u64(g->both, min_rc);
		s->l2_size = g->both - s->refcount_size;
	}
}

static void divide_2015(struct qimg_cache_sizes *s, const struct given *g)
{
	uint64_t l2 = max_u64(OLD_L2, (uint64_t)OLD_L2_CLUSTERS * s->cluster_size), rc = g->rc;

	if (g->has_both && g->has_l2)
		l2 = g->l2, rc = g->both - l2;
	else if (g->has_both && g->has_rc)
		l2 = g->both - rc;
	else if (g->has_both)
		rc = g->both / (OLD_RATIO + 1), l2 = g->both - rc;
	else if (g->has_l2 && g->has_rc)
		l2 = g->l2;
	else if (g->has_l2)
		l2 = g->l2, rc = l2 / OLD_RATIO;
	else if (g->has_rc)
		l2 = mul_most(rc, OLD_RATIO);
	else
		rc = l2 / OLD_RATIO;
	s->l2_size = l2;
	s->refcount_size = rc;
}

static int choose_entry(struct qimg_cache_sizes *s, const struct given *g, struct qimg_error *e)
{
	s->l2_entry_size = s->cluster_size;
	if (g->has_entry)
		s->l2_entry_size = g->entry;
	else if (s->l2_size < s->l2_full && !g->rule)
		s->l2_entry_size = min_u64(DEFAULT_L2_ENTRY, s->cluster_size);
	if (is_pow2(s->l2_entry_size) && s->l2_entry_size >= 512 && s->l2_entry_size <= s->cluster_size)
		return 0;
	return error_set(e, EINVAL, "Option 'l2-cache-entry-size' is %" PRIu64 ", which is not a power of "
			 "two between 512 and the cluster size %" PRIu32, s->l2_entry_size, s->cluster_size);
}

int cachesize_read(struct qimg_cache_sizes *s, const struct qimg_opts *opts, struct qimg_error *e)
{
	struct given g;

	cachesize_need(s);
	if (read_given(&g, opts, e) < 0)
		return -1;
	if (g.rule)
		divide_2015(s, &g);
	else
		divide(s, &g);
	if (choose_entry(s, &g, e) < 0)
		return -1;
	s->l2_size = min_u64(s->l2_size, s->l2_full);
	s->l2_size = max_u64(round_down(s->l2_size, s->l2_entry_size), MIN_L2_ENTRIES * s->l2_entry_size);
	s->refcount_size = max_u64(round_down(s->refcount_size, s->cluster_size), min_refcount(s));
	if (s->l2_size / s->l2_entry_size > MAX_CACHE_ENTRIES)
		return error_set(e, EINVAL, "An L2 cache of %" PRIu64 " bytes in entries of %" PRIu64
				 " is too large", s->l2_size, s->l2_entry_size);
	if (s->refcount_size / s->cluster_size > MAX_CACHE_ENTRIES)
		return error_set(e, EINVAL, "A refcount cache of %" PRIu64 " bytes is too large",
				 s->refcount_size);
	s->l2_cover = cachesize_l2_cover(s, s->l2_size);
	s->refcount_cover = cachesize_refcount_cover(s, s->refcount_size);
	return 0;
}

int qimg_cache_sizes(struct qimg_cache_sizes *s, const struct qimg_opts *opts, struct qimg_error *e)
{
	if (!is_pow2(s->cluster_size) || s->cluster_size < 512 || s->cluster_size > 2 * MIB)
		return error_set(e, EINVAL, "A cluster size of %" PRIu32 " is not a power of two from 512 to "
				 "2 MiB", s->cluster_size);
	if (s->size > INT64_MAX)
		return error_set(e, EINVAL, "A disk of %" PRIu64 " bytes is too large", s->size);
	if (!is_pow2(s->refcount_bits) || s->refcount_bits > 64)
		return error_set(e, EINVAL, "Refcounts of %u bits are not possible", s->refcount_bits);
	return cachesize_read(s, opts, e);
}
