// SPDX-License-Identifier: BSD-2-Clause
/*
 * Deflating a piece, cluster by cluster, in one of the workers: it touches nothing but its piece and the
 * codec of that worker. Clusters of zeros are set aside, what does not become smaller stays plain.
 */
#include "ops/ring.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/zero.h"
#include "image/image.h"

/* The end of the sources may lie inside a cluster whose rest is to stay: that is written plain. */
static bool may_pack(const struct piece *p, uint64_t at, uint64_t len)
{
	const struct qimg_image *target = p->ring->copy->target;

	return len == target->cluster_size || p->step.start + at + len == target->size;
}

static int deflate_one(struct piece *p, struct codec_ctx *ctx, uint64_t at, uint64_t len,
		       struct part *t)
{
	const struct copy *c = p->ring->copy;
	size_t cluster = c->target->cluster_size, packed = cluster - 1;
	int rc;

	*t = (struct part){ .kind = PART_PLAIN, .off = at, .len = (uint32_t)len };
	if (!may_pack(p, at, len))
		return 0;
	/* The buffer has room for whole clusters. */
	memset(p->buf + at + len, 0, cluster - len);
	rc = codec_ctx_deflate(ctx, c->target->codec, c->level, p->buf + at, cluster, p->packed + at,
			       &packed, &p->error);
	if (rc == 0) {
		t->kind = PART_PACKED;
		t->packed = (uint32_t)packed;
	}
	return rc < 0 ? -1 : 0;
}

/* A run of zeros from `at` on that is to be a hole; 0: there is none. */
static uint64_t hole_at(const struct piece *p, uint64_t at)
{
	const struct copy *c = p->ring->copy;
	uint64_t run;
	bool zero;

	if (!c->sparse)
		return 0;
	run = zero_run(p->buf + at, p->step.len - at, p->ring->unit, &zero);
	return zero && (run >= c->sparse || p->step.start + at + run == c->size) ? run : 0;
}

static int deflate_all(struct piece *p, struct codec_ctx *ctx)
{
	uint64_t cluster = p->ring->copy->target->cluster_size, unit = p->ring->unit, at = 0, stop, len;

	while (at < p->step.len) {
		len = hole_at(p, at);
		if (len) {
			p->parts[p->part_count++] = (struct part){ .kind = PART_ZERO, .off = at,
								   .len = (uint32_t)len };
			at += len;
			continue;
		}
		for (stop = min_u64(at + unit, p->step.len); at < stop; at += len) {
			len = min_u64(cluster, p->step.len - at);
			if (deflate_one(p, ctx, at, len, &p->parts[p->part_count++]) < 0)
				return -1;
		}
	}
	return 0;
}

static void deflate_run(struct pool_job *job, unsigned worker)
{
	struct piece *p = (struct piece *)((char *)job - offsetof(struct piece, job.job));
	struct codec_ctx **ctx = &p->ring->codecs[worker];

	if (!*ctx)
		*ctx = codec_new(&p->error);
	p->code = *ctx ? deflate_all(p, *ctx) : -1;
}

static void deflate_done(struct loop_job *job)
{
	struct piece *p = (struct piece *)((char *)job - offsetof(struct piece, job));

	if (p->code < 0)
		ring_fail(p->ring, &p->error);
	piece_ready(p);
}

void squeeze_start(struct piece *p)
{
	struct ring *r = p->ring;
	struct qimg_error ignored;

	p->state = PIECE_DEFLATE;
	p->job.job.run = deflate_run;
	p->job.done = deflate_done;
	if (loop_job(r->loop, &p->job, &ignored) == 0)
		return;
	/* No threads to be had. */
	deflate_run(&p->job.job, r->budget.workers);
	deflate_done(&p->job);
}
