// SPDX-License-Identifier: BSD-2-Clause
/*
 * The first cluster of an image: decoded into struct header, checked, and written.
 *
 * Every field is checked here before it is used for anything, memory included, so that the rest of
 * the format can trust struct header: sizes and counts are bounded, offsets are aligned, and what
 * the virtual size needs of L1 is there. Fields are judged alone and against each other; whether
 * the file is long enough for them is judged by header_check_tables.
 */
#include "qcow2/header.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/range.h"
#include "base/zero.h"
#include "image/image.h"
#include "io/file.h"
#include "qcow2/extension.h"
#include "qcow2/format.h"

static uint64_t cluster_size_of(const struct header *h)
{
	return UINT64_C(1) << h->cluster_bits;
}

uint64_t header_l1_need(uint64_t size, unsigned cluster_bits, bool extended)
{
	/* An L2 table is one cluster of entries, each for one cluster. */
	unsigned l2_bits = cluster_bits - (extended ? 4 : 3);

	return div_up(size, UINT64_C(1) << (cluster_bits + l2_bits));
}

/* ---- reading ---- */

int header_pass(struct header *h, enum header_fault fault, struct qimg_error *e)
{
	struct qimg_error ignored;

	if (!h->lenient || e->code == ENOMEM)
		return -1;
	if (!h->fault[fault])
		h->fault[fault] = mem_strdup(e->msg, &ignored);
	return h->fault[fault] ? 0 : error_nomem(e);
}

/* A table has to start at a cluster of its own behind the header. */
static int check_offset(const struct header *h, const char *what, uint64_t off,
			struct qimg_error *e)
{
	if (!is_aligned(off, cluster_size_of(h)))
		return error_set(e, EINVAL,
				 "%s offset 0x%" PRIx64 " is not aligned to a cluster of %" PRIu64
				 " bytes",
				 what, off, cluster_size_of(h));
	if (!off)
		return error_set(e, EINVAL, "%s offset 0 lies in the header", what);
	if (off > INT64_MAX - HEADER_MAX_L1_BYTES)
		return error_set(e, EINVAL,
				 "%s offset 0x%" PRIx64 " is beyond the largest possible "
				 "file offset",
				 what, off);
	return 0;
}

static int check_features(struct header *h, struct qimg_error *e)
{
	bool bit = h->incompatible & INCOMPAT_COMPRESSION;

	if (bit && h->header_length <= HDR_COMPRESSION_TYPE)
		return error_set(e, EINVAL,
				 "Incompatible feature bit 3 (compression type) is set, but "
				 "the header of %" PRIu32 " bytes has no such field",
				 h->header_length);
	if (bit != (h->compression_type != 0))
		return error_set(e, EINVAL,
				 "Compression type %u does not go with incompatible feature "
				 "bit 3, which is %s",
				 h->compression_type, bit ? "set" : "not set");
	if (h->compression_type > 1)
		return error_set(e, ENOTSUP,
				 "Compression type %u is unknown (known are 0, zlib, and 1, zstd)",
				 h->compression_type);
	if ((h->incompatible & INCOMPAT_EXTENDED_L2) && h->cluster_bits < FORMAT_MIN_EXTENDED_BITS)
		return error_set(e, EINVAL,
				 "Extended L2 entries need clusters of at least %u bytes, "
				 "these have %" PRIu64,
				 1u << FORMAT_MIN_EXTENDED_BITS, cluster_size_of(h));
	if ((h->autoclear & AUTOCLEAR_DATA_FILE_RAW) && !(h->incompatible & INCOMPAT_DATA_FILE)) {
		error_set(e, EINVAL, "Autoclear feature bit 1 (raw external data) is set, but "
			  "incompatible feature bit 2 (external data file) is not");
		if (header_pass(h, HEADER_FAULT_RAW, e) < 0)
			return -1;
	}
	if (h->refcount_order > FORMAT_MAX_REFCOUNT_ORDER) {
		error_set(e, EINVAL, "Refcount order %u is more than %d (64 bits)",
			  h->refcount_order, FORMAT_MAX_REFCOUNT_ORDER);
		if (header_pass(h, HEADER_FAULT_COUNTS, e) < 0)
			return -1;
		h->refcount_order = FORMAT_REFCOUNT_ORDER;
	}
	if (h->crypt_method > CRYPT_LUKS)
		return error_set(e, ENOTSUP,
				 "Encryption method %" PRIu32 " is unknown (known are 0, "
				 "none, 1, AES, and 2, LUKS)",
				 h->crypt_method);
	return 0;
}

