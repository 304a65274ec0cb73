/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for the slices of a cache, taken in blocks so that a slice costs little more than its bytes, and
 * in a way that it can be given back to the system: that of one slice where it fills whole pages, else
 * that of the slices which share a page.
 */
#ifndef QCOW2_FRAMES_H
#define QCOW2_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

struct frames;
struct qimg_error;

struct frame {
	uint8_t *data;			/* NULL: none */
	uint32_t number;		/* frames.c's */
};

int frames_open(struct frames **f, uint32_t size, struct qimg_error *e);
void frames_close(struct frames *f);	/* with all that are in use; NULL is allowed */
/* Content undefined, aligned for transfers. */
int frames_get(struct frames *f, struct frame *fr, struct qimg_error *e);
/* give_back: to the system, else it stays at hand for the next one. */
void frames_put(struct frames *f, struct frame *fr, bool give_back);
/* Gives back what stays at hand. */
void frames_trim(struct frames *f);
uint64_t frames_bytes(const struct frames *f);	/* resident */

#endif
