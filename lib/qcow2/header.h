/* SPDX-License-Identifier: BSD-2-Clause */
/* The first cluster: header, extensions, backing file name; decoded, checked and written here. */
#ifndef QCOW2_HEADER_H
#define QCOW2_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file;
struct qimg_error;

enum {				/* incompatible features */
	INCOMPAT_DIRTY = 1 << 0,
	INCOMPAT_CORRUPT = 1 << 1,
	INCOMPAT_DATA_FILE = 1 << 2,
	INCOMPAT_COMPRESSION = 1 << 3,
	INCOMPAT_EXTENDED_L2 = 1 << 4,
	INCOMPAT_KNOWN = 31,
};
enum { COMPAT_LAZY_REFCOUNTS = 1 << 0 };
enum {				/* autoclear features */
	AUTOCLEAR_BITMAPS = 1 << 0,
	AUTOCLEAR_DATA_FILE_RAW = 1 << 1,
	AUTOCLEAR_KNOWN = 3,
};
enum { CRYPT_NONE, CRYPT_AES, CRYPT_LUKS };

#define HEADER_MAX_L1_BYTES (UINT64_C(32) << 20)
#define HEADER_MAX_RT_BYTES (UINT64_C(8) << 20)
#define HEADER_MAX_SNAPSHOTS 65536
#define HEADER_MAX_BITMAPS 65535
#define HEADER_MAX_BITMAP_DIR (UINT64_C(64) << 20)
#define HEADER_MAX_NAME 1023

/* A header extension this program does not know: kept as it is when the header is rewritten. */
struct header_extension {
	uint32_t type, len;
	uint8_t *data;
};

/* What may be wrong with a header that is read all the same: see header_read_damaged. */
enum header_fault {
	HEADER_FAULT_L1,		/* place and size of the L1 table: there is none then; or size of the disk */
	HEADER_FAULT_COUNTS,		/* of the refcount table, or width of refcounts: there is no table then */
	HEADER_FAULT_SNAPSHOTS,		/* place of the snapshot table: there are no snapshots then */
	HEADER_FAULT_BITMAPS,		/* their extension, or that there is none: there are no bitmaps then */
	HEADER_FAULT_LENGTH,		/* of the header: what it is was found by what follows */
	HEADER_FAULT_EXTENSIONS,	/* what there is behind the faulty one is not known */
	HEADER_FAULT_BACKING,		/* there is no name of a backing file then */
	HEADER_FAULT_RAW,		/* an autoclear bit for raw external data, without a data file */
	HEADER_FAULTS
};

/* All fields checked by header_read; offsets and counts can be trusted to be aligned and bounded. */
struct header {
	uint32_t version;
	unsigned cluster_bits;		/* 9..21 */
	uint64_t size;			/* virtual, as stored (may be no multiple of 512) */
	uint32_t crypt_method;
	uint32_t l1_size;		/* entries */
	uint64_t l1_offset;
	uint64_t rt_offset;
	uint32_t rt_clusters;
	uint32_t nb_snapshots;
	uint64_t snapshots_offset;
	uint64_t incompatible, compatible, autoclear;
	unsigned refcount_order;	/* 0..6 */
	uint32_t header_length;
	unsigned compression_type;	/* enum codec */
	uint8_t *rest;			/* header bytes behind the fields known here, kept */
	uint32_t rest_len;		/* 0: none; header_encode fills up with zeros */

	char *backing_name;		/* NULL: none */
	char *backing_format;		/* NULL: not stored */
	char *data_file;		/* NULL: not stored */
	bool has_crypt;
	uint64_t crypt_offset, crypt_length;
	bool has_bitmaps;		/* valid when AUTOCLEAR_BITMAPS is set, else not to be relied on */
	uint32_t nb_bitmaps;
	uint64_t bitmap_dir_size, bitmap_dir_offset;
	struct header_extension *ext;	/* unknown ones, and the feature name table */
	size_t ext_count;
	bool lenient;			/* of header_read_damaged: */
	bool snapshots_cut;		/* it says that there are more snapshots than there can be */
	char *fault[HEADER_FAULTS];	/* what is wrong, one sentence; NULL: nothing */
};

/* The first n bytes of a file are those of a qcow2 image of a version that can exist. */
bool header_probe(const uint8_t *head, size_t n);
/*
 * Reads and checks all that can be judged from the first cluster. Errors name field, value and limit;
 * unknown incompatible bits are named from the feature name table. On failure nothing is left
 * allocated. What the tables claim of the file is the business of header_check_tables.
 */
int header_read(struct file *f, struct header *h, struct qimg_error *e);
/*
 * For check: faults without which it can be told what the image is are noted in h->fault. What they concern is left
 * out, so that all of struct header can be trusted as ever.
 */
int header_read_damaged(struct file *f, struct header *h, struct qimg_error *e);
/* Where that is allowed: notes what *e says, and returns 0; else -1. For the decoding of headers. */
int header_pass(struct header *h, enum header_fault fault, struct qimg_error *e);
/*
 * The tables named by the header lie within the file, and there is a refcount table. Apart from
 * header_read, because an image that fails here may still be opened to be checked and repaired.
 */
int header_check_tables(struct file *f, const struct header *h, struct qimg_error *e);
void header_free(struct header *h);
/*
 * Writes the whole first cluster anew: header, extensions, backing name. ENOSPC when it does not fit.
 * Not atomic over 512 bytes: for new images and for commands that rewrite names.
 */
int header_write(struct file *f, const struct header *h, struct qimg_error *e);
/* The space header_write would need, to be compared with the cluster size. */
uint64_t header_need(const struct header *h);
/* header_write into memory: buf is zeroed and holds `size` bytes, a cluster at most. ENOSPC as there. */
int header_encode(const struct header *h, uint8_t *buf, uint64_t size, struct qimg_error *e);
/* Adds the feature name table that new images get. */
int header_add_feature_names(struct header *h, struct qimg_error *e);
/* The entries that an L1 table takes for a virtual size. May be more than UINT32_MAX. */
uint64_t header_l1_need(uint64_t size, unsigned cluster_bits, bool extended);

/* Each writes fields inside one 512-byte sector, so that a crash leaves the old or the new state. */
int header_store_l1(struct file *f, const struct header *h, struct qimg_error *e);
int header_store_rt(struct file *f, const struct header *h, struct qimg_error *e);
int header_store_size(struct file *f, const struct header *h, struct qimg_error *e);
int header_store_features(struct file *f, const struct header *h, struct qimg_error *e);
int header_store_snapshots(struct file *f, const struct header *h, struct qimg_error *e);
/*
 * Stores the bitmaps extension where there is one, or (h->has_bitmaps not set) takes it out when it is the last. It may
 * lie in two sectors: only while the autoclear bit is not set.
 */
int header_store_bitmaps(struct file *f, const struct header *h, struct qimg_error *e);
int header_store_length(struct file *f, const struct header *h, struct qimg_error *e);
/* Also the width of refcounts (version 3). */
int header_store_counts(struct file *f, const struct header *h, struct qimg_error *e);

#endif
