// SPDX-License-Identifier: BSD-2-Clause
/*
 * The bitmap directory, read and written.
 *
 * The header bounds its size and the number of its entries; here each entry has to end inside the
 * directory, and the last one has to be at its end, or the directory is not what the header says.
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

/* Decodes the entry at p, of which `room` bytes belong to the directory. Returns its length, or 0.
 */
static uint64_t decode(struct bitmap_entry *b, const uint8_t *p, uint64_t room, size_t index,
		       struct qimg_error *e)
{
	uint32_t name_len, extra_len;
	uint64_t len;

	if (room < BITMAP_HEAD) {
		error_set(e, EINVAL, "The bitmap directory ends before its entry %zu", index);
		return 0;
	}
	b->table_offset = be64_get(p + BITMAP_TABLE_OFFSET);
	b->table_size = be32_get(p + BITMAP_TABLE_SIZE);
	b->flags = be32_get(p + BITMAP_FLAGS);
	b->granularity_bits = p[BITMAP_GRANULARITY_BITS];
	name_len = be16_get(p + BITMAP_NAME_LEN);
	extra_len = be32_get(p + BITMAP_EXTRA_LEN);
	b->has_extra = extra_len;
	len = BITMAP_HEAD + (uint64_t)extra_len + name_len;
	if (len > room) {
		error_set(e, EINVAL,
			  "Bitmap %zu of %" PRIu64 " bytes reaches beyond the end of the "
			  "bitmap directory, where %" PRIu64 " are left",
			  index, len, room);
		return 0;
	}
	if (p[BITMAP_TYPE] != BITMAP_TYPE_DIRTY) {
		error_set(e, ENOTSUP, "Bitmap %zu is of the unknown type %u (known is 1)", index,
			  p[BITMAP_TYPE]);
		return 0;
	}
	if (b->granularity_bits > BITMAP_MAX_GRANULARITY_BITS) {
		error_set(e, EINVAL,
			  "Bitmap %zu has a granularity of 2^%u bytes, at most 2^%d is possible",
			  index, b->granularity_bits, BITMAP_MAX_GRANULARITY_BITS);
		return 0;
	}
	if (!name_len || name_len > HEADER_MAX_NAME) {
		error_set(e, EINVAL,
			  "Bitmap %zu has a name of %" PRIu32 " bytes, allowed are 1 to %d", index,
			  name_len, HEADER_MAX_NAME);
		return 0;
	}
	b->name = mem_strndup((const char *)p + BITMAP_HEAD + extra_len, name_len, e);
	/* The last entry may come without its padding. */
	return b->name ? min_u64(round_up(len, 8), room) : 0;
}

int bitmapdir_load(struct qcow2 *q, struct bitmap_entry **list, size_t *count, struct qimg_error *e)
{
	const struct header *h = &q->h;
	uint64_t off = 0, len;
	uint8_t *dir = NULL;
	size_t i;
	int ret = -1;

	*list = NULL;
	*count = 0;
	if (!h->has_bitmaps || !(h->autoclear & AUTOCLEAR_BITMAPS))
		return 0;
	if (!range_within(h->bitmap_dir_offset, h->bitmap_dir_size, file_size(q->file)))
		return error_set(e, EINVAL,
				 "The bitmap directory of %" PRIu64 " bytes at offset 0x%" PRIx64
				 " does not lie within the file of %" PRIu64 " bytes",
				 h->bitmap_dir_size, h->bitmap_dir_offset, file_size(q->file));
	*list = mem_array(h->nb_bitmaps, sizeof(**list), e);
	dir = mem_alloc(h->bitmap_dir_size, e);
	if (!*list || !dir ||
	    file_read(q->file, h->bitmap_dir_offset, dir, h->bitmap_dir_size, e) < 0)
		goto out;
	for (i = 0; i < h->nb_bitmaps; i++, off += len) {
		len = decode(&(*list)[i], dir + off, h->bitmap_dir_size - off, i, e);
		if (!len)
			goto out;
	}
	if (off != h->bitmap_dir_size) {
		error_set(e, EINVAL,
			  "The %" PRIu32 " bitmaps take %" PRIu64 " bytes of the bitmap "
			  "directory, whose size is given as %" PRIu64,
			  h->nb_bitmaps, off, h->bitmap_dir_size);
		goto out;
	}
	*count = h->nb_bitmaps;
	ret = 0;
out:
	if (ret < 0) {
		bitmapdir_free(*list, h->nb_bitmaps);
		*list = NULL;
	}
	free(dir);
	return ret;
}

static uint64_t entry_size(const struct bitmap_entry *b)
{
	return round_up(BITMAP_HEAD + strlen(b->name), 8);
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
		memcpy(buf + BITMAP_HEAD, b->name, strlen(b->name));
		buf += entry_size(b);
	}
}

void bitmapdir_free(struct bitmap_entry *list, size_t count)
{
	size_t i;

	for (i = 0; list && i < count; i++)
		free(list[i].name);
	free(list);
}
