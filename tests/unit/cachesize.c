// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/qcow2/cachesize: the published figures, the rules of today and of 2015, and what has to hold for all
 * cluster sizes and disks.
 */
#include "qcow2/cachesize.h"

#include "base/bytes.h"
#include "base/error.h"
#include "tap.h"

static struct qimg_error e;

static struct qimg_cache_sizes image(uint64_t size, uint32_t cluster_size)
{
	return (struct qimg_cache_sizes){ .size = size, .cluster_size = cluster_size,
					  .refcount_bits = 16 };
}

/* The sizes with the options of `list`. */
static int sizes(struct qimg_cache_sizes *s, const char *list)
{
	struct qimg_opts *o = qimg_opts_new();
	int ret = *list ? qimg_opts_parse(o, list, &e) : 0;

	if (ret == 0)
		ret = qimg_cache_sizes(s, o, &e);
	qimg_opts_free(o);
	return ret;
}

/* ---- what was published ---- */

static void rounding_up(void)
{
	static const struct {
		uint64_t mib, full;
	} rows[] = {	/* clusters of 64K: on disk as the reference preallocates them, too */
		{ 512, 64 * KIB }, { 513, 128 * KIB }, { 1280, 192 * KIB }, { 1536, 192 * KIB },
		{ 1537, 256 * KIB }, { 256 * 1024, 32 * MIB }, { 1024 * 1024, 128 * MIB },
	};
	struct qimg_cache_sizes s;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		s = image(rows[i].mib * MIB, 65536);
		ok(sizes(&s, "") == 0, "%" PRIu64 " MiB", rows[i].mib);
		is_u64(s.l2_full, rows[i].full, "takes this much");
	}
	s = image(1280 * MIB, 65536);
	sizes(&s, "l2-cache-size=1G");
	ok(s.l2_tables == 3 && s.l2_size == 192 * KIB && s.l2_entry_size == 65536 && s.l2_cover == s.size,
	   "1280 MiB get three whole tables, not two");
	sizes(&s, "l2-cache-size=128k,l2-cache-entry-size=64k");
	ok(s.l2_size == 128 * KIB && s.l2_cover == GIB, "and two when that is asked for");
}

static void multiples(void)
{
	static const struct {
		uint32_t kib;
		uint64_t multiple;
	} rows[] = {
		{ 4, 2 * MIB }, { 8, 8 * MIB }, { 16, 32 * MIB }, { 32, 128 * MIB }, { 64, 512 * MIB },
		{ 128, 2 * GIB }, { 256, 8 * GIB }, { 512, 32 * GIB }, { 1024, 128 * GIB },
		{ 2048, 512 * GIB },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct qimg_cache_sizes s = image(GIB, rows[i].kib * 1024);

		sizes(&s, "");
		is_u64(s.table_cover, rows[i].multiple, "%u KiB: cluster_size^2 / 8", rows[i].kib);
		s.extended_l2 = true;
		sizes(&s, "");
		is_u64(s.table_cover, rows[i].multiple / 2, "%u KiB, extended entries: half of that",
		       rows[i].kib);
		for (unsigned n = 1; n < 5; n++) {
			s = image(n * rows[i].multiple, rows[i].kib * 1024);
			sizes(&s, "l2-cache-size=1T");
			ok(s.l2_tables == n && s.l2_size == max_u64(n, 2) * s.cluster_size,
			   "%u times that: %u tables, a cache of at least two", n, n);
			s.size += 512;
			sizes(&s, "l2-cache-size=1T");
			is_u64(s.l2_tables, n + 1, "and a sector more: one more");
		}
	}
}

/*
 * Of a comparison of cluster sizes on 40 GB only the row of 512K was odd, by a partial table that was
 * rounded away: with extended entries. With entries of 8 bytes two tables hold it all.
 */
static void one_odd_row(void)
{
	for (uint32_t c = 65536; c <= 2 * MIB; c *= 2) {
		struct qimg_cache_sizes s = image(40 * GIB, c);

		for (unsigned bytes = 8; bytes <= 16; bytes += 8) {
			uint64_t down = max_u64(s.size / (c / bytes) / c, 2);

			s.extended_l2 = bytes == 16;
			sizes(&s, "l2-cache-size=1T");
			ok((down < s.l2_tables) == (c == 512 * KIB && bytes == 16), "40 GB, %" PRIu32 ", "
			   "entries of %u: %" PRIu64 " tables, %" PRIu64 " rounded down", c, bytes,
			   s.l2_tables, down);
		}
	}
}

