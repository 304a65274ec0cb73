// SPDX-License-Identifier: BSD-2-Clause
/* Checking an image: stored refcounts against the references that were counted. */
#include "qcow2/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/zero.h"
#include "io/file.h"
#include "qcow2/entry.h"
#include "qcow2/qcow2.h"
#include "qcow2/repair.h"
#include "qcow2/repair_apart.h"

#define CHUNK 4096			/* clusters that are looked at together */
#define MOST_SHARED 16			/* blocks that are looked at though they share their place */

struct run {				/* of leaked clusters that are alike */
	uint64_t first, n, refcount, references;
	bool fixed;
};

static void end_run(struct check *c, struct run *run)
{
	struct qimg_finding f = {
		.fault = QIMG_FAULT_LEAK, .has_host = true,
		.host = run->first << c->q->cluster_bits, .host_len = run->n << c->q->cluster_bits,
		.clusters = run->n, .refcount = run->refcount, .references = run->references,
		.fixed = run->fixed,
	};

	if (run->n)
		check_tell(c, &f, "%" PRIu64 " clusters from 0x%" PRIx64 " on have a refcount of %" PRIu64
			   " and %" PRIu64 " references", run->n, f.host, run->refcount, run->references);
	run->n = 0;
}

static int leak(struct check *c, struct run *run, uint64_t cluster, uint64_t stored, uint64_t refs,
		struct qimg_error *e)
{
	bool kept = refmap_is(c->map, REFMAP_ORPHAN, cluster);
	bool freed = repair_frees(c) && repair_has_block(c, cluster) && !kept;
	/* Or somebody is going to refer to it again. */
	bool fixed = freed || (kept && repair_mends(c) && refmap_is(c->map, REFMAP_CLAIMED, cluster) &&
			       !refmap_is(c->map, REFMAP_CONTESTED, cluster));

	if (freed && refs == 1 && check_mark(c, REFMAP_LOWERED, cluster, 1, e) < 0)
		return -1;
	if (run->n && run->first + run->n == cluster && run->refcount == stored && run->references == refs &&
	    run->fixed == fixed) {
		run->n++;
		return 0;
	}
	end_run(c, run);
	*run = (struct run){ cluster, 1, stored, refs, fixed };
	return 0;
}

static bool is_fixed(struct check *c, uint64_t cluster, uint64_t refs)
{
	return repair_mends_count(c, cluster) && (refs <= c->q->refcount_max || repair_can_copy(c));
}

static int low(struct check *c, uint64_t cluster, uint64_t stored, uint64_t refs, struct qimg_error *e)
{
	c->blockless |= !repair_has_block(c, cluster);
	c->surplus |= refs > 1;
	if (c->lows == c->low_room) {
		c->r->found[QIMG_FAULT_REFCOUNT]++;
		c->r->corruptions_fixed += is_fixed(c, cluster, refs);
		return check_fixes(c) ? check_mark(c, REFMAP_LOW, cluster, 1, e) : 0;
	}
	c->low[c->lows++] = (struct check_low){ .cluster = cluster, .refcount = stored, .references = refs };
	c->wanted = true;
	return check_mark(c, REFMAP_LOW, cluster, 1, e);
}

/* The COPIED bit says that a cluster has a refcount of one. */
static int check_copied(struct check *c, uint64_t cluster, uint64_t stored, struct qimg_error *e)
{
	enum refmap_mark seen = stored == 1 ? REFMAP_UNCOPIED : REFMAP_COPIED;

	if (!refmap_is(c->map, seen, cluster))
		return 0;
	c->wanted = true;
	return check_mark(c, stored == 1 ? REFMAP_WRONG_UNCOPIED : REFMAP_WRONG_COPIED, cluster, 1, e);
}

/*
 * Whether the next clusters, REFMAP_SOME of them, all have one reference and a refcount of one, or none and
 * none.
 */
