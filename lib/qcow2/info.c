// SPDX-License-Identifier: BSD-2-Clause
/*
 * What info shows of an image. Reads the header, the snapshot table, the bitmap directory and the
 * LUKS header, never L1 or L2 tables, so that the answer takes no time however large the image is.
 */
#include "qcow2/qcow2.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/value.h"
#include "qcow2/bitmapdir.h"
#include "qcow2/luks.h"
#include "qcow2/snaptable.h"

#define NSEC UINT64_C(1000000000)

static int snapshot_value(const struct snapshot *s, struct qimg_value *v, struct qimg_error *e)
{
	if (value_set_string(v, "id", s->id, e) < 0 ||
	    value_set_string(v, "name", s->name, e) < 0 ||
	    value_set_int(v, "vm-state-size", (int64_t)s->vm_size, e) < 0 ||
	    value_set_int(v, "date-sec", s->date_sec, e) < 0 ||
	    value_set_int(v, "date-nsec", s->date_nsec, e) < 0 ||
	    value_set_int(v, "vm-clock-sec", (int64_t)(s->clock_nsec / NSEC), e) < 0 ||
	    value_set_int(v, "vm-clock-nsec", (int64_t)(s->clock_nsec % NSEC), e) < 0)
		return -1;
	if (s->icount == UINT64_MAX)
		return 0;
	return value_set_int(v, "icount", (int64_t)s->icount, e);
}

static int add_snapshots(struct qcow2 *q, struct qimg_value *info, struct qimg_error *e)
{
	struct qimg_value *list, *v;
	uint32_t i;

	if (!q->h.nb_snapshots)
		return 0;
	if (snaptable_load(q, e) < 0)
		return -1;
	list = value_list(e);
	if (!list)
		return -1;
	for (i = 0; i < q->h.nb_snapshots; i++) {
		v = value_object(e);
		if (!v || snapshot_value(&q->snapshots[i], v, e) < 0) {
			qimg_value_free(v);
			qimg_value_free(list);
			return -1;
		}
		if (value_append(list, v, e) < 0) {
			qimg_value_free(list);
			return -1;
		}
	}
	return value_set(info, "snapshots", list, e);
}

static int bitmap_value(const struct bitmap_entry *b, struct qimg_value *v, struct qimg_error *e)
{
	struct qimg_value *flags = value_list(e);

	if (!flags)
		return -1;
	if (((b->flags & BITMAP_IN_USE) && value_append_string(flags, "in-use", e) < 0) ||
	    ((b->flags & BITMAP_AUTO) && value_append_string(flags, "auto", e) < 0)) {
		qimg_value_free(flags);
		return -1;
	}
	if (value_set(v, "flags", flags, e) < 0 || value_set_string(v, "name", b->name, e) < 0)
		return -1;
	return value_set_int(v, "granularity", (int64_t)(UINT64_C(1) << b->granularity_bits), e);
}

static int add_bitmaps(struct qcow2 *q, struct qimg_value *data, struct qimg_error *e)
{
	struct qimg_value *list = NULL, *v;
	struct bitmap_entry *b;
	size_t count, i;
	int ret = -1;

	if (bitmapdir_load(q, &b, &count, e) < 0)
		return -1;
	if (!count)
		return 0;
	list = value_list(e);
	for (i = 0; list && i < count; i++) {
		v = value_object(e);
		if (!v || bitmap_value(&b[i], v, e) < 0) {
			qimg_value_free(v);
			goto out;
		}
		if (value_append(list, v, e) < 0)
			goto out;
	}
	ret = value_set(data, "bitmaps", list, e);
	list = NULL;
out:
	qimg_value_free(list);
	bitmapdir_free(b, count);
	return ret;
}

static int add_encryption(struct qcow2 *q, struct qimg_value *data, struct qimg_error *e)
{
	struct qimg_value *v;
	int ret;

	if (q->h.crypt_method == CRYPT_NONE)
		return 0;
	v = value_object(e);
	if (!v)
		return -1;
	if (q->h.crypt_method == CRYPT_LUKS)
		ret = luks_info(q, v, e);
	else
		ret = value_set_string(v, "format", "aes", e);
	if (ret < 0) {
		qimg_value_free(v);
		return -1;
	}
	return value_set(data, "encrypt", v, e);
}

/* The order is that of the reference's human form. */
static int add_data(struct qcow2 *q, struct qimg_value *data, struct qimg_error *e)
{
	const struct header *h = &q->h;
	bool v3 = h->version >= 3;

	if (value_set_string(data, "compat", v3 ? "1.1" : "0.10", e) < 0 ||
	    value_set_string(data, "compression-type", h->compression_type ? "zstd" : "zlib", e) <
		0)
		return -1;
	if (v3 &&
	    value_set_bool(data, "lazy-refcounts", h->compatible & COMPAT_LAZY_REFCOUNTS, e) < 0)
		return -1;
	if (add_bitmaps(q, data, e) < 0 ||
	    value_set_int(data, "refcount-bits", q->refcount_bits, e) < 0 ||
	    add_encryption(q, data, e) < 0)
		return -1;
	if (q->external && h->data_file && value_set_string(data, "data-file", h->data_file, e) < 0)
		return -1;
	if (q->external &&
	    value_set_bool(data, "data-file-raw", h->autoclear & AUTOCLEAR_DATA_FILE_RAW, e) < 0)
		return -1;
	if (v3 && (value_set_bool(data, "corrupt", h->incompatible & INCOMPAT_CORRUPT, e) < 0 ||
		   value_set_bool(data, "extended-l2", q->extended, e) < 0))
		return -1;
	return 0;
}

int qcow2_info(struct qimg_image *img, struct qimg_value *info, struct qimg_error *e)
{
	struct qcow2 *q = qcow2_of(img);
	struct qimg_value *specific, *data;

	if (value_set_int(info, "cluster-size", q->cluster_size, e) < 0 ||
	    (img->encrypted && value_set_bool(info, "encrypted", true, e) < 0) ||
	    value_set_bool(info, "dirty-flag", q->h.incompatible & INCOMPAT_DIRTY, e) < 0 ||
	    add_snapshots(q, info, e) < 0)
		return -1;
	data = value_object(e);
	if (!data)
		return -1;
	if (add_data(q, data, e) < 0) {
		qimg_value_free(data);
		return -1;
	}
	specific = value_object(e);
	if (!specific || value_set_string(specific, "type", "qcow2", e) < 0) {
		qimg_value_free(data);
		qimg_value_free(specific);
		return -1;
	}
	if (value_set(specific, "data", data, e) < 0) {
		qimg_value_free(specific);
		return -1;
	}
	return value_set(info, "format-specific", specific, e);
}
