// SPDX-License-Identifier: BSD-2-Clause
/* Pieces of dirty metadata: slices that lie behind each other in the file go out in one write. */
#include "qcow2/writeback.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "qcow2/cache.h"

#define SECTOR 512
#define PER_SECTOR (SECTOR / sizeof(uint64_t))
#define PIECE (256 * KIB)

static int need_buffer(struct writeback *wb, size_t size, struct qimg_error *e)
{
	size = max_u64(size, PIECE);
	if (wb->room >= size)
		return 0;
	free(wb->buf);
	wb->buf = mem_buffer(size, e);
	wb->room = wb->buf ? size : 0;
	return wb->buf ? 0 : -1;
}

int writeback_only(struct writeback *wb, struct slice *s, struct qimg_error *e)
{
	wb->list = mem_array(1, sizeof(*wb->list), e);
	if (!wb->list)
		return -1;
	wb->list[0] = s;
	wb->count = 1;
	return 0;
}

int writeback_slices(struct writeback *wb, struct cache *c, struct qimg_error *e)
{
	uint32_t size = cache_slice_size(c), most = (uint32_t)max_u64(PIECE / size, 1);

	if (!wb->list && cache_list_dirty(c, &wb->list, &wb->count, e) < 0)
		return -1;
	/* One or the other may have been written by itself meanwhile. */
	while (wb->next < wb->count && !wb->list[wb->next]->dirty)
		wb->next++;
	if (wb->next == wb->count)
		return 0;
	if (need_buffer(wb, size, e) < 0)
		return -1;
	wb->first = wb->next;
	wb->n = 0;
	wb->off = wb->list[wb->first]->off;
	while (wb->next < wb->count && wb->n < most) {
		struct slice *s = wb->list[wb->next];

		if (!s->dirty || s->off != wb->off + (uint64_t)wb->n * size)
			break;
		memcpy(wb->buf + (size_t)wb->n * size, s->data, size);
		cache_writing(s);
		wb->next++;
		wb->n++;
	}
	wb->len = (size_t)wb->n * size;
	return 1;
}

void writeback_slices_done(struct writeback *wb, struct cache *c, int code)
{
	for (uint32_t i = 0; i < wb->n; i++)
		cache_written(c, wb->list[wb->first + i], code);
}

int writeback_sectors(struct writeback *wb, const struct whole_table *t, struct qimg_error *e)
{
	uint32_t sectors = (uint32_t)div_up(t->count, PER_SECTOR), s = wb->next, entry;

	while (s < sectors && !t->dirty[s])
		s++;
	if (s == sectors)
		return 0;
	if (need_buffer(wb, PIECE, e) < 0)
		return -1;
	wb->first = s;
	while (s < sectors && t->dirty[s] && s - wb->first < PIECE / SECTOR)
		s++;
	wb->next = s;
	wb->n = s - wb->first;
	entry = wb->first * PER_SECTOR;
	wb->off = t->off + (uint64_t)entry * sizeof(uint64_t);
	wb->len = min_u64((uint64_t)wb->n * PER_SECTOR, t->count - entry) * sizeof(uint64_t);
	for (size_t i = 0; i < wb->len / sizeof(uint64_t); i++)
		be64_put(wb->buf + i * sizeof(uint64_t), t->entry[entry + i]);
	return 1;
}

void writeback_sectors_done(struct writeback *wb, const struct whole_table *t, int code)
{
	if (!code)
		memset(t->dirty + wb->first, 0, wb->n);
}

void writeback_reset(struct writeback *wb)
{
	free(wb->list);
	wb->list = NULL;
	wb->count = wb->next = wb->n = 0;
}

void writeback_free(struct writeback *wb)
{
	writeback_reset(wb);
	free(wb->buf);
	wb->buf = NULL;
	wb->room = 0;
}
