// SPDX-License-Identifier: BSD-2-Clause
/* See setting.h. */
#include "setting.h"

#include "build_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB	   UINT64_C(1024)
#define STAMP_MASK UINT64_C(0x00ffffffffffffff)

const struct setting settings[] = {
	{ "v3-4k", 3, 12, 4, .size = 640 * KIB },
	{ "v2-4k", 2, 12, 4, .size = 640 * KIB + 512 },
	{ "512", 3, 9, 4, .size = 160 * KIB },
	{ "512-refcount-64", 3, 9, 6, .size = 224 * KIB, .resize = true },
	{ "512-tight-refcount-table", 3, 9, 6, .size = 3072 * KIB, .tight = true },
	{ "512-empty", 3, 9, 6, .size = 256 * KIB, .empty = true },
	{ "512-empty-resize", 3, 9, 6, .size = 48 * KIB, .empty = true, .resize = true },
	{ "512-snapshot", 3, 9, 4, .size = 160 * KIB, .snapshot = true },
	{ "refcount-1", 3, 12, 0, .size = 640 * KIB },
	{ "refcount-1-packed", 3, 12, 0, .size = 320 * KIB, .packed = true },
	{ "refcount-2-snapshot", 3, 12, 1, .size = 480 * KIB, .snapshot = true },
	{ "refcount-2-packed", 3, 12, 1, .size = 320 * KIB, .packed = true },
	{ "refcount-4-packed-snapshot", 3, 12, 2, .size = 320 * KIB, .packed = true,
	  .snapshot = true },
	{ "refcount-8", 3, 12, 3, .size = 480 * KIB, .snapshot = true },
	{ "refcount-64-packed", 3, 12, 6, .size = 480 * KIB, .packed = true },
	{ "snapshot", 3, 12, 4, .size = 640 * KIB, .snapshot = true },
	{ "v2-snapshot", 2, 12, 4, .size = 480 * KIB, .snapshot = true },
	{ "packed", 3, 12, 4, .size = 480 * KIB, .packed = true },
	{ "packed-empty", 3, 12, 4, .size = 480 * KIB, .packed = true, .empty = true },
	{ "packed-512-empty", 3, 9, 4, .size = 160 * KIB, .packed = true, .empty = true },
	{ "refcount-4-packed-empty", 3, 12, 2, .size = 320 * KIB, .packed = true, .empty = true },
	{ "packed-snapshot", 3, 12, 4, .size = 480 * KIB, .packed = true, .snapshot = true },
	{ "packed-zstd", 3, 12, 4, .size = 320 * KIB, .packed = true, .zstd = true },
	{ "packed-64k", 3, 16, 4, .size = 2048 * KIB, .packed = true },
	{ "backing", 3, 12, 4, .size = 480 * KIB, .backing = true },
	{ "v2-backing", 2, 12, 4, .size = 480 * KIB, .backing = true },
	{ "backing-packed-snapshot", 3, 12, 4, .size = 320 * KIB, .backing = true, .packed = true,
	  .snapshot = true },
	{ "64k", 3, 16, 4, .size = 2048 * KIB + 1536 },
	{ "64k-snapshot", 3, 16, 4, .size = 1536 * KIB, .snapshot = true },
	{ "extended-16k", 3, 14, 4, .size = 1024 * KIB, .extended = true },
	{ "extended-large", 3, 14, 4, .size = 4096 * KIB, .extended = true },
	{ "extended-64k", 3, 16, 4, .size = 2048 * KIB, .extended = true },
	{ "extended-snapshot", 3, 14, 4, .size = 768 * KIB, .extended = true, .snapshot = true },
	{ "extended-backing", 3, 14, 4, .size = 768 * KIB, .extended = true, .backing = true },
	{ "extended-backing-snapshot-packed", 3, 14, 5, .size = 768 * KIB, .extended = true,
	  .backing = true, .snapshot = true, .packed = true },
	{ "extended-refcount-1", 3, 14, 0, .size = 768 * KIB, .extended = true },
	{ "external", 3, 12, 4, .size = 480 * KIB, .external = true },
	{ "external-raw", 3, 12, 4, .size = 480 * KIB, .external = true, .raw = true },
	{ "external-backing", 3, 12, 4, .size = 480 * KIB, .external = true, .backing = true },
	{ "external-extended", 3, 14, 4, .size = 768 * KIB, .external = true, .extended = true },
	{ "bitmap", 3, 12, 4, .size = 480 * KIB, .bitmap = true },
	{ "bitmap-backing-512", 3, 9, 4, .size = 96 * KIB, .bitmap = true, .backing = true },
	{ "bitmap-external-raw", 3, 12, 4, .size = 240 * KIB, .bitmap = true, .external = true,
	  .raw = true },
	{ "lazy", 3, 12, 4, .size = 480 * KIB, .lazy = true },
	{ "lazy-snapshot", 3, 12, 4, .size = 480 * KIB, .lazy = true, .snapshot = true },
	{ "resize", 3, 12, 4, .size = 256 * KIB + 512, .resize = true },
	{ "snapshot-resize", 3, 12, 4, .size = 256 * KIB, .resize = true, .snapshot = true },
	{ "backing-resize", 3, 12, 4, .size = 256 * KIB, .resize = true, .backing = true },
	{ "extended-resize", 3, 14, 4, .size = 256 * KIB + 512, .resize = true, .extended = true },
	{ .name = NULL },
};

