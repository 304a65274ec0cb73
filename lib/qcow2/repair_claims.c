// SPDX-License-Identifier: BSD-2-Clause
/*
 * Repairing an image: offsets that have lost a bit.
 *
 * A broken offset that differs in one bit from just one cluster that is counted and that nothing refers to has most
 * likely been that one. For L2 tables and compressed data what is there has to look like it, too. When two entries
 * could have lost the same cluster, none gets it, and nobody else, either: such clusters are not freed.
 */
#include "qcow2/repair_claims.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "image/image.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/entry.h"
#include "qcow2/qcow2.h"
#include "qcow2/repair.h"

#define BROKEN_AMONG 4			/* sound ones at least, an entry of a table may be broken */

/* Refcounts tell what is leaked as long as they are where they should be. */
static bool trusts_counts(const struct check *c)
{
	return !c->counts_overlap && !c->table_lost && !c->counts_unread &&
	       !c->r->found[QIMG_FAULT_REFCOUNT_ENTRY];
}

/* It is counted more often than it is referred to. */
static bool is_missed(struct check *c, uint64_t cluster)
{
	uint64_t stored, refs = refmap_count(c->map, cluster);
	struct qimg_error ignored;

	return !refmap_is(c->map, REFMAP_METADATA, cluster) && repair_has_block(c, cluster) &&
	       check_stored(c, cluster, &stored, &ignored) == 0 && stored > refs;
}

static bool is_leaked(struct check *c, uint64_t off)
{
	uint64_t cluster = off >> c->q->cluster_bits;

	return off && is_aligned(off, c->q->cluster_size) && check_inside(c, off, c->q->cluster_size) &&
	       !refmap_count(c->map, cluster) && is_missed(c, cluster);
}

/* Entries, nearly all of which say something possible; NULL: they do not, or cannot be read. To be freed. */
static uint8_t *load_table(struct check *c, uint64_t off)
{
	const struct qcow2 *q = c->q;
	struct qimg_error ignored;
	uint8_t *data = mem_buffer(q->cluster_size, &ignored);
	uint32_t said = 0, broken = 0;
	struct entry en;

	if (!data || file_read(q->file, off, data, q->cluster_size, &ignored) < 0)
		goto none;
	for (uint32_t i = 0; i < UINT32_C(1) << q->l2_bits; i++) {
		const uint8_t *p = data + (size_t)i * q->entry_size;

		if (!be64_get(p))
			continue;
		/* In a data file what is sound depends on the guest offset. */
		if (entry_reserved(q, p) || (entry_get(q, p, 0, &en, &ignored) < 0 && en.fault != ENTRY_NOT_GUEST) ||
		    (!q->external && en.host && !check_inside(c, en.host, 1)))
			broken++;
		else
			said++;
	}
	if (said > broken * BROKEN_AMONG)
		return data;
none:
	free(data);
	return NULL;
}

static bool is_table(struct check *c, uint64_t off)
{
	uint8_t *data = is_leaked(c, off) ? load_table(c, off) : NULL;
	bool is = data;

	free(data);
	return is;
}

bool repair_inflates(struct check *c, uint64_t host, uint32_t packed)
{
	const struct qcow2 *q = c->q;
	struct qimg_error ignored;
	uint8_t *in = mem_buffer(max_u64(packed, 1), &ignored), *out = mem_buffer(q->cluster_size, &ignored);
	bool good = in && out && file_read(q->file, host, in, packed, &ignored) == 0 &&
		    codec_inflate(q->img->codec, in, packed, out, q->cluster_size, &ignored) == 0;

	free(in);
	free(out);
	return good;
}

static uint64_t packed_clusters(const struct check *c, uint64_t host, uint32_t packed)
{
	unsigned bits = c->q->cluster_bits;

	return ((host + packed - 1) >> bits) - (host >> bits) + 1;
}

static bool is_packed(struct check *c, uint64_t host, uint32_t packed)
{
	uint64_t first = host >> c->q->cluster_bits, n = packed_clusters(c, host, packed);

	if (!packed || !check_inside(c, host, packed) || c->q->img->encrypted)
		return false;
	for (uint64_t k = 0; k < n; k++)
		if (!is_missed(c, first + k))
			return false;
	return repair_inflates(c, host, packed);
}

static bool fits(struct check *c, enum repair_lost lost, uint64_t off, uint32_t packed)
{
	switch (lost) {
	case REPAIR_LOST_TABLE:
		return is_table(c, off);
	case REPAIR_LOST_PACKED:
		return is_packed(c, off, packed);
	default:
		return is_leaked(c, off);
	}
}

/* The only one that it can have been, 0: there is none, or there are more. */
static uint64_t find_near(struct check *c, enum repair_lost lost, uint64_t off, uint32_t packed)
{
	uint64_t near, found = 0;
	unsigned bit = 0;

	if (!trusts_counts(c))
		return 0;
	while (entry_next_near(c->q, off, lost == REPAIR_LOST_PACKED, &bit, &near)) {
		/* Of a compressed cluster the number of sectors does not change with the offset. */
		uint32_t len = packed + (uint32_t)(off & 511) - (uint32_t)(near & 511);

		if (!fits(c, lost, near, len))
			continue;
		if (found)
			return 0;
		found = near;
	}
	return found;
}

static int keep(struct check *c, uint64_t host, uint64_t n, struct qimg_error *e)
{
	if (refmap_set(c->map, REFMAP_ORPHAN, host >> c->q->cluster_bits, n, e) < 0)
		return -1;
	return refmap_set(c->map, REFMAP_CLAIMED, host >> c->q->cluster_bits, n, e);
}

/* What a table refers to is kept with it. */
static int keep_table(struct check *c, uint64_t off, struct qimg_error *e)
{
	const struct qcow2 *q = c->q;
	uint8_t *data = q->external ? NULL : load_table(c, off);
	int ret = 0;

	for (uint32_t i = 0; data && ret == 0 && i < UINT32_C(1) << q->l2_bits; i++) {
		struct qimg_error ignored;
		struct entry en;

		if (entry_get(q, data + (size_t)i * q->entry_size, 0, &en, &ignored) < 0 || !en.host ||
		    !check_inside(c, en.host, 1))
			continue;
		ret = keep(c, en.host, en.kind == ENTRY_PACKED ? packed_clusters(c, en.host, en.packed) : 1, e);
	}
	free(data);
	return ret;
}

int repair_claim(struct check *c, enum repair_lost lost, uint64_t off, uint32_t packed, struct qimg_error *e)
{
	uint64_t near = find_near(c, lost, off, packed), cluster = near >> c->q->cluster_bits;

	if (!near)
		return 0;
	if (lost == REPAIR_LOST_PACKED)
		return keep(c, near, packed_clusters(c, near, packed), e);
	if (refmap_is(c->map, REFMAP_CLAIMED, cluster) &&
	    refmap_set(c->map, REFMAP_CONTESTED, cluster, 1, e) < 0)
		return -1;
	if (keep(c, near, 1, e) < 0)
		return -1;
	return lost == REPAIR_LOST_TABLE ? keep_table(c, near, e) : 0;
}

uint64_t repair_claimed(struct check *c, enum repair_lost lost, uint64_t off, uint32_t packed)
{
	uint64_t near = find_near(c, lost, off, packed);

	return near && !refmap_is(c->map, REFMAP_CONTESTED, near >> c->q->cluster_bits) ? near : 0;
}
