/* SPDX-License-Identifier: BSD-2-Clause */
/* L1 and L2 entries and refcounts as bits: the only file that knows their masks. */
#ifndef QCOW2_ENTRY_H
#define QCOW2_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qcow2;
struct qimg_error;

enum entry_kind {
	ENTRY_HOLE,		/* unallocated; extended L2: subclusters may still read as zeros */
	ENTRY_ZERO,		/* reads as zeros, no host cluster (normal L2) */
	ENTRY_ZERO_HOST,	/* reads as zeros, host cluster reserved (normal L2) */
	ENTRY_DATA,		/* host cluster; extended L2: the bitmaps say which subclusters */
	ENTRY_PACKED,		/* compressed */
};

enum entry_fault {
	ENTRY_SOUND,
	ENTRY_UNALIGNED,
	ENTRY_BAD_VERSION,		/* a zero cluster in an image of version 2 */
	ENTRY_BAD_PACKED,		/* compressed where nothing can be */
	ENTRY_NOT_GUEST,		/* an offset in a data file that is not the guest's */
	ENTRY_BAD_SUBCLUSTERS,
};

struct entry {
	enum entry_kind kind;
	bool copied;		/* the refcount of the host cluster is exactly one */
	uint64_t host;		/* DATA, ZERO_HOST: cluster; PACKED: first byte */
	uint32_t packed;	/* PACKED: bytes up to the end of the last sector */
	uint32_t alloc, zero;	/* extended L2: one bit a subcluster */
	enum entry_fault fault;	/* why entry_get failed */
};

/*
 * Decodes and checks the L2 entry at p, that of guest offset `guest`: alignment, range, reserved
 * combinations. Reserved bits that are set are an error (EIO).
 */
int entry_get(const struct qcow2 *q, const uint8_t *p, uint64_t guest, struct entry *en,
	      struct qimg_error *e);
/* The bits of the entry at p that no reader may rely on and that are set all the same. */
uint64_t entry_reserved(const struct qcow2 *q, const uint8_t *p);
uint64_t entry_l1_reserved(uint64_t l1e);
/*
 * The most frequent kind, decided in one look: no extended entry, a data cluster, and no other bit but COPIED.
 * False also for what has faults.
 */
static inline bool entry_is_plain(uint64_t raw, uint32_t cluster_size, uint64_t *host, bool *copied)
{
	*host = raw & ~(UINT64_C(1) << 63);
	*copied = raw >> 63;
	return *host && !(*host >> 56) && !(*host & (cluster_size - 1));
}
void entry_put(const struct qcow2 *q, uint8_t *p, const struct entry *en);
/* Why the COPIED bit of the entry is wrong whatever the refcount is, or NULL. */
const char *entry_odd_copied(const struct qcow2 *q, const struct entry *en);
/* Changes that bit alone of the L2 entry at p. */
void entry_set_copied(uint8_t *p, bool copied);
/*
 * Changes of the L2 entry at p for a repair, whatever is wrong with it. _remove: nothing is allocated any longer; what
 * reads as zeros goes on to do so, and with `zeros` what was allocated does, too, where the image can say that.
 */
void entry_clear_reserved(const struct qcow2 *q, uint8_t *p);
void entry_clear_zero(uint8_t *p);
void entry_set_host(const struct qcow2 *q, uint8_t *p, uint64_t host);
void entry_mend_subclusters(const struct qcow2 *q, uint8_t *p);
void entry_remove(const struct qcow2 *q, uint8_t *p, bool zeros);
uint64_t entry_l1_set_table(uint64_t l1e, uint64_t off);
/* Whether it says that something is at its host offset, whether or not it has one. */
bool entry_has_data(const struct qcow2 *q, const uint8_t *p);
/* The offsets that differ from `host` in one bit of those that an entry has for it, from *bit on. false: no more. */
bool entry_next_near(const struct qcow2 *q, uint64_t host, bool packed, unsigned *bit, uint64_t *near);
/* A compressed cluster's descriptor can express this place and length. */
bool entry_can_pack(const struct qcow2 *q, uint64_t host, uint32_t packed);

/* L1 entries, in CPU byte order. */
#define L1_COPIED (UINT64_C(1) << 63)
uint64_t entry_l1_table(uint64_t l1e);		/* host offset of the L2 table, 0: none */
/* 0, or -1 with what is wrong (alignment, reserved bits). */
int entry_l1_check(const struct qcow2 *q, uint32_t index, uint64_t l1e, struct qimg_error *e);

/* The index-th refcount of a block or slice of them, of 1 << order bits. */
uint64_t entry_refcount_get(const uint8_t *block, unsigned order, size_t index);
void entry_refcount_put(uint8_t *block, unsigned order, size_t index, uint64_t v);

#endif
