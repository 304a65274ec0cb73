// SPDX-License-Identifier: BSD-2-Clause
/*
 * Checking an image: whether what the tables refer to can be read, and inflated. Compressed clusters are read in the
 * order of the disk, some at a time, and inflated by all CPUs; what is found is told in that order.
 */
#include "qcow2/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/pool.h"
#include "qcow2/entry.h"
#include "qcow2/qcow2.h"

#define TOGETHER 64			/* compressed clusters at most */

struct inflating {
	struct pool_job job;
	struct check_deep *d;
	struct entry en;
	uint64_t guest;
	const uint8_t *in;
	int ret;
	struct qimg_error error;
};

struct worker {
	struct codec_ctx *codec;
	uint8_t *out;			/* a cluster */
};

struct check_deep {
	struct check *c;
	const struct check_table *t;
	uint8_t *in;			/* CHECK_PIECE, and what one compressed cluster may take */
	uint64_t host, guest, len;	/* data to be read in one go */
	struct pool *pool;		/* made with the first compressed cluster */
	struct worker *worker;
	struct inflating list[TOGETHER];
	unsigned count;
	size_t used;			/* of in, by these */
};

static struct qimg_finding place(const struct check_deep *d, enum qimg_fault fault, uint64_t host, uint64_t len,
				 uint64_t guest)
{
	return (struct qimg_finding){
		.fault = fault, .has_host = true, .host = host, .host_len = len, .has_guest = true,
		.guest = guest, .guest_len = d->c->q->cluster_size, .snapshot = d->c->view[d->t->view].name,
	};
}

/* ---- plain data ---- */

/* Reads the run, and if that fails each cluster of it. */
static void read_run(struct check_deep *d)
{
	struct qcow2 *q = d->c->q;
	uint64_t size = q->cluster_size;
	struct qimg_error e;

	if (d->len && file_read(q->data, d->host, d->in, (size_t)d->len, &e) < 0) {
		for (uint64_t at = 0; at < d->len; at += size) {
			struct qimg_finding f = place(d, QIMG_FAULT_DATA, d->host + at, size, d->guest + at);

			if (file_read(q->data, d->host + at, d->in, (size_t)size, &e) < 0)
				check_tell(d->c, &f, "the data of guest offset 0x%" PRIx64 " at 0x%" PRIx64
					   " cannot be read: %s", f.guest, f.host, e.msg);
		}
	}
	d->len = 0;
}

/* ---- compressed data ---- */

static void run_inflate(struct pool_job *job, unsigned worker)
{
	struct inflating *one = (struct inflating *)((char *)job - offsetof(struct inflating, job));
	struct worker *w = &one->d->worker[worker];
	struct qcow2 *q = one->d->c->q;

	one->ret = codec_ctx_inflate(w->codec, q->img->codec, one->in, one->en.packed, w->out, q->cluster_size,
				     &one->error);
}

static int start_workers(struct check_deep *d, struct qimg_error *e)
{
	unsigned n;

	if (d->pool)
		return 0;
	if (pool_new(&d->pool, 0, e) < 0)
		return -1;
	n = pool_workers(d->pool);
	d->worker = mem_array(n, sizeof(*d->worker), e);
	for (unsigned i = 0; d->worker && i < n; i++) {
		d->worker[i].codec = codec_new(e);
		d->worker[i].out = mem_buffer(d->c->q->cluster_size, e);
		if (!d->worker[i].codec || !d->worker[i].out)
			return -1;
	}
	return d->worker ? 0 : -1;
}

