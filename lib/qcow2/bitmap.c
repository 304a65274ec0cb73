// SPDX-License-Identifier: BSD-2-Clause
/*
 * The content of persistent bitmaps: reading those of an image, and storing a set of new ones.
 *
 * A bitmap is a table of clusters; an entry without a cluster stands for one that is all zeros or all ones.
 * New bitmaps get their clusters, tables and directory first. The header names the directory when all of
 * that is on stable storage, and the bit that makes it count is set last.
 */
#include "qcow2/qcow2.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/range.h"
#include "base/zero.h"
#include "image/bitmap.h"
#include "io/file.h"
#include "qcow2/alloc.h"
#include "qcow2/bitmapdir.h"
#include "qcow2/flush.h"
#include "qcow2/write.h"

#define MIN_GRANULARITY 9
#define MAX_GRANULARITY 31
#define ENTRY_OFFSET UINT64_C(0x00fffffffffffe00)
#define ENTRY_ALL_ONES 1
#define TABLE_PIECE 8192		/* entries in memory */

static uint32_t table_need(const struct qcow2 *q, const struct bitmap *b)
{
	return (uint32_t)min_u64(div_up(bitmap_bytes(b, q->img->size), q->cluster_size), UINT32_MAX);
}

static bool is_broken(const struct qcow2 *q, const struct bitmap_entry *d, const struct bitmap *b)
{
	uint32_t known = BITMAP_IN_USE | BITMAP_AUTO | BITMAP_EXTRA_COMPATIBLE;

	return d->flags & BITMAP_IN_USE || d->flags & ~known ||
	       (d->extra_len && !(d->flags & BITMAP_EXTRA_COMPATIBLE)) ||
	       d->granularity_bits < MIN_GRANULARITY || d->granularity_bits > MAX_GRANULARITY ||
	       d->table_size != table_need(q, b) || !is_aligned(d->table_offset, q->cluster_size) ||
	       !range_within(d->table_offset, (uint64_t)d->table_size * 8, file_size(q->file));
}

int qcow2_bitmaps(struct qimg_image *img, struct bitmap **list, size_t *count, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	struct bitmap_entry *dir;

	if (q->h.version < 3)
		return error_set(e, ENOTSUP, "'%s' has version 2 (compat=0.10), which has no bitmaps",
				 img->name);
	if (bitmapdir_load(q, &dir, count, e) < 0)
		return -1;
	*list = mem_array(max_u64(*count, 1), sizeof(**list), e);
	for (size_t i = 0; *list && i < *count; i++) {
		struct bitmap *b = &(*list)[i];

		*b = (struct bitmap){
			.name = dir[i].name,
			.granularity_bits = dir[i].granularity_bits,
			.automatic = dir[i].flags & BITMAP_AUTO,
			.table = dir[i].table_offset,
			.table_size = dir[i].table_size,
		};
		b->broken = is_broken(q, &dir[i], b);
		dir[i].name = NULL;
	}
	bitmapdir_free(dir, *count);
	return *list ? 0 : -1;
}

/* The part of one cluster of a bitmap, by its table entry. */
static int read_part(struct qcow2 *q, const struct bitmap *b, uint64_t entry, uint32_t in_cluster,
		     void *buf, size_t len, struct qimg_error *e)
{
	uint64_t at = entry & ENTRY_OFFSET;

	if (entry & ~(ENTRY_OFFSET | ENTRY_ALL_ONES) || !is_aligned(at, q->cluster_size) ||
	    (at && entry & ENTRY_ALL_ONES))
		return error_set(e, EIO, "Bitmap '%s' of '%s' has an invalid table entry 0x%" PRIx64,
				 b->name, q->img->name, entry);
	if (at)
		return file_read(q->file, at + in_cluster, buf, len, e);
	memset(buf, entry ? 0xff : 0, len);
	return 0;
}

int qcow2_read_bitmap(struct qimg_image *img, const struct bitmap *b, uint64_t off, void *buf,
		      size_t len, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	uint8_t *to = buf;

	while (len) {
		uint64_t index = off >> q->cluster_bits;
		uint32_t in_cluster = (uint32_t)(off & (q->cluster_size - 1));
		size_t n = min_u64(len, q->cluster_size - in_cluster);
		uint8_t entry[8] = { 0 };

		if (index < b->table_size &&
		    file_read(q->file, b->table + index * 8, entry, sizeof(entry), e) < 0)
			return -1;
		if (read_part(q, b, be64_get(entry), in_cluster, to, n, e) < 0)
			return -1;
		off += n;
		to += n;
		len -= n;
	}
	return 0;
}

/* ---- storing ---- */

struct store {
	struct qcow2 *q;
	bitmap_read_fn read;
	void *ctx;
	uint8_t *cluster;		/* one of a bitmap */
	uint8_t *table;			/* TABLE_PIECE entries of its table */
};

