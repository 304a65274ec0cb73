// SPDX-License-Identifier: BSD-2-Clause
/*
 * Places for compressed clusters, packed byte to byte behind each other.
 *
 * A host cluster carries one reference for each compressed cluster with bytes in it, so it takes no more
 * of them than its refcount can count. The place where the next one goes is forgotten when its host
 * cluster becomes free (alloc.c), and at close.
 */
#include "qcow2/qcow2.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "qcow2/alloc.h"
#include "qcow2/entry.h"
#include "qcow2/flush.h"
#include "qcow2/refcount.h"
#include "qcow2/table.h"
#include "qcow2/write.h"

/* Bytes free behind the cursor in its host cluster; 0 when another reference does not fit there. */
static int room_at_cursor(struct qcow2 *q, uint32_t *room, struct wait *w, struct qimg_error *e)
{
	uint64_t count;
	int ret;

	*room = 0;
	if (!q->pack_cursor)
		return 0;
	ret = refcount_get(q, q->pack_cursor >> q->cluster_bits, &count, w, e);
	if (ret)
		return ret;
	if (count < q->refcount_max)
		*room = q->cluster_size - (uint32_t)(q->pack_cursor & (q->cluster_size - 1));
	return 0;
}

/* Takes `packed` bytes: *host is their place, *cluster and *clusters what was given a reference. */
static int place(struct qcow2 *q, uint32_t packed, uint64_t *host, uint64_t *cluster,
		 uint32_t *clusters, struct wait *w, struct qimg_error *e)
{
	uint64_t cursor_cluster, fresh, got;
	uint32_t room;
	bool blank;
	int ret = room_at_cursor(q, &room, w, e);

	if (ret)
		return ret;
	if (packed <= room) {
		*host = q->pack_cursor;
		*cluster = round_down(*host, q->cluster_size);
		*clusters = 1;
		if (refcount_raise(q, *cluster >> q->cluster_bits, 1, e) < 0)
			return -1;
	} else {
		ret = alloc_run(q, 1, &fresh, &got, &blank, w, e);
		if (ret)
			return ret;
		/* Taking a cluster may have flushed, and the cursor with what was freed. */
		cursor_cluster = round_down(q->pack_cursor, q->cluster_size);
		if (room && q->pack_cursor && fresh == cursor_cluster + q->cluster_size) {
			*host = q->pack_cursor;
			*cluster = cursor_cluster;
			*clusters = 2;
			if (refcount_raise(q, cursor_cluster >> q->cluster_bits, 1, e) < 0) {
				alloc_undo(q, fresh, 1);
				return -1;
			}
		} else {
			*host = *cluster = fresh;
			*clusters = 1;
		}
	}
	q->pack_cursor = *host + packed;
	if (is_aligned(q->pack_cursor, q->cluster_size))
		q->pack_cursor = 0;
	return 0;
}

int qcow2_pack(struct qimg_image *img, uint64_t off, uint32_t packed, struct wmap *m, struct wait *w,
	       struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	struct cursor c;
	uint64_t host, cluster;
	uint32_t clusters;
	int ret;

	if (q->external)
		return error_set(e, ENOTSUP, "Images with an external data file can not hold compressed "
				 "clusters");
	if (!is_aligned(off, q->cluster_size) || !packed || packed > q->cluster_size)
		return error_set(e, EINVAL, "Guest offset 0x%" PRIx64 " of '%s' can not take %" PRIu32
				 " compressed bytes", off, img->name, packed);
	ret = write_prepare(q, w, e);
	if (ret)
		return ret;
	if (write_in_flight(q, off, q->cluster_size)) {
		if (w)
			w->op = WAIT_TURN;
		return w ? MAP_WAIT : error_set(e, EBUSY, "Guest offset 0x%" PRIx64
						" of '%s' is being written to", off, img->name);
	}
	/* The table first: its cluster must not come between two packed ones. */
	ret = table_find_writable(q, off, &c, w, e);
	if (ret)
		return ret;
	table_put(q, &c);
	ret = place(q, packed, &host, &cluster, &clusters, w, e);
	if (ret)
		return ret;
	if (!entry_can_pack(q, host, packed)) {
		alloc_undo(q, cluster, clusters);
		return error_set(e, EFBIG, "Host offset 0x%" PRIx64 " of '%s' is beyond what compressed "
				 "clusters of this cluster size can refer to", host, img->name);
	}
	*m = (struct wmap){
		.start = off,
		.len = min_u64(q->cluster_size, img->size - off),
		.file = q->file,
		.host = host,
		.link = true,
		.packed = true,
		.cluster = cluster,
		.clusters = clusters,
		.fresh = true,
		.packed_len = packed,
		.next = q->inflight,
	};
	q->inflight = m;
	return 0;
}
