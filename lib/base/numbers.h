/* SPDX-License-Identifier: BSD-2-Clause */
/* A set of 64-bit numbers that remembers the order in which they came. */
#ifndef BASE_NUMBERS_H
#define BASE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qimg_error;

struct numbers {		/* starts as zeros */
	uint64_t *item;		/* in their order */
	size_t count, room;
	uint32_t *slot;		/* a hash table: 1 + index of the item, 0: empty */
	size_t slots;		/* a power of two, or 0 */
};

/* The index of n, which is added when it is new. -1: out of memory, or 2^32 of them. */
int numbers_add(struct numbers *s, uint64_t n, size_t *index, bool *added, struct qimg_error *e);
bool numbers_find(const struct numbers *s, uint64_t n, size_t *index);	/* index may be NULL */
void numbers_free(struct numbers *s);	/* it is empty then */

#endif
