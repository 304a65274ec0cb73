// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory for slices: frames in blocks, and groups of frames (one, or those in a page) that go back to the
 * system together. A group that has gone back is still there, as address space, and becomes resident
 * when one of its frames is used again.
 */
#include "qcow2/frames.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/mem.h"

#define BLOCK (64 * KIB)

struct group {
	uint16_t used;
	bool resident;
};

struct frames {
	uint32_t size;			/* of a frame */
	uint32_t per_group, per_block;
	uint8_t **block;
	uint32_t blocks;
	struct group *group;
	uint32_t *free;			/* numbers; the last one put is the next one taken */
	uint32_t free_count;
	uint64_t resident;		/* groups */
};

int frames_open(struct frames **out, uint32_t size, struct qimg_error *e)
{
	struct frames *f = mem_zalloc(sizeof(*f), e);

	if (!f)
		return -1;
	f->size = size;
	f->per_group = (uint32_t)max_u64(mem_page_size() / size, 1);
	f->per_block = (uint32_t)max_u64(BLOCK / size, f->per_group);
	*out = f;
	return 0;
}

void frames_close(struct frames *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->blocks; i++)
		free(f->block[i]);
	free(f->block);
	free(f->group);
	free(f->free);
	free(f);
}

static int grow(void **p, size_t old, size_t more, size_t size, struct qimg_error *e)
{
	return mem_grow(p, old, old + more, size, e);
}

static int add_block(struct frames *f, struct qimg_error *e)
{
	uint32_t count = f->blocks * f->per_block, groups = count / f->per_group;
	void *block = f->block, *group = f->group, *free_list = f->free;
	int ret = grow(&block, f->blocks, 1, sizeof(*f->block), e);

	f->block = block;
	if (!ret)
		ret = grow(&group, groups, f->per_block / f->per_group, sizeof(*f->group), e);
	f->group = group;
	if (!ret)
		ret = grow(&free_list, count, f->per_block, sizeof(*f->free), e);
	f->free = free_list;
	if (ret)
		return -1;
	f->block[f->blocks] = mem_pages((size_t)f->per_block * f->size, e);
	if (!f->block[f->blocks])
		return -1;
	f->blocks++;
	for (uint32_t i = f->per_block; i-- > 0;)
		f->free[f->free_count++] = count + i;
	return 0;
}

static uint8_t *at(const struct frames *f, uint32_t number)
{
	return f->block[number / f->per_block] + (size_t)(number % f->per_block) * f->size;
}

int frames_get(struct frames *f, struct frame *fr, struct qimg_error *e)
{
	struct group *g;

	if (!f->free_count && add_block(f, e) < 0)
		return -1;
	fr->number = f->free[--f->free_count];
	fr->data = at(f, fr->number);
	g = &f->group[fr->number / f->per_group];
	g->used++;
	if (!g->resident)
		f->resident++;
	g->resident = true;
	return 0;
}

static void give_back_group(struct frames *f, uint32_t group)
{
	struct group *g = &f->group[group];

	if (g->used || !g->resident)
		return;
	mem_give_back(at(f, group * f->per_group), (size_t)f->per_group * f->size);
	g->resident = false;
	f->resident--;
}

void frames_put(struct frames *f, struct frame *fr, bool give_back)
{
	uint32_t group = fr->number / f->per_group;

	f->group[group].used--;
	f->free[f->free_count++] = fr->number;
	fr->data = NULL;
	if (give_back)
		give_back_group(f, group);
}

void frames_trim(struct frames *f)
{
	for (uint32_t i = 0; i < f->blocks * f->per_block / f->per_group; i++)
		give_back_group(f, i);
}

uint64_t frames_bytes(const struct frames *f)
{
	return f->resident * f->per_group * f->size;
}
