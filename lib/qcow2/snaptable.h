/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of internal snapshots. */
#ifndef QCOW2_SNAPTABLE_H
#define QCOW2_SNAPTABLE_H

#include <stddef.h>
#include <stdint.h>

struct qcow2;
struct qimg_error;

/*
 * One entry, as stored. Lengths are checked when the table is read; where the L1 table is, is checked
 * by snaptable_check_l1, so that one broken snapshot does not hide the others.
 */
struct snapshot {
	char *id, *name;
	uint64_t l1_offset;
	uint32_t l1_size;		/* entries */
	uint32_t date_sec, date_nsec;
	uint64_t clock_nsec;		/* how long the guest had run */
	uint64_t vm_size;		/* bytes of saved machine state */
	uint64_t disk_size;		/* virtual size at that time */
	uint64_t icount;		/* UINT64_MAX: not recorded */
	uint8_t *extra;			/* all extra data, known and unknown */
	uint32_t extra_len;
	uint32_t entry_len;		/* bytes that the entry takes in the table, padding included */
};

/* Reads the table into q->snapshots (q->h.nb_snapshots entries), once. */
int snaptable_load(struct qcow2 *q, struct qimg_error *e);
/*
 * For a check: the entries before the first one that cannot be read, *count of them; why is filled when that is
 * not all. The others are empty: to be freed before anything else looks at the table.
 */
int snaptable_load_some(struct qcow2 *q, uint32_t *count, struct qimg_error *why);
void snaptable_free(struct qcow2 *q);
/*
 * The table of these snapshots: its size, and its bytes, written to buf, which holds zeros. What is not known of
 * their extra data is kept.
 */
uint64_t snaptable_size(const struct snapshot *s, uint32_t count);
void snaptable_encode(const struct snapshot *s, uint32_t count, uint8_t *buf);
/* Makes the extra data that long: cut, or with zeros behind it; fields that are known are set by snaptable_encode. */
int snaptable_set_extra(struct snapshot *s, uint32_t len, struct qimg_error *e);
/*
 * The snapshot with that ID or, when there is none, with that name; each may be NULL, then the other
 * alone decides; with both given both must fit. NULL: no such snapshot, *e says which was meant.
 */
const struct snapshot *snaptable_find(struct qcow2 *q, const char *id, const char *name,
				      struct qimg_error *e);
/* "snapshot 'NAME' (ID '1', ...)": what it is, for people. Returns buf. */
const char *snaptable_about(const struct snapshot *s, char *buf, size_t size);
/* The L1 table of the snapshot is where one can be, and large enough for its size. */
int snaptable_check_l1(const struct qcow2 *q, const struct snapshot *s, struct qimg_error *e);

#endif
