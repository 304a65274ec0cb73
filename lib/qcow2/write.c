// SPDX-License-Identifier: BSD-2-Clause
/*
 * Places for guest writes: begin finds or allocates one, commit links it, abort gives it back.
 *
 * A run stays within one L2 slice and is of one class:
 *   in place   allocated, ours alone: nothing to do at commit
 *   reuse      a host cluster is there, but (some of) what is written is not allocated in it: zero
 *              clusters with host space, subclusters
 *   new        everything else; the old clusters are released at commit
 * Between begin and commit the old entry stays in force, so that the caller can read through it what
 * head and tail are to be filled with.
 */
#include "qcow2/write.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/range.h"
#include "qcow2/alloc.h"
#include "qcow2/flush.h"
#include "qcow2/map.h"
#include "qcow2/qcow2.h"
#include "qcow2/table.h"

enum class { IN_PLACE, REUSE, NEW };

int write_prepare(struct qcow2 *q, struct wait *w, struct qimg_error *e)
{
	if (flush_begin(q, e) < 0 || alloc_settle(q, e) < 0)
		return -1;
	return flush_relieve(q, w, e);
}

bool write_in_flight(const struct qcow2 *q, uint64_t off, uint64_t len)
{
	for (const struct wmap *m = q->inflight; m; m = m->next)
		if (range_overlaps(off, len, round_down(m->start - m->head, q->cluster_size),
				   (uint64_t)m->clusters << q->cluster_bits))
			return true;
	return false;
}

static unsigned sub_of(const struct qcow2 *q, uint64_t guest)
{
	return (unsigned)((guest & (q->cluster_size - 1)) >> q->sub_bits);
}

/* The subclusters that [from, to) touches, both ends within one cluster, as a mask. */
static uint32_t sub_mask(const struct qcow2 *q, uint64_t from, uint64_t to)
{
	unsigned first = sub_of(q, from), last = sub_of(q, to - 1);

	return (UINT32_MAX >> (31 - (last - first))) << first;
}

/* How the part [from, to) of the cluster of an entry can be written to. */
static enum class classify(const struct qcow2 *q, const struct entry *en, bool own_table,
			   uint64_t from, uint64_t to)
{
	bool host = en->kind == ENTRY_DATA || en->kind == ENTRY_ZERO_HOST;

	if (!host || (!q->external && !(en->copied && own_table)))
		return NEW;
	if (en->kind == ENTRY_ZERO_HOST)
		return REUSE;
	if (!q->extended)
		return IN_PLACE;
	return (sub_mask(q, from, to) & ~en->alloc) ? REUSE : IN_PLACE;
}

/*
 * Where the fill before a write at `off` starts, within its cluster: at off when nothing needs to be
 * filled.
 */
static uint64_t fill_from(const struct qcow2 *q, const struct entry *en, enum class class,
			  uint64_t off)
{
	uint64_t cluster = round_down(off, q->cluster_size);
	uint64_t sub = round_down(off, UINT64_C(1) << q->sub_bits);

	if (class == IN_PLACE)
		return off;
	if (class == REUSE)	/* what is allocated is in place already */
		return q->extended && en->alloc >> sub_of(q, off) & 1 ? off : sub;
	if (en->kind == ENTRY_PACKED)
		return cluster;
	if (en->alloc)		/* the subclusters that move to the new cluster */
		return min_u64(sub, cluster + ((uint64_t)__builtin_ctz(en->alloc) << q->sub_bits));
	return sub;
}

/* The same for the end of the fill behind a write that ends at `end`. */
static uint64_t fill_to(const struct qcow2 *q, const struct entry *en, enum class class, uint64_t end)
{
	uint64_t cluster = round_down(end - 1, q->cluster_size);
	uint64_t sub = round_up(end, UINT64_C(1) << q->sub_bits);

	if (class == IN_PLACE)
		return end;
	if (class == REUSE)
		return q->extended && en->alloc >> sub_of(q, end - 1) & 1 ? end : sub;
	if (en->kind == ENTRY_PACKED)
		return cluster + q->cluster_size;
	if (en->alloc)
		return max_u64(sub, cluster +
			       ((uint64_t)(32 - __builtin_clz(en->alloc)) << q->sub_bits));
	return sub;
}

