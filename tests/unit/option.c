// SPDX-License-Identifier: BSD-2-Clause
/* lib/qcow2/option: what the cache options and their defaults come to. */
#include "base/bytes.h"
#include "base/error.h"
#include "base/opts.h"
#include "qcow2/option.h"
#include "qcow2/qcow2.h"
#include "tap.h"

static struct qimg_error e;
static struct qimg_image img;
static char *second;		/* l2_file of the last, freed with the next */

/* An image of that size and those cluster bits, opened with `list`. */
static int read_options(struct qcow2 *q, uint64_t size, unsigned bits, bool extended, const char *list)
{
	struct qimg_opts *o = qimg_opts_new();
	int ret;

	memset(q, 0, sizeof(*q));
	q->img = &img;
	q->h.version = 3;
	q->h.size = size;
	q->cluster_bits = bits;
	q->cluster_size = 1u << bits;
	q->extended = extended;
	q->entry_size = extended ? 16 : 8;
	q->refcount_bits = 16;
	ret = *list ? qimg_opts_parse(o, list, &e) : 0;
	if (ret == 0)
		ret = option_read(q, o, &e);
	qimg_opts_free(o);
	free(second);
	second = q->l2_file;
	return ret;
}

static void test_caches(void)
{
	static const struct {
		uint64_t size;
		unsigned bits;
		const char *list;
		uint64_t l2, entry, refcounts;
	} cases[] = {
		/* 4 GiB in clusters of 64K has 512 KiB of L2 tables */
		{ 4 * GIB, 16, "", 512 * KIB, 65536, 262144 },
		{ 4 * GIB, 16, "l2-cache-size=512k", 512 * KIB, 65536, 262144 },
		{ 4 * GIB, 16, "l2-cache-size=400k", 400 * KIB, 4096, 262144 },
		{ 4 * GIB, 16, "l2-cache-size=64k", 64 * KIB, 4096, 262144 },
		{ 4 * GIB, 16, "l2-cache-size=1G", 512 * KIB, 65536, 262144 },
		{ 4 * GIB, 16, "cache-size=256k", 8192, 4096, 262144 },
		{ 4 * GIB, 16, "cache-size=1M", 512 * KIB, 65536, 512 * KIB },
		{ 4 * GIB, 16, "cache-size=1M,l2-cache-size=256k", 256 * KIB, 4096, 768 * KIB },
		{ 4 * GIB, 16, "cache-size=1M,refcount-cache-size=768k", 256 * KIB, 4096, 768 * KIB },
		{ 4 * GIB, 16, "l2-cache-size=0", 8192, 4096, 262144 },
		{ 4 * GIB, 16, "l2-cache-entry-size=512,l2-cache-size=0", 1024, 512, 262144 },
		{ 4 * GIB, 16, "refcount-cache-size=1", 512 * KIB, 65536, 262144 },
		/* 1 TiB needs 128 MiB: the limit of 32 */
		{ TIB, 16, "", 32 * MIB, 4096, 262144 },
		{ TIB, 16, "l2-cache-size=1G", 128 * MIB, 65536, 262144 },
		/* tables count whole */
		{ GIB + 1, 16, "", 192 * KIB, 65536, 262144 },
		{ 4 * GIB, 9, "", 32 * MIB, 512, 2048 },
		{ 64 * MIB, 9, "", MIB, 512, 2048 },
		{ 0, 16, "", 131072, 65536, 262144 },
	};
	struct qcow2 q;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (!ok(read_options(&q, cases[i].size, cases[i].bits, false, cases[i].list) == 0 &&
				q.l2_cache_size == cases[i].l2 && q.l2_entry_size == cases[i].entry &&
				q.rc_cache_size == cases[i].refcounts,
			"%" PRIu64 " MiB, 2^%u: '%s'", cases[i].size >> 20, cases[i].bits,
			cases[i].list))
			diag("L2 %" PRIu64 " in pieces of %" PRIu64 ", refcounts %" PRIu64,
			     q.l2_cache_size, q.l2_entry_size, q.rc_cache_size);
	}
	ok(read_options(&q, 4 * GIB, 16, true, "") == 0 && q.l2_cache_size == MIB,
	   "extended entries are twice as long");
}

static void test_flags(void)
{
	struct qcow2 q;

	img.flags = 0;
	ok(read_options(&q, GIB, 16, false, "") == 0 && !q.lazy_refcounts && !q.discard_passed[0] &&
		   q.discard_passed[1] && !q.discard_passed[2], "defaults");
	img.flags = QIMG_OPEN_UNMAP;
	ok(read_options(&q, GIB, 16, false, "") == 0 && q.discard_passed[0],
	   "discard=unmap passes requests on");
	ok(read_options(&q, GIB, 16, false,
			"pass-discard-request=off,pass-discard-snapshot=off,pass-discard-other=on") == 0 &&
		   !q.discard_passed[0] && !q.discard_passed[1] && q.discard_passed[2],
	   "what is asked for");
	ok(read_options(&q, GIB, 16, false, "lazy-refcounts=on") == 0 && q.lazy_refcounts,
	   "lazy-refcounts");
	ok(read_options(&q, GIB, 16, false, "l2-cache-sise=1M") < 0 && strstr(e.msg, "l2-cache-sise"),
	   "unknown options are named");
	ok(option_read(&q, NULL, &e) == 0, "no options at all");
	ok(read_options(&q, GIB, 16, false, "") == 0 && !q.discard_no_unref, "discard-no-unref is off");
	ok(read_options(&q, GIB, 16, false, "discard-no-unref=on") == 0 && q.discard_no_unref,
	   "and can be on");
}

