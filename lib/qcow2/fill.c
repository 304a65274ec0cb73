// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writing the metadata of a new image.
 *
 * All tables of a preallocated image follow from its layout, so they are computed piece by piece
 * into one buffer and written in order, without reading or caching anything. In an empty regular
 * file what is not written is a hole and reads as zeros; a device is zeroed first. The header comes
 * last: until then a device does not hold an image.
 */
#include "qcow2/fill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/sparse.h"
#include "qcow2/entry.h"
#include "qcow2/layout.h"
#include "qcow2/qcow2.h"

#define CHUNK (1 * MIB) /* of metadata: fits the CPU's cache */
#define ZERO_CHUNK (2 * MIB) /* of preallocated zeros */
#define PIECE 4096 /* short tables are padded to this */

struct fill {
	struct file *file;
	const struct layout *l;
	uint8_t *buf; /* CHUNK bytes */
	const struct qimg_progress *progress;
	uint64_t done, total; /* bytes, for progress */
};

static int step(struct fill *f, uint64_t bytes, struct qimg_error *e)
{
	const struct qimg_progress *p = f->progress;

	f->done += bytes;
	if (!p)
		return 0;
	if (p->cancel && *p->cancel)
		return error_set(e, ECANCELED, "Interrupted");
	if (p->report)
		p->report(p->ctx, f->done, f->total);
	return 0;
}

static uint64_t offset_of(const struct fill *f, uint64_t cluster)
{
	return cluster << f->l->cluster_bits;
}

/*
 * Writes `count` big-endian words from `off` on, each `add` more than the one before, with `gap`
 * words of zeros behind each. The rest of the last PIECE bytes, up to `end`, is filled with zeros.
 */
static int write_words(struct fill *f, uint64_t off, uint64_t end, uint64_t count, uint64_t first,
		       uint64_t add, unsigned gap, struct qimg_error *e)
{
	size_t word = 8 * (1 + gap), n, len, i;
	uint8_t *p;

	while (count) {
		n = (size_t)min_u64(count, CHUNK / word);
		p = f->buf;
		if (gap)
			memset(p, 0, n * word);
		for (i = 0; i < n; i++, p += word, first += add)
			be64_put(p, first);
		len = n * word;
		count -= n;
		if (!count) {
			size_t padded = (size_t)min_u64(round_up(len, PIECE), end - off);

			memset(f->buf + len, 0, padded - len);
			len = padded;
		}
		if (file_write(f->file, off, f->buf, len, e) < 0 || step(f, len, e) < 0)
			return -1;
		off += len;
	}
	return 0;
}

static int write_refcount_table(struct fill *f, struct qimg_error *e)
{
	const struct layout *l = f->l;
	uint64_t off = offset_of(f, l->rt_at), end = offset_of(f, l->rt_at + l->rt_clusters);
	uint64_t cluster = offset_of(f, 1);

	if (l->blocks == 1)
		return write_words(f, off, end, 1, offset_of(f, l->block_at), 0, 0, e);
	/* The first block lies apart from the others: its entry is put right afterwards. */
	if (write_words(f, off, end, l->blocks, offset_of(f, l->more_blocks_at - 1), cluster, 0,
			e) < 0)
		return -1;
	be64_put(f->buf, offset_of(f, l->block_at));
	return file_write(f->file, off, f->buf, 8, e);
}

/*
 * The refcount of every cluster is one. n refcounts from the start of f->buf on, the rest up to len
 * zero.
 */
static void make_block(struct fill *f, uint64_t n, size_t len)
{
	size_t i, whole;

	memset(f->buf, 0, len);
	if (!n)
		return;
	/* One whole unit of refcounts, doubled until it is long enough. */
	entry_refcount_put(f->buf, f->l->refcount_order, 0, 1);
	if (f->l->refcount_order < 3)
		for (i = 1; i < 8u >> f->l->refcount_order; i++)
			entry_refcount_put(f->buf, f->l->refcount_order, i, 1);
	i = f->l->refcount_order < 3 ? 1 : 1u << (f->l->refcount_order - 3);
	whole = (size_t)(n << f->l->refcount_order) / 8;
	for (; i < whole; i *= 2)
		memcpy(f->buf + i, f->buf, min_u64(i, whole - i));
	if (!whole)
		f->buf[0] = 0;
	for (i = (whole << 3) >> f->l->refcount_order; i < n; i++)
		entry_refcount_put(f->buf, f->l->refcount_order, i, 1);
}

