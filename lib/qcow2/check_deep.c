// SPDX-License-Identifier: BSD-2-Clause
/* Checking an image: whether what the tables refer to can be read, and inflated. */
#include "qcow2/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/entry.h"
#include "qcow2/qcow2.h"

struct deep {
	struct check *c;
	const struct check_table *t;
	uint8_t *in, *out;		/* CHECK_PIECE, and a cluster */
	uint64_t host, guest, len;	/* data to be read in one go */
};

static struct qimg_finding place(const struct deep *d, enum qimg_fault fault, uint64_t host, uint64_t len,
				 uint64_t guest)
{
	return (struct qimg_finding){
		.fault = fault, .has_host = true, .host = host, .host_len = len, .has_guest = true,
		.guest = guest, .guest_len = d->c->q->cluster_size, .snapshot = d->c->view[d->t->view].name,
	};
}

/* Reads the run, and if that fails each cluster of it. */
static void read_run(struct deep *d)
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

static void add_data(struct deep *d, uint64_t host, uint64_t guest)
{
	uint64_t size = d->c->q->cluster_size;

	if (d->len && (host != d->host + d->len || guest != d->guest + d->len || d->len + size > CHECK_PIECE))
		read_run(d);
	if (!d->len) {
		d->host = host;
		d->guest = guest;
	}
	d->len += size;
}

static void inflate(struct deep *d, const struct entry *en, uint64_t guest)
{
	struct qcow2 *q = d->c->q;
	struct qimg_finding f = place(d, QIMG_FAULT_INFLATE, en->host, en->packed, guest);
	struct qimg_error e;

	if (file_read(q->data, en->host, d->in, en->packed, &e) < 0) {
		f.fault = QIMG_FAULT_DATA;
		check_tell(d->c, &f, "the compressed data of guest offset 0x%" PRIx64 " cannot be read: %s", guest,
			   e.msg);
	} else if (codec_inflate(q->img->codec, d->in, en->packed, d->out, q->cluster_size, &e) < 0) {
		check_tell(d->c, &f, "the compressed cluster of guest offset 0x%" PRIx64 " at 0x%" PRIx64 ": %s",
			   guest, en->host, e.msg);
	}
}

int check_deep(struct check *c, const struct check_table *t, const uint8_t *data, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	uint64_t guest = (uint64_t)t->l1_index << (q->l2_bits + q->cluster_bits);
	/* A compressed cluster may take more than a cluster. */
	struct deep d = { .c = c, .t = t, .in = mem_buffer(max_u64(CHECK_PIECE, 2 * (uint64_t)q->cluster_size), e),
			  .out = mem_buffer(q->cluster_size, e) };
	int ret = d.in && d.out ? 0 : -1;

	for (uint32_t i = 0; ret == 0 && i < UINT32_C(1) << q->l2_bits && !check_stopped(c); i++) {
		struct qimg_error ignored;
		struct entry en;

		/* What is wrong with entries is told elsewhere; and of encrypted data nothing can be said. */
		if (entry_get(q, data + (size_t)i * q->entry_size, guest, &en, &ignored) == 0) {
			if (en.kind == ENTRY_DATA)
				add_data(&d, en.host, guest);
			else if (en.kind == ENTRY_PACKED && !q->img->encrypted)
				inflate(&d, &en, guest);
		}
		guest += q->cluster_size;
	}
	if (ret == 0)
		read_run(&d);
	free(d.in);
	free(d.out);
	return ret;
}