uint64_t random_next(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

uint64_t random_below(uint64_t *seed, uint64_t n)
{
	return random_next(seed) % n;
}

bool random_chance(uint64_t *seed, unsigned percent)
{
	return random_below(seed, 100) < percent;
}

/*
 * Eight bytes of a sector: the stamp and the number of the sector first, then some noise, so that it
 * compresses to a half and not to nothing, then the stamp again. The place is in the top byte.
 */
static uint64_t stamp_word(uint64_t stamp, uint64_t sector, unsigned index)
{
	uint64_t noise = stamp << 32 ^ sector << 8 ^ index;

	if (index >= 2 && index < 28)
		return random_next(&noise);
	return (uint64_t)(index + 1) << 56 | (index == 1 ? sector : stamp & STAMP_MASK);
}

void stamp_fill(uint8_t *buf, uint64_t off, uint64_t len, uint64_t stamp)
{
	while (len) {
		uint64_t word = stamp_word(stamp, off / SECTOR, off % SECTOR / 8), at = off % 8;
		uint64_t n = 8 - at < len ? 8 - at : len;

		memcpy(buf, (uint8_t *)&word + at, n);
		buf += n;
		off += n;
		len -= n;
	}
}

uint64_t stamp_read(const uint8_t *sector)
{
	static const uint8_t zeros[SECTOR];
	uint8_t want[SECTOR];
	uint64_t word[2];

	if (!memcmp(sector, zeros, SECTOR))
		return 0;
	memcpy(word, sector, sizeof(word));
	stamp_fill(want, (word[1] & STAMP_MASK) * SECTOR, SECTOR, word[0]);
	return memcmp(sector, want, SECTOR) ? UINT64_MAX : word[0] & STAMP_MASK;
}

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

/* One guest cluster gets something, or is left alone. `bytes` is room for a cluster. */
static void fill_cluster(struct build *b, const struct setting *s, uint64_t guest, uint64_t *seed,
			 uint64_t *stamp, uint8_t *content, const uint8_t *backing, uint8_t *bytes)
{
	uint64_t len = s->size - guest < b->cluster ? s->size - guest : b->cluster;
	uint64_t sub = b->cluster / 32;
	uint32_t alloc, zero;

	memset(bytes, 0, b->cluster);
	stamp_fill(bytes, guest, len, (*stamp)++);
	switch (random_below(seed, 8)) {
	case 0:
	case 1:
		build_data(b, guest, bytes);
		memcpy(content + guest, bytes, len);
		break;
	case 2:
		if (!s->packed) {
			build_data(b, guest, bytes);
		} else {
			build_packed(b, guest, bytes);
		}
		memcpy(content + guest, bytes, len);
		break;
	case 3: /* once there, now free: poison in a cluster that will be used again */
		stamp_fill(bytes, 0, b->cluster, POISON);
		if (!b->external && !b->snapshots &&
		    !(backing || (s->snapshot && random_chance(seed, 50)))) {
			build_data(b, guest, bytes);
			build_drop(b, guest);
			memset(content + guest, 0, len);
		}
		break;
	case 4:
		if (s->version == 2 || s->raw)
			break;
		stamp_fill(bytes, 0, b->cluster, POISON);
		build_zero(b, guest, random_chance(seed, 50) ? bytes : NULL);
		memset(content + guest, 0, len);
		break;
	case 5:
		if (!s->extended || len < b->cluster)
			break;
		alloc = random_next(seed);
		zero = random_next(seed) & ~alloc;
		for (unsigned i = 0; i < 32; i++) {
			uint8_t *c = content + guest + i * sub;

			if (alloc >> i & 1)
				memcpy(c, bytes + i * sub, sub);
			else if (zero >> i & 1 || !backing)
				memset(c, 0, sub);
			else
				memcpy(c, backing + guest + i * sub, sub);
			if (!(alloc >> i & 1))
				stamp_fill(bytes + i * sub, 0, sub, b->external ? 0 : POISON);
		}
		build_sub(b, guest, bytes, alloc, zero);
		break;
	}
}

/* Data from the front, until a few more clusters make the refcount table too small. */
static void fill_tight(struct build *b, const struct setting *s, uint64_t *stamp, uint8_t *content,
		       uint8_t *bytes)
{
	uint64_t blocks = b->cluster / 8, per_block = b->cluster * 8 >> b->refcount_order;
	uint64_t end = (blocks * per_block - blocks - 32) * b->cluster;

	for (uint64_t guest = 0; guest < s->size && b->len < end; guest += b->cluster) {
		stamp_fill(bytes, guest, b->cluster, (*stamp)++);
		build_data(b, guest, bytes);
		memcpy(content + guest, bytes, b->cluster);
	}
}

static void write_backing(const char *dir, const uint8_t *p, uint64_t len)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/backing.raw", dir);
	f = fopen(path, "wb");
	if (!f || fwrite(p, 1, len, f) != len || fclose(f)) {
		perror(path);
		abort();
	}
}

