/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a repair is going to overwrite, in a file of its own, so that undo.c can put it back.
 *
 * Numbers are big-endian, checksums CRC-32:
 *	head	"QIMGUNDO", version (4 bytes: 1), cluster size (4), length of the image file (8), checksum (4)
 *	undo	zeros, or "UNDO", zeros (16), checksum (4): what was saved is being put back
 *	back	zeros, or "BACK", zeros (16), checksum (4): it was put back
 *	saved	"SAVE", length (4), offset in the image file (8), checksum of the bytes (4), checksum (4); the bytes
 *	done	"DONE", how many were saved (4), length of the image file now (8), checksum of what follows (4),
 *		checksum (4); of each of the saved the checksum of what is there now (4)
 * The last checksum of each is that of what comes before it. A file without a "done" is of a repair that was
 * interrupted: what is complete in it was saved before it was overwritten.
 */
#ifndef IMAGE_BACKUP_H
#define IMAGE_BACKUP_H

#include <stdbool.h>
#include <stdint.h>

struct backup;
struct file;
struct qimg_error;

#define BACKUP_MAGIC "QIMGUNDO"
#define BACKUP_VERSION 1
enum { BACKUP_HEAD = 28, BACKUP_RECORD = 24, BACKUP_FIRST = BACKUP_HEAD + 2 * BACKUP_RECORD };
#define BACKUP_SAVE UINT32_C(0x53415645)
#define BACKUP_DONE UINT32_C(0x444f4e45)
#define BACKUP_UNDO UINT32_C(0x554e444f)
#define BACKUP_BACK UINT32_C(0x4241434b)
#define BACKUP_MOST (UINT32_C(2) << 20)		/* bytes of one that is saved */

/* Makes the file, which must not exist yet. image has to stay open. */
int backup_open(struct backup **b, const char *path, struct file *image, uint32_t cluster_size, struct qimg_error *e);
/* The clusters of the range are in it, as far as they were part of the file and are not in it already. */
int backup_save(struct backup *b, uint64_t off, uint64_t len, struct qimg_error *e);
/* What was saved is on stable storage, and may be overwritten. */
int backup_sync(struct backup *b, struct qimg_error *e);
/* done: the image is what the repair makes of it. Without anything saved the file is removed. b: NULL is allowed. */
int backup_close(struct backup *b, bool done, struct qimg_error *e);

#endif
