// SPDX-License-Identifier: BSD-2-Clause
/* Everything that a repair writes. */
#include "qcow2/mend.h"

#include <stdlib.h>

#include "base/mem.h"
#include "io/file.h"
#include "qcow2/check.h"
#include "qcow2/flush.h"
#include "qcow2/qcow2.h"

int mend_open(struct mend **m, struct qcow2 *q, const struct qimg_check *how, struct qimg_error *e)
{
	(void)how;
	*m = mem_zalloc(sizeof(**m), e);
	if (!*m)
		return -1;
	(*m)->q = q;
	return 0;
}

int mend_close(struct mend *m, bool done, struct qimg_error *e)
{
	(void)done;
	(void)e;
	free(m);
	return 0;
}

int mend_write(struct check *c, uint64_t off, const void *buf, size_t len, struct qimg_error *e)
{
	return file_write(c->q->file, off, buf, len, e);
}

int mend_sync(struct check *c, struct qimg_error *e)
{
	return flush_repaired(c->q, e);
}

int mend_header(struct check *c, int (*store)(struct file *f, const struct header *h, struct qimg_error *e),
		struct qimg_error *e)
{
	if (mend_sync(c, e) < 0 || store(c->q->file, &c->q->h, e) < 0)
		return -1;
	return flush_repaired(c->q, e);
}

int mend_save(struct check *c, uint64_t off, uint64_t len, struct qimg_error *e)
{
	(void)c;
	(void)off;
	(void)len;
	(void)e;
	return 0;
}
