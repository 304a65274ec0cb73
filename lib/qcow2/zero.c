// SPDX-License-Identifier: BSD-2-Clause
/*
 * Zeroing and discarding by changes of the mapping alone, within one L2 table a call.
 *
 * A cluster that is not allocated in an image without a backing file reads as zeros already and is
 * left as it is, so that zeroing a large empty image costs nothing.
 *
 * With discard-no-unref an entry keeps its host cluster, so that what is written there again does not move.
 * What the host is told then, it is told at once: until the entry has reached the disk the guest may find
 * the old content or zeros, and from the next write on the cluster must not be touched.
 */
#include "qcow2/qcow2.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/range.h"
#include "io/sparse.h"
#include "qcow2/flush.h"
#include "qcow2/table.h"
#include "qcow2/write.h"

/* Computes the new entry; returns false when nothing changes. `sub` is the mask of subclusters. */
typedef bool (*change_fn)(const struct qcow2 *q, const struct entry *old, uint32_t sub,
			  unsigned flags, struct entry *new);

static bool has_backing(const struct qcow2 *q)
{
	return q->h.backing_name;
}

static bool reads_zero(const struct qcow2 *q, const struct entry *en)
{
	if (en->kind == ENTRY_ZERO || en->kind == ENTRY_ZERO_HOST)
		return true;
	if (en->kind != ENTRY_HOLE)
		return q->extended && en->kind == ENTRY_DATA && en->zero == UINT32_MAX;
	return !has_backing(q) || en->zero == UINT32_MAX;
}

/* Reads as zeros, no host cluster. */
static void make_plain_zero(const struct qcow2 *q, struct entry *new)
{
	*new = (struct entry){ .kind = ENTRY_ZERO };
	if (q->extended) {
		new->kind = ENTRY_HOLE;
		new->zero = UINT32_MAX;
	} else if (q->h.version < 3) {
		new->kind = ENTRY_HOLE;		/* only where there is no backing file */
	}
}

/* The bits of some subclusters; the host cluster stays. */
static bool zero_subs(const struct entry *old, uint32_t sub, struct entry *new)
{
	*new = *old;
	new->alloc &= ~sub;
	new->zero |= sub;
	return new->alloc != old->alloc || new->zero != old->zero;
}

static bool zero_change(const struct qcow2 *q, const struct entry *old, uint32_t sub,
			unsigned flags, struct entry *new)
{
	bool host = old->kind == ENTRY_DATA || old->kind == ENTRY_ZERO_HOST;

	if (q->extended && sub != UINT32_MAX)
		return zero_subs(old, sub, new);
	if (host && (!(flags & MAP_UNMAP) || q->discard_no_unref) && q->h.version >= 3) {
		if (q->extended)
			return zero_subs(old, sub, new);
		*new = *old;
		new->kind = ENTRY_ZERO_HOST;
		return old->kind != ENTRY_ZERO_HOST;
	}
	if (!host && reads_zero(q, old))
		return false;
	make_plain_zero(q, new);
	return true;
}

static bool discard_change(const struct qcow2 *q, const struct entry *old, uint32_t sub,
			   unsigned flags, struct entry *new)
{
	bool host = old->kind == ENTRY_DATA || old->kind == ENTRY_ZERO_HOST;

	(void)sub;
	if (host && q->discard_no_unref)
		return zero_change(q, old, UINT32_MAX, flags, new);
	if (!host && reads_zero(q, old))
		return false;
	make_plain_zero(q, new);
	return true;
}

/* Subclusters of the cluster at `cluster` that lie in [off, end), as a mask. */
static uint32_t subs_in(const struct qcow2 *q, uint64_t cluster, uint64_t off, uint64_t end)
{
	struct range r = range_clip(cluster, q->cluster_size, off, end);
	unsigned first, last;

	if (!q->extended)
		return UINT32_MAX;
	if (end == q->img->size)	/* nothing lies behind it */
		r.len = cluster + q->cluster_size - r.start;
	first = (unsigned)((r.start - cluster) >> q->sub_bits);
	last = (unsigned)((r.start + r.len - 1 - cluster) >> q->sub_bits);
	return (UINT32_MAX >> (31 - (last - first))) << first;
}

