// SPDX-License-Identifier: BSD-2-Clause
/*
 * The bitmap directory, read and written.
 *
 * The header bounds its size and the number of its entries; here each entry has to end inside the
 * directory, and the last one has to be at its end, or the directory is not what the header says. A check
 * gets what can be read all the same.
 */
#include "qcow2/bitmapdir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/range.h"
#include "io/file.h"
#include "qcow2/format.h"
#include "qcow2/qcow2.h"

/*
 * Decodes the entry at p, of which `room` bytes belong to the directory. Returns its length; 0: that cannot be known,
 * or (ENOMEM) there is no memory.
 */
static uint64_t decode(struct bitmap_entry *b, const uint8_t *p, uint64_t room, size_t index,
		       struct qimg_error *e)
{
	uint64_t len;

	if (room < BITMAP_HEAD) {
		error_set(e, EINVAL, "The bitmap directory ends before its entry %zu", index);
		return 0;
	}
	b->table_offset = be64_get(p + BITMAP_TABLE_OFFSET);
	b->table_size = be32_get(p + BITMAP_TABLE_SIZE);
	b->flags = be32_get(p + BITMAP_FLAGS);
	b->type = p[BITMAP_TYPE];
	b->granularity_bits = p[BITMAP_GRANULARITY_BITS];
	b->name_len = be16_get(p + BITMAP_NAME_LEN);
	b->extra_len = be32_get(p + BITMAP_EXTRA_LEN);
	len = BITMAP_HEAD + (uint64_t)b->extra_len + b->name_len;
	if (len > room) {
		error_set(e, EINVAL,
			  "Bitmap %zu of %" PRIu64 " bytes reaches beyond the end of the "
			  "bitmap directory, where %" PRIu64 " are left",
			  index, len, room);
		return 0;
	}
	b->extra = mem_alloc(b->extra_len, e);
	b->name = mem_strndup((const char *)p + BITMAP_HEAD + b->extra_len, b->name_len, e);
	if (!b->extra || !b->name)
		return 0;
	memcpy(b->extra, p + BITMAP_HEAD, b->extra_len);
	/* The last entry may come without its padding. */
	return min_u64(round_up(len, 8), room);
}

int bitmapdir_check(const struct bitmap_entry *b, size_t index, struct qimg_error *e)
{
	if (b->type != BITMAP_TYPE_DIRTY)
		return error_set(e, ENOTSUP, "Bitmap %zu is of the unknown type %u (known is 1)", index,
				 b->type);
	if (b->granularity_bits > BITMAP_MAX_GRANULARITY_BITS)
		return error_set(e, EINVAL,
				 "Bitmap %zu has a granularity of 2^%u bytes, at most 2^%d is possible",
				 index, b->granularity_bits, BITMAP_MAX_GRANULARITY_BITS);
	if (!b->name_len || b->name_len > HEADER_MAX_NAME)
		return error_set(e, EINVAL,
				 "Bitmap %zu has a name of %" PRIu32 " bytes, allowed are 1 to %d", index,
				 b->name_len, HEADER_MAX_NAME);
	return 0;
}

/* What the directory is said to have, and the rest of its last cluster, as far as the file goes. */
static uint64_t readable(const struct qcow2 *q)
{
	const struct header *h = &q->h;
	uint64_t size = file_size(q->file);

	if (h->bitmap_dir_offset >= size)
		return 0;
	return min_u64(size - h->bitmap_dir_offset,
		       min_u64(round_up(h->bitmap_dir_size, q->cluster_size), HEADER_MAX_BITMAP_DIR));
}

/* Whether what was read behind the number, or the size, that the header gives is an entry all the same. */
static bool is_likely(const struct bitmap_entry *b, size_t index)
{
	struct qimg_error ignored;

	return bitmapdir_check(b, index, &ignored) == 0 && b->table_offset && b->table_size;
}

static void free_entry(struct bitmap_entry *b)
{
	free(b->name);
	free(b->extra);
	memset(b, 0, sizeof(*b));
}

