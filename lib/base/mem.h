/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that may not be there: every call can fail, and says so in the error. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

struct qimg_error;

/* Each returns NULL with *e set when there is no memory; freed with free(). */
void *mem_alloc(size_t size, struct qimg_error *e);			/* size 0 gives a valid pointer */
void *mem_zalloc(size_t size, struct qimg_error *e);			/* zeroed */
void *mem_array(size_t count, size_t size, struct qimg_error *e);	/* zeroed, product checked */
char *mem_strdup(const char *s, struct qimg_error *e);
char *mem_strndup(const char *s, size_t n, struct qimg_error *e);
char *mem_printf(struct qimg_error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* For transfers: aligned to a page, so that O_DIRECT can take it; freed with free(). */
void *mem_buffer(size_t size, struct qimg_error *e);
/* Grows *p from old_count to count elements of `size`, new ones zeroed. 0, or -1 with *p as it was. */
int mem_grow(void **p, size_t old_count, size_t count, size_t size, struct qimg_error *e);

#endif
