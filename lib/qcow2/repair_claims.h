/* SPDX-License-Identifier: BSD-2-Clause */
/* Repairing an image: offsets that have lost a bit, and the clusters that these have lost. */
#ifndef QCOW2_REPAIR_CLAIMS_H
#define QCOW2_REPAIR_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

struct check;
struct qimg_error;

enum repair_lost {
	REPAIR_LOST_DATA,
	REPAIR_LOST_PACKED,		/* packed: the bytes that the entry says */
	REPAIR_LOST_TABLE,
};

/* For each broken offset, when all is counted: keeps what it may have been before it lost a bit. */
int repair_claim(struct check *c, enum repair_lost lost, uint64_t off, uint32_t packed, struct qimg_error *e);
/* Then: what it has been, 0: nobody can say. */
uint64_t repair_claimed(struct check *c, enum repair_lost lost, uint64_t off, uint32_t packed);
/* Whether there is compressed data of a cluster. */
bool repair_inflates(struct check *c, uint64_t host, uint32_t packed);

#endif
