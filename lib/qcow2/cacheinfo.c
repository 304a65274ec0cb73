// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the caches of an image are and what they cover, as a value: what `info --cache` shows. Works from
 * the header and the open options alone, and so also for an image of which nothing else was read. Of
 * an image that is open in full, what its caches have done is told, too.
 */
#include "qcow2/qcow2.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/value.h"
#include "io/file.h"
#include "qcow2/cache.h"
#include "qcow2/cachesize.h"
#include "qcow2/option.h"
#include "qcow2/second.h"

/* Options that give the image all the cache it has a use for, for an image at that place of its chain. */
static int add_recommendation(struct qcow2 *q, const struct qimg_cache_sizes *s, struct qimg_value *info,
			      struct qimg_error *e)
{
	uint64_t rc = cachesize_refcount_need(s, file_size(q->file));
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int ret;

	if (!f)
		return error_nomem(e);
	for (unsigned i = 0; i < q->img->depth; i++)
		fputs("backing.", f);
	fprintf(f, "l2-cache-size=%" PRIu64, max_u64(s->l2_full, s->cluster_size));
	/*
	 * Only snapshots make the refcounts of the whole file matter: otherwise they are looked at one after
	 * the other, when space is allocated.
	 */
	if (q->h.nb_snapshots && cachesize_refcount_cover(s, 4 * (uint64_t)s->cluster_size) <
				 file_size(q->file)) {
		fputc(',', f);
		for (unsigned i = 0; i < q->img->depth; i++)
			fputs("backing.", f);
		fprintf(f, "refcount-cache-size=%" PRIu64, rc);
	}
	ret = fclose(f) ? error_nomem(e) : value_set_string(info, "recommendation", text, e);
	free(text);
	return ret;
}

static int add_second_level(const struct qcow2 *q, struct qimg_value *info, struct qimg_error *e)
{
	if (!q->l2_file)
		return 0;
	if (value_set_string(info, "l2-cache-file", q->l2_file, e) < 0 ||
	    value_set_int(info, "l2-cache-file-size", (int64_t)q->l2_file_size, e) < 0)
		return -1;
	return value_set_bool(info, "l2-cache-file-direct", q->l2_file_direct, e);
}

bool qcow2_cache_stats(struct qimg_image *img, enum qimg_cache which, struct qimg_cache_stats *s)
{
	struct qcow2 *q = qcow2_of(img);
	struct cache *c = which == QIMG_CACHE_L2 ? q->l2_cache : q->rc_cache;
	const struct cache_stats *from;

	if (!c)
		return false;
	from = cache_stats(c);
	*s = (struct qimg_cache_stats){
		.lookups = from->hits + from->misses,
		.hits = from->hits,
		.misses = from->misses,
		.loads = from->loads,
		.evictions = from->evictions,
		.expired = from->cleaned,
		.writebacks = from->writes,
		.second_hits = from->second_hits,
		.compact_hits = from->compact_hits,
		.ram_bytes = from->bytes,
		.file_bytes = from->second_bytes,
	};
	return true;
}

struct file *qcow2_cache_file(struct qimg_image *img)
{
	struct qcow2 *q = qcow2_of(img);

	return q->second ? second_file(q->second) : NULL;
}

static int add_counters(struct qimg_image *img, enum qimg_cache which, const char *key,
			struct qimg_value *info, struct qimg_error *e)
{
	struct qimg_cache_stats s;
	struct qimg_value *v;

	if (!qcow2_cache_stats(img, which, &s))
		return 0;
	v = value_object(e);
	if (!v)
		return -1;
	if (value_set_int(v, "lookups", (int64_t)s.lookups, e) < 0 ||
	    value_set_int(v, "hits", (int64_t)s.hits, e) < 0 ||
	    value_set_int(v, "misses", (int64_t)s.misses, e) < 0 ||
	    value_set_int(v, "loads", (int64_t)s.loads, e) < 0 ||
	    value_set_int(v, "evictions", (int64_t)s.evictions, e) < 0 ||
	    value_set_int(v, "expired", (int64_t)s.expired, e) < 0 ||
	    value_set_int(v, "writebacks", (int64_t)s.writebacks, e) < 0 ||
	    value_set_int(v, "second-hits", (int64_t)s.second_hits, e) < 0 ||
	    value_set_int(v, "compact-hits", (int64_t)s.compact_hits, e) < 0 ||
	    value_set_int(v, "ram-bytes", (int64_t)s.ram_bytes, e) < 0 ||
	    value_set_int(v, "file-bytes", (int64_t)s.file_bytes, e) < 0) {
		qimg_value_free(v);
		return -1;
	}
	return value_set(info, key, v, e);
}

int qcow2_cache_info(struct qimg_image *img, struct qimg_value *info, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	struct qimg_cache_sizes s;
	uint64_t l2 = q->no_cache ? 0 : q->l2_cache_size;

	option_cache_need(q, &s);
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "cluster-size", q->cluster_size },
		{ "l2-entry-size", q->entry_size },
		{ "l2-tables", s.l2_tables },
		{ "l2-table-cover", s.table_cover },
		{ "l2-cache-full", s.l2_full },
		{ "l2-cache-size", l2 },
		{ "l2-cache-entry-size", q->l2_entry_size },
		{ "l2-cache-compact-size", q->compact_size },
		{ "l2-cache-cover", cachesize_l2_cover(&s, l2) },
		{ "refcount-bits", q->refcount_bits },
		{ "refcount-cache-full", cachesize_refcount_need(&s, file_size(q->file)) },
		{ "refcount-cache-size", q->rc_cache_size },
		{ "refcount-cache-cover", cachesize_refcount_cover(&s, q->rc_cache_size) },
		{ "file-length", file_size(q->file) },
		{ "cache-clean-interval", q->clean_interval },
	};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (value_set_int(info, numbers[i].key, (int64_t)numbers[i].value, e) < 0)
			return -1;
	/* Two tables always have room, so that up to there a partial one is never missed. */
	if (value_set_bool(info, "rounding-matters", s.size % s.table_cover && s.l2_tables > 2, e) < 0 ||
	    value_set_bool(info, "l2-cache-shared", !q->cache_size_given && !q->no_cache, e) < 0 ||
	    value_set_bool(info, "metadata-cache", !q->no_cache, e) < 0 ||
	    add_second_level(q, info, e) < 0 ||
	    add_counters(img, QIMG_CACHE_L2, "l2-cache-counters", info, e) < 0 ||
	    add_counters(img, QIMG_CACHE_REFCOUNT, "refcount-cache-counters", info, e) < 0)
		return -1;
	return add_recommendation(q, &s, info, e);
}
