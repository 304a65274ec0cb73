// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reading what can be read: a read that failed is tried again in halves, down to single sectors; a
 * sector that can't be read becomes zeros.
 */
#include "ops/ring.h"

#include <string.h>

#include "base/bytes.h"

#define SECTOR 512

void salvage_failed(struct piece *p)
{
	struct ring *r = p->ring;
	uint64_t at = p->step.start + p->read, len = p->io[0].len;

	if (len > SECTOR) {
		/* Halves end at even places, so that the next one is as long. */
		p->salvage = UINT64_C(1) << (log2_u64(len - 1));
		p->salvage = max_u64(p->salvage, SECTOR);
		return;
	}
	memset(p->buf + p->read, 0, len);
	p->read += len;
	if (!r->lost || at < r->lost_at)
		r->lost_at = at;
	r->lost += len;
}

void salvage_succeeded(struct piece *p)
{
	/* Beyond a bad place there is often a long good stretch. */
	p->salvage *= 2;
}
