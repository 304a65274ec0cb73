// SPDX-License-Identifier: BSD-2-Clause
/* See bitmap.h. */
#include "image/bitmap.h"

#include <stdlib.h>

#include "base/bytes.h"

uint64_t bitmap_bytes(const struct bitmap *b, uint64_t disk_size)
{
	return div_up(div_up(disk_size, UINT64_C(1) << b->granularity_bits), 8);
}

void bitmap_free_list(struct bitmap *list, size_t count)
{
	for (size_t i = 0; list && i < count; i++)
		free(list[i].name);
	free(list);
}
