/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Disks that lose power. Records what the library does to a few files, and builds what may be left of
 * them after a crash: what was synced, and of the rest whatever subset one likes, down to the
 * sectors of each write.
 */
#ifndef DISK_H
#define DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/file.h"

enum { DISK_FILES = 2 };

struct disk_event {
	enum file_op op;
	unsigned file;
	uint64_t off, len;	/* whole sectors, see disk_stop */
	uint64_t end;		/* how long it makes the file */
	uint8_t *bytes;		/* of a write */
	bool dropped;		/* a sync that is to be taken for not having happened */
};

struct disk_state {		/* one file */
	uint8_t *p;		/* zeros from len on */
	uint64_t len, room;
};

struct disk {
	unsigned files;
	const char *coming;		/* a file that is going to be made; NULL: none */
	struct { dev_t dev; ino_t ino; } id[DISK_FILES];
	struct disk_state state[DISK_FILES];	/* at first as at the start of the recording */
	struct disk_event *event;
	size_t events, room;

	/* failing: calls to let pass before, how many then fail, with which errno value; reads, too? */
	unsigned fail_after, fail_count;
	int fail_code;
	bool fail_reads;
	unsigned failed, failed_syncs;	/* calls that did */
	enum file_op failed_op;		/* the last of them */

	/* replaying */
	size_t next;			/* events before this one have been issued */
	size_t *pending, pendings;	/* those of them that no sync covers, in order */
	struct undo *undo;
	size_t undos, undo_room;
	uint64_t before[DISK_FILES];	/* lengths without what is pending */
};

/* Loads the files (the second may be NULL) and records from now on. One disk at a time. */
void disk_record(struct disk *d, const char *path, const char *path2);
/* The second one will be made only while it is recorded, with this name. */
void disk_await(struct disk *d, const char *path);
/*
 * Ends the recording and starts the replay at event 0. Changes of parts of sectors become changes of
 * whole ones: a disk gets sectors, as they are in the page cache then.
 */
void disk_stop(struct disk *d);
void disk_free(struct disk *d);

/* Issues events up to (without) `event`; syncs on the way make what came before permanent. */
void disk_advance(struct disk *d, size_t event);

enum disk_survival {
	DISK_ALL,		/* everything pending made it */
	DISK_NONE,		/* nothing did */
	DISK_SOME,		/* each event or not, by chance */
	DISK_TORN,		/* each event whole, not at all, or some of its sectors */
	DISK_ONE,		/* only one event is missing, or only one made it */
	DISK_LATE,		/* the last few made it, none before them */
};
/* state[] becomes what a crash now leaves; disk_restore takes it back. */
void disk_crash(struct disk *d, enum disk_survival how, uint64_t *seed);
void disk_restore(struct disk *d);

#endif
