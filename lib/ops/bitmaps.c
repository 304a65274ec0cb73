// SPDX-License-Identifier: BSD-2-Clause
/* See bitmaps.h. A target that is larger than the source gets bitmaps with zeros for the rest. */
#include "ops/bitmaps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"

/* Takes the broken ones out of the list, or fails with the first. */
static int drop_broken(struct bitmaps *b, bool skip, struct qimg_error *e)
{
	size_t i, kept = 0;

	for (i = 0; i < b->count && !skip; i++)
		if (b->list[i].broken)
			return error_set(e, EINVAL, "Cannot copy inconsistent bitmap '%s': it was not written "
					 "back by who used it; leave such ones out with --skip-broken-bitmaps",
					 b->list[i].name);
	for (i = 0; i < b->count; i++) {
		struct bitmap x = b->list[i];

		b->list[i].name = NULL;
		if (!x.broken) {
			b->list[kept++] = x;
			continue;
		}
		warn("Skipping inconsistent bitmap '%s'", x.name);
		free(x.name);
	}
	b->count = kept;
	return 0;
}

static int no_support(const struct driver *d, struct qimg_error *e)
{
	return error_set(e, ENOTSUP, "Format driver '%s' does not support bitmaps", d->name);
}

int bitmaps_choose(struct bitmaps *b, const struct qimg_convert *c, struct qimg_error *e)
{
	const struct driver *to = c->target_format ? registry_find(c->target_format) : NULL;
	struct qimg_image *src = c->sources[0];

	*b = (struct bitmaps){ NULL, 0 };
	if (!(c->flags & QIMG_CONVERT_BITMAPS))
		return 0;
	if (c->source_count > 1)
		return error_set(e, EINVAL, "Copying bitmaps only possible with single source");
	if (!src->driver->bitmaps)
		return error_set(e, ENOTSUP, "Source lacks bitmap support");
	if (to && !to->add_bitmaps)
		return no_support(to, e);
	if (src->driver->bitmaps(src, &b->list, &b->count, e) < 0)
		return -1;
	return drop_broken(b, c->flags & QIMG_CONVERT_SKIP_BROKEN_BITMAPS, e);
}

int bitmaps_check(const struct bitmaps *b, struct qimg_image *target, struct qimg_error *e)
{
	struct bitmap *there;
	size_t count;

	if (!b->list)
		return 0;
	if (!target->driver->bitmaps)
		return no_support(target->driver, e);
	if (target->driver->bitmaps(target, &there, &count, e) < 0)
		return -1;
	bitmap_free_list(there, count);
	if (count && b->count)
		return error_set(e, EEXIST, "'%s' has bitmaps already: remove them first, since what is "
				 "written to it makes them invalid", target->name);
	return 0;
}

/* Bits behind the end of the source are zeros, whatever its last byte has there. */
static int read_source(void *ctx, const struct bitmap *b, uint64_t off, void *buf, size_t len,
		       struct qimg_error *e)
{
	struct qimg_image *src = ctx;
	uint64_t bits = div_up(src->size, UINT64_C(1) << b->granularity_bits), bytes = div_up(bits, 8);
	uint8_t *p = buf;
	size_t have = off < bytes ? min_u64(len, bytes - off) : 0;

	memset(p + have, 0, len - have);
	if (have && src->driver->read_bitmap(src, b, off, p, have, e) < 0)
		return -1;
	if (have && off + have == bytes && bits % 8)
		p[have - 1] &= (uint8_t)((1U << (bits % 8)) - 1);
	return 0;
}

int bitmaps_copy(const struct bitmaps *b, struct qimg_image *source, struct qimg_image *target,
		 struct qimg_error *e)
{
	if (!b->count)
		return 0;
	return target->driver->add_bitmaps(target, b->list, b->count, read_source, source, e);
}

void bitmaps_free(struct bitmaps *b)
{
	bitmap_free_list(b->list, b->count);
	*b = (struct bitmaps){ NULL, 0 };
}