static bool agree(struct check *c, uint64_t cluster, uint32_t n, const uint8_t *block, uint64_t i)
{
	unsigned order = c->q->h.refcount_order;
	size_t bytes = (REFMAP_SOME << order) / 8;
	int all;

	if (n < REFMAP_SOME || cluster % REFMAP_SOME || !block)
		return false;
	all = refmap_alike(c->map, cluster);
	if (all == REFMAP_MIXED || memcmp(block + (i << order) / 8, all ? c->ones : c->zeros, bytes))
		return false;
	if (all)
		c->highest = cluster + REFMAP_SOME;
	return true;
}

/* n clusters from `first` on. block: their refcounts, from index i on; NULL: all are 0. */
static int compare(struct check *c, uint64_t first, uint32_t n, const uint8_t *block, uint64_t i,
		   struct run *run, struct qimg_error *e)
{
	unsigned order = c->q->h.refcount_order;
	bool uncopied = refmap_any(c->map, REFMAP_UNCOPIED, first, n, NULL);

	for (uint32_t k = 0; k < n; k++) {
		uint64_t stored, refs;

		while (!uncopied && agree(c, first + k, n - k, block, i + k))
			k += REFMAP_SOME;
		if (k >= n)
			break;
		stored = block ? entry_refcount_get(block, order, i + k) : 0;
		refs = refmap_count(c->map, first + k);
		if (!(stored | refs))
			continue;
		c->highest = first + k + 1;
		if ((stored != 1 || uncopied) && check_copied(c, first + k, stored, e) < 0)
			return -1;
		if (stored > refs && leak(c, run, first + k, stored, refs, e) < 0)
			return -1;
		if (stored < refs && low(c, first + k, stored, refs, e) < 0)
			return -1;
	}
	return 0;
}

/* The clusters of one block that are in the window; block is NULL where there is none. */
static int compare_block(struct check *c, uint64_t base, uint64_t span, const uint8_t *block,
			 struct run *run, struct qimg_error *e)
{
	unsigned order = c->q->h.refcount_order;
	uint64_t at = max_u64(base, c->from), end = min_u64(base + span, c->to);

	while (at < end) {
		uint64_t blank = block ? refmap_blank(c->map, at) : refmap_next(c->map, at) - at;
		uint64_t n = min_u64(end - at, blank && !block ? blank : CHUNK - at % CHUNK);
		uint64_t bits = n << order, bit = (at - base) << order;

		if (blank >= n && (!block || (bits % 8 == 0 && bit % 8 == 0 && zero_is(block + bit / 8, bits / 8)))) {
			at += n;
			continue;
		}
		n = min_u64(n, CHUNK);
		if (compare(c, at, (uint32_t)n, block, at - base, run, e) < 0)
			return -1;
		at += n;
	}
	return 0;
}

/* Reads as many blocks as lie one behind the other, from entry i on. *n: how many. */
static int read_blocks(struct check *c, uint32_t i, uint32_t *n, struct qimg_error *e)
{
	uint32_t size = c->q->cluster_size, most = (uint32_t)max_u64(CHECK_PIECE / size, 1);
	struct qimg_finding f = { .fault = QIMG_FAULT_UNREAD, .has_host = true, .host = c->rt[i],
				  .host_len = size, .fixed = repair_mends(c) };

	for (*n = 1; *n < most && i + *n < c->rt_size && c->rt[i + *n] == c->rt[i] + (uint64_t)*n * size; )
		++*n;
	if (file_read(c->q->file, c->rt[i], c->buf, (size_t)*n * size, e) == 0)
		return 0;
	if (*n == 1) {
		c->counts_unread++;
		check_tell(c, &f, "refcount block %" PRIu32 " at 0x%" PRIx64 " cannot be read: %s", i, c->rt[i],
			   e->msg);
		return -1;
	}
	*n = 1;
	return read_blocks(c, i, n, e);
}

