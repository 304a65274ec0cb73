// SPDX-License-Identifier: BSD-2-Clause
/*
 * Compression of single clusters: raw deflate (called zlib) and zstd.
 *
 * Output is reproducible: the parameters are fixed by the level, and nothing of an earlier cluster
 * reaches a later one. Output of inflation is bounded by the cluster, whatever the stream says.
 */
#include "image/image.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.h"
#include "base/mem.h"
#include "image/codec_deflate.h"

enum { ZSTD_LEVEL = 3 };

struct codec_ctx {
	struct deflate_state *deflate;
	ZSTD_DCtx *zstd_in;
	ZSTD_CCtx *zstd_out;
};

struct codec_ctx *codec_new(struct qimg_error *e)
{
	return mem_zalloc(sizeof(struct codec_ctx), e);
}

void codec_free(struct codec_ctx *ctx)
{
	if (!ctx)
		return;
	codec_deflate_free(ctx->deflate);
	ZSTD_freeDCtx(ctx->zstd_in);
	ZSTD_freeCCtx(ctx->zstd_out);
	free(ctx);
}

/*
 * Whole frames go straight into dst, without the window a stream needs. False: not all of it came out
 * that way (the last frame is cut short or longer than the cluster).
 */
static bool zstd_inflate_frames(ZSTD_DCtx *z, const uint8_t *src, size_t src_len, uint8_t *dst,
				size_t dst_len)
{
	while (dst_len) {
		size_t frame = ZSTD_findFrameCompressedSize(src, src_len), n;

		if (ZSTD_isError(frame) || frame == 0 || frame > src_len)
			return false;
		n = ZSTD_decompressDCtx(z, dst, dst_len, src, frame);
		if (ZSTD_isError(n) || n > dst_len)
			return false;
		src += frame;
		src_len -= frame;
		dst += n;
		dst_len -= n;
	}
	return true;
}

static int zstd_inflate(struct codec_ctx *ctx, const void *src, size_t src_len, void *dst,
			size_t dst_len, struct qimg_error *e)
{
	ZSTD_inBuffer in = { .src = src, .size = src_len };
	ZSTD_outBuffer out = { .dst = dst, .size = dst_len };

	if (!ctx->zstd_in)
		ctx->zstd_in = ZSTD_createDCtx();
	if (!ctx->zstd_in)
		return error_nomem(e);
	if (zstd_inflate_frames(ctx->zstd_in, src, src_len, dst, dst_len))
		return 0;
	ZSTD_DCtx_reset(ctx->zstd_in, ZSTD_reset_session_only);
	while (out.pos < out.size) {
		size_t in_before = in.pos, out_before = out.pos;
		size_t rc = ZSTD_decompressStream(ctx->zstd_in, &out, &in);

		if (ZSTD_isError(rc))
			return error_set(e, EIO, "Compressed data is not a zstd stream: %s",
					 ZSTD_getErrorName(rc));
		if (in.pos == in_before && out.pos == out_before)
			return error_set(e, EIO, "Compressed data ends after %zu of %zu bytes",
					 out.pos, out.size);
	}
	return 0;
}

int codec_ctx_inflate(struct codec_ctx *ctx, enum codec c, const void *src, size_t src_len,
		      void *dst, size_t dst_len, struct qimg_error *e)
{
	if (src_len > INT_MAX || dst_len > INT_MAX)
		return error_set(e, EINVAL, "A compressed cluster of %zu bytes is too large", src_len);
	switch (c) {
	case CODEC_ZLIB:
		return codec_deflate_unpack(&ctx->deflate, src, src_len, dst, dst_len, e);
	case CODEC_ZSTD:
		return zstd_inflate(ctx, src, src_len, dst, dst_len, e);
	}
	return error_set(e, EINVAL, "Unknown compression type %d", (int)c);
}

static int zstd_deflate(struct codec_ctx *ctx, int level, const void *src, size_t src_len,
			void *dst, size_t *dst_len, struct qimg_error *e)
{
	size_t rc;

	if (level < 1 || level > ZSTD_maxCLevel())
		return error_set(e, EINVAL, "Compression level %d is not one of zstd's (1 to %d)", level,
				 ZSTD_maxCLevel());
	if (!ctx->zstd_out)
		ctx->zstd_out = ZSTD_createCCtx();
	if (!ctx->zstd_out)
		return error_nomem(e);
	rc = ZSTD_CCtx_reset(ctx->zstd_out, ZSTD_reset_session_and_parameters);
	if (!ZSTD_isError(rc))
		rc = ZSTD_CCtx_setParameter(ctx->zstd_out, ZSTD_c_compressionLevel, level);
	if (ZSTD_isError(rc))
		return error_set(e, EIO, "zstd failed: %s", ZSTD_getErrorName(rc));
	rc = ZSTD_compress2(ctx->zstd_out, dst, *dst_len, src, src_len);
	if (ZSTD_getErrorCode(rc) == ZSTD_error_dstSize_tooSmall)
		return 1;
	if (ZSTD_isError(rc))
		return error_set(e, EIO, "zstd failed: %s", ZSTD_getErrorName(rc));
	*dst_len = rc;
	return 0;
}

int codec_ctx_deflate(struct codec_ctx *ctx, enum codec c, int level, const void *src,
		      size_t src_len, void *dst, size_t *dst_len, struct qimg_error *e)
{
	if (src_len > INT_MAX || *dst_len > INT_MAX)
		return error_set(e, EINVAL, "A cluster of %zu bytes is too large", src_len);
	switch (c) {
	case CODEC_ZLIB:
		return codec_deflate_pack(&ctx->deflate, level, src, src_len, dst, dst_len, e);
	case CODEC_ZSTD:
		return zstd_deflate(ctx, level ? level : ZSTD_LEVEL, src, src_len, dst, dst_len, e);
	}
	return error_set(e, EINVAL, "Unknown compression type %d", (int)c);
}

int codec_inflate(enum codec c, const void *src, size_t src_len, void *dst, size_t dst_len,
		  struct qimg_error *e)
{
	struct codec_ctx *ctx = codec_new(e);
	int rc;

	if (!ctx)
		return -1;
	rc = codec_ctx_inflate(ctx, c, src, src_len, dst, dst_len, e);
	codec_free(ctx);
	return rc;
}

int codec_deflate(enum codec c, int level, const void *src, size_t src_len, void *dst,
		  size_t *dst_len, struct qimg_error *e)
{
	struct codec_ctx *ctx = codec_new(e);
	int rc;

	if (!ctx)
		return -1;
	rc = codec_ctx_deflate(ctx, c, level, src, src_len, dst, dst_len, e);
	codec_free(ctx);
	return rc;
}
