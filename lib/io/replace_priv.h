/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of replace, for lib/io alone. */
#ifndef IO_REPLACE_PRIV_H
#define IO_REPLACE_PRIV_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

struct qimg_error;

/* Where a target is, with symbolic links followed. */
struct place {
	char *path;			/* as the user gave it, for messages */
	char *folder;			/* of the target, for messages */
	int dirfd;			/* the folder, O_PATH */
	char base[NAME_MAX + 1];	/* the target's own name in there */
	bool exists;
	struct stat st;			/* when it exists */
};

/* Finds it. Things that are no file or block device are refused. */
int place_find(struct place *p, const char *path, struct qimg_error *e);
/* Looks again at what is under the name now. */
int place_refresh(struct place *p, struct qimg_error *e);
void place_free(struct place *p);
/* Whether the target may be created there, or (when it exists) be replaced by another file. */
int place_check_access(const struct place *p, struct qimg_error *e);

/*
 * Names beside a target, known to replace_abort_all from the moment on in which they exist.
 *
 * temp_create makes a file there (returning its descriptor), temp_link gives one to an unnamed file.
 */
struct temp;
int temp_create(struct temp **t, const struct place *p, int *fd, struct qimg_error *e);
int temp_link(struct temp **t, const struct place *p, int fd, struct qimg_error *e);
/* Renames it to the target; no_clobber: EEXIST when there is one. 0, or an errno value. */
int temp_rename(struct temp *t, const struct place *p, bool no_clobber);
/* Removes the name where it still is; frees. NULL is allowed. */
void temp_free(struct temp *t);
/* Links an unnamed file. 0, or an errno value. */
int link_unnamed(int fd, int dirfd, const char *name);

/* Gives fd the owner, mode, ACL and extended attributes of the file open as `from`. */
int attr_copy(int fd, int from, const struct stat *st, const char *path, struct qimg_error *e);

#endif