/* Clusters of the host in a row whose content is worth nothing any more. */
struct idle_run {
	uint64_t host, len;
};

/* Gives their space back, which is a hint: that it can't be taken does no harm. */
static void idle_end(struct qcow2 *q, struct idle_run *run)
{
	struct qimg_error ignored;

	if (run->len)
		sparse_discard(q->data, run->host, run->len, &ignored);
	run->len = 0;
}

/* The entry became new and kept its cluster: is it one that nobody else sees, and all zeros now? */
static void idle_add(struct qcow2 *q, struct idle_run *run, const struct entry *new)
{
	if (!new->copied || (q->extended && new->zero != UINT32_MAX))
		return;
	if (new->host != run->host + run->len)
		idle_end(q, run);
	if (!run->len)
		run->host = new->host;
	run->len += q->cluster_size;
}

/* Changes the entries of [off, end), which lies within one slice and starts and ends between grains. */
static int change_slice(struct qcow2 *q, struct cursor *c, uint64_t off, uint64_t end, unsigned flags,
			change_fn change, enum release_why why, struct qimg_error *e)
{
	bool give_back = q->discard_no_unref && why == RELEASE_REQUEST && q->discard_passed[why];
	uint64_t cluster = round_down(off, q->cluster_size);
	struct idle_run idle = { 0 };
	int ret = 0;

	for (uint32_t i = 0; cluster < end; i++, cluster += q->cluster_size) {
		struct entry old, new;

		ret = table_entry(q, c, i, cluster, &old, e);
		if (ret < 0)
			break;
		if (!change(q, &old, subs_in(q, cluster, off, end), flags, &new))
			continue;
		/* An entry that keeps its host cluster keeps its reference. */
		if (new.kind == ENTRY_DATA || new.kind == ENTRY_ZERO_HOST) {
			if (give_back)
				idle_add(q, &idle, &new);
		} else {
			ret = write_release_old(q, &old, why, e);
			if (ret < 0)
				break;
		}
		table_set(q, c, i, &new);
	}
	idle_end(q, &idle);
	return ret;
}

/* Whether a change would do anything in the slice. */
static int slice_needs(struct qcow2 *q, const struct cursor *c, uint64_t off, uint64_t end,
		       unsigned flags, change_fn change, struct qimg_error *e)
{
	uint64_t cluster = round_down(off, q->cluster_size);

	for (uint32_t i = 0; cluster < end; i++, cluster += q->cluster_size) {
		struct entry old, new;

		if (table_entry(q, c, i, cluster, &old, e) < 0)
			return -1;
		if (change(q, &old, subs_in(q, cluster, off, end), flags, &new))
			return 1;
	}
	return 0;
}

static int change_range(struct qcow2 *q, uint64_t off, uint64_t end, unsigned flags, change_fn change,
			enum release_why why, uint64_t *did, struct wait *w, struct qimg_error *e)
{
	struct cursor c;
	int ret = write_prepare(q, w, e);

	if (ret)
		return ret;
	end = min_u64(end, round_down(off, table_span(q)) + table_span(q));
	ret = table_find(q, off, &c, w, e);
	if (ret < 0 || ret == MAP_WAIT)
		return ret;
	if (ret == TABLE_NONE && !has_backing(q)) {	/* reads as zeros */
		*did = end - off;
		return 0;
	}
	if (ret == 0) {
		end = min_u64(end, round_down(off, q->cluster_size) +
			      ((uint64_t)c.count << q->cluster_bits));
		ret = slice_needs(q, &c, off, end, flags, change, e);
		table_put(q, &c);
		if (ret <= 0) {
			*did = end - off;
			return ret;
		}
	}
	if (write_in_flight(q, off, end - off)) {
		if (w)
			w->op = WAIT_TURN;
		return w ? MAP_WAIT : error_set(e, EBUSY, "Guest offset 0x%" PRIx64
						" of '%s' is being written to", off, q->img->name);
	}
	ret = flush_thaw(q, w, e);
	if (!ret)
		ret = table_find_writable(q, off, &c, w, e);
	if (ret)
		return ret;
	end = min_u64(end, round_down(off, q->cluster_size) +
		      ((uint64_t)c.count << q->cluster_bits));
	ret = change_slice(q, &c, off, end, flags, change, why, e);
	table_put(q, &c);
	*did = end - off;
	return ret;
}