static int check_l1(const struct header *h, struct qimg_error *e)
{
	bool extended = h->incompatible & INCOMPAT_EXTENDED_L2;
	uint64_t need = header_l1_need(h->size, h->cluster_bits, extended);
	uint64_t max = HEADER_MAX_L1_BYTES / 8;

	if (need > max)
		return error_set(e, EFBIG,
				 "A virtual size of %" PRIu64 " bytes takes an L1 table of %" PRIu64
				 " entries, more than %" PRIu64,
				 h->size, need, max);
	if (h->l1_size > max)
		return error_set(e, EFBIG,
				 "L1 table size %" PRIu32 " is more than %" PRIu64 " entries",
				 h->l1_size, max);
	if (h->l1_size < need)
		return error_set(e, EINVAL,
				 "L1 table size %" PRIu32
				 " is too small: a virtual size of %" PRIu64 " bytes takes %" PRIu64
				 " entries",
				 h->l1_size, h->size, need);
	/* Offset 0 is what an image of size 0 may have. */
	if (!h->l1_size && !h->l1_offset)
		return 0;
	return check_offset(h, "L1 table", h->l1_offset, e);
}

/* A table that may be where it says is kept, though the disk be larger than that. */
static void drop_l1(struct header *h)
{
	unsigned l2_bits = h->cluster_bits - (h->incompatible & INCOMPAT_EXTENDED_L2 ? 4 : 3);
	struct qimg_error ignored;

	if (h->l1_size > HEADER_MAX_L1_BYTES / 8 || check_offset(h, "", h->l1_offset, &ignored) < 0) {
		h->l1_size = 0;
		h->l1_offset = 0;
	}
	h->size = min_u64(h->size, (uint64_t)h->l1_size << (h->cluster_bits + l2_bits));
}

static int check_counts(const struct header *h, struct qimg_error *e)
{
	uint64_t max = HEADER_MAX_RT_BYTES >> h->cluster_bits;

	if (h->rt_clusters > max)
		return error_set(e, EFBIG,
				 "Refcount table of %" PRIu32 " clusters is more than %" PRIu64
				 " (%" PRIu64 " bytes)",
				 h->rt_clusters, max, HEADER_MAX_RT_BYTES);
	return check_offset(h, "Refcount table", h->rt_offset, e);
}

static int check_snapshots(struct header *h, struct qimg_error *e)
{
	if (h->nb_snapshots > HEADER_MAX_SNAPSHOTS && !h->lenient)
		return error_set(e, EFBIG, "Number of snapshots %" PRIu32 " is more than %d",
				 h->nb_snapshots, HEADER_MAX_SNAPSHOTS);
	/* Where the table ends is seen when it is read. */
	h->snapshots_cut = h->nb_snapshots > HEADER_MAX_SNAPSHOTS;
	h->nb_snapshots = (uint32_t)min_u64(h->nb_snapshots, HEADER_MAX_SNAPSHOTS);
	return h->nb_snapshots ? check_offset(h, "Snapshot table", h->snapshots_offset, e) : 0;
}

static int check_tables(struct header *h, struct qimg_error *e)
{
	if (check_l1(h, e) < 0) {
		if (header_pass(h, HEADER_FAULT_L1, e) < 0)
			return -1;
		drop_l1(h);
	}
	if (check_counts(h, e) < 0 && header_pass(h, HEADER_FAULT_COUNTS, e) < 0)
		return -1;
	if (h->fault[HEADER_FAULT_COUNTS]) {
		h->rt_clusters = 0;
		h->rt_offset = 0;
	}
	if (check_snapshots(h, e) < 0) {
		if (header_pass(h, HEADER_FAULT_SNAPSHOTS, e) < 0)
			return -1;
		h->nb_snapshots = 0;
		h->snapshots_offset = 0;
	}
	return 0;
}

