/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host files and block devices: whole transfers, extents, syncs. Every change to a disk goes through
 * this header, so that one hook sees all of them.
 */
#ifndef IO_FILE_H
#define IO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct qimg_error;
struct file;

enum {
	FILE_WRITE = 1 << 0,		/* O_RDWR, else O_RDONLY */
	FILE_CREATE = 1 << 1,		/* create when missing, mode 0644 under the umask */
	FILE_EXCL = 1 << 2,		/* with CREATE: must not exist */
	FILE_DIRECT = 1 << 3,		/* O_DIRECT; falls back to buffered with a warning */
	FILE_NO_SYNC = 1 << 4,		/* file_sync does nothing */
	FILE_EAGER = 1 << 5,		/* much is going to be written, and then synced: see ioq_io.c */
	FILE_SERIAL = 1 << 6,		/* written by one helper at a time: see ioq_io.c */
};

/* Directories, FIFOs, sockets and character devices are refused with an error that says what it is. */
int file_open(struct file **f, const char *path, unsigned flags, struct qimg_error *e);
/* Takes over an open descriptor; `path` is for messages. On failure fd stays the caller's. */
int file_adopt(struct file **f, int fd, const char *path, unsigned flags, struct qimg_error *e);
void file_close(struct file *f);	/* NULL is allowed; releases locks */

const char *file_path(const struct file *f);
int file_fd(const struct file *f);	/* for lib/io only */
bool file_is_device(const struct file *f);
bool file_writable(const struct file *f);
void file_set_eager(struct file *f);	/* sets FILE_EAGER */
void file_set_serial(struct file *f, bool on);	/* FILE_SERIAL */
/*
 * The length in bytes (a device: its size). Follows what this process does to the file; other
 * processes' changes are noticed by file_refresh.
 */
uint64_t file_size(const struct file *f);
int file_refresh(struct file *f, struct qimg_error *e);
/* Bytes of storage in use (st_blocks; 0 for devices). */
int file_allocated(struct file *f, uint64_t *bytes, struct qimg_error *e);
/*
 * Whether its file system is certain to lack the space for `bytes` more in this file, which then are *have.
 * False where that is not known, as with devices, and file systems that compress.
 */
bool file_lacks_space(struct file *f, uint64_t bytes, uint64_t *have);
/* Whether transfers pass the page cache by, where they are aligned (FILE_DIRECT, and the host can). */
bool file_is_direct(const struct file *f);
/* The kind of file system that a file or folder is on: "ext4" (ext2 and ext3, too). NULL: not known. */
const char *file_system_name(const char *path);
/* It is going to be read soon: the host may begin with that. Through the page cache only. */
void file_will_read(struct file *f, uint64_t off, uint64_t len);
/* What is on stable storage need not stay in memory: reading it again comes from the disk. */
void file_drop_cache(struct file *f);
/* The XFS-like extent size hint, 0 when unset or unsupported; set returns -1 when it cannot. */
uint32_t file_extent_hint(struct file *f);
int file_set_extent_hint(struct file *f, uint32_t bytes, struct qimg_error *e);
int file_set_nocow(struct file *f, struct qimg_error *e);

/* Two names of one thing: device and inode (for devices: device numbers). */
struct file_id {
	dev_t dev;
	ino_t ino;
};
struct file_id file_identity(const struct file *f);
bool file_id_same(struct file_id a, struct file_id b);
/* Without opening it. -1 with e->code ENOENT when missing. */
int file_identify(const char *path, struct file_id *id, struct qimg_error *e);

/* All of the range, retrying short transfers and EINTR. Reading beyond the end gives zeros. */
int file_read(struct file *f, uint64_t off, void *buf, size_t len, struct qimg_error *e);
int file_write(struct file *f, uint64_t off, const void *buf, size_t len, struct qimg_error *e);
/* fdatasync. Once it has failed it fails for ever, and so do later writes. */
int file_sync(struct file *f, struct qimg_error *e);
int file_truncate(struct file *f, uint64_t size, struct qimg_error *e);
/*
 * Direct writes behind the end of a file are done one after the other by the kernel: makes it
 * `ahead` bytes longer than `end` when that is behind its end, and returns true. What is not needed
 * is cut off again by file_truncate. Does nothing where it would not help, or not work.
 */
bool file_stretch(struct file *f, uint64_t end, uint64_t ahead);
/* Takes away the name of a file that this process made. Errors are ignored: it runs after failures. */
void file_remove(const char *path);
/* The name of a file that this process made is on stable storage, too. */
int file_sync_name(const struct file *f, struct qimg_error *e);

/* One run of the host file: data, or a hole. A file system that knows no holes: all data. */
struct file_extent {
	uint64_t len;		/* > 0, at most what was asked */
	bool hole;		/* reads as zeros and takes no space */
};
/* off must be below the end of the file; beyond its end everything is a hole. */
int file_extent(struct file *f, uint64_t off, uint64_t len, struct file_extent *x,
		struct qimg_error *e);

/*
 * The hook sees each change before it happens, and can make it fail. Of a request in a queue it sees
 * the start, in the thread of the queue; what is in flight when a sync starts is not covered by it.
 */

enum file_op { FILE_OP_READ, FILE_OP_WRITE, FILE_OP_ZERO, FILE_OP_PUNCH, FILE_OP_TRUNCATE,
	       FILE_OP_ALLOCATE, FILE_OP_SYNC };

struct file_hook {
	/* Returns 0 to go on, or an errno value to fail with. buf: for WRITE, else NULL. */
	int (*call)(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		    uint64_t len);
	void *ctx;
};

void file_set_hook(const struct file_hook *hook);	/* for tests; NULL: none */

#endif
