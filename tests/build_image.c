// SPDX-License-Identifier: BSD-2-Clause
/*
 * See build_image.h. The image grows in memory; entries carry no COPIED bit and no cluster has a
 * refcount until build_finish, which counts and writes both. Running out of memory aborts: a test.
 */
#include "build_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define COPIED	   (UINT64_C(1) << 63)
#define COMPRESSED (UINT64_C(1) << 62)
#define OFFSET	   UINT64_C(0x00fffffffffffe00)

static void *must(void *p)
{
	if (!p) {
		fputs("build_image: out of memory\n", stderr);
		abort();
	}
	return p;
}

static void put(uint8_t *p, uint64_t v, unsigned bytes)
{
	while (bytes) {
		p[--bytes] = v;
		v >>= 8;
	}
}

static uint64_t get(const uint8_t *p)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

/* New clusters at the end, zeroed; returns their offset. Moves b->file. */
static uint64_t grow(struct build *b, uint64_t bytes)
{
	uint64_t at = b->len, n = (bytes + b->cluster - 1) / b->cluster * b->cluster;

	if (b->len + n > b->room) {
		b->room = (b->len + n) * 2;
		b->file = must(realloc(b->file, b->room));
	}
	memset(b->file + b->len, 0, n);
	b->len += n;
	return at;
}

void build_start(struct build *b)
{
	b->cluster = UINT64_C(1) << b->cluster_bits;
	b->per_l2 = b->cluster / (b->extended ? 16 : 8);
	b->l1_size =
		(b->size + b->cluster * b->per_l2 - 1) / (b->cluster * b->per_l2) + b->l1_spare;
	b->l1 = must(calloc(b->l1_size + 1, sizeof(*b->l1)));
	b->own = must(calloc(b->l1_size + 1, sizeof(*b->own)));
	grow(b, b->cluster);
	if (b->external) {
		b->data_len = b->size;
		b->data = must(calloc(1, (b->size / b->cluster + 1) * b->cluster));
	}
}

/* The entry of a guest cluster in a table that only the active view uses. */
static uint8_t *entry(struct build *b, uint64_t guest)
{
	uint64_t index = guest / b->cluster, i = index / b->per_l2;

	if (!b->own[i]) {
		uint64_t table = grow(b, b->cluster);

		if (b->l1[i])
			memcpy(b->file + table, b->file + b->l1[i], b->cluster);
		b->l1[i] = table;
		b->own[i] = true;
	}
	return b->file + b->l1[i] + index % b->per_l2 * (b->extended ? 16 : 8);
}

static uint64_t store(struct build *b, uint64_t guest, const uint8_t *bytes)
{
	uint64_t host;

	if (b->external) {
		memcpy(b->data + guest, bytes, b->cluster);
		return guest;
	}
	host = grow(b, b->cluster);
	memcpy(b->file + host, bytes, b->cluster);
	return host;
}

static void link_cluster(struct build *b, uint64_t guest, uint64_t e, uint64_t bitmap)
{
	uint8_t *p = entry(b, guest);

	put(p, e, 8);
	if (b->extended)
		put(p + 8, bitmap, 8);
}

void build_data(struct build *b, uint64_t guest, const uint8_t *bytes)
{
	build_sub(b, guest, bytes, 0xffffffff, 0);
}

void build_sub(struct build *b, uint64_t guest, const uint8_t *bytes, uint32_t alloc, uint32_t zero)
{
	uint64_t host = store(b, guest, bytes);

	/* An external cluster at offset 0 is told from none by COPIED alone. */
	link_cluster(b, guest, host | (b->external ? COPIED : 0), (uint64_t)zero << 32 | alloc);
}

void build_zero(struct build *b, uint64_t guest, const uint8_t *bytes)
{
	uint64_t host = bytes ? store(b, guest, bytes) : 0;

	if (b->external && bytes)
		host |= COPIED;
	link_cluster(b, guest, host | (b->extended ? 0 : 1), UINT64_C(0xffffffff) << 32);
}

void build_drop(struct build *b, uint64_t guest)
{
	link_cluster(b, guest, 0, 0);
}

