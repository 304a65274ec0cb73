/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of file.c for a file that has a draft, for lib/io alone: each as its namesake in file.h. */
#ifndef IO_DRAFT_PRIV_H
#define IO_DRAFT_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct draft;
struct file;
struct file_extent;
struct qimg_error;

/* What is not in the draft comes from the file, as file_read without one. */
int draft_read(struct file *f, uint64_t off, void *buf, size_t len, struct qimg_error *e);
int draft_write(struct file *f, uint64_t off, const void *buf, size_t len, struct qimg_error *e);
int draft_truncate(struct file *f, uint64_t size, struct qimg_error *e);
/* How much of [off, off+len), at least a byte, is alike: in the draft or not. */
uint64_t draft_run(const struct file *f, uint64_t off, uint64_t len, bool *drafted);
/* What is at this offset, when it is not in the draft, is a hole although the file has more there. */
bool draft_is_cut(const struct file *f, uint64_t off);
void draft_free(struct draft *d);	/* NULL is allowed */

#endif
