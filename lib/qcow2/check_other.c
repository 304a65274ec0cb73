// SPDX-License-Identifier: BSD-2-Clause
/* Checking an image: L1 tables, the snapshot table and the encryption header. */
#include "qcow2/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/entry.h"
#include "qcow2/qcow2.h"
#include "qcow2/snaptable.h"

#define LEAST_EXTRA 16			/* bytes of extra data that version 3 asks for */
#define MOST_EXTRA 1024			/* that the reference keeps */

/* ---- snapshots ---- */

static void tell_snapshot(struct check *c, enum qimg_fault fault, const struct snapshot *s, const char *why)
{
	struct qimg_finding f = { .fault = fault, .has_host = true, .host = c->q->h.snapshots_offset,
				  .host_len = c->snapshots_len, .snapshot = s ? s->name : NULL };
	char about[1200];

	if (s && fault == QIMG_FAULT_SNAPSHOT_L1) {
		f.host = s->l1_offset;
		f.host_len = (uint64_t)s->l1_size * 8;
	}
	/* A fault of the header, which has no place of the table. */
	if (!f.host)
		f.host_len = c->q->cluster_size;
	if (s)
		check_tell(c, &f, "%s: %s", snaptable_about(s, about, sizeof(about)), why);
	else
		check_tell(c, &f, "%s", why);
}