int bitmapdir_load_some(struct qcow2 *q, struct bitmap_entry **list, size_t *count, struct qimg_error *e)
{
	const struct header *h = &q->h;
	uint64_t off = 0, len, room = readable(q);
	uint8_t *dir = mem_alloc(room, e);
	size_t have = 0;
	int ret = -1;

	*list = NULL;
	*count = 0;
	if (!room)
		error_set(e, EINVAL, "The bitmap directory at offset 0x%" PRIx64 " does not lie within the file of %"
			  PRIu64 " bytes", h->bitmap_dir_offset, file_size(q->file));
	if (!dir || !room || file_read(q->file, h->bitmap_dir_offset, dir, room, e) < 0)
		goto out;
	while (*count < h->nb_bitmaps || (off < h->bitmap_dir_size && *count < HEADER_MAX_BITMAPS)) {
		bool beyond = *count >= h->nb_bitmaps;
		void *grown = *list;

		if (*count == have) {
			if (mem_grow(&grown, have, have ? have * 2 : 8, sizeof(**list), e) < 0)
				goto out;
			*list = grown;
			have = have ? have * 2 : 8;
		}
		len = decode(&(*list)[*count], dir + off, room - off, *count, e);
		if (len && (beyond || off + len > h->bitmap_dir_size) && !is_likely(&(*list)[*count], *count))
			len = 0;
		if (!len) {
			free_entry(&(*list)[*count]);
			if (!beyond || e->code == ENOMEM)
				goto out;
			break;
		}
		off += len;
		++*count;
	}
	if (*count != h->nb_bitmaps || off != h->bitmap_dir_size)
		error_set(e, EINVAL,
			  "The %zu bitmaps of the bitmap directory take %" PRIu64 " bytes, while the header "
			  "counts %" PRIu32 " in %" PRIu64 " bytes", *count, off, h->nb_bitmaps, h->bitmap_dir_size);
	else
		ret = 0;
out:
	free(dir);
	return ret;
}

int bitmapdir_load(struct qcow2 *q, struct bitmap_entry **list, size_t *count, struct qimg_error *e)
{
	const struct header *h = &q->h;
	int ret;

	*list = NULL;
	*count = 0;
	if (!h->has_bitmaps || !(h->autoclear & AUTOCLEAR_BITMAPS))
		return 0;
	if (!range_within(h->bitmap_dir_offset, h->bitmap_dir_size, file_size(q->file)))
		return error_set(e, EINVAL,
				 "The bitmap directory of %" PRIu64 " bytes at offset 0x%" PRIx64
				 " does not lie within the file of %" PRIu64 " bytes",
				 h->bitmap_dir_size, h->bitmap_dir_offset, file_size(q->file));
	ret = bitmapdir_load_some(q, list, count, e);
	for (size_t i = 0; ret == 0 && i < *count; i++)
		ret = bitmapdir_check(&(*list)[i], i, e);
	if (ret < 0) {
		bitmapdir_free(*list, *count);
		*list = NULL;
		*count = 0;
	}
	return ret;
}

static uint64_t entry_size(const struct bitmap_entry *b)
{
	return round_up(BITMAP_HEAD + (uint64_t)b->extra_len + strlen(b->name), 8);
}

uint64_t bitmapdir_size(const struct bitmap_entry *list, size_t count)
{
	uint64_t size = 0;

	for (size_t i = 0; i < count; i++)
		size += entry_size(&list[i]);
	return size;
}

void bitmapdir_encode(const struct bitmap_entry *list, size_t count, uint8_t *buf)
{
	for (size_t i = 0; i < count; i++) {
		const struct bitmap_entry *b = &list[i];

		memset(buf, 0, entry_size(b));
		be64_put(buf + BITMAP_TABLE_OFFSET, b->table_offset);
		be32_put(buf + BITMAP_TABLE_SIZE, b->table_size);
		be32_put(buf + BITMAP_FLAGS, b->flags);
		buf[BITMAP_TYPE] = BITMAP_TYPE_DIRTY;
		buf[BITMAP_GRANULARITY_BITS] = (uint8_t)b->granularity_bits;
		be16_put(buf + BITMAP_NAME_LEN, (uint16_t)strlen(b->name));
		be32_put(buf + BITMAP_EXTRA_LEN, b->extra_len);
		if (b->extra_len)
			memcpy(buf + BITMAP_HEAD, b->extra, b->extra_len);
		memcpy(buf + BITMAP_HEAD + b->extra_len, b->name, strlen(b->name));
		buf += entry_size(b);
	}
}

void bitmapdir_free(struct bitmap_entry *list, size_t count)
{
	for (size_t i = 0; list && i < count; i++)
		free_entry(&list[i]);
	free(list);
}