static void covers(void)
{
	struct qimg_cache_sizes s = image(TIB, 65536);

	is_u64(cachesize_l2_cover(&s, MIB), 8 * GIB, "1 MiB for 8 GiB");
	is_u64(cachesize_refcount_cover(&s, 256 * KIB), 8 * GIB, "256 KiB of refcounts for 8 GiB of file");
	is_u64(cachesize_l2_cover(&s, GIB), TIB, "not more than there is");
	s.extended_l2 = true;
	is_u64(cachesize_l2_cover(&s, MIB), 4 * GIB, "extended entries: half");
	s.refcount_bits = 1;
	is_u64(cachesize_refcount_cover(&s, 65536), 32 * GIB, "refcounts of one bit");
	s.refcount_bits = 64;
	is_u64(cachesize_refcount_cover(&s, 65536), 512 * MIB, "refcounts of 64 bits");
	is_u64(cachesize_refcount_cover(&s, UINT64_MAX), INT64_MAX, "no overflow");
	is_u64(cachesize_l2_cover(&s, UINT64_MAX), TIB, "nor there");
	s = image(TIB, 65536);
	is_u64(cachesize_refcount_need(&s, GIB), 256 * KIB, "four clusters of refcounts at least");
	is_u64(cachesize_refcount_need(&s, TIB), 32 * MIB, "a file of 1 TiB has 32 MiB of refcounts");
	is_u64(cachesize_refcount_need(&s, TIB + 1), 32 * MIB + 65536, "whole blocks");
	s.refcount_bits = 1;
	is_u64(cachesize_refcount_need(&s, TIB), 2 * MIB, "of one bit");
}

/* ---- rules ---- */

struct row {
	uint64_t size;
	uint32_t cluster;
	const char *list;
	uint64_t l2, entry, refcounts;
};

static void check_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct qimg_cache_sizes s = image(rows[i].size, rows[i].cluster);

		if (!ok(sizes(&s, rows[i].list) == 0 && s.l2_size == rows[i].l2 &&
				s.l2_entry_size == rows[i].entry && s.refcount_size == rows[i].refcounts,
			"%" PRIu64 " MiB, %" PRIu32 ": '%s'", rows[i].size >> 20, rows[i].cluster,
			rows[i].list))
			diag("L2 %" PRIu64 " in pieces of %" PRIu64 ", refcounts %" PRIu64, s.l2_size,
			     s.l2_entry_size, s.refcount_size);
	}
}

static void rules_of_today(void)
{
	static const struct row rows[] = {
		/* a last piece that is not whole does not count */
		{ 4 * GIB, 65536, "l2-cache-size=401k", 400 * KIB, 4096, 256 * KIB },
		{ 4 * GIB, 65536, "l2-cache-size=100k,l2-cache-entry-size=64k", 128 * KIB, 65536, 256 * KIB },
		{ 4 * GIB, 65536, "l2-cache-size=200k,l2-cache-entry-size=64k", 192 * KIB, 65536, 256 * KIB },
		{ 4 * GIB, 65536, "refcount-cache-size=400k", 512 * KIB, 65536, 384 * KIB },
		/* all tables fit, in pieces since that is asked for */
		{ 4 * GIB, 65536, "l2-cache-entry-size=4k", 512 * KIB, 4096, 256 * KIB },
		/* what L2 does not need goes to the refcounts */
		{ 4 * GIB, 65536, "cache-size=2M,l2-cache-size=1M", 512 * KIB, 65536, 1536 * KIB },
		{ 4 * GIB, 65536, "cache-size=768k", 512 * KIB, 65536, 256 * KIB },
		{ 4 * GIB, 65536, "cache-size=767k", 508 * KIB, 4096, 256 * KIB },
		{ 4 * GIB, 65536, "cache-size=1M,refcount-cache-size=512k", 512 * KIB, 65536, 512 * KIB },
		{ 4 * GIB, 65536, "cache-size=1M,refcount-cache-size=1M", 8192, 4096, MIB },
		{ 4 * GIB, 65536, "cache-size=0", 8192, 4096, 256 * KIB },
		{ 4 * GIB, 65536, "cache-rule=current", 512 * KIB, 65536, 256 * KIB },
		/* over a second level little is kept in memory */
		{ 40 * GIB, 65536, "l2-cache-file=x", MIB, 4096, 256 * KIB },
		{ 4 * GIB, 65536, "l2-cache-file=x", 512 * KIB, 65536, 256 * KIB },
		{ 40 * GIB, 65536, "l2-cache-file=x,l2-cache-size=2M", 2 * MIB, 4096, 256 * KIB },
		/* clusters below the size of a piece, and above the default size of the cache */
		{ GIB, 1024, "l2-cache-size=10k", 10 * KIB, 1024, 4096 },
		{ 16 * TIB, 2 * MIB, "", 32 * MIB, 4096, 8 * MIB },
		{ 8 * TIB, 2 * MIB, "", 32 * MIB, 2 * MIB, 8 * MIB },
	};

	check_rows(rows, ARRAY_SIZE(rows));
}

