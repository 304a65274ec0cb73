/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes qcow2 images cluster by cluster, for tests: from the specification and without the library, so
 * that states exist which no command of today can make (snapshots, zero clusters with host space,
 * packed clusters that share one, half-filled subclusters).
 */
#ifndef BUILD_IMAGE_H
#define BUILD_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct build {
	/* what to make: set these, the rest zero, then build_start */
	unsigned version;		/* 2, 3 */
	unsigned cluster_bits;
	unsigned refcount_order;
	bool extended, lazy, zstd;
	bool external, raw;		/* external data file; and it is a raw image */
	bool bitmap;			/* a dirty bitmap that is valid and says: nothing written */
	uint64_t size;			/* virtual */
	uint32_t l1_spare;		/* more L1 entries than the size needs */
	uint32_t rt_spare;		/* more clusters of refcount table than needed */
	const char *backing, *backing_format;	/* or NULL */
	const char *data_name;		/* stored name of the data file, or NULL */

	/* private */
	uint64_t cluster, per_l2;
	uint8_t *file, *data;		/* the image and the data file so far */
	uint64_t len, room, data_len;
	uint64_t *l1;			/* host offsets of the active L2 tables */
	bool *own;			/* not shared with a snapshot */
	uint32_t l1_size;
	uint64_t pack_at, pack_end;
	struct build_snapshot {
		uint64_t l1_offset;
		uint64_t *l1;
		char name[16];
	} snapshot[4];
	unsigned snapshots;
};

void build_start(struct build *b);
/* guest: the offset of a cluster; bytes: one cluster, also at the end of the image. */
void build_data(struct build *b, uint64_t guest, const uint8_t *bytes);
/* Extended L2: only the subclusters of `alloc` get data, those of `zero` read as zeros. */
void build_sub(struct build *b, uint64_t guest, const uint8_t *bytes, uint32_t alloc, uint32_t zero);
/* Reads as zeros; host: with a host cluster, whose content is `bytes` and must never be seen. */
void build_zero(struct build *b, uint64_t guest, const uint8_t *bytes);
/* Compressed, right behind the one before. Stored as plain data when it does not become smaller. */
void build_packed(struct build *b, uint64_t guest, const uint8_t *bytes);
/* Unallocated again. */
void build_drop(struct build *b, uint64_t guest);
/* What is there becomes a snapshot; later calls leave it alone. */
void build_snapshot(struct build *b, const char *name);
/* Writes the files (data_path may be NULL without `external`) and frees everything. */
void build_finish(struct build *b, const char *path, const char *data_path);

#endif