/* The run that a write of [off, end) starts with. */
struct run {
	enum class class;
	uint32_t clusters;
	uint64_t host;		/* of the first cluster; not for NEW */
	uint64_t end;		/* guest offset at which it ends, at most what was asked */
	struct entry first, last;
};

static uint64_t cluster_end(const struct qcow2 *q, uint64_t at, uint64_t end)
{
	return min_u64(round_down(at, q->cluster_size) + q->cluster_size, end);
}

static int find_run(struct qcow2 *q, const struct cursor *c, bool own, uint64_t off, uint64_t end,
		    struct run *r, struct qimg_error *e)
{
	uint64_t at = off;

	*r = (struct run){ .clusters = 0 };
	while (at < end && r->clusters < c->count) {
		uint64_t to = cluster_end(q, at, end);
		struct entry en;
		enum class class;

		if (table_entry(q, c, r->clusters, at, &en, e) < 0)
			return -1;
		class = classify(q, &en, own, at, to);
		if (r->clusters && (class != r->class ||
				    (class != NEW && en.host != r->host +
				     ((uint64_t)r->clusters << q->cluster_bits))))
			break;
		if (!r->clusters) {
			r->class = class;
			r->host = en.host;
			r->first = en;
		}
		r->last = en;
		r->clusters++;
		at = to;
	}
	r->end = at;
	return 0;
}

/* Gets host clusters for a run, which may become shorter. */
static int allocate(struct qcow2 *q, const struct cursor *c, uint64_t off, struct run *r, bool *blank,
		    struct wait *w, struct qimg_error *e)
{
	uint64_t got, cluster = round_down(off, q->cluster_size);
	int ret;

	*blank = false;
	if (q->external) {
		r->host = cluster;
		return alloc_retake_data(q, cluster, r->clusters, e);
	}
	ret = alloc_run(q, r->clusters, &r->host, &got, blank, w, e);
	if (ret)
		return ret;
	if (got < r->clusters) {
		r->clusters = (uint32_t)got;
		r->end = cluster + (got << q->cluster_bits);
		if (table_entry(q, c, r->clusters - 1, r->end - 1, &r->last, e) < 0) {
			alloc_undo(q, r->host, got);
			return -1;
		}
	}
	return 0;
}

int qcow2_begin(struct qimg_image *img, uint64_t off, uint64_t len, struct wmap *m, struct wait *w,
		struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	struct cursor c;
	struct run r;
	bool blank = false;
	int ret;

	ret = write_prepare(q, w, e);
	if (ret)
		return ret;
	ret = table_find(q, off, &c, w, e);
	if (ret != 0 && ret != TABLE_NONE)
		return ret;
	if (ret == 0 && find_run(q, &c, table_is_own(q, off), off, off + len, &r, e) < 0) {
		ret = -1;
		goto out;
	}
	if (ret == TABLE_NONE || r.class != IN_PLACE) {
		/* Looked at again: making the table our own may have moved it. */
		table_put(q, &c);
		ret = table_find_writable(q, off, &c, w, e);
		if (ret)
			return ret;
		ret = find_run(q, &c, true, off, off + len, &r, e);
		if (ret < 0)
			goto out;
	}
	if (r.class != IN_PLACE && write_in_flight(q, off, r.end - off)) {
		if (w)
			w->op = WAIT_TURN;
		ret = w ? MAP_WAIT :
			error_set(e, EBUSY, "Guest offset 0x%" PRIx64 " of '%s' is being written to",
				  off, img->name);
		goto out;
	}
	if (r.class == NEW) {
		ret = allocate(q, &c, off, &r, &blank, w, e);
		if (ret)
			goto out;
	}

	*m = (struct wmap){
		.start = off,
		.len = r.end - off,
		.file = q->data,
		.host = r.host + (off & (q->cluster_size - 1)),
		.head = off - fill_from(q, &r.first, r.class, off),
		.tail = fill_to(q, &r.last, r.class, r.end) - r.end,
		.blank = blank,
		.link = r.class != IN_PLACE,
		.cluster = r.host,
		.clusters = r.clusters,
		.fresh = r.class == NEW && !q->external,
	};
	if (m->link) {
		m->next = q->inflight;
		q->inflight = m;
	}
out:
	table_put(q, &c);
	return ret;
}

