// SPDX-License-Identifier: BSD-2-Clause
/*
 * The memory of a copy. At the default level of compression all buffers and the state of the workers
 * stay below LIMIT, for any cluster size and any number of CPUs: there are fewer workers rather than more
 * memory. A high level of zstd takes more for each worker, as documented.
 */
#include "ops/budget.h"

#include "base/bytes.h"
#include "image/image.h"
#include "io/pool.h"
#include "ops/copy.h"

#define LIMIT (48 * MIB)		/* of 64 MiB, the rest being caches and the program itself */
#define PLAIN_PIECE MIB			/* read and written at once: the page cache takes large folios faster */
#define PACKED_PIECE (256 * KIB)	/* deflated by one worker: small, so that all end together */

enum { PIECES = 4, MORE_PIECES = 4 };

static uint64_t pow2_at_least(uint64_t v)
{
	return is_pow2(v) ? v : UINT64_C(2) << log2_u64(v);
}

/* What a compressor keeps for clusters of this size, at the default level. */
static uint64_t codec_memory(const struct qimg_image *target)
{
	if (target->codec == CODEC_ZSTD)
		return MIB + 2 * (uint64_t)target->cluster_size;
	return 512 * KIB;
}

/*
 * The largest cluster that a source may have compressed: reading any of it takes memory for all of it,
 * before and after inflating.
 */
static uint64_t source_cluster(const struct copy *c)
{
	uint64_t most = 0;

	for (size_t i = 0; i < c->source_count; i++)
		for (const struct qimg_image *s = c->sources[i]; s; s = s->backing)
			if (s->driver->caps & DRIVER_PACK)
				most = max_u64(most, s->cluster_size);
	return most;
}

/* Pieces that take so much each, within the limit; there has to be one. */
static uint64_t how_many(uint64_t each)
{
	return max_u64(LIMIT / max_u64(each, 1), 1);
}

static void plain(struct budget *b, const struct copy *c, uint64_t inflating)
{
	b->workers = b->wanted = pool_cpus();
	b->pieces = c->parallel ? c->parallel : PIECES;
	b->pieces = (unsigned)min_u64(b->pieces, how_many(b->piece + inflating));
}

/* Each worker has a piece, and some more are being read and written. */
static void packed(struct budget *b, const struct copy *c, uint64_t inflating)
{
	uint64_t two = 2 * (uint64_t)b->piece + inflating, codec = codec_memory(c->target);
	uint64_t left = LIMIT - min_u64(LIMIT, MORE_PIECES * two);

	b->wanted = c->parallel ? c->parallel : pool_cpus();
	b->workers = (unsigned)min_u64(b->wanted, max_u64(left / max_u64(two + codec, 1), 1));
	b->pieces = b->workers + MORE_PIECES;
	if (c->parallel)
		b->pieces = (unsigned)min_u64(b->pieces, c->parallel);
	b->pieces = (unsigned)min_u64(b->pieces, how_many(two));
}

void budget_make(struct budget *b, const struct copy *c, uint64_t unit)
{
	uint64_t piece = c->compress ? PACKED_PIECE : PLAIN_PIECE, source = source_cluster(c);

	if (c->sparse)
		piece = max_u64(piece, pow2_at_least(c->sparse));
	/* A cluster is inflated for one piece, not for several. */
	b->piece = max_u64(max_u64(piece, unit), source);
	if (c->compress)
		packed(b, c, 2 * source);
	else
		plain(b, c, 2 * source);
}
