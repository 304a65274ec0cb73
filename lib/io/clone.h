/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies that the host makes: blocks shared by two files, or copied without passing through memory here. */
#ifndef IO_CLONE_H
#define IO_CLONE_H

#include <stdbool.h>
#include <stdint.h>

struct file;
struct qimg_error;

/* The file system of both can share blocks between them. Changes nothing. */
bool clone_possible(struct file *from, struct file *to);
/*
 * Makes [to_off, to_off+len) of `to` read as [from_off, from_off+len) of `from`, sharing the blocks of the
 * file system. ENOTSUP where these files, or these offsets, can't.
 */
int clone_share(struct file *from, uint64_t from_off, struct file *to, uint64_t to_off, uint64_t len,
		struct qimg_error *e);
/* The same, copying on the host where blocks can't be shared. A part may be copied when it fails. */
int clone_copy(struct file *from, uint64_t from_off, struct file *to, uint64_t to_off, uint64_t len,
	       struct qimg_error *e);

#endif
