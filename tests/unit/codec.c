// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/image/codec: what comes out of deflating, which streams inflate, and that broken, short and
 * overlong ones are errors that write nothing beyond the cluster.
 */
#include <errno.h>
#include <zlib.h>
#include <zstd.h>

#include "image/image.h"
#include "tap.h"

#define CLUSTER (64 * 1024)

static uint8_t plain[CLUSTER], packed[2 * CLUSTER], second[2 * CLUSTER], got[CLUSTER + 16];
static struct qimg_error e;

/* Text-like: words from a small set. */
static void fill(uint8_t *p, size_t n, unsigned seed)
{
	static const char *const words[] = { "table ", "cluster ", "of ", "the ", "0123456789 ", "\n" };
	size_t at = 0;

	while (at < n) {
		const char *w;

		seed = seed * 1103515245 + 12345;
		for (w = words[(seed >> 16) % 6]; *w && at < n; w++)
			p[at++] = *w;
	}
}

static void noise(uint8_t *p, size_t n)
{
	uint64_t x = 88172645463325252ull;

	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = x >> 32;
	}
}

/* The guard bytes behind the cluster must not have been touched. */
static bool inflates(enum codec c, size_t n, size_t out)
{
	int rc;

	memset(got, 0xee, sizeof(got));
	rc = codec_inflate(c, packed, n, got, out, &e);
	for (size_t i = out; i < sizeof(got); i++)
		if (got[i] != 0xee) {
			diag("byte %zu behind the cluster was written", i - out);
			return false;
		}
	return rc == 0;
}

static void test_round_trip(enum codec c, const char *name)
{
	struct codec_ctx *ctx = codec_new(&e);
	size_t sizes[] = { 512, 4096, 32768, CLUSTER };

	for (unsigned i = 0; i < 4; i++) {
		size_t n = sizes[i] - 1, again = sizeof(packed);

		fill(plain, sizes[i], i);
		ok(codec_ctx_deflate(ctx, c, 0, plain, sizes[i], packed, &n, &e) == 0,
		   "%s: %zu bytes become smaller", name, sizes[i]);
		ok(inflates(c, n, sizes[i]) && !memcmp(got, plain, sizes[i]), "%s: and come back", name);
		ok(codec_deflate(c, 0, plain, sizes[i], second, &again, &e) == 0 && again == n &&
		   !memcmp(second, packed, n), "%s: a fresh context gives the same bytes", name);
		memset(packed + n, 0xa5, 1000);
		ok(inflates(c, n + 1000, sizes[i]) && !memcmp(got, plain, sizes[i]),
		   "%s: what follows the stream does not matter", name);
		ok(!inflates(c, n / 2, sizes[i]) && e.code == EIO, "%s: half a stream is an error", name);
		ok(!inflates(c, n, sizes[i] + 1) && e.code == EIO,
		   "%s: a stream that ends early is an error", name);
		ok(inflates(c, n, sizes[i] - 100) && !memcmp(got, plain, sizes[i] - 100),
		   "%s: a longer stream fills the cluster and stops", name);
	}
	noise(plain, CLUSTER);
	for (size_t room = CLUSTER - 1; room; room /= 16) {
		size_t n = room;

		ok(codec_ctx_deflate(ctx, c, 0, plain, CLUSTER, packed, &n, &e) == 1,
		   "%s: noise does not fit into %zu bytes", name, room);
	}
	noise(packed, sizeof(packed));
	ok(!inflates(c, sizeof(packed), CLUSTER) && e.code == EIO, "%s: noise is an error", name);
	ok(!inflates(c, 0, CLUSTER) && e.code == EIO, "%s: nothing is an error", name);
	codec_free(ctx);
}

