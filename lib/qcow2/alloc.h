/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host clusters: finding free ones, and giving back those that are no longer referenced.
 *
 * A release is deferred: until the reference is gone from the disk its refcount stays up, so that nothing
 * reuses the cluster. flush.c applies the releases once that is so.
 */
#ifndef QCOW2_ALLOC_H
#define QCOW2_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

struct qcow2;
struct qimg_error;
struct wait;

/* Why a cluster is given back: decides whether the host is told (pass-discard-*). */
enum release_why { RELEASE_REQUEST, RELEASE_SNAPSHOT, RELEASE_OTHER };

void alloc_open(struct qcow2 *q);
/* Before close: the file ends where what is in use does, after it was stretched for writing. */
int alloc_trim(struct qcow2 *q, struct qimg_error *e);
/*
 * Takes a run of free clusters, 1 to `want` long, with refcount 1 each. *blank: it was never part of the
 * file, so it reads as zeros. MAP_WAIT with w, as in image/driver.h.
 */
int alloc_run(struct qcow2 *q, uint64_t want, uint64_t *host, uint64_t *got, bool *blank,
	      struct wait *w, struct qimg_error *e);
/* Takes n clusters in a row for a metadata table. */
int alloc_table(struct qcow2 *q, uint64_t n, uint64_t *host, struct qimg_error *e);
/* Gives back at once what was just taken and never referenced. Failing to do so only leaks. */
void alloc_undo(struct qcow2 *q, uint64_t host, uint64_t n);
/* n clusters at host lose one reference each, once that is true on disk. */
int alloc_release(struct qcow2 *q, uint64_t host, uint64_t n, enum release_why why,
		  struct qimg_error *e);
/* The same for n clusters of guest data, which may be in an external data file. */
int alloc_release_data(struct qcow2 *q, uint64_t host, uint64_t n, enum release_why why,
		       struct qimg_error *e);
/* All host clusters that [host, host+len) touches, for compressed data. */
int alloc_release_bytes(struct qcow2 *q, uint64_t host, uint64_t len, enum release_why why,
			struct qimg_error *e);
/*
 * An external data file has a fixed place for each cluster: what waits to be given back to the host
 * there is taken back when it is written to again.
 */
int alloc_retake_data(struct qcow2 *q, uint64_t host, uint64_t n, struct qimg_error *e);
/* Many releases wait: the caller, holding nothing, should flush before it goes on. */
bool alloc_pressure(const struct qcow2 *q);
/* Fails with ENOSPC when the clusters lie beyond the end of a device or what offsets can express. */
int alloc_check_end(const struct qcow2 *q, uint64_t cluster, uint64_t n, struct qimg_error *e);
/* Fails with EIO, and marks the image corrupt, when metadata is in these clusters, said to be free. */
int alloc_check_overlap(struct qcow2 *q, uint64_t cluster, uint64_t n, struct qimg_error *e);
/* Clusters below this one are part of the file from now on. */
void alloc_not_blank(struct qcow2 *q, uint64_t cluster);

/*
 * For flush.c. alloc_cover: the next sync takes the references of all releases there are now from the disk.
 * alloc_apply: it has, and these are carried out as soon as the transfers under way now have ended, since
 * those may still be on the clusters.
 */
void alloc_cover(struct qcow2 *q);
int alloc_apply(struct qcow2 *q, struct qimg_error *e);
/* Carries out what was held up by transfers, if they have ended. */
int alloc_settle(struct qcow2 *q, struct qimg_error *e);
void alloc_close(struct qcow2 *q);

#endif