/* Blocks first .. first + count - 1, which lie in a row from cluster `at` on. */
static int write_blocks(struct fill *f, uint64_t at, uint64_t first, uint64_t count,
			struct qimg_error *e)
{
	const struct layout *l = f->l;
	uint64_t per_block = UINT64_C(1) << (l->cluster_bits + 3 - l->refcount_order);
	uint64_t refcounts = min_u64(l->clusters, (first + count) * per_block) - first * per_block;
	uint64_t off = offset_of(f, at), left = offset_of(f, count);
	uint64_t per_chunk = (CHUNK * 8) >> l->refcount_order, n;
	size_t len;

	if (!count)
		return 0;
	while (left && refcounts) {
		n = min_u64(refcounts, per_chunk);
		len = (size_t)min_u64(left, CHUNK);
		make_block(f, n, len);
		if (n < per_chunk)
			len = (size_t)min_u64(len,
					      round_up(div_up(n << l->refcount_order, 8), PIECE));
		if (file_write(f->file, off, f->buf, len, e) < 0 || step(f, len, e) < 0)
			return -1;
		off += len;
		left -= len;
		refcounts -= n;
	}
	return 0;
}

/* The entry of a preallocated cluster at `host`, as a number. */
static uint64_t data_entry(const struct layout *l, uint64_t host)
{
	struct qcow2 q = {
		.cluster_bits = l->cluster_bits,
		.cluster_size = UINT32_C(1) << l->cluster_bits,
		.extended = l->extended,
		.entry_size = l->extended ? 16 : 8,
		.external = l->external,
	};
	struct entry en = { .kind = ENTRY_DATA, .copied = true, .host = host };
	uint8_t raw[16] = { 0 };

	entry_put(&q, raw, &en);
	return be64_get(raw);
}

/*
 * With extended L2 entries the subclusters stay unallocated, as in the reference: the space is
 * there, and what is read comes from the backing file.
 */
static int write_mapping(struct fill *f, struct qimg_error *e)
{
	const struct layout *l = f->l;
	uint64_t first = data_entry(l, l->external ? 0 : offset_of(f, l->data_at));

	if (!l->l2_tables)
		return 0;
	if (write_words(f, offset_of(f, l->l1_at), l->meta_len, l->l1_entries,
			offset_of(f, l->l2_at) | L1_COPIED, offset_of(f, 1), 0, e) < 0)
		return -1;
	return write_words(f, offset_of(f, l->l2_at), offset_of(f, l->l2_at + l->l2_tables),
			   l->guest_clusters, first, offset_of(f, 1), l->extended, e);
}

static int write_zeros(struct fill *f, uint64_t off, uint64_t len, struct qimg_error *e)
{
	uint8_t *zeros = mem_buffer(ZERO_CHUNK, e);
	size_t n;
	int ret = -1;

	if (!zeros)
		return -1;
	memset(zeros, 0, ZERO_CHUNK);
	for (; len; off += n, len -= n) {
		n = (size_t)min_u64(len, ZERO_CHUNK);
		if (file_write(f->file, off, zeros, n, e) < 0 || step(f, n, e) < 0)
			goto out;
	}
	ret = 0;
out:
	free(zeros);
	return ret;
}

/*
 * Space for the metadata, as the reference has it: on a file system that is full the tables can then still
 * be written, and what waits for that be given back. Where the file system cannot, it is left.
 */
static int reserve_metadata(struct fill *f, struct qimg_error *e)
{
	if (file_is_device(f->file) || sparse_allocate(f->file, 0, f->l->meta_len, e) == 0)
		return 0;
	return e->code == ENOTSUP ? 0 : -1;
}

