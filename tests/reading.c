// SPDX-License-Identifier: BSD-2-Clause
/* See reading.h. */
#include "reading.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/image.h"
#include "qcow2/qcow2.h"
#include "qcow2/snaptable.h"
#include "qimg.h"

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static uint64_t pieces(const struct reading *r, const struct reading_view *v)
{
	return (v->size + r->piece - 1) / r->piece;
}

/* [from, to): pieces. What cannot be read together may be read one by one. */
static void read_pieces(const struct reading *r, struct qimg_image *img, struct reading_view *v, uint64_t from,
			uint64_t to)
{
	uint64_t off = from * r->piece, end = to * r->piece < v->size ? to * r->piece : v->size;
	struct qimg_error e;

	if (from >= to)
		return;
	if (qimg_read(img, off, v->data + off, end - off, &e) == 0) {
		memset(v->reads + from, true, to - from);
		return;
	}
	memset(v->data + off, 0, end - off);
	if (to - from == 1)
		return;
	read_pieces(r, img, v, from, from + (to - from) / 2);
	read_pieces(r, img, v, from + (to - from) / 2, to);
}

static void read_view(struct reading *r, const char *path, struct reading_view *v)
{
	struct qimg_image *img = NULL;
	struct qimg_error e;
	char spec[100];

	if (qimg_open(&img, path, "qcow2", NULL, QIMG_OPEN_CHECK | QIMG_OPEN_NO_BACKING, &e) < 0)
		return;
	snprintf(spec, sizeof(spec), "snapshot.id=%s", v->id);
	v->there = !*v->id || qimg_load_snapshot(img, spec, &e) == 0;
	r->opens = true;
	r->piece = qimg_cluster_size(img) < 32 * 512 ? 512 : qimg_cluster_size(img) / 32;
	v->size = qimg_size(img) < READING_MOST ? qimg_size(img) : READING_MOST;
	v->data = must(calloc(1, v->size + 1));
	v->reads = must(calloc(1, pieces(r, v) + 1));
	if (v->there)
		read_pieces(r, img, v, 0, pieces(r, v));
	qimg_close(img, &e);
}

static void add_view(struct reading *r, const char *id)
{
	for (unsigned i = 1; i < r->views; i++)
		if (!strcmp(r->view[i].id, id))
			return;
	if (r->views < READING_VIEWS && strlen(id) < sizeof(r->view[0].id))
		strcpy(r->view[r->views++].id, id);
}

static void add_snapshots(struct reading *r, const char *path)
{
	struct qimg_image *img = NULL;
	struct qimg_error e;
	struct qcow2 *q;
	uint32_t count;

	if (qimg_open(&img, path, "qcow2", NULL, QIMG_OPEN_CHECK | QIMG_OPEN_NO_BACKING, &e) < 0)
		return;
	q = qcow2_of(img);
	if (snaptable_load_some(q, &count, &e) == 0)
		for (uint32_t i = 0; i < count; i++)
			add_view(r, q->snapshots[i].id);
	snaptable_free(q);
	qimg_close(img, &e);
}

void reading_take(struct reading *r, const char *path, const struct reading *like, bool more)
{
	memset(r, 0, sizeof(*r));
	r->views = 1;
	for (unsigned i = 1; like && i < like->views; i++)
		add_view(r, like->view[i].id);
	if (more)
		add_snapshots(r, path);
	for (unsigned i = 0; i < r->views; i++)
		read_view(r, path, &r->view[i]);
}

void reading_free(struct reading *r)
{
	for (unsigned i = 0; i < r->views; i++) {
		free(r->view[i].data);
		free(r->view[i].reads);
	}
	r->views = 0;
}

static const struct reading_view *find(const struct reading *r, const char *id)
{
	for (unsigned i = 0; i < r->views; i++)
		if (!strcmp(r->view[i].id, id))
			return &r->view[i];
	return NULL;
}

static enum reading_change compare(const struct reading *r, const struct reading_view *old,
				   const struct reading_view *now, char *text, size_t n)
{
	const char *name = *old->id ? old->id : "the disk";
	enum reading_change change = READING_SAME;

	for (uint64_t i = 0; i < pieces(r, old); i++) {
		uint64_t off = i * r->piece, len = old->size - off < r->piece ? old->size - off : r->piece;

		if (!old->reads[i])
			continue;
		if (!now || !now->there || now->size < old->size || !now->reads[i]) {
			if (change == READING_SAME)
				snprintf(text, n, "%s does not read any more at 0x%" PRIx64, name, off);
			change = READING_LOST;
		} else if (memcmp(old->data + off, now->data + off, len)) {
			snprintf(text, n, "%s reads something else at 0x%" PRIx64, name, off);
			return READING_OTHER;
		}
	}
	return change;
}

enum reading_change reading_compare(const struct reading *before, const struct reading *now, char *text, size_t n)
{
	enum reading_change worst = READING_SAME;
	char other[200];

	for (unsigned i = 0; i < before->views; i++) {
		enum reading_change c = compare(before, &before->view[i], find(now, before->view[i].id), other,
						sizeof(other));

		if (c > worst) {
			worst = c;
			snprintf(text, n, "%s", other);
		}
	}
	return worst;
}
