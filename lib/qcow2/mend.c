// SPDX-License-Identifier: BSD-2-Clause
/*
 * Everything that a repair writes. With a backup it is kept back until there is so much that saving what was there, and
 * waiting for that, is worth while.
 */
#include "qcow2/mend.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "image/backup.h"
#include "io/draft.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/flush.h"
#include "qcow2/qcow2.h"

#define MOST_KEPT (UINT64_C(4) << 20)	/* bytes */

struct kept {				/* a write that waits */
	struct kept *next;
	uint64_t off;
	size_t len;
	uint8_t data[];
};

int mend_open(struct mend **out, struct qcow2 *q, const struct qimg_check *how, struct qimg_error *e)
{
	struct mend *m = mem_zalloc(sizeof(*m), e);
	int ret = 0;

	if (!m)
		return -1;
	m->q = q;
	m->last = &m->first;
	if (how->flags & QIMG_CHECK_DRY_RUN)
		ret = draft_begin(q->file, e);
	else if (how->backup)
		ret = backup_open(&m->backup, how->backup, q->file, q->cluster_size, e);
	if (ret < 0) {
		free(m);
		return -1;
	}
	*out = m;
	return 0;
}

static void drop_kept(struct mend *m)
{
	struct kept *k;

	while ((k = m->first)) {
		m->first = k->next;
		free(k);
	}
	m->last = &m->first;
	m->bytes = 0;
}

int mend_close(struct mend *m, bool done, struct qimg_error *e)
{
	int ret;

	if (!m)
		return 0;
	drop_kept(m);
	ret = backup_close(m->backup, done, e);
	free(m);
	return ret;
}

/* First what was there, then what becomes of it. */
static int write_kept(struct mend *m, struct qimg_error *e)
{
	int ret = 0;

	for (const struct kept *k = m->first; k && ret == 0; k = k->next)
		ret = backup_save(m->backup, k->off, k->len, e);
	if (ret == 0 && m->first)
		ret = backup_sync(m->backup, e);
	for (const struct kept *k = m->first; k && ret == 0; k = k->next)
		ret = file_write(m->q->file, k->off, k->data, k->len, e);
	drop_kept(m);
	return ret;
}

int mend_write(struct check *c, uint64_t off, const void *buf, size_t len, struct qimg_error *e)
{
	struct mend *m = c->mend;
	struct kept *k;

	if (!m->backup)
		return file_write(c->q->file, off, buf, len, e);
	k = mem_alloc(sizeof(*k) + len, e);
	if (!k)
		return -1;
	k->next = NULL;
	k->off = off;
	k->len = len;
	memcpy(k->data, buf, len);
	*m->last = k;
	m->last = &k->next;
	m->bytes += len;
	return m->bytes >= MOST_KEPT ? write_kept(m, e) : 0;
}

int mend_sync(struct check *c, struct qimg_error *e)
{
	return write_kept(c->mend, e) < 0 ? -1 : flush_repaired(c->q, e);
}

int mend_header(struct check *c, int (*store)(struct file *f, const struct header *h, struct qimg_error *e),
		struct qimg_error *e)
{
	if (mend_sync(c, e) < 0 || mend_save(c, 0, 1, e) < 0 || store(c->q->file, &c->q->h, e) < 0)
		return -1;
	return flush_repaired(c->q, e);
}

int mend_save(struct check *c, uint64_t off, uint64_t len, struct qimg_error *e)
{
	struct backup *b = c->mend->backup;

	return b && (backup_save(b, off, len, e) < 0 || backup_sync(b, e) < 0) ? -1 : 0;
}
