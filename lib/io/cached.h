/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of a file the page cache holds, and what it did not hold. */
#ifndef IO_CACHED_H
#define IO_CACHED_H

#include <stdbool.h>
#include <stdint.h>

struct file;

/*
 * Bytes, in whole pages. false where that cannot be known: the system tells only those who may write to the
 * file.
 */
bool cached_bytes(const struct file *f, uint64_t *bytes);
/* The same as older kernels have it done: cached_bytes falls back on it. */
bool cached_bytes_by_page(const struct file *f, uint64_t *bytes);
/* Bytes that the system has read from disks for this process, read-ahead included. false: it does not tell. */
bool cached_disk_read(uint64_t *bytes);

#endif
