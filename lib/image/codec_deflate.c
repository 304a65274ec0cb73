// SPDX-License-Identifier: BSD-2-Clause
/*
 * Raw deflate, called zlib by the format.
 *
 * Deflating uses a window of 4 KiB, which every reader of the format can take. The default level is
 * ISA-L's third where there is ISA-L, seven times as fast as zlib's default for 6% more bytes; the levels
 * 1 to 9 are zlib's. Output depends on input and level alone.
 *
 * Inflating takes any window. The fast libraries judge whole streams; what they do not like (a stream that
 * is longer than the cluster, one that is not ended) is left to zlib, whose judgement counts.
 */
#include "image/codec_deflate.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "config.h"

#ifdef HAVE_ISAL
#include <isa-l.h>
#endif
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

enum { DEFLATE_WINDOW = -12, DEFLATE_MEMORY = 9, INFLATE_WINDOW = -15 };

struct deflate_state {
	z_stream inflate, deflate;
	bool inflate_ready, deflate_ready;
	int deflate_level;
#ifdef HAVE_ISAL
	struct isal_zstream *isal_out;
	uint8_t *isal_level;
	struct inflate_state *isal_in;
#endif
#ifdef HAVE_LIBDEFLATE
	struct libdeflate_decompressor *fast_in;
#endif
};

static struct deflate_state *state_of(struct deflate_state **s, struct qimg_error *e)
{
	if (!*s)
		*s = mem_zalloc(sizeof(**s), e);
	return *s;
}

void codec_deflate_free(struct deflate_state *s)
{
	if (!s)
		return;
	if (s->inflate_ready)
		inflateEnd(&s->inflate);
	if (s->deflate_ready)
		deflateEnd(&s->deflate);
#ifdef HAVE_ISAL
	free(s->isal_out);
	free(s->isal_level);
	free(s->isal_in);
#endif
#ifdef HAVE_LIBDEFLATE
	libdeflate_free_decompressor(s->fast_in);
#endif
	free(s);
}

/* ---- inflating ---- */

static int zlib_unpack(struct deflate_state *s, const void *src, size_t src_len, void *dst,
		       size_t dst_len, struct qimg_error *e)
{
	z_stream *z = &s->inflate;
	int rc;

	rc = s->inflate_ready ? inflateReset(z) : inflateInit2(z, INFLATE_WINDOW);
	if (rc == Z_MEM_ERROR)
		return error_nomem(e);
	if (rc != Z_OK)
		return error_set(e, EIO, "zlib cannot be used: %s", zError(rc));
	s->inflate_ready = true;
	z->next_in = (Bytef *)src;
	z->avail_in = (uInt)src_len;
	z->next_out = dst;
	z->avail_out = (uInt)dst_len;
	rc = inflate(z, Z_FINISH);
	if (z->avail_out == 0)
		return 0;
	if (rc == Z_MEM_ERROR)
		return error_nomem(e);
	if (rc == Z_STREAM_END || rc == Z_BUF_ERROR)
		return error_set(e, EIO, "Compressed data ends after %zu of %zu bytes",
				 dst_len - z->avail_out, dst_len);
	return error_set(e, EIO, "Compressed data is not a deflate stream: %s",
			 z->msg ? z->msg : zError(rc));
}

#if defined(HAVE_LIBDEFLATE)

/* False: not a stream of exactly dst_len bytes, or no memory. */
static bool fast_unpack(struct deflate_state *s, const void *src, size_t src_len, void *dst,
			size_t dst_len)
{
	size_t used, made;

	if (!s->fast_in)
		s->fast_in = libdeflate_alloc_decompressor();
	return s->fast_in &&
	       libdeflate_deflate_decompress_ex(s->fast_in, src, src_len, dst, dst_len, &used, &made) ==
	       LIBDEFLATE_SUCCESS && made == dst_len;
}

#elif defined(HAVE_ISAL)

static bool fast_unpack(struct deflate_state *s, const void *src, size_t src_len, void *dst,
			size_t dst_len)
{
	struct inflate_state *in = s->isal_in;

	if (!in)
		s->isal_in = in = malloc(sizeof(*in));
	if (!in)
		return false;
	isal_inflate_init(in);
	in->crc_flag = ISAL_DEFLATE;
	in->next_in = (uint8_t *)src;
	in->avail_in = (uint32_t)src_len;
	in->next_out = dst;
	in->avail_out = (uint32_t)dst_len;
	return isal_inflate_stateless(in) == ISAL_DECOMP_OK && in->avail_out == 0;
}

