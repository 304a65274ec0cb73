/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A second reader of qcow2, for tests: written from the specification, sharing no line with the
 * library, so that a mistake in one is seen by the other. Works on files that are in memory.
 */
#ifndef QCHECK_H
#define QCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qcheck_buf {
	const uint8_t *p;
	uint64_t len;
};

/* What can be wrong. LEAK and UNMARKED are harmless after a crash, the others never are. */
enum qcheck_fault {
	QCHECK_HEADER,		/* does not open */
	QCHECK_ENTRY,		/* an entry is not aligned, outside the file, or has reserved bits */
	QCHECK_LOW,		/* refcount below the number of references */
	QCHECK_COPIED,		/* COPIED is set on something that is referenced more than once */
	QCHECK_TWICE,		/* one cluster used for two things */
	QCHECK_STREAM,		/* compressed data does not inflate */
	QCHECK_LEAK,		/* refcount above the number of references */
	QCHECK_UNMARKED,	/* refcount 1, but COPIED is not set */
	QCHECK_FAULTS
};

struct qcheck_view {		/* an L1 table: the active one, or that of a snapshot */
	uint64_t l1_offset;
	uint32_t l1_size;
	uint64_t size;		/* virtual size */
	char name[64];
};

enum { QCHECK_MAX_VIEWS = 8 };

enum qcheck_mark {
	QCHECK_IS_LOW = 1 << 0,		/* its refcount is too low */
	QCHECK_IS_COPIED = 1 << 1,	/* it has more references than one, and one of them has COPIED */
};

struct qcheck {
	struct qcheck_buf file, data;	/* data: the external data file, else {NULL, 0} */

	unsigned version, cluster_bits, refcount_order;
	uint64_t cluster;
	uint64_t incompatible, compatible, autoclear;
	bool dirty, corrupt, external, extended, zstd;
	uint64_t rt_offset;
	uint32_t rt_clusters;
	uint64_t snapshots_offset, snapshots_len;
	char backing[1024];
	uint64_t bitmaps_offset, bitmaps_size;	/* the directory, 0: none */
	bool bitmaps_valid;
	struct qcheck_view view[QCHECK_MAX_VIEWS];	/* 0: active */
	unsigned views;

	unsigned count[QCHECK_FAULTS];
	char text[2048];		/* the first findings, a line each */
	size_t text_len;

	/* private */
	uint32_t *refs;
	uint8_t *use, *seen;
	uint8_t *marks;			/* of clusters: enum qcheck_mark */
	uint64_t clusters;
	uint8_t *scratch;
	uint64_t scratch_len;
};

/*
 * Decodes the header and the snapshot table. The buffers must stay until qcheck_close. Returns false
 * when the image cannot be opened at all (count[QCHECK_HEADER] is then set). q need not be cleared
 * for the first use; a closed q may be opened again.
 */
bool qcheck_open(struct qcheck *q, struct qcheck_buf file, struct qcheck_buf data);
/*
 * The same for images that are damaged: what of the header cannot be followed is told, and left out. Returns
 * false when there is no header at all. Such an image may be counted (refs) but not walked through.
 */
bool qcheck_open_damaged(struct qcheck *q, struct qcheck_buf file, struct qcheck_buf data);
void qcheck_close(struct qcheck *q);
/* enum qcheck_mark of a cluster, when all was counted. */
unsigned qcheck_marks(const struct qcheck *q, uint64_t cluster);
/* Counts all references and compares them with refcounts and COPIED bits. */
void qcheck_refs(struct qcheck *q);

enum qcheck_kind { QCHECK_HOLE, QCHECK_ZERO, QCHECK_DATA };
/* bytes: for DATA, NULL where it could not be had (a fault was counted). */
typedef void qcheck_run(void *ctx, uint64_t guest, uint64_t len, enum qcheck_kind kind,
			const uint8_t *bytes);
/* Calls fn for the whole guest content of a view, in order, in pieces of at most a cluster. */
void qcheck_walk(struct qcheck *q, unsigned view, qcheck_run *fn, void *ctx);

/* Faults that no crash may leave. */
unsigned qcheck_corruptions(const struct qcheck *q);

#endif
