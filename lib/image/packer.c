// SPDX-License-Identifier: BSD-2-Clause
/*
 * Compressed writes: deflated by a worker, given a place in the order of submission, written, committed.
 * A cluster that would not become smaller is written plain, and gets its place in the same order.
 */
#include "image/request_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct deflating {
	struct loop_job job;
	struct request *r;
	struct inflated *codecs;
	const uint8_t *plain;
	size_t cluster, len;		/* len: of the compressed bytes */
	uint8_t *padded;		/* the last cluster of an image, or NULL */
	int rc;
	struct qimg_error error;
	uint8_t packed[];		/* cluster - 1 bytes */
};

void packer_free(struct packer *p)
{
	if (p->deflating)
		free(p->deflating->padded);
	free(p->deflating);
	p->deflating = NULL;
}

static void deflate_run(struct pool_job *job, unsigned worker)
{
	struct deflating *d = container(job, struct deflating, job.job);

	d->rc = packed_deflate(d->codecs, worker, d->r->img->codec, 0, d->plain, d->cluster, d->packed,
			       &d->len, &d->error);
}

static void deflate_ended(struct loop_job *job)
{
	struct deflating *d = container(job, struct deflating, job);

	if (d->rc < 0)
		request_fail(d->r, &d->error);
	request_part_ended(d->r);
}

static int start(struct request *r, struct packer *p)
{
	struct qimg_error *e = &r->io->error;
	size_t cluster = r->img->cluster_size;
	struct inflated *codecs = packed_codecs(r->rs, e);
	struct deflating *d = codecs ? mem_alloc(sizeof(*d) + cluster, e) : NULL;

	if (!d)
		return -1;
	p->deflating = d;
	d->r = r;
	d->codecs = codecs;
	d->plain = r->io->buf;
	d->cluster = cluster;
	d->len = cluster - 1;
	d->padded = NULL;
	if (r->len < cluster) {
		d->padded = mem_zalloc(cluster, e);
		if (!d->padded)
			return -1;
		memcpy(d->padded, r->io->buf, r->len);
		d->plain = d->padded;
	}
	d->job.job.run = deflate_run;
	d->job.done = deflate_ended;
	p->state = PACK_DEFLATE;
	request_part(r);
	transfer_job(r, &d->job);
	return 0;
}

/* The compressed bytes are there. The writer's part is to try again when space runs out. */
static void find_place(struct request *r, struct packer *p, const uint8_t *data, size_t len)
{
	p->data = data;
	p->len = len;
	p->state = PACK_PLACE;
	r->writer.safe = r->off;
	r->writer.end = r->off + r->len;
}

static int deflated(struct request *r, struct packer *p)
{
	if (r->pending)
		return STEP_WAIT;
	if (p->deflating->rc > 0) {
		packer_free(p);
		writer_init(&r->writer, r->off, r->len, r->io->buf);
		p->state = PACK_PLAIN;
		return 0;
	}
	find_place(r, p, p->deflating->packed, p->deflating->len);
	return 0;
}

bool packer_is_next(const struct request *r)
{
	for (const struct request *o = r->prev; o; o = o->prev)
		if (o->ordered && !o->placed && o->img == r->img)
			return false;
	return true;
}

static int place(struct request *r, struct packer *p)
{
	struct qimg_error *e = &r->io->error;
	struct wmap *m = &r->writer.m;
	struct transfer_spec t = { .op = IOQ_WRITE, .buf = (void *)p->data, .len = p->len };
	int rc;

	if (!packer_is_next(r))
		return turn_wait(r);
	rc = r->img->driver->pack(r->img, r->off, (uint32_t)p->len, m, turn_waits(r), e);
	rc = turn_answer(r, rc, e);
	if (rc != 0)
		return rc;
	r->placed = true;
	turn_kick(r->rs);
	r->writer.begun = true;
	p->state = PACK_COMMIT;
	t.file = m->file;
	t.off = m->host;
	return transfer_start(r, &t);
}

static int commit(struct request *r)
{
	struct qimg_error *e = &r->io->error;
	int rc;

	if (r->pending)
		return STEP_WAIT;
	rc = r->img->driver->commit(r->img, &r->writer.m, turn_waits(r), e);
	rc = turn_answer(r, rc, e);
	if (rc == STEP_WAIT)
		return rc;
	r->writer.begun = false;
	packed_forget(r->img);	/* where a cluster was that was read meanwhile, this one may be */
	return rc;
}

int packer_step(struct request *r)
{
	struct packer *p = &r->packer;
	int rc = 0;

	while (rc == 0 && !r->failed) {
		switch (p->state) {
		case PACK_START:
			if (r->op == REQUEST_PACKED) {
				find_place(r, p, r->io->buf, r->io->len);
			} else {
				rc = start(r, p);
			}
			break;
		case PACK_DEFLATE:
			rc = deflated(r, p);
			break;
		case PACK_PLACE:
			rc = place(r, p);
			break;
		case PACK_COMMIT:
			if (!r->writer.begun) {		/* given back after a failure */
				p->state = PACK_PLACE;
				break;
			}
			rc = commit(r);
			if (rc == 0)
				p->state = PACK_DONE;
			break;
		case PACK_PLAIN:
			return writer_step(r, &r->writer);
		case PACK_DONE:
			return 0;
		}
	}
	return rc;
}