/* What the format asks for: no header, and a window that 12 bits hold but 11 do not. */
static void test_deflate_format(void)
{
	for (int bits = 11; bits <= 12; bits++) {
		z_stream z = { 0 };
		size_t n = CLUSTER;
		int rc;

		/* A repetition at a distance between 2 and 4 KiB. */
		noise(plain, 3000);
		for (size_t i = 3000; i < CLUSTER; i++)
			plain[i] = plain[i - 3000];
		codec_deflate(CODEC_ZLIB, 0, plain, CLUSTER, packed, &n, &e);
		inflateInit2(&z, -bits);
		z.next_in = packed;
		z.avail_in = n;
		z.next_out = got;
		/* In small pieces, so that what lies further back has to come from the window. */
		do {
			z.avail_out = 512;
			rc = inflate(&z, Z_NO_FLUSH);
		} while (rc == Z_OK && z.total_out < CLUSTER);
		inflateEnd(&z);
		ok((rc == Z_STREAM_END) == (bits == 12), "deflate: window of %d bits: %d", bits, rc);
	}
}

static size_t zlib_with(int window, const uint8_t *p, size_t n)
{
	z_stream z = { 0 };

	deflateInit2(&z, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
	z.next_in = (uint8_t *)p;
	z.avail_in = n;
	z.next_out = packed;
	z.avail_out = sizeof(packed);
	deflate(&z, Z_FINISH);
	n = z.total_out;
	deflateEnd(&z);
	return n;
}

static void test_foreign_streams(void)
{
	size_t n, half = CLUSTER / 2;
	ZSTD_CCtx *z = ZSTD_createCCtx();
	ZSTD_inBuffer in;
	ZSTD_outBuffer out;

	fill(plain, CLUSTER, 7);
	memcpy(plain + CLUSTER - 512, plain, 512);
	n = zlib_with(-15, plain, CLUSTER);
	ok(inflates(CODEC_ZLIB, n, CLUSTER) && !memcmp(got, plain, CLUSTER), "deflate: window of 15 bits");
	n = zlib_with(15, plain, CLUSTER);
	ok(!inflates(CODEC_ZLIB, n, CLUSTER), "deflate: a zlib header does not belong there");

	n = ZSTD_compress(packed, sizeof(packed), plain, half, 1);
	n += ZSTD_compress(packed + n, sizeof(packed) - n, plain + half, half, 19);
	ok(inflates(CODEC_ZSTD, n, CLUSTER) && !memcmp(got, plain, CLUSTER), "zstd: two frames");
	memset(packed + n, 0, 700);
	ok(inflates(CODEC_ZSTD, n + 700, CLUSTER) && !memcmp(got, plain, CLUSTER),
	   "zstd: two frames and padding");
	ok(!inflates(CODEC_ZSTD, n - 5, CLUSTER), "zstd: the second frame cut off");

	for (int checksum = 0; checksum < 2; checksum++) {
		ZSTD_CCtx_reset(z, ZSTD_reset_session_and_parameters);
		ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0);
		ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, checksum);
		in = (ZSTD_inBuffer){ plain, CLUSTER, 0 };
		out = (ZSTD_outBuffer){ packed, sizeof(packed), 0 };
		while (ZSTD_compressStream2(z, &out, &in, ZSTD_e_flush) > 0)
			;
		ZSTD_compressStream2(z, &out, &in, ZSTD_e_end);
		ok(inflates(CODEC_ZSTD, out.pos, CLUSTER) && !memcmp(got, plain, CLUSTER),
		   "zstd: no content size, checksum %d", checksum);
		ok(inflates(CODEC_ZSTD, out.pos - 1 - 4 * checksum, CLUSTER),
		   "zstd: the data is complete before the frame is, checksum %d", checksum);
	}
	ZSTD_freeCCtx(z);

	n = CLUSTER;
	ok(codec_deflate(CODEC_ZSTD, 0, plain, CLUSTER, packed, &n, &e) == 0 &&
	   n == ZSTD_findFrameCompressedSize(packed, n) &&
	   ZSTD_getFrameContentSize(packed, n) == CLUSTER && !(packed[4] & 4),
	   "zstd: one frame with its size and without a checksum");
}

