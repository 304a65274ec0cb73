// SPDX-License-Identifier: BSD-2-Clause
/*
 * Growing the virtual disk.
 *
 * The L1 table is made long enough first, then the size in the header changes. What is new reads as
 * zeros: it is not allocated, and the end of a partial last cluster was written as zeros with it.
 */
#include "qcow2/qcow2.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/file.h"
#include "qcow2/flush.h"
#include "qcow2/table.h"
#include "qcow2/write.h"

static int check(const struct qcow2 *q, uint64_t size, const char *preallocation,
		 struct qimg_error *e)
{
	const struct qimg_image *img = q->img;

	if (size < img->size)
		return error_set(e, ENOTSUP, "'%s' can not be made smaller: shrinking qcow2 images is not"
				 " supported", img->name);
	if (strcmp(preallocation, "off"))
		return error_set(e, ENOTSUP, "'%s' can not be grown with preallocation '%s', only with "
				 "'off'", img->name, preallocation);
	if (q->h.version < 3 && q->h.nb_snapshots)
		return error_set(e, ENOTSUP, "'%s' has snapshots, and version 2 does not store the size of"
				 " the disk with them: it can not be resized", img->name);
	/* Data of a longer backing file would show through. */
	if (q->h.backing_name && (!img->backing || img->backing->size > img->size))
		return error_set(e, ENOTSUP, "'%s' can not be grown over its backing file '%s', which is "
				 "longer or not open", img->name, q->h.backing_name);
	if (q->external)
		return error_set(e, ENOTSUP, "'%s' has an external data file and can not be resized",
				 img->name);
	return 0;
}

int qcow2_resize(struct qimg_image *img, uint64_t size, const char *preallocation,
		 struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	uint64_t entries = div_up(size, table_span(q)), old = q->h.size;

	if (check(q, size, preallocation, e) < 0 || write_prepare(q, NULL, e) < 0)
		return -1;
	if (entries > q->l1_size) {
		if (entries > UINT32_MAX)
			return error_set(e, EFBIG, "%" PRIu64 " bytes are too much for the cluster size of "
					 "'%s'", size, img->name);
		if (flush_all(q, e) < 0 || table_grow(q, (uint32_t)entries, e) < 0)
			return -1;
	}
	q->h.size = size;
	if (flush_switch(q, header_store_size, e) < 0) {
		q->h.size = old;
		return -1;
	}
	img->size = size;
	return 0;
}