/* As read_ahead of check_tables.c. */
static void read_ahead(struct check *c, uint32_t i, uint32_t *ahead)
{
	uint32_t size = c->q->cluster_size, n;
	uint32_t end = (uint32_t)min_u64(c->rt_size, i + max_u64(CHECK_AHEAD / size, 2));

	if (*ahead > i && end - *ahead < (end - i) / 2 && end < c->rt_size)
		return;
	for (*ahead = (uint32_t)max_u64(*ahead, i); *ahead < end; *ahead += n) {
		const uint64_t *block = &c->rt[*ahead];

		for (n = 1; *ahead + n < end && block[n] == *block + (uint64_t)n * size; )
			n++;
		if (*block)
			file_will_read(c->q->file, *block, (uint64_t)n * size);
	}
}

int check_counts(struct check *c, struct qimg_error *e)
{
	uint64_t span = ((uint64_t)c->q->cluster_size * 8) >> c->q->h.refcount_order, end;
	struct run run = { .n = 0 };
	uint32_t n = 0, shared = 0, ahead = 0;

	for (size_t i = 0; i < REFMAP_SOME; i++)
		entry_refcount_put(c->ones, c->q->h.refcount_order, i, 1);
	for (uint32_t i = 0; i < c->rt_size && !check_stopped(c); i += n) {
		n = 1;
		if ((uint64_t)i * span >= c->to)
			break;
		/* Behind the end of the file, a block that stands for many is not looked at for ever. */
		if (i * span >= c->clusters && refmap_is(c->map, REFMAP_OVERLAP, c->rt[i] >> c->q->cluster_bits) &&
		    ++shared > MOST_SHARED)
			continue;
		if (!c->rt[i] || (uint64_t)(i + 1) * span <= c->from ||
		    check_is_hole(c, c->rt[i], c->q->cluster_size)) {
			if (compare_block(c, i * span, span, NULL, &run, e) < 0)
				return -1;
			continue;
		}
		read_ahead(c, i, &ahead);
		if (read_blocks(c, i, &n, e) < 0)
			continue;
		for (uint32_t k = 0; k < n; k++)
			if (compare_block(c, (i + k) * span, span, c->buf + (size_t)k * c->q->cluster_size,
					  &run, e) < 0)
				return -1;
		check_progress(c, (uint64_t)n * c->q->cluster_size);
	}
	/* What the refcount table does not reach. */
	end = refmap_end(c->map);
	if (end > c->rt_size * span && compare_block(c, c->rt_size * span, end - c->rt_size * span, NULL, &run, e) < 0)
		return -1;
	end_run(c, &run);
	return 0;
}

int check_stored(struct check *c, uint64_t cluster, uint64_t *refcount, struct qimg_error *e)
{
	unsigned order = c->q->h.refcount_order;
	uint64_t span = ((uint64_t)c->q->cluster_size * 8) >> order, i = cluster / span;
	uint64_t bit = (cluster % span) << order;
	uint8_t bytes[8];

	*refcount = 0;
	if (i >= c->rt_size || !c->rt[i])
		return 0;
	if (file_read(c->q->file, c->rt[i] + bit / 64 * 8, bytes, sizeof(bytes), e) < 0)
		return -1;
	*refcount = entry_refcount_get(bytes, order, (size_t)(bit % 64) >> order);
	return 0;
}

void check_tell_low(struct check *c)
{
	for (size_t i = 0; i < c->lows; i++) {
		const struct check_low *l = &c->low[i];
		struct qimg_finding f = {
			.fault = QIMG_FAULT_REFCOUNT, .has_host = true,
			.host = l->cluster << c->q->cluster_bits, .host_len = c->q->cluster_size,
			.has_guest = l->has_guest, .guest = l->guest, .guest_len = c->q->cluster_size,
			.snapshot = l->has_guest ? c->view[l->view].name : NULL,
			.clusters = 1, .refcount = l->refcount, .references = l->references,
			.fixed = is_fixed(c, l->cluster, l->references),
		};

		check_tell(c, &f, "the cluster at 0x%" PRIx64 " has a refcount of %" PRIu64 " and %" PRIu64
			   " references", f.host, l->refcount, l->references);
	}
}