static void test_behaviour_of_caches(void)
{
	struct qcow2 q;

	img.flags = 0;
	ok(read_options(&q, GIB, 16, false, "") == 0 && !q.cache_size_given && q.clean_interval == 600 &&
		   !q.no_cache && q.metadata_depth == 0 && !q.l2_file, "defaults");
	ok(read_options(&q, GIB, 16, false, "l2-cache-size=1M") == 0 && q.cache_size_given,
	   "a size that was given");
	ok(read_options(&q, GIB, 16, false, "cache-size=1M") == 0 && q.cache_size_given,
	   "for both");
	ok(read_options(&q, GIB, 16, false, "refcount-cache-size=1M,l2-cache-entry-size=4k") == 0 &&
		   !q.cache_size_given, "none for L2");
	ok(read_options(&q, GIB, 16, false, "cache-rule=2015") == 0 && q.cache_size_given &&
		   q.clean_interval == 0, "in 2015 sizes were fixed and nothing was dropped");
	ok(read_options(&q, GIB, 16, false, "cache-rule=2015,cache-clean-interval=900") == 0 &&
		   q.clean_interval == 900, "unless asked for");
	ok(read_options(&q, GIB, 16, false, "cache-clean-interval=4294967295") == 0 &&
		   q.clean_interval == UINT32_MAX, "a very long interval");
	ok(read_options(&q, GIB, 16, false, "cache-clean-interval=0") == 0 && q.clean_interval == 0,
	   "none");
	ok(read_options(&q, GIB, 16, false, "metadata-depth=1") == 0 && q.metadata_depth == 1, "depth");
	ok(read_options(&q, GIB, 16, false, "metadata-depth=0") < 0, "%s", e.msg);
	ok(read_options(&q, GIB, 16, false, "metadata-cache=off") == 0 && q.no_cache, "no cache");
	ok(read_options(&q, GIB, 16, false, "metadata-cache=on,l2-cache-size=1M") == 0 && !q.no_cache,
	   "a cache");
	ok(read_options(&q, GIB, 16, false, "metadata-cache=off,l2-cache-entry-size=512,"
		   "refcount-cache-size=1M") == 0 && q.no_cache && q.l2_entry_size == 512,
	   "what is read without a cache can be chosen");
}

static void test_second_level(void)
{
	struct qcow2 q;

	ok(read_options(&q, 40 * GIB, 16, false, "l2-cache-file=/a/b") == 0 && !strcmp(q.l2_file, "/a/b") &&
		   q.l2_file_size == 5 * MIB && q.l2_file_direct && q.l2_cache_size == MIB &&
		   !q.cache_size_given, "a second level has all tables, memory some");
	ok(read_options(&q, 40 * GIB, 16, false, "l2-cache-file=x,l2-cache-file-size=1G,"
		   "l2-cache-file-direct=off,l2-cache-size=64k") == 0 && q.l2_file_size == 5 * MIB &&
		   !q.l2_file_direct && q.l2_cache_size == 64 * KIB, "and no more than all");
	ok(read_options(&q, 40 * GIB, 16, false, "l2-cache-file=x,l2-cache-file-size=10000") == 0 &&
		   q.l2_file_size == 8192, "whole entries");
	ok(read_options(&q, 0, 16, false, "l2-cache-file=x") == 0 && q.l2_file_size == 65536,
	   "at least one");
	ok(read_options(&q, GIB, 16, false, "l2-cache-file-size=1M") < 0 && strstr(e.msg, "1M") &&
		   strstr(e.msg, "'l2-cache-file'"), "%s", e.msg);
	ok(read_options(&q, GIB, 16, false, "l2-cache-file-direct=off") < 0 && strstr(e.msg, "off") &&
		   strstr(e.msg, "'l2-cache-file'"), "%s", e.msg);
	ok(read_options(&q, GIB, 16, false, "l2-cache-file=") < 0, "%s", e.msg);
	ok(read_options(&q, 40 * GIB, 16, false, "l2-cache-file=x,l2-cache-file-size=4095") < 0 &&
		   strstr(e.msg, "4095") && strstr(e.msg, "4096"), "%s", e.msg);
}

static void test_contradictions(void)
{
	static const struct {
		const char *list, *one, *two;
	} rows[] = {
		{ "metadata-cache=off,l2-cache-size=1M", "metadata-cache' (off)", "l2-cache-size' (1M)" },
		{ "metadata-cache=no,cache-size=1M", "metadata-cache' (no)", "cache-size' (1M)" },
		{ "metadata-cache=off,l2-cache-file=x", "metadata-cache' (off)", "l2-cache-file' (x)" },
		{ "overlap-check=all,overlap-check.template=none", "'overlap-check' (all)", "template' (none)" },
		{ "cache-size=64k,l2-cache-size=128k", "(65536)", "(131072)" },
	};
	struct qcow2 q;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		ok(read_options(&q, GIB, 16, false, rows[i].list) < 0 && strstr(e.msg, rows[i].one) &&
			   strstr(e.msg, rows[i].two), "%s: %s", rows[i].list, e.msg);
}

int main(void)
{
	test_caches();
	test_flags();
	test_behaviour_of_caches();
	test_second_level();
	test_contradictions();
	free(second);
	return done_testing();
}
