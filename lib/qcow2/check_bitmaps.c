// SPDX-License-Identifier: BSD-2-Clause
/* Checking an image: the bitmap directory, tables and data of bitmaps. */
#include "qcow2/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/bitmapdir.h"
#include "qcow2/qcow2.h"

#define BITMAP_FLAGS_KNOWN (BITMAP_IN_USE | BITMAP_AUTO | BITMAP_EXTRA_COMPATIBLE)
#define MIN_GRANULARITY 9
#define MAX_GRANULARITY 31

static void tell_bitmap(struct check *c, enum qimg_fault fault, const struct bitmap_entry *b, uint64_t host,
			uint64_t len, const char *why)
{
	struct qimg_finding f = { .fault = fault, .has_host = true, .host = host, .host_len = len };

	if (!c->first || c->step != CHECK_COUNT)
		return;
	if (b)
		check_tell(c, &f, "bitmap '%s': %s", b->name, why);
	else
		check_tell(c, &f, "%s", why);
}

uint64_t check_bitmap_need(const struct check *c, unsigned granularity_bits)
{
	uint64_t bits = div_up(c->q->h.size, UINT64_C(1) << granularity_bits);

	return div_up(div_up(bits, 8), c->q->cluster_size);
}

const char *check_bitmap_fault(struct check *c, const struct bitmap_entry *b, uint64_t *bytes, bool *usable)
{
	uint64_t len = (uint64_t)b->table_size * 8;

	*usable = false;
	if (!is_aligned(b->table_offset, c->q->cluster_size))
		return "its table is not aligned to a cluster";
	if (!check_inside(c, b->table_offset, len))
		return "its table does not lie within the file";
	/* Tables that do not overlap are not more than the file: no end of reading for what says so. */
	*bytes += len;
	if (*bytes > c->clusters << c->q->cluster_bits)
		return "the tables of bitmaps overlap each other";
	*usable = true;
	if (b->flags & ~(uint32_t)BITMAP_FLAGS_KNOWN)
		return "unknown flags are set";
	if (b->granularity_bits < MIN_GRANULARITY || b->granularity_bits > MAX_GRANULARITY)
		return "its granularity is none that is in use (512 bytes to 2 GiB)";
	/* One that was not written back may be of another size of the disk. */
	if (b->table_size != check_bitmap_need(c, b->granularity_bits) && !(b->flags & BITMAP_IN_USE))
		return "the size of its table does not go with the disk";
	return NULL;
}

static int use_bitmap_table(struct check *c, const struct bitmap_entry *b, struct qimg_error *e)
{
	uint32_t size = c->q->cluster_size, most = CHECK_PIECE / 8, n;

	for (uint32_t first = 0; first < b->table_size && !check_stopped(c); first += n) {
		uint64_t at = b->table_offset + (uint64_t)first * 8;

		n = (uint32_t)min_u64(b->table_size - first, most);
		if (file_read(c->q->file, at, c->buf, (size_t)n * 8, e) < 0) {
			tell_bitmap(c, QIMG_FAULT_UNREAD, b, at, (uint64_t)n * 8, e->msg);
			continue;
		}
		for (uint32_t i = 0; i < n; i++) {
			uint64_t entry = be64_get(c->buf + (size_t)i * 8), off = entry & ~UINT64_C(1);

			if (!off)
				continue;
			if (entry & 1 || off >> 56 || !is_aligned(off, size))
				tell_bitmap(c, QIMG_FAULT_BITMAP_ENTRY, b, off, size, "an entry of its table is "
					    "not aligned to a cluster, or reserved bits are set");
			else if (!check_inside(c, off, size))
				tell_bitmap(c, QIMG_FAULT_BITMAP_ENTRY, b, off, size, "an entry of its table "
					    "points beyond the end of the file");
			else if (check_use_movable(c, off, size, 1, "the data of a bitmap", e) < 0)
				return -1;
		}
	}
	return 0;
}

static int use_bitmap(struct check *c, const struct bitmap_entry *b, size_t index, uint64_t *bytes,
		      struct qimg_error *e)
{
	uint64_t len = (uint64_t)b->table_size * 8;
	bool usable;
	const char *why = check_bitmap_fault(c, b, bytes, &usable);
	struct qimg_error bad;

	if (bitmapdir_check(b, index, &bad) < 0)
		tell_bitmap(c, QIMG_FAULT_BITMAP_DIRECTORY, NULL, c->q->h.bitmap_dir_offset,
			    c->q->h.bitmap_dir_size, bad.msg);
	else if (why)
		tell_bitmap(c, QIMG_FAULT_BITMAP_DIRECTORY, b, b->table_offset, len, why);
	if (!usable || !b->table_size)
		return 0;
	if (check_use_movable(c, b->table_offset, len, 1, "the table of a bitmap", e) < 0)
		return -1;
	return use_bitmap_table(c, b, e);
}

static int check_names(struct check *c, const struct bitmap_entry *list, size_t n, struct qimg_error *e)
{
	const struct header *h = &c->q->h;
	const char **name = mem_array(n, sizeof(*name), e), *twin;
	char why[HEADER_MAX_NAME + 40];

	if (!name)
		return -1;
	for (size_t i = 0; i < n; i++)
		name[i] = list[i].name;
	for (size_t i = 0; (twin = check_twin(name, n, &i)); ) {
		snprintf(why, sizeof(why), "two bitmaps have the name '%s'", twin);
		tell_bitmap(c, QIMG_FAULT_BITMAP_DIRECTORY, NULL, h->bitmap_dir_offset, h->bitmap_dir_size, why);
	}
	free(name);
	return 0;
}

static int tell_directory(struct check *c, const struct qimg_error *why, struct qimg_error *e)
{
	const struct header *h = &c->q->h;

	if (why->code == ENOMEM) {
		*e = *why;
		return -1;
	}
	/* What the host cannot read is not damaged for that. */
	tell_bitmap(c, why->code == EINVAL ? QIMG_FAULT_BITMAP_DIRECTORY : QIMG_FAULT_UNREAD, NULL,
		    h->bitmap_dir_offset, h->bitmap_dir_size, why->msg);
	return 0;
}

int check_bitmaps(struct check *c, struct qimg_error *e)
{
	const struct header *h = &c->q->h;
	struct bitmap_entry *list = NULL;
	struct qimg_error why;
	uint64_t bytes = 0;
	size_t count = 0;
	int ret = 0;

	if (h->fault[HEADER_FAULT_BITMAPS])
		tell_bitmap(c, QIMG_FAULT_BITMAP_DIRECTORY, NULL, 0, c->q->cluster_size,
			    h->fault[HEADER_FAULT_BITMAPS]);
	if (!h->has_bitmaps || !(h->autoclear & AUTOCLEAR_BITMAPS))
		return 0;
	if (check_inside(c, h->bitmap_dir_offset, h->bitmap_dir_size))
		ret = check_use_movable(c, h->bitmap_dir_offset, h->bitmap_dir_size, 1, "the bitmap directory", e);
	if (ret == 0 && bitmapdir_load_some(c->q, &list, &count, &why) < 0)
		ret = tell_directory(c, &why, e);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = use_bitmap(c, &list[i], i, &bytes, e);
	if (ret == 0 && count)
		ret = check_names(c, list, count, e);
	bitmapdir_free(list, count);
	return ret;
}
