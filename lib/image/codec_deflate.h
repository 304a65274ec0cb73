/* SPDX-License-Identifier: BSD-2-Clause */
/* Raw deflate streams, with whatever library there is for them. */
#ifndef IMAGE_CODEC_DEFLATE_H
#define IMAGE_CODEC_DEFLATE_H

#include <stddef.h>

struct qimg_error;
struct deflate_state;		/* reusable; made on first use */

/* As codec_ctx_inflate and codec_ctx_deflate (image.h). */
int codec_deflate_unpack(struct deflate_state **s, const void *src, size_t src_len, void *dst,
			 size_t dst_len, struct qimg_error *e);
int codec_deflate_pack(struct deflate_state **s, int level, const void *src, size_t src_len,
		       void *dst, size_t *dst_len, struct qimg_error *e);
void codec_deflate_free(struct deflate_state *s);	/* NULL is allowed */

#endif
