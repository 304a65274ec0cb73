/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that change guest data share: rw, cow, clear, resize. */
#ifndef IMAGE_RW_H
#define IMAGE_RW_H

#include "image/image.h"

enum { RW_SCRATCH = 1 << 20 };		/* bytes moved at a time where they pass through memory */

/*
 * Before every change of [off, off+len): checks range, permission and what may be written there (buf; NULL:
 * zeros). rw_change_end after it has succeeded.
 */
int rw_change_begin(struct qimg_image *img, uint64_t off, const void *buf, uint64_t len,
		    struct qimg_error *e);
int rw_change_end(struct qimg_image *img, struct qimg_error *e);

/* qimg_read for a range that may reach beyond the end, where zeros are. */
int rw_read_padded(struct qimg_image *img, uint64_t off, void *buf, size_t len, struct qimg_error *e);
/* Writes guest data; between change_begin and change_end. */
int rw_write(struct qimg_image *img, uint64_t off, const void *buf, size_t len, struct qimg_error *e);
int rw_host_write(struct qimg_image *img, struct file *f, uint64_t host, const void *buf, size_t len,
		  struct qimg_error *e);
/* RW_SCRATCH bytes for moving data. NULL: no memory. */
uint8_t *rw_scratch(struct qimg_image *img, struct qimg_error *e);
/* Makes a range of the host file read as zeros; flags: SPARSE_*. */
int rw_host_zero(struct qimg_image *img, struct file *f, uint64_t host, uint64_t len, unsigned flags,
		 struct qimg_error *e);
/* clear.c: zeros, written where the range does not read as zeros already. */
int clear_by_writing(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e);
/* cow.c: writes the m->len bytes of a begun write, with what belongs around them. */
int cow_write(struct qimg_image *img, const struct wmap *m, const void *buf, struct qimg_error *e);

#endif
