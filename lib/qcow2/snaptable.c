// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reading and encoding the snapshot table, and showing a snapshot's content.
 *
 * The table is read when it is asked for, not at open: an image with a broken table can still be
 * read. Its entries have no fixed length, so that the header can only bound their number; here the
 * sum of their lengths is bounded as well (64 MiB, as in the reference).
 */
#include "qcow2/snaptable.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "base/range.h"
#include "io/file.h"
#include "qcow2/format.h"
#include "qcow2/qcow2.h"

#define MAX_TABLE_BYTES (64 * MIB)

static void decode_extra(const struct qcow2 *q, struct snapshot *s)
{
	s->disk_size = q->h.size;
	s->icount = UINT64_MAX;
	if (s->extra_len >= SNAP_EXTRA_VM_SIZE + 8)
		s->vm_size = be64_get(s->extra + SNAP_EXTRA_VM_SIZE);
	if (s->extra_len >= SNAP_EXTRA_DISK_SIZE + 8)
		s->disk_size = be64_get(s->extra + SNAP_EXTRA_DISK_SIZE);
	if (s->extra_len >= SNAP_EXTRA_ICOUNT + 8)
		s->icount = be64_get(s->extra + SNAP_EXTRA_ICOUNT);
}

/* Reads the entry at *off and moves *off behind it. */
static int load_entry(struct qcow2 *q, uint32_t index, uint64_t *off, struct snapshot *s,
		      struct qimg_error *e)
{
	uint64_t start = q->h.snapshots_offset, len, at = *off;
	uint8_t head[SNAP_HEAD];
	uint32_t id_len, name_len;
	uint8_t *b;

	if (file_read(q->file, at, head, sizeof(head), e) < 0)
		return -1;
	s->l1_offset = be64_get(head + SNAP_L1_OFFSET);
	s->l1_size = be32_get(head + SNAP_L1_SIZE);
	id_len = be16_get(head + SNAP_ID_LEN);
	name_len = be16_get(head + SNAP_NAME_LEN);
	s->date_sec = be32_get(head + SNAP_DATE_SEC);
	s->date_nsec = be32_get(head + SNAP_DATE_NSEC);
	s->clock_nsec = be64_get(head + SNAP_CLOCK_NSEC);
	s->vm_size = be32_get(head + SNAP_VM_SIZE_32);
	s->extra_len = be32_get(head + SNAP_EXTRA_LEN);

	len = (uint64_t)s->extra_len + id_len + name_len;
	if (at + SNAP_HEAD + len - start > MAX_TABLE_BYTES)
		return error_set(e, EFBIG,
				 "The snapshot table is longer than %" PRIu64
				 " bytes at entry %" PRIu32,
				 (uint64_t)MAX_TABLE_BYTES, index);
	if (!range_within(at, SNAP_HEAD + len, file_size(q->file)))
		return error_set(e, EINVAL,
				 "Entry %" PRIu32 " of the snapshot table, of %" PRIu64
				 " bytes at offset 0x%" PRIx64 ", does not lie within the file",
				 index, SNAP_HEAD + len, at);
	b = mem_alloc(len, e);
	if (!b)
		return -1;
	if (file_read(q->file, at + SNAP_HEAD, b, len, e) < 0) {
		free(b);
		return -1;
	}
	s->extra = b;
	s->id = mem_strndup((char *)b + s->extra_len, id_len, e);
	s->name = mem_strndup((char *)b + s->extra_len + id_len, name_len, e);
	decode_extra(q, s);
	s->entry_len = (uint32_t)round_up(SNAP_HEAD + len, 8);
	*off = at + s->entry_len;
	return s->id && s->name ? 0 : -1;
}

int snaptable_load_some(struct qcow2 *q, uint32_t *count, struct qimg_error *e)
{
	uint64_t off = q->h.snapshots_offset;

	*count = 0;
	q->snapshots = mem_array(max_u64(q->h.nb_snapshots, 1), sizeof(*q->snapshots), e);
	if (!q->snapshots)
		return -1;
	q->snapshot_room = q->h.nb_snapshots;
	for (; *count < q->h.nb_snapshots; ++*count)
		if (load_entry(q, *count, &off, &q->snapshots[*count], e) < 0)
			return -1;
	return 0;
}