/*
 * Reserves the whole file at once, before anything is written, so that it comes to lie in few
 * pieces and a lack of space shows early. Where the file system cannot, *mode becomes FILL_FULL.
 */
static int reserve(struct fill *f, uint64_t len, enum fill_mode *mode, struct qimg_error *e)
{
	if (*mode < FILL_FALLOC || !len || file_is_device(f->file))
		return 0;
	if (sparse_allocate(f->file, 0, len, e) == 0)
		return 0;
	if (e->code != ENOTSUP)
		return -1;
	*mode = FILL_FULL;
	return 0;
}

/* Makes [off, off+len) zeros where reserve and the emptiness of the file have not done that. */
static int clear(struct fill *f, uint64_t off, uint64_t len, enum fill_mode mode,
		 struct qimg_error *e)
{
	unsigned flags = mode == FILL_METADATA ? SPARSE_UNMAP : 0;

	if (!len)
		return 0;
	if (mode == FILL_FULL)
		return write_zeros(f, off, len, e);
	if (file_is_device(f->file) && sparse_zero(f->file, off, len, flags, NULL, e) < 0)
		return -1;
	return step(f, mode == FILL_FALLOC ? len : 0, e);
}

static int write_header(struct fill *f, const struct header *h, struct qimg_error *e)
{
	uint64_t cluster = offset_of(f, 1);
	uint64_t len = min_u64(round_up(header_need(h), PIECE), cluster);
	uint8_t *buf;
	int ret = -1;

	if (file_is_device(f->file))
		return header_write(f->file, h, e);
	buf = mem_buffer(cluster, e);
	if (!buf)
		return -1;
	memset(buf, 0, cluster);
	if (header_encode(h, buf, cluster, e) == 0)
		ret = file_write(f->file, 0, buf, len, e);
	free(buf);
	return ret;
}

static uint64_t table_bytes(const struct layout *l, enum fill_mode mode)
{
	uint64_t tables = l->rt_clusters + l->blocks + l->l2_tables;

	return (tables << l->cluster_bits) + l->l1_entries * 8 +
	       (mode >= FILL_FALLOC ? l->data_clusters << l->cluster_bits : 0);
}

int fill_write(struct file *file, const struct header *h, const struct layout *l,
	       enum fill_mode mode, const struct qimg_progress *p, struct qimg_error *e)
{
	struct fill f = {
		.file = file,
		.l = l,
		.progress = p,
		.total = table_bytes(l, mode),
	};
	uint64_t data = l->data_clusters << l->cluster_bits;
	int ret = -1;

	f.buf = mem_buffer(CHUNK, e);
	if (!f.buf)
		return -1;
	if (file_is_device(file)) {
		if (sparse_zero(file, 0, l->meta_len, 0, NULL, e) < 0)
			goto out;
	} else if (file_truncate(file, l->file_len, e) < 0) {
		goto out;
	}
	if (reserve_metadata(&f, e) < 0 || reserve(&f, l->file_len, &mode, e) < 0)
		goto out;
	if (write_refcount_table(&f, e) < 0 || write_blocks(&f, l->block_at, 0, 1, e) < 0)
		goto out;
	if (write_mapping(&f, e) < 0)
		goto out;
	if (write_blocks(&f, l->more_blocks_at, 1, l->blocks - 1, e) < 0)
		goto out;
	if (clear(&f, l->file_len - data, data, mode, e) < 0)
		goto out;
	if (file_is_device(file) && file_sync(file, e) < 0)
		goto out;
	ret = write_header(&f, h, e);
out:
	free(f.buf);
	return ret;
}

int fill_data_file(struct file *file, uint64_t size, enum fill_mode mode,
		   const struct qimg_progress *p, struct qimg_error *e)
{
	struct fill f = { .file = file, .progress = p, .total = size };

	if (!file_is_device(file) && file_truncate(file, size, e) < 0)
		return -1;
	if (mode == FILL_OFF)
		return 0;
	if (reserve(&f, size, &mode, e) < 0)
		return -1;
	return clear(&f, 0, size, mode, e);
}
