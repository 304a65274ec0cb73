// SPDX-License-Identifier: BSD-2-Clause
/* Memory that may not be there: checked products, and the failure put into the error. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#define BUFFER_ALIGN 4096

void *mem_alloc(size_t size, struct qimg_error *e)
{
	void *p = malloc(size ? size : 1);

	if (!p)
		error_nomem(e);
	return p;
}

void *mem_zalloc(size_t size, struct qimg_error *e)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		error_nomem(e);
	return p;
}

void *mem_array(size_t count, size_t size, struct qimg_error *e)
{
	uint64_t bytes;

	if (!mul_u64(count, size, &bytes) || bytes > PTRDIFF_MAX) {
		error_nomem(e);
		return NULL;
	}
	return mem_zalloc(bytes, e);
}

char *mem_strdup(const char *s, struct qimg_error *e)
{
	char *p = strdup(s);

	if (!p)
		error_nomem(e);
	return p;
}

char *mem_strndup(const char *s, size_t n, struct qimg_error *e)
{
	char *p = strndup(s, n);

	if (!p)
		error_nomem(e);
	return p;
}

char *mem_printf(struct qimg_error *e, const char *fmt, ...)
{
	char *p = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	if (n < 0) {
		error_nomem(e);
		return NULL;
	}
	return p;
}

void *mem_buffer(size_t size, struct qimg_error *e)
{
	void *p = NULL;

	if (posix_memalign(&p, BUFFER_ALIGN, size ? size : 1)) {
		error_nomem(e);
		return NULL;
	}
	return p;
}

int mem_grow(void **p, size_t old_count, size_t count, size_t size, struct qimg_error *e)
{
	uint64_t bytes;
	void *q;

	if (count <= old_count)
		return 0;
	if (!mul_u64(count, size, &bytes) || bytes > PTRDIFF_MAX)
		return error_nomem(e);
	q = realloc(*p, bytes ? bytes : 1);
	if (!q)
		return error_nomem(e);
	memset((char *)q + old_count * size, 0, (count - old_count) * size);
	*p = q;
	return 0;
}
