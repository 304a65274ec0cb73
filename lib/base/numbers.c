// SPDX-License-Identifier: BSD-2-Clause
/* A set of 64-bit numbers: open addressing, at most half full. */
#include "base/numbers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"

#define FIRST_ROOM 64

/* Where n is, or where it would be. */
static size_t place(const struct numbers *s, uint64_t n)
{
	size_t at = (size_t)((n * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (s->slots - 1);

	while (s->slot[at] && s->item[s->slot[at] - 1] != n)
		at = (at + 1) & (s->slots - 1);
	return at;
}

static int grow(struct numbers *s, struct qimg_error *e)
{
	size_t room = s->room ? s->room * 2 : FIRST_ROOM;
	void *list = s->item;
	uint32_t *slot = room <= UINT32_MAX / 2 ? mem_array(2 * room, sizeof(*slot), e) : NULL;

	if (room > UINT32_MAX / 2)
		return error_set(e, ENOMEM, "There is too much to be remembered");
	if (!slot || mem_grow(&list, s->room, room, sizeof(*s->item), e) < 0) {
		free(slot);
		return -1;
	}
	free(s->slot);
	s->item = list;
	s->room = room;
	s->slot = slot;
	s->slots = 2 * room;
	for (size_t i = 0; i < s->count; i++)
		s->slot[place(s, s->item[i])] = (uint32_t)(i + 1);
	return 0;
}

int numbers_add(struct numbers *s, uint64_t n, size_t *index, bool *added, struct qimg_error *e)
{
	size_t at;

	*added = false;
	if (numbers_find(s, n, index))
		return 0;
	if (s->count == s->room && grow(s, e) < 0)
		return -1;
	at = place(s, n);
	s->item[s->count++] = n;
	s->slot[at] = (uint32_t)s->count;
	*index = s->count - 1;
	*added = true;
	return 0;
}

bool numbers_find(const struct numbers *s, uint64_t n, size_t *index)
{
	size_t at = s->slots ? place(s, n) : 0;

	if (!s->slots || !s->slot[at])
		return false;
	if (index)
		*index = s->slot[at] - 1;
	return true;
}

void numbers_free(struct numbers *s)
{
	free(s->item);
	free(s->slot);
	*s = (struct numbers){ .count = 0 };
}
