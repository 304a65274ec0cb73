/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The arithmetic of cache sizes, with no image and no I/O: what an image needs, what the options come
 * to, how much of a disk a cache covers. The public form is qimg_cache_sizes().
 */
#ifndef QCOW2_CACHESIZE_H
#define QCOW2_CACHESIZE_H

#include "qimg.h"

extern const char *const cachesize_keys[];	/* the options it reads, ended by NULL */

/* Fills in what depends on the image alone: tables, l2_full, table_cover. */
void cachesize_need(struct qimg_cache_sizes *s);
/* That, and the sizes. opts (may be NULL): others than cachesize_keys are not looked at. */
int cachesize_read(struct qimg_cache_sizes *s, const struct qimg_opts *opts, struct qimg_error *e);
/* Bytes of the disk whose L2 entries fit in a cache of that size, at most the disk. */
uint64_t cachesize_l2_cover(const struct qimg_cache_sizes *s, uint64_t bytes);
/* Bytes of the image file whose refcounts fit, at most INT64_MAX. */
uint64_t cachesize_refcount_cover(const struct qimg_cache_sizes *s, uint64_t bytes);
/* The refcount cache that holds the refcounts of a file of that length, at least the default. */
uint64_t cachesize_refcount_need(const struct qimg_cache_sizes *s, uint64_t file_size);

#endif