bool header_probe(const uint8_t *head, size_t n)
{
	return n >= HDR_VERSION + 4 && be32_get(head + HDR_MAGIC) == FORMAT_MAGIC &&
	       be32_get(head + HDR_VERSION) >= 2;
}

/* Of the two lengths that programs write: behind the shorter one an extension begins, which is of no small type. */
static uint32_t guess_length(const uint8_t *b)
{
	const uint8_t *p = b + HDR_COMPRESSION_TYPE;

	return p[0] < 2 && zero_is(p + 1, HDR_NEW_LENGTH - HDR_KNOWN_END) ? HDR_NEW_LENGTH : HDR_V3_MIN_LENGTH;
}

static int decode_fields(struct header *h, const uint8_t *b, uint64_t file_len,
			 struct qimg_error *e)
{
	if (file_len < HDR_V2_LENGTH)
		return error_set(e, EINVAL,
				 "The file has %" PRIu64 " bytes, fewer than the %d of a qcow2 "
				 "header",
				 file_len, HDR_V2_LENGTH);
	if (be32_get(b + HDR_MAGIC) != FORMAT_MAGIC)
		return error_set(e, EINVAL, "Image is not in qcow2 format");
	h->version = be32_get(b + HDR_VERSION);
	if (h->version != 2 && h->version != 3)
		return error_set(e, ENOTSUP,
				 "Unsupported qcow2 version %" PRIu32 " (supported are 2 and 3)",
				 h->version);
	h->cluster_bits = be32_get(b + HDR_CLUSTER_BITS);
	if (h->cluster_bits < FORMAT_MIN_CLUSTER_BITS || h->cluster_bits > FORMAT_MAX_CLUSTER_BITS)
		return error_set(e, EINVAL,
				 "Unsupported cluster size: 2^%u bytes, allowed are 2^%d to 2^%d",
				 h->cluster_bits, FORMAT_MIN_CLUSTER_BITS, FORMAT_MAX_CLUSTER_BITS);
	h->size = be64_get(b + HDR_SIZE);
	h->crypt_method = be32_get(b + HDR_CRYPT_METHOD);
	h->l1_size = be32_get(b + HDR_L1_SIZE);
	h->l1_offset = be64_get(b + HDR_L1_OFFSET);
	h->rt_offset = be64_get(b + HDR_RT_OFFSET);
	h->rt_clusters = be32_get(b + HDR_RT_CLUSTERS);
	h->nb_snapshots = be32_get(b + HDR_NB_SNAPSHOTS);
	h->snapshots_offset = be64_get(b + HDR_SNAPSHOTS_OFFSET);
	if (h->version == 2) {
		h->refcount_order = 4;
		h->header_length = HDR_V2_LENGTH;
		return 0;
	}
	if (file_len < HDR_V3_MIN_LENGTH)
		return error_set(e, EINVAL,
				 "The file has %" PRIu64 " bytes, fewer than the %d of a qcow2 "
				 "version 3 header",
				 file_len, HDR_V3_MIN_LENGTH);
	h->incompatible = be64_get(b + HDR_INCOMPATIBLE);
	h->compatible = be64_get(b + HDR_COMPATIBLE);
	h->autoclear = be64_get(b + HDR_AUTOCLEAR);
	h->refcount_order = be32_get(b + HDR_REFCOUNT_ORDER);
	h->header_length = be32_get(b + HDR_LENGTH);
	if (h->header_length < HDR_V3_MIN_LENGTH || h->header_length > cluster_size_of(h) ||
	    h->header_length % 8) {
		error_set(e, EINVAL,
			  "Header length %" PRIu32 " is not a multiple of 8 between %d "
			  "and the cluster size %" PRIu64,
			  h->header_length, HDR_V3_MIN_LENGTH, cluster_size_of(h));
		if (header_pass(h, HEADER_FAULT_LENGTH, e) < 0)
			return -1;
		h->header_length = guess_length(b);
	}
	return 0;
}

