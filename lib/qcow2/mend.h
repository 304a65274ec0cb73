/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything that a repair writes. With a backup, the clusters that are overwritten are on stable storage in
 * there before anything of them changes (image/undo.c puts them back). What is only tried out goes to a draft.
 */
#ifndef QCOW2_MEND_H
#define QCOW2_MEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct backup;
struct check;
struct file;
struct header;
struct kept;
struct qimg_check;
struct qimg_error;
struct qcow2;

struct mend {
	struct qcow2 *q;
	bool marked;			/* the image was marked corrupt by this */
	struct backup *backup;		/* or NULL */
	struct kept *first, **last;	/* writes that wait */
	uint64_t bytes;			/* of these */
};

/* For one repair, with as many rounds as it takes. */
int mend_open(struct mend **m, struct qcow2 *q, const struct qimg_check *how, struct qimg_error *e);
/* done: the image is what it is going to be. NULL is allowed. */
int mend_close(struct mend *m, bool done, struct qimg_error *e);

/*
 * Writes to the image's file. It may be kept back until mend_sync, and reading the place before that may give
 * what was there; writing it once more is fine.
 */
int mend_write(struct check *c, uint64_t off, const void *buf, size_t len, struct qimg_error *e);
/* What was written is on stable storage. */
int mend_sync(struct check *c, struct qimg_error *e);
/* Stores fields of c->q->h in the header (one of header_store_*), and syncs, before and afterwards. */
int mend_header(struct check *c, int (*store)(struct file *f, const struct header *h, struct qimg_error *e),
		struct qimg_error *e);
/* Puts clusters into the backup that are not going to be written but given away. Without one: does nothing. */
int mend_save(struct check *c, uint64_t off, uint64_t len, struct qimg_error *e);

#endif
