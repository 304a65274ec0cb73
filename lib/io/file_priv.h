/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside of struct file, for lib/io alone. */
#ifndef IO_FILE_PRIV_H
#define IO_FILE_PRIV_H

#include "io/file.h"
#include "io/lock.h"

struct draft;

/* Ways to zero or free space that this file turned out not to have: they are not tried again. */
enum file_missing {
	MISSING_PUNCH = 1 << 0,
	MISSING_ZERO_RANGE = 1 << 1,
	MISSING_BLKZEROOUT = 1 << 2,
	MISSING_BLKDISCARD = 1 << 3,
	MISSING_ALLOCATE = 1 << 4,
	MISSING_SEEK = 1 << 5,
	MISSING_NOWAIT = 1 << 6,
};

/* Whether the file system is known for reporting holes where data has just been written. */
bool file_system_errs_on_holes(int fd);

struct file {
	int fd;
	char *path;			/* for messages */
	unsigned flags;			/* FILE_* */
	bool device;
	bool unnamed;			/* opened by unnamed.c */
	uint64_t size;
	struct file_id id;
	unsigned missing;		/* MISSING_* */
	unsigned zeroed_by;		/* 1 << enum sparse_how of all zeroing so far */
	int sync_error;			/* of the first sync that failed, else 0 */
	enum lock_mode lock;
	uint64_t unsynced;		/* EAGER: written since the kernel was last told to start */
	unsigned growing;		/* requests in flight that may make the file longer */

	/* What a queue has in flight. One queue at a time has requests for a file. */
	struct ioq *queue;		/* valid while flying is not 0 */
	unsigned flying;
	bool alone;			/* one that bears no other beside it */
	bool resting;			/* nothing starts: the owner waits for those in flight */

	struct draft *draft;		/* changes are only tried out: see draft.h; or NULL */

	/* Counts what is done without a queue: that of a model engine which has had requests for it. */
	struct ioq_meter *meter;	/* or NULL */

	/*
	 * A copy for a call in another thread: it has seen the hook, which said hook_code; warnings
	 * and what is learned are left to the owner of the file.
	 */
	bool shadow;
	int hook_code;

	/* O_DIRECT is on when direct_align is not 0: what offsets, lengths, addresses must be. */
	uint32_t direct_align, direct_memory;
	bool refused;			/* to be turned off as soon as nothing is in flight */
	int through;			/* the same file without it, for write_end; -1: not opened yet */

	/* The last answer about holes; empty when cache_end is 0. */
	uint64_t cache_start, cache_end;
	bool cache_hole;
};

/* Called before each operation. Calls the hook, if any: 0, or the errno value to fail with. */
int file_hook_call(struct file *f, enum file_op op, uint64_t off, const void *buf, uint64_t len);
/* Fails, with *e, when the file may not be changed: opened for reading, or after a failed sync. */
int file_check_change(struct file *f, struct qimg_error *e);
/* To be told of each change of [off, off+len), done or attempted: holes may be elsewhere now. */
void file_changed(struct file *f, uint64_t off, uint64_t len);
/* file_read of the file itself, whether it has a draft or not. */
int file_read_plain(struct file *f, uint64_t off, void *buf, size_t len, struct qimg_error *e);
/* The file reaches to `end` at least. */
void file_grown(struct file *f, uint64_t end);
/* Say what failed. Return -1. */
int file_failed(const struct file *f, bool write, uint64_t off, uint64_t len, int code,
		struct qimg_error *e);
int file_sync_failed(const struct file *f, struct qimg_error *e);	/* with sync_error set */
/* Opens without blocking and without side effects on what is no file or block device. */
int file_open_fd(const char *path, int flags, struct qimg_error *e);

/* The transfers themselves, past the checks and the hook. 0, or an errno value; *done: bytes moved. */
int file_pread(int fd, uint64_t off, void *buf, size_t len, size_t *done);
int file_pwrite(int fd, uint64_t off, const void *buf, size_t len, size_t *done);
/* Writes in the way the file is open for, and keeps track of it. */
int file_put(struct file *f, uint64_t off, const void *buf, size_t len, size_t *done);

/* O_DIRECT: turns it on where the file can do it (else warns), and the transfers that keep its rules. */
void direct_enable(struct file *f);
void direct_disable(struct file *f, const char *why);
int direct_pread(struct file *f, uint64_t off, void *buf, size_t len, size_t *done);
int direct_pwrite(struct file *f, uint64_t off, const void *buf, size_t len, size_t *done);
/* Whether a write or zeroing of that range needs write_end, with which nothing else may be in flight. */
bool direct_ends(const struct file *f, uint64_t off, uint64_t len);
void direct_close(struct file *f);

#endif
