/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order in which metadata reaches the disk. The only file that syncs, and that writes back caches.
 *
 * Calls with a `wait` may return MAP_WAIT when it is not NULL, as in image/driver.h.
 */
#ifndef QCOW2_FLUSH_H
#define QCOW2_FLUSH_H

struct file;
struct header;
struct qcow2;
struct slice;
struct qimg_error;
struct wait;

/* Before the first change of an image: claims it, and marks it dirty if refcounts are lazy. */
int flush_begin(struct qcow2 *q, struct qimg_error *e);
/*
 * Before a change of the mapping, of L1 or of the refcount table: waits until no run needs them to stay as
 * they are. Nothing may be pinned.
 */
int flush_thaw(struct qcow2 *q, struct wait *w, struct qimg_error *e);
/* Waits until no run is in progress. */
int flush_finish(struct qcow2 *q, struct wait *w, struct qimg_error *e);
/* Many releases wait, or many slices are dirty: does something about it. Nothing may be pinned. */
int flush_relieve(struct qcow2 *q, struct wait *w, struct qimg_error *e);
/*
 * All data and the mapping to stable storage, then applies the deferred releases. Their decrements
 * stay in memory.
 */
int flush_all(struct qcow2 *q, struct qimg_error *e);
/*
 * For a table that was written to a new place: puts everything it refers to on stable storage, then
 * stores the pointer in the header, then syncs.
 */
int flush_switch(struct qcow2 *q,
		 int (*store)(struct file *f, const struct header *h, struct qimg_error *e),
		 struct qimg_error *e);
/* Sets the corrupt bit (version 3) and refuses further changes. */
void flush_mark_corrupt(struct qcow2 *q);
/* Brings an image opened for writing to its clean state (dirty bit); nothing is dirty afterwards. */
int flush_close(struct qcow2 *q, struct qimg_error *e);

/* For repair.c, which writes metadata without caches: what it has written, to stable storage. */
int flush_repaired(struct qcow2 *q, struct qimg_error *e);

/* The caches' owners (cache_clean_fn). */
int flush_clean_l2(void *owner, struct slice *victim, struct wait *w, struct qimg_error *e);
int flush_clean_refcounts(void *owner, struct slice *victim, struct wait *w, struct qimg_error *e);

#endif