void setting_build(const struct setting *s, const char *dir, uint64_t *seed,
		   struct setting_content *c)
{
	struct build b = { .version = s->version,
			   .cluster_bits = s->cluster_bits,
			   .refcount_order = s->refcount_order,
			   .extended = s->extended,
			   .lazy = s->lazy,
			   .zstd = s->zstd,
			   .external = s->external,
			   .raw = s->raw,
			   .bitmap = s->bitmap,
			   .size = s->size };
	uint64_t stamp = 1000000, backing_len = s->size * 3 / 4 / SECTOR * SECTOR;
	char path[4096], data[4096];
	uint8_t *bytes;

	*c = (struct setting_content){ .size = s->size };
	c->active = must(calloc(1, s->size));
	if (s->backing) {
		b.backing = "backing.raw";
		b.backing_format = "raw";
		c->backing = must(calloc(1, s->size));
		for (uint64_t off = 0; off < backing_len; off += SECTOR)
			if (off / 8192 % 3)
				stamp_fill(c->backing + off, off, SECTOR, stamp++);
		memcpy(c->active, c->backing, s->size);
		write_backing(dir, c->backing, backing_len);
	}
	if (s->external)
		b.data_name = "data.raw";
	build_start(&b);
	bytes = must(malloc(b.cluster));
	if (s->tight)
		fill_tight(&b, s, &stamp, c->active, bytes);
	for (unsigned pass = 0; pass < (s->snapshot ? 2 : 1) && !s->empty && !s->tight; pass++) {
		if (pass == 1) {
			build_snapshot(&b, "first");
			c->snapshot = must(malloc(s->size));
			memcpy(c->snapshot, c->active, s->size);
		}
		for (uint64_t guest = 0; guest < s->size; guest += b.cluster)
			if (pass == 0 || random_chance(seed, 20))
				fill_cluster(&b, s, guest, seed, &stamp, c->active, c->backing,
					     bytes);
	}
	free(bytes);
	snprintf(path, sizeof(path), "%s/image.qcow2", dir);
	snprintf(data, sizeof(data), "%s/data.raw", dir);
	build_finish(&b, path, data);
}

void setting_free(struct setting_content *c)
{
	free(c->active);
	free(c->snapshot);
	free(c->backing);
}
