/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open file description locks on single bytes of the image file, in the way of QEMU's image locking,
 * so that a running VM and this program exclude each other.
 */
#ifndef IO_LOCK_H
#define IO_LOCK_H

/* Two names that fcntl.h has for Linux' long-gone mandatory locks. */
#include <fcntl.h>
#undef LOCK_READ
#undef LOCK_WRITE

struct file;
struct qimg_error;

enum lock_mode {
	LOCK_NONE,
	LOCK_READ,	/* reads a consistent image: nobody may write or resize */
	LOCK_WRITE,	/* writes and resizes: nobody else may write, resize or rely on the content */
	LOCK_TARGET,	/* writes a raw target: others may not write */
	LOCK_LOOK,	/* reads a raw image: only those who forbid readers are in the way */
};

/*
 * Changes the lock held to `mode` (also from a weaker to a stronger one). Does not wait: when another
 * process is in the way it fails with EAGAIN, names the lock and the processes that hold the file
 * open, and leaves the old lock. File systems without such locks: succeeds.
 */
int lock_set(struct file *f, enum lock_mode mode, struct qimg_error *e);

#endif