static void rules_of_2015(void)
{
	static const struct row rows[] = {
		/* three that are equivalent, as published */
		{ 20 * GIB, 65536, "cache-rule=2015,l2-cache-size=2097152", 2 * MIB, 65536, 512 * KIB },
		{ 20 * GIB, 65536, "cache-rule=2015,refcount-cache-size=524288", 2 * MIB, 65536, 512 * KIB },
		{ 20 * GIB, 65536, "cache-rule=2015,cache-size=2621440", 2 * MIB, 65536, 512 * KIB },
		{ 1024 * GIB, 65536, "cache-rule=2015,l2-cache-size=4194304,refcount-cache-size=262144",
		  4 * MIB, 65536, 256 * KIB },
		/* the published sizes */
		{ 20 * GIB, 65536, "cache-rule=2015", MIB, 65536, 256 * KIB },
		{ 20 * GIB, 65536, "cache-rule=2015,l2-cache-size=1.5M", 1536 * KIB, 65536, 384 * KIB },
		{ 20 * GIB, 65536, "cache-rule=2015,l2-cache-size=2.5M", 2560 * KIB, 65536, 640 * KIB },
		/* any two */
		{ 20 * GIB, 65536, "cache-rule=2015,cache-size=2M,l2-cache-size=1M", MIB, 65536, MIB },
		{ 20 * GIB, 65536, "cache-rule=2015,cache-size=2M,refcount-cache-size=512k", 1536 * KIB, 65536,
		  512 * KIB },
		/* the cap, the minimum, large clusters, and pieces only when they are asked for */
		{ GIB, 65536, "cache-rule=2015,l2-cache-size=4M", 128 * KIB, 65536, MIB },
		{ 20 * GIB, 65536, "cache-rule=2015,l2-cache-size=0", 128 * KIB, 65536, 256 * KIB },
		{ 1024 * GIB, 262144, "cache-rule=2015", 2 * MIB, 262144, MIB },
		{ 20 * GIB, 65536, "cache-rule=2015,l2-cache-entry-size=4k", MIB, 4096, 256 * KIB },
	};

	check_rows(rows, ARRAY_SIZE(rows));
}