/* The bounds of the backing file name; *end is where the extension area ends. */
static int check_backing(const struct header *h, const uint8_t *b, uint32_t *end,
			 struct qimg_error *e)
{
	uint64_t off = be64_get(b + HDR_BACKING_OFFSET);
	uint32_t len = be32_get(b + HDR_BACKING_SIZE);

	*end = (uint32_t)cluster_size_of(h);
	if (!off)
		return 0;
	if (len > HEADER_MAX_NAME)
		return error_set(e, EINVAL,
				 "Backing file name of %" PRIu32 " bytes is longer than %d", len,
				 HEADER_MAX_NAME);
	if (off < h->header_length || !range_within(off, len, cluster_size_of(h)))
		return error_set(e, EINVAL,
				 "Backing file name at offset 0x%" PRIx64 " with %" PRIu32
				 " bytes does not lie between the header's end 0x%" PRIx32
				 " and the end of the first cluster 0x%" PRIx64,
				 off, len, h->header_length, cluster_size_of(h));
	*end = (uint32_t)off;
	return 0;
}

static int decode_backing(struct header *h, const uint8_t *b, struct qimg_error *e)
{
	const uint8_t *name = b + be64_get(b + HDR_BACKING_OFFSET);
	uint32_t len = be32_get(b + HDR_BACKING_SIZE);

	if (name == b)
		return 0;
	while (len && !name[len - 1])
		len--;
	/* With a zero byte inside, programs would disagree on which file is meant. */
	if (memchr(name, 0, len))
		return error_set(e, EINVAL, "The backing file name contains a zero byte");
	if (!len)
		return 0;
	h->backing_name = mem_strndup((const char *)name, len, e);
	return h->backing_name ? 0 : -1;
}

static int decode_cluster(struct header *h, const uint8_t *b, struct qimg_error *e)
{
	uint32_t end;

	if (check_backing(h, b, &end, e) < 0) {
		if (header_pass(h, HEADER_FAULT_BACKING, e) < 0)
			return -1;
		end = (uint32_t)cluster_size_of(h);
	}
	if (h->incompatible & ~(uint64_t)INCOMPAT_KNOWN)
		return extension_unsupported(b, h->header_length, end,
					     h->incompatible & ~(uint64_t)INCOMPAT_KNOWN, e);
	if (h->header_length > HDR_COMPRESSION_TYPE) {
		h->compression_type = b[HDR_COMPRESSION_TYPE];
		h->rest_len = h->header_length - HDR_KNOWN_END;
		h->rest = mem_alloc(h->rest_len, e);
		if (!h->rest)
			return -1;
		memcpy(h->rest, b + HDR_KNOWN_END, h->rest_len);
	}
	if (check_features(h, e) < 0 || check_tables(h, e) < 0)
		return -1;
	if (extension_decode(h, b, h->header_length, end, e) < 0 &&
	    header_pass(h, HEADER_FAULT_EXTENSIONS, e) < 0)
		return -1;
	if (h->fault[HEADER_FAULT_BACKING])
		return 0;
	return decode_backing(h, b, e) < 0 ? header_pass(h, HEADER_FAULT_BACKING, e) : 0;
}

static int read_header(struct file *f, struct header *h, bool lenient, struct qimg_error *e)
{
	uint8_t fixed[HDR_NEW_LENGTH] = { 0 };
	uint8_t *b = NULL;
	int ret = -1;

	memset(h, 0, sizeof(*h));
	h->lenient = lenient;
	if (file_read(f, 0, fixed, sizeof(fixed), e) < 0 ||
	    decode_fields(h, fixed, file_size(f), e) < 0)
		goto out;
	b = mem_buffer(cluster_size_of(h), e);
	if (!b)
		goto out;
	if (file_read(f, 0, b, cluster_size_of(h), e) < 0)
		goto out;
	/* Another process may have written in between: what was checked is what counts. */
	memcpy(b, fixed, min_u64(sizeof(fixed), h->header_length));
	ret = decode_cluster(h, b, e);
out:
	if (ret < 0)
		header_free(h);
	free(b);
	return ret;
}

int header_read(struct file *f, struct header *h, struct qimg_error *e)
{
	return read_header(f, h, false, e);
}