int snaptable_load(struct qcow2 *q, struct qimg_error *e)
{
	uint32_t count;

	if (q->snapshots || !q->h.nb_snapshots)
		return 0;
	if (snaptable_load_some(q, &count, e) == 0)
		return 0;
	snaptable_free(q);
	return -1;
}

void snaptable_free(struct qcow2 *q)
{
	uint32_t i;

	for (i = 0; q->snapshots && i < q->snapshot_room; i++) {
		free(q->snapshots[i].id);
		free(q->snapshots[i].name);
		free(q->snapshots[i].extra);
	}
	free(q->snapshots);
	q->snapshots = NULL;
}

/* ---- writing ---- */

static uint64_t entry_size(const struct snapshot *s)
{
	return round_up(SNAP_HEAD + (uint64_t)s->extra_len + strlen(s->id) + strlen(s->name), 8);
}

uint64_t snaptable_size(const struct snapshot *s, uint32_t count)
{
	uint64_t size = 0;

	for (uint32_t i = 0; i < count; i++)
		size += entry_size(&s[i]);
	return size;
}

int snaptable_set_extra(struct snapshot *s, uint32_t len, struct qimg_error *e)
{
	uint8_t *extra = mem_alloc(len, e);

	if (!extra)
		return -1;
	memset(extra, 0, len);
	memcpy(extra, s->extra, min_u64(len, s->extra_len));
	free(s->extra);
	s->extra = extra;
	s->extra_len = len;
	return 0;
}

static void encode_extra(const struct snapshot *s, uint8_t *p)
{
	memcpy(p, s->extra, s->extra_len);
	if (s->extra_len >= SNAP_EXTRA_VM_SIZE + 8)
		be64_put(p + SNAP_EXTRA_VM_SIZE, s->vm_size);
	if (s->extra_len >= SNAP_EXTRA_DISK_SIZE + 8)
		be64_put(p + SNAP_EXTRA_DISK_SIZE, s->disk_size);
	if (s->extra_len >= SNAP_EXTRA_ICOUNT + 8)
		be64_put(p + SNAP_EXTRA_ICOUNT, s->icount);
}

void snaptable_encode(const struct snapshot *s, uint32_t count, uint8_t *buf)
{
	for (uint32_t i = 0; i < count; i++, s++) {
		size_t id = strlen(s->id), name = strlen(s->name);

		be64_put(buf + SNAP_L1_OFFSET, s->l1_offset);
		be32_put(buf + SNAP_L1_SIZE, s->l1_size);
		be16_put(buf + SNAP_ID_LEN, (uint16_t)id);
		be16_put(buf + SNAP_NAME_LEN, (uint16_t)name);
		be32_put(buf + SNAP_DATE_SEC, s->date_sec);
		be32_put(buf + SNAP_DATE_NSEC, s->date_nsec);
		be64_put(buf + SNAP_CLOCK_NSEC, s->clock_nsec);
		be32_put(buf + SNAP_VM_SIZE_32, s->vm_size > UINT32_MAX ? 0 : (uint32_t)s->vm_size);
		be32_put(buf + SNAP_EXTRA_LEN, s->extra_len);
		encode_extra(s, buf + SNAP_HEAD);
		memcpy(buf + SNAP_HEAD + s->extra_len, s->id, id);
		memcpy(buf + SNAP_HEAD + s->extra_len + id, s->name, name);
		buf += entry_size(s);
	}
}

/* ---- finding ---- */

static const struct snapshot *find(const struct qcow2 *q, const char *id, const char *name)
{
	uint32_t i;

	for (i = 0; i < q->h.nb_snapshots; i++) {
		const struct snapshot *s = &q->snapshots[i];

		if ((!id || !strcmp(s->id, id)) && (!name || !strcmp(s->name, name)))
			return s;
	}
	return NULL;
}

const struct snapshot *snaptable_find(struct qcow2 *q, const char *id, const char *name,
				      struct qimg_error *e)
{
	const struct snapshot *s;

	if (snaptable_load(q, e) < 0)
		return NULL;
	s = find(q, id, name);
	if (!s)
		error_set(e, ENOENT, "'%s' has no snapshot with%s%s%s%s%s%s", q->img->name,
			  id ? " ID '" : "", id ? id : "", id ? "'" : "", name ? " name '" : "",
			  name ? name : "", name ? "'" : "");
	return s;
}

