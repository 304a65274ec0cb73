// SPDX-License-Identifier: BSD-2-Clause
/* The memory of a copy is bounded, and there is always enough to go on, whatever the images and CPUs. */
#include "ops/budget.h"

#include "base/bytes.h"
#include "image/image.h"
#include "ops/copy.h"
#include "tap.h"

#define MOST (64 * MIB)

static struct qimg_image source, target;
static struct qimg_image *const sources[] = { &source };

/* What all pieces and workers may take together. */
static uint64_t total(const struct copy *c, const struct budget *b)
{
	uint64_t inflating = source.driver->caps & DRIVER_PACK ? 2 * (uint64_t)source.cluster_size : 0;
	uint64_t piece = b->piece * (c->compress ? 2 : 1) + inflating;
	uint64_t worker = !c->compress ? 0 : target.codec == CODEC_ZSTD ? MIB + target.cluster_size : 256 * KIB;

	return b->pieces * piece + b->workers * worker;
}

static void test(bool compress, unsigned codec)
{
	static const unsigned parallel[] = { 0, 1, 2, 8, 16, 1024 };
	static const uint64_t sparse[] = { 0, 4096, 64 * KIB, 4 * MIB };
	unsigned wrong = 0, tried = 0;
	uint64_t peak = 0;

	target.codec = codec;
	for (unsigned bits = 9; bits <= 21; bits++)
		for (unsigned from = 8; from <= 21; from++)
			for (unsigned i = 0; i < 6 * 4; i++) {
				struct copy c = { .sources = sources, .source_count = 1, .target = &target,
						  .compress = compress, .parallel = parallel[i % 6],
						  .sparse = sparse[i / 6] };
				uint64_t unit = max_u64(1U << bits, sparse[i / 6]);
				struct budget b;

				target.cluster_size = 1U << bits;
				/* 8: raw */
				source.driver = from == 8 ? &raw_driver : &qcow2_driver;
				source.cluster_size = from == 8 ? 0 : 1U << from;
				budget_make(&b, &c, unit);
				peak = max_u64(peak, total(&c, &b));
				wrong += !b.pieces || !b.workers || b.piece < unit || b.piece % unit ||
					 !is_pow2(b.piece) || total(&c, &b) > MOST ||
					 (c.parallel && b.workers > c.parallel && compress);
				tried++;
			}
	ok(!wrong, "%s, codec %u: %u of %u are wrong; at most %" PRIu64 " bytes",
	   compress ? "compressed" : "plain", codec, wrong, tried, peak);
}

int main(void)
{
	struct copy c = { .sources = sources, .source_count = 1, .target = &target, .compress = true,
			  .parallel = 16, .sparse = 4096 };
	struct budget b;

	test(false, CODEC_ZLIB);
	test(true, CODEC_ZLIB);
	test(true, CODEC_ZSTD);
	source.driver = &raw_driver;
	target.codec = CODEC_ZLIB;
	target.cluster_size = 64 * KIB;
	budget_make(&b, &c, target.cluster_size);
	is_u64(b.workers, 16, "with usual clusters 16 workers fit");
	target.cluster_size = 2 * MIB;
	budget_make(&b, &c, target.cluster_size);
	ok(b.workers > 1 && b.workers < 16 && b.wanted == 16, "with the largest some do: %u", b.workers);
	return done_testing();
}