static size_t deflate_cluster(const struct build *b, const uint8_t *bytes, uint8_t *out)
{
	z_stream z = { .next_in = (uint8_t *)bytes,
		       .avail_in = b->cluster,
		       .next_out = out,
		       .avail_out = b->cluster - 1 };
	size_t n = 0;

	if (b->zstd) {
		n = ZSTD_compress(out, b->cluster - 1, bytes, b->cluster, 3);
		return ZSTD_isError(n) ? 0 : n;
	}
	if (deflateInit2(&z, 6, Z_DEFLATED, -12, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return 0;
	if (deflate(&z, Z_FINISH) == Z_STREAM_END)
		n = b->cluster - 1 - z.avail_out;
	deflateEnd(&z);
	return n;
}

void build_packed(struct build *b, uint64_t guest, const uint8_t *bytes)
{
	uint8_t *out = must(malloc(b->cluster));
	size_t n = deflate_cluster(b, bytes, out);
	unsigned x = 62 - (b->cluster_bits - 8);
	uint64_t sectors, limit = (UINT64_C(1)
				   << (1 << b->refcount_order < 32 ? 1 << b->refcount_order : 32)) -
				  1;

	if (n == 0) {
		build_data(b, guest, bytes);
		free(out);
		return;
	}
	/* No more streams in a cluster than its refcount can count, a snapshot's included. */
	if (limit < 16 || b->pack_at + n > b->pack_end) {
		if (limit < 16 || b->pack_end != b->len || b->pack_at == 0)
			b->pack_at = b->len;
		while (b->len < b->pack_at + n)
			grow(b, b->cluster);
		b->pack_end = b->len;
	}
	memcpy(b->file + b->pack_at, out, n);
	sectors = (b->pack_at + n - 1) / 512 - b->pack_at / 512;
	link_cluster(b, guest, COMPRESSED | sectors << x | b->pack_at, 0);
	b->pack_at += n;
	free(out);
}

void build_snapshot(struct build *b, const char *name)
{
	struct build_snapshot *s = &b->snapshot[b->snapshots++];
	size_t bytes = b->l1_size * sizeof(uint64_t);

	snprintf(s->name, sizeof(s->name), "%s", name);
	s->l1 = must(malloc(bytes + 1));
	memcpy(s->l1, b->l1, bytes);
	memset(b->own, 0, b->l1_size * sizeof(*b->own));
	s->l1_offset = grow(b, bytes);
	for (uint32_t i = 0; i < b->l1_size; i++)
		put(b->file + s->l1_offset + 8 * i, s->l1[i], 8);
	b->pack_at = b->pack_end = 0;
}

/* ---- finishing ---- */

static void count(const struct build *b, uint64_t *refs, uint64_t off, uint64_t len)
{
	for (uint64_t c = off / b->cluster; len && c <= (off + len - 1) / b->cluster; c++)
		refs[c]++;
}

static void count_view(const struct build *b, uint64_t *refs, const uint64_t *l1)
{
	unsigned x = 62 - (b->cluster_bits - 8);

	for (uint32_t i = 0; i < b->l1_size; i++) {
		if (l1[i] == 0)
			continue;
		count(b, refs, l1[i], b->cluster);
		for (uint64_t j = 0; j < b->per_l2; j++) {
			uint64_t e = get(b->file + l1[i] + j * (b->extended ? 16 : 8));

			if (e & COMPRESSED) {
				uint64_t at = e & ((UINT64_C(1) << x) - 1);

				count(b, refs, at / 512 * 512,
				      ((e & (COMPRESSED - 1)) >> x) * 512 + 512);
			} else if ((e & OFFSET) && !b->external) {
				count(b, refs, e & OFFSET, b->cluster);
			}
		}
	}
}

static void mark_copied(struct build *b, const uint64_t *refs)
{
	for (uint32_t i = 0; i < b->l1_size; i++) {
		if (b->l1[i] == 0)
			continue;
		for (uint64_t j = 0; b->own[i] && j < b->per_l2; j++) {
			uint8_t *p = b->file + b->l1[i] + j * (b->extended ? 16 : 8);
			uint64_t e = get(p);

			if (!(e & COMPRESSED) && (e & OFFSET) && !b->external &&
			    refs[(e & OFFSET) / b->cluster] == 1)
				put(p, e | COPIED, 8);
		}
		if (refs[b->l1[i] / b->cluster] == 1)
			b->l1[i] |= COPIED;
	}
}

static uint64_t snapshot_table(struct build *b)
{
	uint64_t at = grow(b, b->snapshots * UINT64_C(96)), off = at;

	for (unsigned i = 0; i < b->snapshots; i++) {
		const struct build_snapshot *s = &b->snapshot[i];
		uint8_t *p = b->file + at;
		size_t name = strlen(s->name);

		put(p, s->l1_offset, 8);
		put(p + 8, b->l1_size, 4);
		put(p + 12, 1, 2);
		put(p + 14, name, 2);
		put(p + 16, 1700000000 + i, 4);
		put(p + 36, 16, 4);
		put(p + 48, b->size, 8);
		p[56] = '1' + i;
		memcpy(p + 57, s->name, name);
		at += (57 + name + 7) / 8 * 8;
	}
	return off;
}

/* Directory, table and data of one bitmap, each in a cluster of its own; returns the directory. */
static uint64_t bitmap_directory(struct build *b)
{
	uint64_t at = grow(b, b->cluster * 3);
	uint8_t *p = b->file + at;

	put(p, at + b->cluster, 8);
	put(p + 8, 1, 4);
	put(p + 12, 2, 4);
	p[16] = 1;
	p[17] = 16;
	put(p + 18, 5, 2);
	memcpy(p + 24, "dirty", 5);
	put(p + b->cluster, at + 2 * b->cluster, 8);
	return at;
}

static uint8_t *extension(uint8_t *p, uint32_t type, const void *data, size_t n)
{
	put(p, type, 4);
	put(p + 4, n, 4);
	memcpy(p + 8, data, n);
	return p + 8 + (n + 7) / 8 * 8;
}

static void put_header(struct build *b, uint64_t l1, uint64_t rt, uint64_t rt_clusters,
		       uint64_t snapshots, uint64_t bitmaps)
{
	uint8_t bitmap[24] = { 0, 0, 0, 1 };
	uint8_t *h = b->file, *p = h + (b->version == 2 ? 72 : 112);

	put(h, 0x514649fb, 4);
	put(h + 4, b->version, 4);
	put(h + 20, b->cluster_bits, 4);
	put(h + 24, b->size, 8);
	put(h + 36, b->l1_size, 4);
	put(h + 40, l1, 8);
	put(h + 48, rt, 8);
	put(h + 56, rt_clusters, 4);
	put(h + 60, b->snapshots, 4);
	put(h + 64, snapshots, 8);
	if (b->version == 3) {
		put(h + 72, (b->external ? 4 : 0) | (b->zstd ? 8 : 0) | (b->extended ? 16 : 0), 8);
		put(h + 80, b->lazy, 8);
		put(h + 88, (b->raw ? 2 : 0) | b->bitmap, 8);
		put(h + 96, b->refcount_order, 4);
		put(h + 100, 112, 4);
		put(h + 104, b->zstd, 1);
	}
	if (b->backing && b->backing_format)
		p = extension(p, 0xe2792aca, b->backing_format, strlen(b->backing_format));
	if (b->data_name)
		p = extension(p, 0x44415441, b->data_name, strlen(b->data_name));
	if (b->bitmap) {
		put(bitmap + 8, 32, 8);
		put(bitmap + 16, bitmaps, 8);
		p = extension(p, 0x23852875, bitmap, sizeof(bitmap));
	}
	if (b->backing) {
		p += 8;
		put(h + 8, p - h, 8);
		put(h + 16, strlen(b->backing), 4);
		memcpy(p, b->backing, strlen(b->backing));
	}
}

static void put_refcount(struct build *b, uint64_t block, uint64_t index, uint64_t v)
{
	unsigned bits = 1u << b->refcount_order;
	uint8_t *p = b->file + block + index * bits / 8;

	if (bits >= 8)
		put(p, v, bits / 8);
	else
		*p |= v << (index * bits % 8);
}

static void write_file(const char *path, const uint8_t *p, uint64_t len)
{
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(p, 1, len, f) != len || fclose(f)) {
		perror(path);
		abort();
	}
}

void build_finish(struct build *b, const char *path, const char *data_path)
{
	uint64_t per_block = b->cluster * 8 >> b->refcount_order, blocks = 0, rt_clusters = 0;
	uint64_t snapshots = b->snapshots ? snapshot_table(b) : 0;
	uint64_t bitmaps = b->bitmap ? bitmap_directory(b) : 0, l1, rt, first, need;
	uint64_t *refs;

	l1 = grow(b, b->l1_size * UINT64_C(8));
	do { /* refcount blocks count themselves and the table */
		need = b->len / b->cluster + blocks + rt_clusters;
		blocks = (need + per_block - 1) / per_block;
		rt_clusters = (blocks * 8 + b->cluster - 1) / b->cluster + b->rt_spare;
	} while (need != b->len / b->cluster + blocks + rt_clusters);
	rt = grow(b, rt_clusters * b->cluster);
	first = grow(b, blocks * b->cluster);

	refs = must(calloc(need + 2, sizeof(*refs)));
	count(b, refs, 0, b->cluster);
	count(b, refs, l1, b->l1_size * UINT64_C(8));
	count(b, refs, rt, rt_clusters * b->cluster);
	count(b, refs, first, blocks * b->cluster);
	count(b, refs, snapshots, snapshots ? b->snapshots * UINT64_C(96) : 0);
	count(b, refs, bitmaps, bitmaps ? 3 * b->cluster : 0);
	count_view(b, refs, b->l1);
	for (unsigned i = 0; i < b->snapshots; i++) {
		count(b, refs, b->snapshot[i].l1_offset, b->l1_size * UINT64_C(8));
		count_view(b, refs, b->snapshot[i].l1);
	}
	mark_copied(b, refs);
	for (uint32_t i = 0; i < b->l1_size; i++)
		put(b->file + l1 + 8 * i, b->l1[i], 8);
	for (uint64_t i = 0; i < blocks; i++)
		put(b->file + rt + 8 * i, first + i * b->cluster, 8);
	for (uint64_t c = 0; c < need; c++)
		put_refcount(b, first + c / per_block * b->cluster, c % per_block, refs[c]);
	put_header(b, l1, rt, rt_clusters, snapshots, bitmaps);
	write_file(path, b->file, b->len);
	if (b->external && data_path)
		write_file(data_path, b->data, b->data_len);
	free(refs);
	free(b->file);
	free(b->data);
	free(b->l1);
	free(b->own);
	for (unsigned i = 0; i < b->snapshots; i++)
		free(b->snapshot[i].l1);
}
