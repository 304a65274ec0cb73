/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the parts of image creation. */
#ifndef IMAGE_CREATE_H
#define IMAGE_CREATE_H

#include "image/image.h"

/*
 * Checks the options backing_file and backing_fmt of c, and fills in its backing_name and
 * backing_format. *size becomes that of the backing file where it is UINT64_MAX and the file is opened.
 */
int create_check_backing(struct qimg_creation *c, uint64_t *size, struct qimg_error *e);

#endif
