// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reading compressed clusters. The cluster inflated last is kept, so that reading it piece by piece
 * inflates it once; it is known by its image and host offset, and forgotten before anything changes.
 */
#include "image/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/ioq.h"

struct inflated {
	const struct qimg_image *of;	/* NULL: nothing is kept */
	uint64_t host;
	uint8_t *data;			/* of->cluster_size bytes in use */
	size_t data_room;
	uint8_t *packed;
	size_t packed_room;
};

void packed_forget(struct qimg_image *img)
{
	if (img->inflated)
		img->inflated->of = NULL;
}

void packed_free(struct qimg_image *img)
{
	if (!img->inflated)
		return;
	free(img->inflated->data);
	free(img->inflated->packed);
	free(img->inflated);
	img->inflated = NULL;
}

static int have_room(uint8_t **buf, size_t *room, size_t len, struct qimg_error *e)
{
	if (*room >= len)
		return 0;
	free(*buf);
	*room = 0;
	*buf = mem_buffer(len, e);
	if (!*buf)
		return -1;
	*room = len;
	return 0;
}

static int load(struct qimg_image *img, const struct extent *x, struct qimg_error *e)
{
	struct inflated *c = img->inflated;
	struct codec_ctx *ctx = image_codec(img, e);
	struct ioq *q = image_queue(img, e);
	struct ioq_req req = { .op = IOQ_READ, .file = x->file, .off = x->host };
	uint64_t end = file_size(x->file), cluster = round_down(x->start, x->image->cluster_size);

	if (!ctx || !q)
		return -1;
	if (x->host >= end)
		return error_set(e, EIO, "'%s': the compressed cluster at guest offset 0x%" PRIx64 " lies "
				 "at 0x%" PRIx64 ", beyond the end of the file", x->image->name, cluster,
				 x->host);
	/* Its length is counted in sectors, and the last sector may not be there in full. */
	req.len = min_u64(x->packed, end - x->host);
	if (have_room(&c->packed, &c->packed_room, req.len, e) < 0 ||
	    have_room(&c->data, &c->data_room, x->image->cluster_size, e) < 0)
		return -1;
	req.buf = c->packed;
	if (ioq_run(q, &req, e) < 0)
		return -1;
	if (codec_ctx_inflate(ctx, x->image->codec, c->packed, req.len, c->data,
			      x->image->cluster_size, e) < 0)
		return error_prefix(e, "'%s': the compressed cluster at guest offset 0x%" PRIx64
				    " cannot be read", x->image->name, cluster);
	return 0;
}

int packed_read(struct qimg_image *img, const struct extent *x, void *buf, size_t len,
		struct qimg_error *e)
{
	struct inflated *c = img->inflated;
	uint64_t at = x->start & (x->image->cluster_size - 1);

	if (!c) {
		c = mem_zalloc(sizeof(*c), e);
		if (!c)
			return -1;
		img->inflated = c;
	}
	if (c->of != x->image || c->host != x->host) {
		c->of = NULL;
		if (load(img, x, e) < 0)
			return -1;
		c->of = x->image;
		c->host = x->host;
	}
	memcpy(buf, c->data + at, len);
	return 0;
}
