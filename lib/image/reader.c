// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reading guest data through the chain. Runs are transferred as soon as they are mapped, while the next one
 * is being looked for; what the metadata says reads as zeros costs no transfer.
 */
#include "image/request_priv.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/range.h"
#include "image/rw.h"

void reader_init(struct reader *rd, const struct request *r, uint64_t off, uint64_t len, void *buf)
{
	struct range in = range_clip(off, len, 0, r->img->size);

	if (in.len < len)
		memset((uint8_t *)buf + in.len, 0, len - in.len);
	*rd = (struct reader){ .at = off, .end = off + in.len, .buf = buf };
}

static int start(struct request *r, const struct extent *x, uint8_t *buf)
{
	struct transfer_spec t = { .op = IOQ_READ, .file = x->file, .off = x->host, .buf = buf,
				   .len = x->len, .grace = x->image };

	if (x->kind == EXTENT_HOLE || x->kind == EXTENT_ZERO) {
		memset(buf, 0, x->len);
		return 0;
	}
	if (x->image->encrypted)
		return rw_no_encryption(x->image, &r->io->error);
	return x->kind == EXTENT_PACKED ? packed_start(r, x, buf) : transfer_start(r, &t);
}

int reader_step(struct request *r, struct reader *rd)
{
	struct qimg_error *e = &r->io->error;
	struct extent x;
	int rc;

	while (rd->at < rd->end && !r->failed) {
		if (r->pending >= PENDING_MAX)
			return STEP_WAIT;
		rc = image_map_chain(r->img, rd->at, rd->end - rd->at, &x, turn_waits(r), e);
		rc = turn_answer(r, rc, e);
		if (rc != 0)
			return rc;
		rc = start(r, &x, rd->buf);
		if (rc != 0)
			return rc;
		rd->at += x.len;
		rd->buf += x.len;
	}
	return 0;
}