static bool all_ones(const uint8_t *p, size_t n)
{
	return p[0] == 0xff && !memcmp(p, p + 1, n - 1);
}

/* Stores what s->cluster holds; *entry is what the table says of it. */
static int store_cluster(struct store *s, uint64_t *entry, struct qimg_error *e)
{
	struct qcow2 *q = s->q;

	*entry = 0;
	if (zero_is(s->cluster, q->cluster_size))
		return 0;
	*entry = ENTRY_ALL_ONES;
	if (all_ones(s->cluster, q->cluster_size))
		return 0;
	if (alloc_table(q, 1, entry, e) < 0)
		return -1;
	return file_write(q->file, *entry, s->cluster, q->cluster_size, e);
}

static int store_one(struct store *s, const struct bitmap *b, struct bitmap_entry *d,
		     struct qimg_error *e)
{
	struct qcow2 *q = s->q;
	uint64_t entry;

	*d = (struct bitmap_entry){
		.name = b->name,
		.table_size = table_need(q, b),
		.flags = b->automatic ? BITMAP_AUTO : 0,
		.granularity_bits = b->granularity_bits,
	};
	if (alloc_table(q, div_up((uint64_t)d->table_size * 8, q->cluster_size), &d->table_offset, e) < 0)
		return -1;
	for (uint32_t first = 0; first < d->table_size; first += TABLE_PIECE) {
		uint32_t n = (uint32_t)min_u64(d->table_size - first, TABLE_PIECE);

		for (uint32_t i = 0; i < n; i++) {
			if (s->read(s->ctx, b, (uint64_t)(first + i) << q->cluster_bits, s->cluster,
				    q->cluster_size, e) < 0 || store_cluster(s, &entry, e) < 0)
				return -1;
			be64_put(s->table + i * 8, entry);
		}
		if (file_write(q->file, d->table_offset + (uint64_t)first * 8, s->table, n * 8, e) < 0)
			return -1;
	}
	return 0;
}

static int store_directory(struct qcow2 *q, const struct bitmap_entry *dir, size_t count,
			   struct qimg_error *e)
{
	uint64_t size = bitmapdir_size(dir, count), clusters = div_up(size, q->cluster_size), at;
	uint8_t *buf = NULL;
	int ret = -1;

	if (size > HEADER_MAX_BITMAP_DIR || count > HEADER_MAX_BITMAPS)
		return error_set(e, EFBIG, "%zu bitmaps are too many for one image", count);
	buf = mem_buffer(clusters << q->cluster_bits, e);
	if (buf && alloc_table(q, clusters, &at, e) == 0) {
		memset(buf, 0, clusters << q->cluster_bits);
		bitmapdir_encode(dir, count, buf);
		ret = file_write(q->file, at, buf, clusters << q->cluster_bits, e);
	}
	free(buf);
	if (ret == 0) {
		q->h.has_bitmaps = true;
		q->h.nb_bitmaps = (uint32_t)count;
		q->h.bitmap_dir_size = size;
		q->h.bitmap_dir_offset = at;
	}
	return ret;
}

int qcow2_add_bitmaps(struct qimg_image *img, const struct bitmap *list, size_t count,
		      bitmap_read_fn read, void *ctx, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	struct store s = { .q = q, .read = read, .ctx = ctx };
	struct bitmap_entry *dir = mem_array(count, sizeof(*dir), e);
	struct header saved = q->h;
	int ret = -1;

	s.cluster = mem_buffer(q->cluster_size, e);
	s.table = mem_alloc(TABLE_PIECE * 8, e);
	if (!dir || !s.cluster || !s.table || write_prepare(q, NULL, e) < 0)
		goto out;
	for (size_t i = 0; i < count; i++)
		if (store_one(&s, &list[i], &dir[i], e) < 0)
			goto out;
	if (store_directory(q, dir, count, e) < 0)
		goto out;
	/* Flushed, so that from here on nothing of the image can need another write. */
	if (flush_all(q, e) < 0 || flush_switch(q, header_write, e) < 0)
		goto out;
	q->h.autoclear |= AUTOCLEAR_BITMAPS;
	ret = flush_switch(q, header_store_features, e);
out:
	if (ret < 0) {		/* what was taken leaks; the header on disk may be either */
		q->h.has_bitmaps = saved.has_bitmaps;
		q->h.nb_bitmaps = saved.nb_bitmaps;
		q->h.bitmap_dir_size = saved.bitmap_dir_size;
		q->h.bitmap_dir_offset = saved.bitmap_dir_offset;
		q->h.autoclear &= ~(uint64_t)AUTOCLEAR_BITMAPS;
	}
	free(dir);
	free(s.cluster);
	free(s.table);
	return ret;
}
