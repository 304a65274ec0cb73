/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory straight from the system, in whole pages, which can be given back for a while: it is still there
 * then, its content is not.
 */
#ifndef IO_PAGES_H
#define IO_PAGES_H

#include <stddef.h>

struct qimg_error;

size_t pages_unit(void);			/* the size of a page, a power of two */
void *pages_new(size_t size, struct qimg_error *e);	/* NULL: error */
void pages_free(void *p, size_t size);		/* p NULL is allowed */
void pages_give_back(void *p, size_t size);
size_t pages_resident(void);			/* bytes of this process that are in memory; 0: unknown */

#endif