const char *snaptable_about(const struct snapshot *s, char *buf, size_t size)
{
	time_t when = s->date_sec;
	struct tm tm;
	char date[32] = "";

	if (gmtime_r(&when, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm);
	snprintf(buf, size, "snapshot '%s' (ID '%s', taken %s, a disk of %" PRIu64 " bytes)", s->name, s->id, date,
		 s->disk_size);
	return buf;
}

int snaptable_check_l1(const struct qcow2 *q, const struct snapshot *s, struct qimg_error *e)
{
	uint64_t need = header_l1_need(s->disk_size, q->cluster_bits, q->extended);

	if ((uint64_t)s->l1_size * 8 > HEADER_MAX_L1_BYTES)
		return error_set(e, EFBIG,
				 "L1 table size %" PRIu32 " of snapshot '%s' is more than %" PRIu64
				 " entries",
				 s->l1_size, s->name, HEADER_MAX_L1_BYTES / 8);
	if (s->l1_size < need)
		return error_set(e, EINVAL,
				 "L1 table size %" PRIu32 " of snapshot '%s' is too small: a "
				 "virtual size of %" PRIu64 " bytes takes %" PRIu64 " entries",
				 s->l1_size, s->name, s->disk_size, need);
	if (s->l1_size && !s->l1_offset)
		return error_set(e, EINVAL, "L1 table offset 0 of snapshot '%s' lies in the header", s->name);
	if (!is_aligned(s->l1_offset, q->cluster_size))
		return error_set(e, EINVAL,
				 "L1 table offset 0x%" PRIx64 " of snapshot '%s' is not "
				 "aligned to a cluster of %" PRIu32 " bytes",
				 s->l1_offset, s->name, q->cluster_size);
	if (!range_within(s->l1_offset, (uint64_t)s->l1_size * 8, file_size(q->file)))
		return error_set(e, EINVAL,
				 "L1 table of snapshot '%s' at offset 0x%" PRIx64 " with %" PRIu32
				 " entries does not lie within the file of %" PRIu64 " bytes",
				 s->name, s->l1_offset, s->l1_size, file_size(q->file));
	return 0;
}

/* ---- loading ---- */

static const struct snapshot *find_spec(struct qcow2 *q, const char *spec, struct qimg_error *e)
{
	static const char *const known[] = { "snapshot.id", "snapshot.name", NULL };
	const struct snapshot *s = NULL;
	const char *id, *name;
	struct qimg_opts *o;

	if (strncmp(spec, "snapshot.", 9)) {
		if (snaptable_load(q, e) < 0)
			return NULL;
		s = find(q, spec, NULL);
		if (!s)
			s = find(q, NULL, spec);
		if (!s)
			error_set(e, ENOENT, "'%s' has no snapshot with ID or name '%s'",
				  q->img->name, spec);
		return s;
	}
	o = qimg_opts_new();
	if (!o) {
		error_nomem(e);
		return NULL;
	}
	if (qimg_opts_parse(o, spec, e) < 0 || opts_check_known(o, known, "a snapshot", e) < 0)
		goto out;
	id = qimg_opts_get(o, "snapshot.id");
	name = qimg_opts_get(o, "snapshot.name");
	s = snaptable_find(q, id, name, e);
out:
	qimg_opts_free(o);
	return s;
}

int qcow2_load_snapshot(struct qimg_image *img, const char *spec, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	const struct snapshot *s;

	if (q->writable)
		return error_set(e, EINVAL,
				 "A snapshot can be shown only by an image that is opened "
				 "read-only");
	if (q->external)
		return error_set(e, ENOTSUP, "Images with an external data file have no snapshots");
	s = find_spec(q, spec, e);
	if (!s || snaptable_check_l1(q, s, e) < 0)
		return -1;
	table_close(q);
	if (table_open(q, s->l1_offset, s->l1_size, e) < 0)
		return error_prefix(e, "Snapshot '%s'", s->name);
	/* Nothing is written to the header of a read-only image: it may say what is shown. */
	q->h.size = s->disk_size;
	img->size = round_up(s->disk_size, 512);
	return 0;
}