static void check_entry(struct check *c, uint32_t i)
{
	const struct snapshot *s = &c->q->snapshots[i];
	struct qimg_error e;

	if (c->q->h.version >= 3 && s->extra_len < LEAST_EXTRA)
		tell_snapshot(c, QIMG_FAULT_SNAPSHOT_TABLE, s, "its extra data is too short for version 3");
	if (s->extra_len > MOST_EXTRA)
		tell_snapshot(c, QIMG_FAULT_SNAPSHOT_TABLE, s, "it has more than 1024 bytes of extra data");
	if (snaptable_check_l1(c->q, s, &e) < 0)
		tell_snapshot(c, QIMG_FAULT_SNAPSHOT_L1, s, e.msg);
	c->view[c->views++] = (struct check_view){
		.name = s->name, .l1_offset = s->l1_offset, .l1_size = s->l1_size,
		.unusable = !s->l1_offset || !is_aligned(s->l1_offset, c->q->cluster_size) ||
			    !check_inside(c, s->l1_offset, (uint64_t)s->l1_size * 8) ||
			    (uint64_t)s->l1_size * 8 > HEADER_MAX_L1_BYTES,
	};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *check_twin(const char **name, size_t n, size_t *i)
{
	if (!*i)
		qsort(name, n, sizeof(*name), by_name);
	for (++*i; *i < n; ++*i)
		if (!strcmp(name[*i - 1], name[*i]))
			return name[*i];
	return NULL;
}

static int check_ids(struct check *c, struct qimg_error *e)
{
	uint32_t n = c->snapshots;
	const char **id = mem_array(max_u64(n, 1), sizeof(*id), e), *twin;
	struct qimg_finding f = { .fault = QIMG_FAULT_SNAPSHOT_TABLE, .has_host = true,
				  .host = c->q->h.snapshots_offset, .host_len = c->snapshots_len };

	if (!id)
		return -1;
	for (uint32_t i = 0; i < n; i++)
		id[i] = c->q->snapshots[i].id;
	for (size_t i = 0; (twin = check_twin(id, n, &i)); )
		check_tell(c, &f, "two snapshots have the ID '%s'", twin);
	free(id);
	return 0;
}

int check_snapshots(struct check *c, struct qimg_error *e)
{
	struct qcow2 *q = c->q;
	const struct header *h = &q->h;
	uint64_t l1_bytes = 0;
	struct qimg_error why;

	c->view = mem_array((size_t)h->nb_snapshots + 1, sizeof(*c->view), e);
	if (!c->view)
		return -1;
	c->view[0] = (struct check_view){ .l1_offset = q->l1_offset, .l1_size = q->l1_size };
	c->views = 1;
	if (q->l1_size && !check_inside(c, q->l1_offset, (uint64_t)q->l1_size * 8)) {
		struct qimg_finding f = { .fault = QIMG_FAULT_HEADER, .has_host = true, .host = q->l1_offset,
					  .host_len = (uint64_t)q->l1_size * 8 };

		check_tell(c, &f, "the L1 table at 0x%" PRIx64 ", of %" PRIu32 " entries, does not lie within "
			   "the file", q->l1_offset, q->l1_size);
		c->view[0].unusable = true;
	}
	if (h->fault[HEADER_FAULT_SNAPSHOTS])
		tell_snapshot(c, QIMG_FAULT_SNAPSHOT_TABLE, NULL, h->fault[HEADER_FAULT_SNAPSHOTS]);
	if (!h->nb_snapshots)
		return 0;
	snaptable_free(q);
	if (snaptable_load_some(q, &c->snapshots, &why) < 0) {
		if (why.code == ENOMEM) {
			*e = why;
			return -1;
		}
		/* What the host cannot read is not damaged for that. */
		tell_snapshot(c, why.code == EINVAL || why.code == EFBIG ? QIMG_FAULT_SNAPSHOT_TABLE :
			      QIMG_FAULT_UNREAD, NULL, why.msg);
	}
	for (uint32_t i = 0; i < c->snapshots; i++) {
		c->snapshots_len += q->snapshots[i].entry_len;
		check_entry(c, i);
		/* Tables that do not overlap are not more than the file: no end of reading for what says so. */
		if (!c->view[i + 1].unusable)
			l1_bytes += (uint64_t)q->snapshots[i].l1_size * 8;
		if (l1_bytes > c->clusters << q->cluster_bits) {
			tell_snapshot(c, QIMG_FAULT_SNAPSHOT_L1, &q->snapshots[i],
				      "the L1 tables of snapshots overlap each other");
			c->view[i + 1].unusable = true;
		}
	}
	/* At least the beginning of the one that cannot be read. */
	if (c->snapshots < h->nb_snapshots)
		c->snapshots_len++;
	return check_ids(c, e);
}

static int use_l1s(struct check *c, struct qimg_error *e)
{
	for (uint32_t i = 0; i < c->views; i++) {
		const struct check_view *v = &c->view[i];
		char what[1100];

		if (v->unusable)
			continue;
		if (v->name)
			snprintf(what, sizeof(what), "the L1 table of snapshot '%s'", v->name);
		else
			snprintf(what, sizeof(what), "the L1 table");
		if ((i ? check_use_movable : check_use)(c, v->l1_offset, (uint64_t)v->l1_size * 8, 1, what, e) < 0)
			return -1;
		if (!i && c->snapshots_len && check_inside(c, c->q->h.snapshots_offset, c->snapshots_len) &&
		    check_use_movable(c, c->q->h.snapshots_offset, c->snapshots_len, 1, "the snapshot table", e) < 0)
			return -1;
	}
	return 0;
}

/* ---- encryption ---- */

static int use_crypt(struct check *c, struct qimg_error *e)
{
	const struct header *h = &c->q->h;
	struct qimg_finding f = { .fault = QIMG_FAULT_CRYPT_HEADER, .has_host = true, .host = h->crypt_offset,
				  .host_len = h->crypt_length };

	if (!h->has_crypt || !h->crypt_length)
		return 0;
	if (is_aligned(h->crypt_offset, c->q->cluster_size) && check_inside(c, h->crypt_offset, h->crypt_length))
		return check_use(c, h->crypt_offset, h->crypt_length, 1, "the encryption header", e);
	if (c->first)
		check_tell(c, &f, "the encryption header at 0x%" PRIx64 ", of %" PRIu64 " bytes, is not aligned to a "
			   "cluster or does not lie within the file", h->crypt_offset, h->crypt_length);
	return 0;
}

int check_other(struct check *c, struct qimg_error *e)
{
	if (use_l1s(c, e) < 0 || check_bitmaps(c, e) < 0)
		return -1;
	return use_crypt(c, e);
}
