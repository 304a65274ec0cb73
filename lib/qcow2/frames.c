// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory for slices: frames in blocks, and groups of frames (one, or those in a page) that go back to the
 * system together. A group that has gone back is still there, as address space, and becomes resident
 * when one of its frames is used again.
 */
#include "qcow2/frames.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "io/pages.h"

#define BLOCK (256 * KIB)
#define AT_HAND (256 * KIB)	/* stay in memory without being used */

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
	/* Numbers of those that are free; the last one put is the next one taken, of the first kind first. */
	uint32_t *hot, *cold;
	uint32_t hot_count, cold_count, most_hot;
	uint64_t resident;		/* groups */
};

int frames_open(struct frames **out, uint32_t size, struct qimg_error *e)
{
	struct frames *f = mem_zalloc(sizeof(*f), e);

	if (!f)
		return -1;
	f->size = size;
	f->per_group = (uint32_t)max_u64(pages_unit() / size, 1);
	f->per_block = (uint32_t)max_u64(BLOCK / size, f->per_group);
	f->most_hot = (uint32_t)max_u64(AT_HAND / size, 2);
	*out = f;
	return 0;
}

void frames_close(struct frames *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->blocks; i++)
		pages_free(f->block[i], (size_t)f->per_block * f->size);
	free(f->block);
	free(f->group);
	free(f->hot);
	free(f->cold);
	free(f);
}

/* The array that `pointer` points to gets room for n more. */
static int grow(void *pointer, size_t old, size_t n, size_t size, struct qimg_error *e)
{
	void *p;
	int ret;

	memcpy(&p, pointer, sizeof(p));
	ret = mem_grow(&p, old, old + n, size, e);
	memcpy(pointer, &p, sizeof(p));
	return ret;
}

static int add_block(struct frames *f, struct qimg_error *e)
{
	uint32_t count = f->blocks * f->per_block, groups = count / f->per_group;

	if (grow(&f->block, f->blocks, 1, sizeof(*f->block), e) < 0 ||
	    grow(&f->group, groups, f->per_block / f->per_group, sizeof(*f->group), e) < 0 ||
	    grow(&f->hot, count, f->per_block, sizeof(*f->hot), e) < 0 ||
	    grow(&f->cold, count, f->per_block, sizeof(*f->cold), e) < 0)
		return -1;
	f->block[f->blocks] = pages_new((size_t)f->per_block * f->size, e);
	if (!f->block[f->blocks])
		return -1;
	f->blocks++;
	for (uint32_t i = f->per_block; i-- > 0;)
		f->cold[f->cold_count++] = count + i;
	return 0;
}

static uint8_t *at(const struct frames *f, uint32_t number)
{
	return f->block[number / f->per_block] + (size_t)(number % f->per_block) * f->size;
}

int frames_get(struct frames *f, struct frame *fr, struct qimg_error *e)
{
	struct group *g;

	if (!f->hot_count && !f->cold_count && add_block(f, e) < 0)
		return -1;
	fr->number = f->hot_count ? f->hot[--f->hot_count] : f->cold[--f->cold_count];
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
	pages_give_back(at(f, group * f->per_group), (size_t)f->per_group * f->size);
	g->resident = false;
	f->resident--;
}

void frames_put(struct frames *f, struct frame *fr, bool give_back)
{
	uint32_t group = fr->number / f->per_group;

	f->group[group].used--;
	fr->data = NULL;
	if (give_back || f->hot_count >= f->most_hot)
		give_back_group(f, group);
	if (f->group[group].resident)
		f->hot[f->hot_count++] = fr->number;
	else
		f->cold[f->cold_count++] = fr->number;
}

void frames_trim(struct frames *f)
{
	for (uint32_t i = 0; i < f->blocks * f->per_block / f->per_group; i++)
		give_back_group(f, i);
	while (f->hot_count)
		f->cold[f->cold_count++] = f->hot[--f->hot_count];
}

uint64_t frames_bytes(const struct frames *f)
{
	return f->resident * f->per_group * f->size;
}