int header_read_damaged(struct file *f, struct header *h, struct qimg_error *e)
{
	return read_header(f, h, true, e);
}

void header_free(struct header *h)
{
	size_t i;

	for (i = 0; i < h->ext_count; i++)
		free(h->ext[i].data);
	for (i = 0; i < HEADER_FAULTS; i++)
		free(h->fault[i]);
	free(h->ext);
	free(h->rest);
	free(h->backing_name);
	free(h->backing_format);
	free(h->data_file);
	memset(h, 0, sizeof(*h));
}

int header_check_tables(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint64_t len = file_size(f), rt_len = (uint64_t)h->rt_clusters << h->cluster_bits;

	if (!range_within(h->l1_offset, (uint64_t)h->l1_size * 8, len))
		return error_set(e, EINVAL,
				 "L1 table at offset 0x%" PRIx64 " with %" PRIu32 " entries "
				 "does not lie within the file of %" PRIu64 " bytes",
				 h->l1_offset, h->l1_size, len);
	if (!h->rt_clusters)
		return error_set(e, EINVAL,
				 "Refcount table of 0 clusters: there must be at least one");
	/* The file may end inside the last cluster. */
	if (!range_within(h->rt_offset, rt_len, round_up(len, cluster_size_of(h))))
		return error_set(e, EINVAL,
				 "Refcount table at offset 0x%" PRIx64 " with %" PRIu32
				 " clusters does not lie within the file of %" PRIu64 " bytes",
				 h->rt_offset, h->rt_clusters, len);
	if (h->nb_snapshots &&
	    !range_within(h->snapshots_offset, (uint64_t)h->nb_snapshots * SNAP_HEAD, len))
		return error_set(e, EINVAL,
				 "Snapshot table at offset 0x%" PRIx64 " with %" PRIu32
				 " snapshots does not lie within the file of %" PRIu64 " bytes",
				 h->snapshots_offset, h->nb_snapshots, len);
	return 0;
}

/* ---- writing ---- */

uint64_t header_need(const struct header *h)
{
	uint64_t name = h->backing_name ? strlen(h->backing_name) : 0;

	return h->header_length + extension_need(h) + name;
}

int header_encode(const struct header *h, uint8_t *buf, uint64_t size, struct qimg_error *e)
{
	uint64_t need = header_need(h), ext = extension_need(h);

	if (need > size)
		return error_set(e, ENOSPC,
				 "Header, extensions and backing file name take %" PRIu64
				 " bytes, more than the first cluster of %" PRIu64,
				 need, size);
	be32_put(buf + HDR_MAGIC, FORMAT_MAGIC);
	be32_put(buf + HDR_VERSION, h->version);
	be32_put(buf + HDR_CLUSTER_BITS, h->cluster_bits);
	be64_put(buf + HDR_SIZE, h->size);
	be32_put(buf + HDR_CRYPT_METHOD, h->crypt_method);
	be32_put(buf + HDR_L1_SIZE, h->l1_size);
	be64_put(buf + HDR_L1_OFFSET, h->l1_offset);
	be64_put(buf + HDR_RT_OFFSET, h->rt_offset);
	be32_put(buf + HDR_RT_CLUSTERS, h->rt_clusters);
	be32_put(buf + HDR_NB_SNAPSHOTS, h->nb_snapshots);
	be64_put(buf + HDR_SNAPSHOTS_OFFSET, h->snapshots_offset);
	if (h->version >= 3) {
		be64_put(buf + HDR_INCOMPATIBLE, h->incompatible);
		be64_put(buf + HDR_COMPATIBLE, h->compatible);
		be64_put(buf + HDR_AUTOCLEAR, h->autoclear);
		be32_put(buf + HDR_REFCOUNT_ORDER, h->refcount_order);
		be32_put(buf + HDR_LENGTH, h->header_length);
		if (h->header_length > HDR_COMPRESSION_TYPE)
			buf[HDR_COMPRESSION_TYPE] = (uint8_t)h->compression_type;
		if (h->rest_len)
			memcpy(buf + HDR_KNOWN_END, h->rest, h->rest_len);
	}
	extension_encode(h, buf + h->header_length);
	if (h->backing_name) {
		be64_put(buf + HDR_BACKING_OFFSET, h->header_length + ext);
		be32_put(buf + HDR_BACKING_SIZE, (uint32_t)strlen(h->backing_name));
		memcpy(buf + h->header_length + ext, h->backing_name, strlen(h->backing_name));
	}
	return 0;
}