static int inflate_all(struct check_deep *d, struct qimg_error *e)
{
	if (d->count && start_workers(d, e) < 0)
		return -1;
	for (unsigned i = 0; i < d->count; i++)
		if (d->list[i].ret == 0)
			pool_submit(d->pool, &d->list[i].job);
	while (d->count && pool_reap(d->pool, true))
		continue;
	for (unsigned i = 0; i < d->count; i++) {
		struct inflating *one = &d->list[i];
		struct qimg_finding f = place(d, QIMG_FAULT_INFLATE, one->en.host, one->en.packed, one->guest);

		if (one->ret < 0 && one->in)
			check_tell(d->c, &f, "the compressed cluster of guest offset 0x%" PRIx64 " at 0x%" PRIx64
				   ": %s", f.guest, f.host, one->error.msg);
		f.fault = QIMG_FAULT_DATA;
		if (!one->in)
			check_tell(d->c, &f, "the compressed data of guest offset 0x%" PRIx64 " cannot be read: %s",
				   f.guest, one->error.msg);
	}
	d->count = 0;
	d->used = 0;
	return 0;
}

static int add_packed(struct check_deep *d, const struct entry *en, uint64_t guest, struct qimg_error *e)
{
	struct inflating *one;
	uint8_t *in;

	/* The buffer is that of the other kind until then. */
	read_run(d);
	if ((d->count == TOGETHER || d->used >= CHECK_PIECE) && inflate_all(d, e) < 0)
		return -1;
	in = d->in + d->used;
	one = &d->list[d->count++];
	*one = (struct inflating){ .job.run = run_inflate, .d = d, .en = *en, .guest = guest, .in = in };
	d->used += en->packed;
	one->ret = file_read(d->c->q->data, en->host, in, en->packed, &one->error);
	if (one->ret < 0)
		one->in = NULL;
	return 0;
}

static int add_data(struct check_deep *d, uint64_t host, uint64_t guest, struct qimg_error *e)
{
	uint64_t size = d->c->q->cluster_size;

	if (inflate_all(d, e) < 0)
		return -1;
	if (d->len && (host != d->host + d->len || guest != d->guest + d->len || d->len + size > CHECK_PIECE))
		read_run(d);
	if (!d->len) {
		d->host = host;
		d->guest = guest;
	}
	d->len += size;
	return 0;
}

/* ---- all of it ---- */

static int begin(struct check *c, struct qimg_error *e)
{
	struct check_deep *d = mem_zalloc(sizeof(*d), e);

	if (!d)
		return -1;
	/* A compressed cluster may take more than a cluster. */
	d->in = mem_buffer(CHECK_PIECE + 2 * (uint64_t)c->q->cluster_size, e);
	if (!d->in) {
		free(d);
		return -1;
	}
	d->c = c;
	c->deep = d;
	return 0;
}

int check_deep(struct check *c, const struct check_table *t, const uint8_t *data, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	uint64_t guest = (uint64_t)t->l1_index << (q->l2_bits + q->cluster_bits);
	struct check_deep *d;
	int ret = c->deep ? 0 : begin(c, e);

	d = c->deep;
	if (ret == 0)
		d->t = t;
	for (uint32_t i = 0; ret == 0 && i < UINT32_C(1) << q->l2_bits && !check_stopped(c); i++) {
		struct qimg_error ignored;
		struct entry en;

		/* What is wrong with entries is told elsewhere; and of encrypted data nothing can be said. */
		if (entry_get(q, data + (size_t)i * q->entry_size, guest, &en, &ignored) == 0) {
			if (en.kind == ENTRY_DATA)
				ret = add_data(d, en.host, guest, e);
			else if (en.kind == ENTRY_PACKED && !q->img->encrypted)
				ret = add_packed(d, &en, guest, e);
		}
		guest += q->cluster_size;
	}
	if (ret == 0) {
		read_run(d);
		ret = inflate_all(d, e);
	}
	return ret;
}

void check_deep_end(struct check *c)
{
	struct check_deep *d = c->deep;

	if (!d)
		return;
	for (unsigned i = 0; d->worker && i < pool_workers(d->pool); i++) {
		codec_free(d->worker[i].codec);
		free(d->worker[i].out);
	}
	free(d->worker);
	pool_free(d->pool);
	free(d->in);
	free(d);
	c->deep = NULL;
}
