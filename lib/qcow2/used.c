// SPDX-License-Identifier: BSD-2-Clause
/* How many clusters of an image file are in use, as refcounts on the disk say. */
#include "qcow2/qcow2.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/entry.h"

static uint64_t count_block(const struct qcow2 *q, const uint8_t *block)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ((size_t)q->cluster_size * 8) >> q->h.refcount_order; i++)
		n += entry_refcount_get(block, q->h.refcount_order, i) != 0;
	return n;
}

int qcow2_count_used(struct qimg_image *img, uint64_t most, uint64_t *count, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	uint8_t *table = mem_buffer(q->cluster_size, e), *block = mem_buffer(q->cluster_size, e);
	int ret = table && block ? 0 : -1;

	*count = 0;
	for (uint32_t t = 0; ret == 0 && t < q->h.rt_clusters && *count < most; t++) {
		ret = file_read(q->file, q->h.rt_offset + (uint64_t)t * q->cluster_size, table, q->cluster_size, e);
		for (uint32_t i = 0; ret == 0 && i < q->cluster_size / 8 && *count < most; i++) {
			uint64_t at = be64_get(table + (size_t)i * 8) & ~UINT64_C(511);

			if (!at || at >= file_size(q->file))
				continue;
			ret = file_read(q->file, at, block, q->cluster_size, e);
			if (ret == 0)
				*count += count_block(q, block);
		}
	}
	free(table);
	free(block);
	return ret;
}
