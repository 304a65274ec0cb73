// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reading compressed clusters: the compressed bytes are read, inflated by a worker (or here, when nothing
 * else is to be done meanwhile), and handed out.
 *
 * The cluster that was inflated last for a part of it is kept, so that reading it piece by piece inflates
 * it once. It is known by its image and host offset, and forgotten before anything changes; what was
 * read before that is not kept after it.
 */
#include "image/request_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"

enum { WORKERS_MAX = 256 };		/* beyond them a context is made for each job */

struct inflated {
	const struct qimg_image *of;	/* NULL: nothing is kept */
	uint64_t host;
	uint8_t *data;
	uint64_t generation;		/* of the content: rises when something changes */
	struct codec_ctx *owner;
	/* Each slot is its worker's alone. */
	struct codec_ctx *workers[WORKERS_MAX];
};

struct inflating {
	struct loop_io io;
	struct loop_job job;
	struct request *r;
	struct qimg_image *of;
	struct inflated *keep;
	uint64_t generation;
	unsigned *grace;
	uint64_t start, host;		/* guest and host offset of what is read */
	uint32_t cluster;
	uint8_t *packed, *whole;	/* whole: NULL when it goes straight to `to` */
	size_t packed_len;
	uint8_t *to;
	size_t len;
	int rc;
	struct qimg_error error;
};

struct inflated *packed_codecs(struct requests *rs, struct qimg_error *e)
{
	if (!rs->inflated)
		rs->inflated = mem_zalloc(sizeof(*rs->inflated), e);
	return rs->inflated;
}

static struct codec_ctx *codec_of(struct inflated *c, unsigned worker, struct qimg_error *e)
{
	struct codec_ctx **slot = worker == JOB_OWNER ? &c->owner : &c->workers[worker];

	if (!*slot)
		*slot = codec_new(e);
	return *slot;
}

static int inflate(struct inflated *c, unsigned worker, enum codec codec, const void *src,
		   size_t src_len, void *dst, size_t dst_len, struct qimg_error *e)
{
	struct codec_ctx *ctx;

	if (worker != JOB_OWNER && worker >= WORKERS_MAX)
		return codec_inflate(codec, src, src_len, dst, dst_len, e);
	ctx = codec_of(c, worker, e);
	return ctx ? codec_ctx_inflate(ctx, codec, src, src_len, dst, dst_len, e) : -1;
}

int packed_deflate(struct inflated *c, unsigned worker, enum codec codec, int level, const void *src,
		   size_t src_len, void *dst, size_t *dst_len, struct qimg_error *e)
{
	struct codec_ctx *ctx;

	if (worker != JOB_OWNER && worker >= WORKERS_MAX)
		return codec_deflate(codec, level, src, src_len, dst, dst_len, e);
	ctx = codec_of(c, worker, e);
	return ctx ? codec_ctx_deflate(ctx, codec, level, src, src_len, dst, dst_len, e) : -1;
}

void packed_forget(struct qimg_image *img)
{
	struct inflated *c = img->requests ? img->requests->inflated : NULL;

	if (!c)
		return;
	c->of = NULL;
	c->generation++;
}

void packed_free(struct requests *rs)
{
	struct inflated *c = rs->inflated;

	if (!c)
		return;
	for (unsigned i = 0; i < WORKERS_MAX; i++)
		codec_free(c->workers[i]);
	codec_free(c->owner);
	free(c->data);
	free(c);
	rs->inflated = NULL;
}

static void finish(struct inflating *i)
{
	struct request *r = i->r;

	free(i->packed);
	free(i->whole);
	free(i);
	request_part_ended(r);
}

static void inflate_run(struct pool_job *job, unsigned worker)
{
	struct inflating *i = container(job, struct inflating, job.job);

	i->rc = inflate(i->keep, worker, i->of->codec, i->packed, i->packed_len,
			       i->whole ? i->whole : i->to, i->cluster, &i->error);
}

static void inflate_ended(struct loop_job *job)
{
	struct inflating *i = container(job, struct inflating, job);
	struct inflated *c = i->keep;

	if (i->rc < 0) {
		error_prefix(&i->error, "'%s': the compressed cluster at guest offset 0x%" PRIx64
			     " cannot be read", i->of->name, round_down(i->start, i->cluster));
		request_fail(i->r, &i->error);
	} else if (i->whole) {
		memcpy(i->to, i->whole + (i->start & (i->cluster - 1)), i->len);
		if (c->generation == i->generation) {
			free(c->data);
			c->data = i->whole;
			c->of = i->of;
			c->host = i->host;
			i->whole = NULL;
		}
	}
	finish(i);
}

static void read_ended(struct loop_io *io)
{
	struct inflating *i = container(io, struct inflating, io);

	--*i->grace;
	if (io->req.code) {
		request_fail(i->r, &io->error);
		finish(i);
		return;
	}
	i->job.job.run = inflate_run;
	i->job.done = inflate_ended;
	transfer_job(i->r, &i->job);
}

int packed_start(struct request *r, const struct extent *x, uint8_t *buf)
{
	struct qimg_error *e = &r->io->error;
	struct inflated *c = packed_codecs(r->rs, e);
	uint32_t cluster = x->image->cluster_size;
	uint64_t end = file_size(x->file), at = x->start & (cluster - 1);
	struct inflating *i;

	if (!c)
		return -1;
	if (c->of == x->image && c->host == x->host) {
		memcpy(buf, c->data + at, x->len);
		return 0;
	}
	if (x->host >= end)
		return error_set(e, EIO, "'%s': the compressed cluster at guest offset 0x%" PRIx64 " lies "
				 "at 0x%" PRIx64 ", beyond the end of the file", x->image->name,
				 round_down(x->start, cluster), x->host);
	i = mem_alloc(sizeof(*i), e);
	if (!i)
		return -1;
	/* Its length is counted in sectors, and the last sector may not be there in full. */
	i->packed_len = min_u64(x->packed, end - x->host);
	i->packed = mem_buffer(i->packed_len, e);
	i->whole = x->len < cluster ? mem_buffer(cluster, e) : NULL;
	if (!i->packed || (x->len < cluster && !i->whole)) {
		free(i->packed);
		free(i->whole);
		free(i);
		return -1;
	}
	i->r = r;
	i->of = x->image;
	i->keep = c;
	i->generation = c->generation;
	i->start = x->start;
	i->host = x->host;
	i->cluster = cluster;
	i->to = buf;
	i->len = x->len;
	i->io.req = (struct ioq_req){ .op = IOQ_READ, .file = x->file, .off = x->host,
				      .buf = i->packed, .len = i->packed_len };
	i->io.done = read_ended;
	i->grace = transfer_grace(x->image);
	request_part(r);
	loop_io(r->rs->loop, &i->io);
	return 0;
}
