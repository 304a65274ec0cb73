/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks that requests pass, and what resizing needs of them. */
#ifndef IMAGE_RW_H
#define IMAGE_RW_H

#include "image/image.h"

int rw_check_range(const struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e);
int rw_no_encryption(const struct qimg_image *img, struct qimg_error *e);
/*
 * Before every change of [off, off+len): checks range, permission and what may be written there (buf;
 * NULL: zeros).
 */
int rw_change_begin(struct qimg_image *img, uint64_t off, const void *buf, uint64_t len,
		    struct qimg_error *e);
/* Zeros, written where the range does not read as zeros already. Waits. */
int rw_clear(struct qimg_image *img, uint64_t off, uint64_t len, struct qimg_error *e);

#endif