#else

static bool fast_unpack(struct deflate_state *s, const void *src, size_t src_len, void *dst,
			size_t dst_len)
{
	(void)s;
	(void)src;
	(void)src_len;
	(void)dst;
	(void)dst_len;
	return false;
}

#endif

int codec_deflate_unpack(struct deflate_state **s, const void *src, size_t src_len, void *dst,
			 size_t dst_len, struct qimg_error *e)
{
	if (!state_of(s, e))
		return -1;
	return fast_unpack(*s, src, src_len, dst, dst_len) ? 0 :
	       zlib_unpack(*s, src, src_len, dst, dst_len, e);
}

/* ---- deflating ---- */

static int zlib_pack(struct deflate_state *s, int level, const void *src, size_t src_len, void *dst,
		     size_t *dst_len, struct qimg_error *e)
{
	z_stream *z = &s->deflate;
	int rc;

	if (s->deflate_ready && s->deflate_level != level) {
		deflateEnd(z);
		s->deflate_ready = false;
	}
	rc = s->deflate_ready ? deflateReset(z)
			      : deflateInit2(z, level, Z_DEFLATED, DEFLATE_WINDOW,
					     DEFLATE_MEMORY, Z_DEFAULT_STRATEGY);
	if (rc == Z_MEM_ERROR)
		return error_nomem(e);
	if (rc != Z_OK)
		return error_set(e, EINVAL, "Compression level %d is not one of zlib's (1 to 9)", level);
	s->deflate_ready = true;
	s->deflate_level = level;
	z->next_in = (Bytef *)src;
	z->avail_in = (uInt)src_len;
	z->next_out = dst;
	z->avail_out = (uInt)*dst_len;
	rc = deflate(z, Z_FINISH);
	if (rc == Z_OK || rc == Z_BUF_ERROR)
		return 1;
	if (rc != Z_STREAM_END)
		return error_set(e, EIO, "zlib failed: %s", zError(rc));
	*dst_len -= z->avail_out;
	return 0;
}

#ifdef HAVE_ISAL

/*
 * Levels 1 and 2 are faster by a third, but what they make depends now and then on the address of their
 * state, and so on the worker that runs them.
 */
enum { ISAL_LEVEL = 3, ISAL_BUFFER = ISAL_DEF_LVL3_DEFAULT };

static int default_pack(struct deflate_state *s, const void *src, size_t src_len, void *dst,
			size_t *dst_len, struct qimg_error *e)
{
	struct isal_zstream *z;
	int rc;

	if (!s->isal_level)
		s->isal_level = mem_zalloc(ISAL_BUFFER, e);
	if (s->isal_level && !s->isal_out)
		s->isal_out = mem_zalloc(sizeof(*s->isal_out), e);
	z = s->isal_out;
	if (!s->isal_level || !z)
		return -1;
	/* Not the stateless call: that one lets an earlier cluster show in a later one. */
	isal_deflate_init(z);
	z->level = ISAL_LEVEL;
	z->level_buf = s->isal_level;
	z->level_buf_size = ISAL_BUFFER;
	z->hist_bits = -DEFLATE_WINDOW;
	z->end_of_stream = 1;
	z->next_in = (uint8_t *)src;
	z->avail_in = (uint32_t)src_len;
	z->next_out = dst;
	z->avail_out = (uint32_t)*dst_len;
	rc = isal_deflate(z);
	if (rc != COMP_OK)
		return error_set(e, EIO, "ISA-L failed to compress: error %d", rc);
	if (z->internal_state.state != ZSTATE_END)
		return 1;
	*dst_len -= z->avail_out;
	return 0;
}

#else

static int default_pack(struct deflate_state *s, const void *src, size_t src_len, void *dst,
			size_t *dst_len, struct qimg_error *e)
{
	return zlib_pack(s, Z_DEFAULT_COMPRESSION, src, src_len, dst, dst_len, e);
}

#endif

int codec_deflate_pack(struct deflate_state **s, int level, const void *src, size_t src_len,
		       void *dst, size_t *dst_len, struct qimg_error *e)
{
	if (!state_of(s, e))
		return -1;
	return level ? zlib_pack(*s, level, src, src_len, dst, dst_len, e) :
	       default_pack(*s, src, src_len, dst, dst_len, e);
}
