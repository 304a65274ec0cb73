/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target file that gets its name only when it is complete.
 *
 * A new target is an unnamed file (O_TMPFILE) linked in at the end, or where that is impossible a file
 * ".NAME.qimg-XXXXXX" beside it. An existing regular file is locked, written anew beside itself, and
 * replaced by rename; mode, owner, ACLs and extended attributes are kept. Symbolic links are followed.
 * Block devices are written in place. A file with further hard links is refused.
 */
#ifndef IO_REPLACE_H
#define IO_REPLACE_H

#include <stdbool.h>

struct file;
struct qimg_error;
struct replace;

enum {
	REPLACE_NO_CLOBBER = 1 << 0,	/* an existing target is an error */
	REPLACE_NO_SYNC = 1 << 1,
	REPLACE_DIRECT = 1 << 2,	/* FILE_DIRECT for the new file */
};

/* Checks whether replace_open could work, changing nothing (existence, locks, links, directory). */
int replace_check(const char *path, unsigned flags, struct qimg_error *e);
int replace_open(struct replace **r, const char *path, unsigned flags, struct qimg_error *e);
/*
 * The file to write to, owned by r until replace_take. It is empty (a device: as it is). Locked for
 * writing by the caller where wanted.
 */
struct file *replace_file(struct replace *r);
/* Hands the file over: the caller closes it (an image opened on it may), before commit or abort. */
struct file *replace_take(struct replace *r);
bool replace_in_place(const struct replace *r);
/*
 * Syncs the new file, gives it its name, syncs the directory. Frees r in any case. When it fails the
 * old target is as it was.
 */
int replace_commit(struct replace *r, struct qimg_error *e);
void replace_abort(struct replace *r);	/* removes what was written; NULL is allowed */
/* Removes all temporary names now; async-signal-safe, for a handler that is about to exit. */
void replace_abort_all(void);

#endif