int header_write(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint64_t size = cluster_size_of(h);
	uint8_t *buf = mem_buffer(size, e);
	int ret = -1;

	if (!buf)
		return -1;
	memset(buf, 0, size);
	if (header_encode(h, buf, size, e) == 0)
		ret = file_write(f, 0, buf, size, e);
	free(buf);
	return ret;
}

int header_store_l1(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint8_t b[HDR_RT_OFFSET - HDR_L1_SIZE];

	be32_put(b, h->l1_size);
	be64_put(b + (HDR_L1_OFFSET - HDR_L1_SIZE), h->l1_offset);
	return file_write(f, HDR_L1_SIZE, b, sizeof(b), e);
}

int header_store_rt(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint8_t b[HDR_NB_SNAPSHOTS - HDR_RT_OFFSET];

	be64_put(b, h->rt_offset);
	be32_put(b + (HDR_RT_CLUSTERS - HDR_RT_OFFSET), h->rt_clusters);
	return file_write(f, HDR_RT_OFFSET, b, sizeof(b), e);
}

int header_store_size(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint8_t b[HDR_CRYPT_METHOD - HDR_SIZE];

	be64_put(b, h->size);
	return file_write(f, HDR_SIZE, b, sizeof(b), e);
}

int header_store_features(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint8_t b[HDR_REFCOUNT_ORDER - HDR_INCOMPATIBLE];

	if (h->version < 3)
		return 0;
	be64_put(b, h->incompatible);
	be64_put(b + (HDR_COMPATIBLE - HDR_INCOMPATIBLE), h->compatible);
	be64_put(b + (HDR_AUTOCLEAR - HDR_INCOMPATIBLE), h->autoclear);
	return file_write(f, HDR_INCOMPATIBLE, b, sizeof(b), e);
}

int header_store_snapshots(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint8_t b[HDR_V2_LENGTH - HDR_NB_SNAPSHOTS];

	be32_put(b, h->nb_snapshots);
	be64_put(b + (HDR_SNAPSHOTS_OFFSET - HDR_NB_SNAPSHOTS), h->snapshots_offset);
	return file_write(f, HDR_NB_SNAPSHOTS, b, sizeof(b), e);
}

int header_store_bitmaps(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint64_t size = cluster_size_of(h), at;
	uint8_t *buf = mem_buffer(size, e), *x;
	uint32_t end;
	size_t len = 0;
	int ret = -1;

	if (!buf)
		return -1;
	if (file_read(f, 0, buf, size, e) < 0 || check_backing(h, buf, &end, e) < 0)
		goto out;
	x = extension_update_bitmaps(h, buf, h->header_length, end, &len);
	at = len ? (uint64_t)(x - buf) : 0;
	ret = len ? file_write(f, at, x, len, e) : 0;
out:
	free(buf);
	return ret;
}

int header_store_length(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint8_t b[HDR_V3_MIN_LENGTH - HDR_LENGTH];

	be32_put(b, h->header_length);
	return file_write(f, HDR_LENGTH, b, sizeof(b), e);
}

int header_store_counts(struct file *f, const struct header *h, struct qimg_error *e)
{
	uint8_t b[HDR_LENGTH - HDR_RT_OFFSET];

	if (h->version < 3)
		return header_store_rt(f, h, e);
	/* What lies between stays as it is in the file. */
	if (file_read(f, HDR_RT_OFFSET, b, sizeof(b), e) < 0)
		return -1;
	be64_put(b, h->rt_offset);
	be32_put(b + (HDR_RT_CLUSTERS - HDR_RT_OFFSET), h->rt_clusters);
	be32_put(b + (HDR_REFCOUNT_ORDER - HDR_RT_OFFSET), h->refcount_order);
	return file_write(f, HDR_RT_OFFSET, b, sizeof(b), e);
}
