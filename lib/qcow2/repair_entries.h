/* SPDX-License-Identifier: BSD-2-Clause */
/* Repairing an image: what becomes of a broken entry of an L1 or L2 table. */
#ifndef QCOW2_REPAIR_ENTRIES_H
#define QCOW2_REPAIR_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct check;
struct qimg_error;

struct repair_fate {
	const char *does;		/* for people: "it is removed"; NULL: nothing is wrong with it */
	uint64_t near;			/* the offset that it gets back, 0: none */
	uint8_t entry[16];		/* what it becomes: an L2 entry */
	uint64_t l1e;			/* or an L1 entry */
};

/* The L2 entry at p, the L1 entry l1e. Once the claims are known. */
void repair_l2_fate(struct check *c, const uint8_t *p, uint64_t guest, struct repair_fate *f);
void repair_l1_fate(struct check *c, uint64_t l1e, struct repair_fate *f);
/* Before: what they may have lost is claimed. */
int repair_l2_claim(struct check *c, const uint8_t *p, uint64_t guest, struct qimg_error *e);
int repair_l1_claim(struct check *c, uint64_t l1e, struct qimg_error *e);
/* Mends them in place. *mended: there was something. */
int repair_entries(struct check *c, bool *mended, struct qimg_error *e);
/* What is added to a finding about it: the end of a sentence, or nothing. */
const char *repair_fate_text(const struct check *c, const struct repair_fate *f, char *buf, size_t size);

#endif
