// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: space that is given back to the host, when nothing on stable storage says any longer that it is
 * in use. That is a favour: that it cannot be done is no fault. Where the repair may be taken back all stays as it is.
 */
#include "qcow2/repair.h"

#include "base/bytes.h"
#include "io/file.h"
#include "io/sparse.h"
#include "qcow2/check.h"
#include "qcow2/qcow2.h"

/* One behind the last cluster that something refers to, or that is kept. */
static uint64_t find_end(struct check *c)
{
	uint64_t end = refmap_end(c->map), which;

	while (refmap_any(c->map, REFMAP_ORPHAN, end, c->clusters - min_u64(end, c->clusters), &which))
		end = which + 1;
	return end;
}

static void punch(struct check *c, uint64_t end)
{
	unsigned bits = c->q->cluster_bits;
	struct qimg_error ignored;
	uint64_t at = 0, n;

	while (at < end && refmap_any(c->map, REFMAP_FREED, at, end - at, &at)) {
		for (n = 1; at + n < end && refmap_is(c->map, REFMAP_FREED, at + n); )
			n++;
		if (check_stopped(c) || sparse_discard(c->q->file, at << bits, n << bits, &ignored) < 0)
			return;
		at += n;
	}
}

int repair_give_back(struct check *c, struct qimg_error *e)
{
	struct file *f = c->q->file;
	uint64_t end = c->clusters;
	struct qimg_error ignored;

	(void)e;
	if (c->how->backup || c->how->flags & QIMG_CHECK_DRY_RUN ||
	    !refmap_any(c->map, REFMAP_FREED, 0, c->clusters, NULL))
		return 0;
	/* What has been lost may be in what nothing refers to. */
	if (!file_is_device(f) && repair_frees(c) && !repair_must_rebuild(c) && !c->again)
		end = min_u64(end, find_end(c));
	punch(c, end);
	if (end < c->clusters && file_size(f) > end << c->q->cluster_bits)
		file_truncate(f, end << c->q->cluster_bits, &ignored);
	return 0;
}
