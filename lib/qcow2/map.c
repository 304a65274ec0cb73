// SPDX-License-Identifier: BSD-2-Clause
/*
 * Guest offset to host offset: runs of subclusters that are alike and contiguous.
 *
 * An image with normal L2 entries is treated as one with a single subcluster a cluster.
 */
#include "qcow2/map.h"

#include "base/bytes.h"
#include "base/error.h"
#include "qcow2/qcow2.h"
#include "qcow2/table.h"

enum extent_kind map_sub_kind(const struct qcow2 *q, const struct entry *en, unsigned sub)
{
	switch (en->kind) {
	case ENTRY_PACKED:
		return EXTENT_PACKED;
	case ENTRY_ZERO:
	case ENTRY_ZERO_HOST:
		return EXTENT_ZERO;
	case ENTRY_HOLE:
	case ENTRY_DATA:
		break;
	}
	if (!q->extended)
		return en->kind == ENTRY_DATA ? EXTENT_DATA : EXTENT_HOLE;
	if (en->zero >> sub & 1)
		return EXTENT_ZERO;
	return en->alloc >> sub & 1 ? EXTENT_DATA : EXTENT_HOLE;
}

/* Subclusters from `sub` on, within the cluster, of the same kind. */
static unsigned sub_run(const struct qcow2 *q, const struct entry *en, unsigned sub)
{
	unsigned subs = 1U << (q->cluster_bits - q->sub_bits), n = 1;
	enum extent_kind kind = map_sub_kind(q, en, sub);

	if (kind == EXTENT_PACKED)
		return subs - sub;
	while (sub + n < subs && map_sub_kind(q, en, sub + n) == kind)
		n++;
	return n;
}

/* What the part of a cluster from guest offset `at` on is; len up to where that ends. */
static void describe(const struct qcow2 *q, const struct entry *en, uint64_t at, struct extent *x)
{
	uint64_t in_cluster = at & (q->cluster_size - 1);
	unsigned sub = (unsigned)(in_cluster >> q->sub_bits);
	bool own;

	*x = (struct extent){ .start = at, .kind = map_sub_kind(q, en, sub) };
	x->len = ((uint64_t)(sub + sub_run(q, en, sub)) << q->sub_bits) - in_cluster;
	x->allocated = x->kind != EXTENT_HOLE;
	x->host_valid = en->kind == ENTRY_DATA || en->kind == ENTRY_ZERO_HOST;
	if (x->host_valid) {
		own = q->external || (en->copied && table_is_own(q, at));
		x->file = q->data;
		x->host = en->host + in_cluster;
		x->writable = q->writable && own && x->kind == EXTENT_DATA;
	}
	if (x->kind == EXTENT_PACKED) {
		x->host_valid = true;
		x->file = q->file;
		x->host = en->host;
		x->packed = en->packed;
	}
}

/* b follows a in the guest; may they be one run? */
static bool joins(const struct extent *a, const struct extent *b)
{
	if (a->kind != b->kind || a->kind == EXTENT_PACKED || a->host_valid != b->host_valid ||
	    a->writable != b->writable)
		return false;
	return !a->host_valid || a->host + a->len == b->host;
}

/* Makes x longer by `next` if they may be one run. An x of length 0 is not begun. */
static bool append(struct extent *x, const struct extent *next)
{
	if (!x->len)
		*x = *next;
	else if (joins(x, next))
		x->len += next->len;
	else
		return false;
	return true;
}

/* How many entries from the i-th on are empty: there is nothing to decode. */
static uint32_t empty_entries(const struct qcow2 *q, const struct cursor *c, uint32_t i)
{
	const uint64_t *p = (const uint64_t *)(c->entry + (size_t)i * q->entry_size);
	size_t words = q->entry_size / sizeof(*p), n = 0, all = (c->count - i) * words;

	for (; all - n >= 8; n += 8)
		if (p[n] | p[n + 1] | p[n + 2] | p[n + 3] | p[n + 4] | p[n + 5] | p[n + 6] | p[n + 7])
			break;
	while (n < all && !p[n])
		n++;
	return (uint32_t)(n / words);
}

int qcow2_map(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x, struct wait *w,
	      struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	uint64_t at = off, end = off + len;
	bool more = true;

	x->len = 0;
	while (more && at < end) {
		struct cursor c;
		struct extent next;
		int ret;

		/* What was found is good; the caller comes back for the rest. */
		if (x->len && w && !table_at_hand(q, at))
			break;
		ret = table_find(q, at, &c, w, e);
		if (ret < 0 && x->len)
			break;
		if (ret < 0 || ret == MAP_WAIT)
			return ret;
		if (ret == TABLE_NONE) {
			uint64_t stop = round_down(at, table_span(q)) + table_span(q);

			next = (struct extent){ .start = at, .len = stop - at, .kind = EXTENT_HOLE };
			more = append(x, &next);
			at = stop;
			continue;
		}
		for (uint32_t i = 0; more && i < c.count && at < end; ) {
			uint32_t n = empty_entries(q, &c, i);
			struct entry en;

			if (n) {
				uint64_t stop = round_down(at, q->cluster_size) + (uint64_t)n * q->cluster_size;

				next = (struct extent){ .start = at, .len = stop - at, .kind = EXTENT_HOLE };
				more = append(x, &next);
				at = stop;
				i += n;
				continue;
			}
			ret = table_entry(q, &c, i, at, &en, e);
			if (ret < 0)
				break;
			describe(q, &en, at, &next);
			more = append(x, &next);
			at += next.len;
			if (is_aligned(at, q->cluster_size))
				i++;
		}
		table_put(q, &c);
		if (ret < 0) {
			if (x->len)
				break;
			return -1;
		}
	}
	x->len = min_u64(x->len, len);
	return 0;
}
