/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Offsets and constants of the qcow2 file format, as its specification lays them down. No logic: only
 * the files that decode or encode a structure include this (header, extension, snaptable, bitmapdir,
 * create); the bits of table entries are in entry.c. All numbers on disk are big-endian.
 */
#ifndef QCOW2_FORMAT_H
#define QCOW2_FORMAT_H

#define FORMAT_MAGIC 0x514649fbu		/* "QFI\xfb" */
#define FORMAT_MIN_CLUSTER_BITS 9
#define FORMAT_MAX_CLUSTER_BITS 21
#define FORMAT_MIN_EXTENDED_BITS 14		/* extended L2 entries need 16 KiB clusters */
#define FORMAT_MAX_REFCOUNT_ORDER 6
#define FORMAT_REFCOUNT_ORDER 4			/* where nobody asks for another */

/* ---- header ---- */

enum {
	HDR_MAGIC = 0,
	HDR_VERSION = 4,
	HDR_BACKING_OFFSET = 8,
	HDR_BACKING_SIZE = 16,
	HDR_CLUSTER_BITS = 20,
	HDR_SIZE = 24,
	HDR_CRYPT_METHOD = 32,
	HDR_L1_SIZE = 36,
	HDR_L1_OFFSET = 40,
	HDR_RT_OFFSET = 48,
	HDR_RT_CLUSTERS = 56,
	HDR_NB_SNAPSHOTS = 60,
	HDR_SNAPSHOTS_OFFSET = 64,
	HDR_V2_LENGTH = 72,			/* version 2 ends here */
	HDR_INCOMPATIBLE = 72,
	HDR_COMPATIBLE = 80,
	HDR_AUTOCLEAR = 88,
	HDR_REFCOUNT_ORDER = 96,
	HDR_LENGTH = 100,
	HDR_V3_MIN_LENGTH = 104,
	HDR_COMPRESSION_TYPE = 104,		/* one byte, then padding */
	HDR_KNOWN_END = 105,			/* what follows is kept as it is */
	HDR_NEW_LENGTH = 112,			/* of the headers we make */
};

/* ---- header extensions: type, length, data, padding to 8 bytes ---- */

#define EXT_END 0x00000000u
#define EXT_BACKING_FORMAT 0xe2792acau
#define EXT_FEATURE_NAMES 0x6803f857u
#define EXT_BITMAPS 0x23852875u
#define EXT_CRYPT 0x0537be77u
#define EXT_DATA_FILE 0x44415441u

enum {
	EXT_HEAD = 8,				/* type and length */
	EXT_CRYPT_LEN = 16,			/* offset, length */
	EXT_BITMAPS_LEN = 24,			/* count, reserved, directory size, directory offset */
	FEATURE_ENTRY = 48,			/* kind, bit, name */
	FEATURE_NAME_LEN = 46,
};

/* ---- snapshot table entry ---- */

enum {
	SNAP_L1_OFFSET = 0,
	SNAP_L1_SIZE = 8,
	SNAP_ID_LEN = 12,
	SNAP_NAME_LEN = 14,
	SNAP_DATE_SEC = 16,
	SNAP_DATE_NSEC = 20,
	SNAP_CLOCK_NSEC = 24,
	SNAP_VM_SIZE_32 = 32,
	SNAP_EXTRA_LEN = 36,
	SNAP_HEAD = 40,				/* then extra data, ID, name, padding to 8 bytes */
	SNAP_EXTRA_VM_SIZE = 0,			/* within the extra data */
	SNAP_EXTRA_DISK_SIZE = 8,
	SNAP_EXTRA_ICOUNT = 16,
	SNAP_EXTRA_KNOWN = 24,
};

/* ---- bitmap directory entry ---- */

enum {
	BITMAP_TABLE_OFFSET = 0,
	BITMAP_TABLE_SIZE = 8,
	BITMAP_FLAGS = 12,
	BITMAP_TYPE = 16,
	BITMAP_GRANULARITY_BITS = 17,
	BITMAP_NAME_LEN = 18,
	BITMAP_EXTRA_LEN = 20,
	BITMAP_HEAD = 24,			/* then extra data, name, padding to 8 bytes */
	BITMAP_TYPE_DIRTY = 1,
	BITMAP_MAX_GRANULARITY_BITS = 63,
};

#endif