static void landed(struct qcow2 *q, struct wmap *m)
{
	struct wmap **link = &q->inflight;

	while (*link && *link != m)
		link = &(*link)->next;
	if (*link)
		*link = m->next;
}

int write_release_old(struct qcow2 *q, const struct entry *old, enum release_why why,
		      struct qimg_error *e)
{
	switch (old->kind) {
	case ENTRY_DATA:
	case ENTRY_ZERO_HOST:
		return alloc_release_data(q, old->host, 1, why, e);
	case ENTRY_PACKED:
		return alloc_release_bytes(q, old->host, old->packed, why, e);
	case ENTRY_HOLE:
	case ENTRY_ZERO:
		break;
	}
	return 0;
}

/* Links the i-th cluster of a run. */
static int link_cluster(struct qcow2 *q, struct cursor *c, const struct wmap *m, uint32_t i,
			struct qimg_error *e)
{
	uint64_t from = m->start - m->head, to = m->start + m->len + m->tail;
	uint64_t cluster = round_down(from, q->cluster_size) + ((uint64_t)i << q->cluster_bits);
	struct range part = range_clip(cluster, q->cluster_size, from, to);
	struct entry old, new = { .kind = ENTRY_DATA, .copied = true };

	if (table_entry(q, c, i, cluster, &old, e) < 0)
		return -1;
	new.host = m->cluster + ((uint64_t)i << q->cluster_bits);
	if (q->extended) {
		uint32_t mask = sub_mask(q, part.start, part.start + part.len);

		/* A new cluster has just what was written; one that is there keeps what it had. */
		new.alloc = mask | (old.kind == ENTRY_DATA && old.host == new.host ? old.alloc : 0);
		new.zero = old.kind == ENTRY_PACKED ? 0 : old.zero & ~new.alloc;
	}
	if (m->fresh && write_release_old(q, &old, RELEASE_OTHER, e) < 0)
		return -1;
	table_set(q, c, i, &new);
	return 0;
}

/* The entry of a packed cluster. */
static int link_packed(struct qcow2 *q, struct cursor *c, const struct wmap *m, struct qimg_error *e)
{
	struct entry old, new = { .kind = ENTRY_PACKED, .host = m->host, .packed = m->packed_len };

	if (table_entry(q, c, 0, m->start, &old, e) < 0 ||
	    write_release_old(q, &old, RELEASE_OTHER, e) < 0)
		return -1;
	table_set(q, c, 0, &new);
	return 0;
}

int qcow2_commit(struct qimg_image *img, struct wmap *m, struct wait *w, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	struct cursor c;
	uint32_t i = 0;
	int ret;

	if (!m->link)
		return 0;
	ret = flush_thaw(q, w, e);
	if (!ret)
		ret = table_find_writable(q, m->start, &c, w, e);
	if (ret == MAP_WAIT)
		return MAP_WAIT;
	if (ret < 0) {
		qcow2_abort(img, m);
		return -1;
	}
	if (m->packed) {
		ret = link_packed(q, &c, m, e);
	} else {
		for (i = 0; i < m->clusters && !ret; i++)
			ret = link_cluster(q, &c, m, i, e);
	}
	table_put(q, &c);
	if (!ret) {
		landed(q, m);
		return 0;
	}
	/* What was linked stays; only the rest is given back. */
	if (!m->packed) {
		m->cluster += (uint64_t)(i - 1) << q->cluster_bits;
		m->clusters -= i - 1;
	}
	qcow2_abort(img, m);
	return -1;
}

void qcow2_abort(struct qimg_image *img, struct wmap *m)
{
	struct qcow2 *q = qcow2_of(img);

	if (!m->link)
		return;
	landed(q, m);
	if (m->fresh)
		alloc_undo(q, m->cluster, m->clusters);
	m->link = false;
}
