/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a guest may find on its disk after a crash: each sector is as it was at the last completed
 * flush, or as any later write made it.
 *
 * A write that is not of whole sectors may reach the disk in pieces of any size, so that its sectors may
 * be mixtures of what they may be as a whole.
 *
 * Time is counted in events of the disk (disk.h): a version exists from the event on at which its write
 * began, a flush binds from the event on after which it had returned.
 */
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guest_version {
	size_t from;		/* events recorded when the write began */
	unsigned op;		/* number of the operation, 0: initial content */
	bool partial;		/* by a write that was not of whole sectors */
	bool failed;		/* by a write that failed: it may be there or not, in part or whole */
	uint8_t bytes[512];
};

struct guest_sector {
	struct guest_version **version;
	unsigned versions;
};

struct guest {
	struct guest_sector *sector;
	size_t sectors;
	uint64_t size;			/* now */
	struct { size_t from; unsigned op; uint64_t size; } *resize;
	size_t resizes;
	struct { size_t done; unsigned op; } *flush;
	size_t flushes;
	unsigned op;			/* of the operation that runs */
};

void guest_start(struct guest *g, const uint8_t *content, uint64_t size);
void guest_free(struct guest *g);
/* An operation begins; returns its number. */
unsigned guest_op(struct guest *g);
/* The operation changes (or may change) [off, off+len) to these bytes (NULL: zeros). */
void guest_write(struct guest *g, size_t event, uint64_t off, const uint8_t *bytes, uint64_t len);
/* The operation failed: what it was to write may or may not be there, now and for ever. */
void guest_failed(struct guest *g);
void guest_resize(struct guest *g, size_t event, uint64_t size);
/* A flush has returned that covers the operations up to `op`. */
void guest_flushed(struct guest *g, size_t event, unsigned op);
/* Forgets all but the present, to save memory; for runs that no crash is tried on. */
void guest_forget(struct guest *g);
/* What the guest reads now. */
const uint8_t *guest_now(const struct guest *g, uint64_t sector);

/* The number of the operation whose effects are the oldest that may be seen at a crash. */
unsigned guest_floor(const struct guest *g, size_t event);
bool guest_size_allowed(const struct guest *g, size_t event, uint64_t size);
bool guest_allowed(const struct guest *g, size_t event, unsigned floor, uint64_t sector,
		   const uint8_t *bytes);
/* An older version than allowed: flushed data was lost. Else it is foreign. */
bool guest_is_old(const struct guest *g, uint64_t sector, const uint8_t *bytes);

#endif