/*
 * The part at the front of [off, off+len) that starts and ends between grains; the last (sub)cluster of
 * the image counts as whole. Returns 0 with *did the length up to the next grain when there is none.
 */
static bool front_part(const struct qcow2 *q, uint64_t off, uint64_t len, uint64_t grain,
		       uint64_t *end, uint64_t *did)
{
	uint64_t to = off + len == q->img->size ? off + len : round_down(off + len, grain);

	if (is_aligned(off, grain) && to > off) {
		*end = to;
		return true;
	}
	*did = min_u64(len, round_up(off + 1, grain) - off);
	return false;
}

int qcow2_zero(struct qimg_image *img, uint64_t off, uint64_t len, unsigned flags, uint64_t *did,
	       struct wait *w, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	uint64_t sub = UINT64_C(1) << q->sub_bits, end, rest;
	int ret;

	/* Also where the caller will clear what is in place: the image changes, and a flush has to sync. */
	ret = write_prepare(q, w, e);
	if (ret)
		return ret;
	if (!front_part(q, off, len, sub, &end, did))
		return error_set(e, ENOTSUP, "Not a whole cluster");
	if (q->external && q->h.autoclear & AUTOCLEAR_DATA_FILE_RAW) {
		*did = end - off;
		return error_set(e, ENOTSUP, "The data file must have the zeros");
	}
	if (q->h.version < 3 && has_backing(q)) {
		*did = end - off;
		return error_set(e, ENOTSUP, "Version 2 has no zero clusters");
	}
	if (q->extended) {
		/* Cut so that whole clusters and parts of one are done in calls of their own. */
		uint64_t next = round_up(off + 1, q->cluster_size);

		if (!is_aligned(off, q->cluster_size))
			end = min_u64(end, next);
		else if (end > next && end != img->size)
			end = round_down(end, q->cluster_size);
		rest = end & (q->cluster_size - 1);
		if (!is_aligned(off, q->cluster_size) || (rest && end != img->size)) {
			struct extent x;

			/* A packed cluster has no subclusters to mark. */
			ret = qcow2_map(img, off, end - off, &x, w, e);
			if (ret)
				return ret;
			if (x.kind == EXTENT_PACKED) {
				*did = end - off;
				return error_set(e, ENOTSUP, "Part of a compressed cluster");
			}
		}
	}
	return change_range(q, off, end, flags, zero_change,
			    flags & QIMG_ZERO_UNMAP ? RELEASE_REQUEST : RELEASE_OTHER, did, w, e);
}

int qcow2_discard(struct qimg_image *img, uint64_t off, uint64_t len, uint64_t *did, struct wait *w,
		  struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	uint64_t end;

	if (!front_part(q, off, len, q->cluster_size, &end, did))
		return 0;
	/*
	 * Where only writing zeros could keep what the guest reads from coming back (a backing file
	 * without zero clusters, a data file that must be readable by itself), nothing is done.
	 */
	if ((q->h.version < 3 && has_backing(q)) ||
	    (q->external && q->h.autoclear & AUTOCLEAR_DATA_FILE_RAW)) {
		*did = end - off;
		return 0;
	}
	return change_range(q, off, end, 0, discard_change, RELEASE_REQUEST, did, w, e);
}