static void contradictions(void)
{
	static const struct {
		const char *list, *one, *two;
	} rows[] = {
		{ "cache-size=1M,l2-cache-size=2M", "1048576", "2097152" },
		{ "cache-size=1M,refcount-cache-size=2M", "1048576", "2097152" },
		{ "cache-size=3M,l2-cache-size=1M,refcount-cache-size=2M", "1048576", "2097152" },
		{ "l2-cache-entry-size=128k", "131072", "65536" },
		{ "l2-cache-entry-size=1000", "1000", "power of two" },
		{ "l2-cache-entry-size=256", "256", "between 512" },
		{ "l2-cache-entry-size=0", "l2-cache-entry-size", "power of two" },
		{ "l2-cache-size=x", "l2-cache-size", "x" },
		{ "cache-rule=2016", "current or 2015", "2016" },
		{ "refcount-cache-size=1000T", "too large", "refcount" },
		{ "cache-rule=2015,refcount-cache-size=7E", "too large", "refcount" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct qimg_cache_sizes s = image(20 * GIB, 65536);

		ok(sizes(&s, rows[i].list) < 0 && strstr(e.msg, rows[i].one) && strstr(e.msg, rows[i].two),
		   "%s: %s", rows[i].list, e.msg);
	}
}

static void bad_images(void)
{
	struct qimg_cache_sizes s = image(GIB, 0);

	ok(sizes(&s, "") < 0, "no clusters: %s", e.msg);
	s = image(GIB, 3000);
	ok(sizes(&s, "") < 0, "odd clusters: %s", e.msg);
	s = image(GIB, 4 * MIB);
	ok(sizes(&s, "") < 0, "large clusters: %s", e.msg);
	s = image(UINT64_MAX, 65536);
	ok(sizes(&s, "") < 0, "a large disk: %s", e.msg);
	s = image(GIB, 65536);
	s.refcount_bits = 3;
	ok(sizes(&s, "") < 0, "odd refcounts: %s", e.msg);
	s.refcount_bits = 0;
	ok(sizes(&s, "") < 0, "no refcounts: %s", e.msg);
	s = image(0, 65536);
	ok(sizes(&s, "") == 0 && s.l2_tables == 0 && s.l2_size == 131072 && s.l2_cover == 0,
	   "a disk of no size has a cache of two tables");
	s = image(INT64_MAX, 512);
	ok(sizes(&s, "l2-cache-size=1G") == 0 && s.l2_size == GIB, "the largest disk: no overflow");
	ok(sizes(&s, "l2-cache-size=7E") < 0, "but not any cache: %s", e.msg);
}

/* ---- what always holds ---- */

/* The rule of today for the cache of L2 tables, said another way. */
static uint64_t expected_l2(const struct qimg_cache_sizes *s, uint64_t asked, uint64_t *entry)
{
	uint64_t tables = 0, all;

	for (uint64_t at = 0; at < s->size; at += s->table_cover)
		tables++;
	all = tables * s->cluster_size;
	*entry = asked >= all || s->cluster_size < 4096 ? s->cluster_size : 4096;
	if (asked > all)
		asked = all;
	asked -= asked % *entry;
	return asked < 2 * *entry ? 2 * *entry : asked;
}

static void always(void)
{
	unsigned bad = 0, count = 0;

	for (unsigned bits = 9; bits <= 21; bits++) {
		for (unsigned n = 0; n < 40 * 30; n++) {
			uint64_t quarters = n % 40, asked = ((uint64_t)n / 40) << (bits - 2), entry, l2;
			struct qimg_cache_sizes s = image(0, 1u << bits);
			char list[64];

			s.extended_l2 = bits >= 14 && n % 3 == 0;
			cachesize_need(&s);
			/* in quarters of a table, with a sector more or less */
			s.size = quarters * s.table_cover / 4;
			if (n % 7 == 1)
				s.size += 512;
			else if (n % 7 == 2 && s.size)
				s.size -= 512;
			snprintf(list, sizeof(list), "l2-cache-size=%" PRIu64, asked + n % 5);
			count++;
			if (sizes(&s, list) < 0) {
				bad++;
				continue;
			}
			l2 = expected_l2(&s, asked + n % 5, &entry);
			if (s.l2_size != l2 || s.l2_entry_size != entry || s.l2_size % s.l2_entry_size ||
			    s.l2_full != s.l2_tables * s.cluster_size ||
			    s.l2_tables * s.table_cover < s.size ||
			    (s.l2_tables && (s.l2_tables - 1) * s.table_cover >= s.size) ||
			    (s.l2_size >= s.l2_full && s.l2_cover != s.size))
				bad++;
			if (s.l2_size < s.l2_full && s.l2_cover != l2 / (s.extended_l2 ? 16 : 8) * s.cluster_size &&
			    s.l2_cover != s.size)
				bad++;
		}
	}
	is_u64(bad, 0, "%u combinations of cluster, disk and cache", count);
}

/* More memory never covers less. */
static void monotonic(void)
{
	unsigned bad = 0;

	for (unsigned bits = 9; bits <= 21; bits++) {
		struct qimg_cache_sizes s = image(5 * GIB + 512, 1u << bits), last = s;

		s.extended_l2 = bits == 15;
		for (unsigned kib = 0; kib < 4096; kib += 3) {
			char list[64];

			snprintf(list, sizeof(list), "l2-cache-size=%uk", kib);
			if (sizes(&s, list) < 0 || s.l2_cover < last.l2_cover)
				bad++;
			last = s;
		}
	}
	is_u64(bad, 0, "more memory never covers less");
}

int main(void)
{
	rounding_up();
	multiples();
	one_odd_row();
	covers();
	rules_of_today();
	rules_of_2015();
	contradictions();
	bad_images();
	always();
	monotonic();
	return done_testing();
}
