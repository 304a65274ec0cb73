// SPDX-License-Identifier: BSD-2-Clause
/*
 * Steps that the host copies: the blocks of the source are shared with the target, or copied without
 * passing through memory here. Only whole units of data that lie in a file at block boundaries on both
 * sides; everything else is read and written.
 */
#include "ops/ring.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/range.h"
#include "image/image.h"
#include "io/clone.h"

#define BLOCK (4 * KIB)		/* of file systems; those with larger ones say that it can't be done */

/* What the host copies at once for [off, off+len) of the source; len 0: nothing. */
static bool find(struct ring *r, uint64_t pos, uint64_t len, struct extent *x)
{
	struct qimg_error ignored;
	uint64_t off;
	struct qimg_image *src = plan_source(&r->plan, pos, &off);

	len = round_down(min_u64(len, src->size - off), r->unit);
	if (!len || image_map_chain(src, off, len, x, NULL, &ignored) < 0)
		return false;
	if (x->kind != EXTENT_DATA || !x->host_valid || x->image->encrypted || !is_aligned(x->host, BLOCK))
		return false;
	x->len = round_down(x->len, r->unit);
	return x->len;
}

static int clone(const struct extent *x, const struct wmap *m, enum copy_share how, struct qimg_error *e)
{
	/* Sharing with itself is for the file system to refuse. */
	if (clone_share(x->file, x->host, m->file, m->host, m->len, e) == 0)
		return 0;
	if (how != COPY_SHARE_HOST || e->code != ENOTSUP)
		return -1;
	return clone_copy(x->file, x->host, m->file, m->host, m->len, e);
}

/* Of x, whose data belongs at pos of the target. 1: done, m->len is how much; 0: it can't be done. */
static int clone_part(struct qimg_image *img, const struct extent *x, uint64_t pos, struct wmap *m,
		      enum copy_share how, struct qimg_error *e)
{
	int rc = 0;

	if (img->driver->begin(img, pos, x->len, m, NULL, e) < 0)
		return -1;
	if (!m->head && !m->tail && is_aligned(m->host, BLOCK) && is_aligned(m->len, BLOCK))
		rc = clone(x, m, how, e) == 0 ? 1 : e->code == ENOTSUP ? 0 : -1;
	if (rc == 1)
		return m->link && img->driver->commit(img, m, NULL, e) < 0 ? -1 : 1;
	if (m->link)
		img->driver->abort(img, m);
	return rc;
}

bool share_find(struct ring *r, uint64_t pos, uint64_t len, enum copy_share *how)
{
	struct qimg_image *target = r->copy->target;
	struct file *to = target->data_file ? target->data_file : target->file;
	struct extent x;

	if (!find(r, pos, len, &x))
		return false;
	if (*how == COPY_SHARE_HOST || clone_possible(x.file, to))
		return true;
	*how = COPY_SHARE_NEVER;
	return false;
}

uint64_t share_step(struct ring *r, uint64_t pos, uint64_t len, enum copy_share *how)
{
	struct qimg_image *target = r->copy->target;
	struct qimg_error e;
	struct extent x;
	uint64_t did = 0;

	while (did < len && *how != COPY_SHARE_NEVER && find(r, pos + did, len - did, &x)) {
		struct wmap m;
		int rc = clone_part(target, &x, pos + did, &m, *how, &e);

		if (rc < 0)
			ring_fail(r, &e);
		/* What can't be done once can't be done the next time, either. */
		if (rc <= 0)
			*how = COPY_SHARE_NEVER;
		else
			did += m.len;
	}
	return did;
}