/* A worker's context has seen other clusters before: none of them may show. */
static void test_reproducible(enum codec c, const char *name)
{
	struct codec_ctx *ctx = codec_new(&e);
	unsigned differ = 0;

	for (unsigned i = 0; i < 200; i++) {
		size_t n = CLUSTER - 1, m = CLUSTER - 1;
		int level = i % 10 == 9 ? 6 : 0, rc;

		fill(plain, CLUSTER, i % 3 ? i : 1);
		if (i % 4 == 0)
			noise(plain + i * 100, CLUSTER / (2 + i % 7) - i * 10);
		rc = codec_ctx_deflate(ctx, c, level, plain, CLUSTER, packed, &n, &e);
		differ += rc != codec_deflate(c, level, plain, CLUSTER, second, &m, &e) ||
			  (rc == 0 && (n != m || memcmp(packed, second, n)));
	}
	is_u64(differ, 0, "%s: what was compressed before does not show", name);
	codec_free(ctx);
}

/* Nor may the place in memory where a worker keeps its context. */
static void test_addresses(void)
{
	enum { CONTEXTS = 48, SMALL = 4096 };
	struct codec_ctx *ctx[CONTEXTS];
	void *gap[CONTEXTS];
	unsigned differ = 0;

	for (unsigned i = 0; i < CONTEXTS; i++) {
		gap[i] = malloc(1 + i * 5000);
		ctx[i] = codec_new(&e);
	}
	for (unsigned c = 1; c < 1024; c += 3) {
		size_t n = SMALL - 1;

		for (unsigned i = 0; i < SMALL; i++)
			plain[i] = c * i >> 7;
		if (codec_ctx_deflate(ctx[0], CODEC_ZLIB, 0, plain, SMALL, packed, &n, &e) != 0)
			continue;
		for (unsigned i = 1; i < CONTEXTS; i++) {
			size_t m = SMALL - 1;

			differ += codec_ctx_deflate(ctx[i], CODEC_ZLIB, 0, plain, SMALL, second, &m, &e) != 0 ||
				  n != m || memcmp(packed, second, n);
		}
	}
	is_u64(differ, 0, "deflate: all contexts make the same of a cluster");
	for (unsigned i = 0; i < CONTEXTS; i++) {
		codec_free(ctx[i]);
		free(gap[i]);
	}
}

static void test_levels(void)
{
	size_t sizes[4], n;
	static const int levels[4] = { 0, 1, 6, 9 };

	fill(plain, CLUSTER, 3);
	for (unsigned i = 0; i < 4; i++) {
		sizes[i] = CLUSTER;
		ok(codec_deflate(CODEC_ZLIB, levels[i], plain, CLUSTER, packed, &sizes[i], &e) == 0 &&
		   inflates(CODEC_ZLIB, sizes[i], CLUSTER) && !memcmp(got, plain, CLUSTER),
		   "deflate: level %d", levels[i]);
	}
	ok(sizes[3] <= sizes[2] && sizes[2] < sizes[1], "deflate: higher levels make it smaller");
	n = CLUSTER;
	ok(codec_deflate(CODEC_ZLIB, 10, plain, CLUSTER, packed, &n, &e) < 0 && e.code == EINVAL,
	   "deflate: no level 10");
	n = CLUSTER;
	ok(codec_deflate(CODEC_ZSTD, 19, plain, CLUSTER, packed, &n, &e) == 0 &&
	   inflates(CODEC_ZSTD, n, CLUSTER), "zstd: level 19");
	ok(codec_deflate(CODEC_ZSTD, 1000, plain, CLUSTER, packed, &n, &e) < 0 && e.code == EINVAL,
	   "zstd: no level 1000");
}

int main(void)
{
	test_round_trip(CODEC_ZLIB, "deflate");
	test_round_trip(CODEC_ZSTD, "zstd");
	test_deflate_format();
	test_foreign_streams();
	test_reproducible(CODEC_ZLIB, "deflate");
	test_reproducible(CODEC_ZSTD, "zstd");
	test_addresses();
	test_levels();
	ok(codec_inflate((enum codec)9, packed, 10, got, 10, &e) < 0, "an unknown codec is an error");
	return done_testing();
}
