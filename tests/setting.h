/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the crash test and the model test start from: a named kind of image, filled at random from a
 * seed, and what a guest must read from it.
 *
 * Content is made of stamps: each write has a number of its own, and each sector of guest data tells
 * the number and its own place. Stale or foreign data is so recognised wherever it shows. POISON is
 * the stamp of what may never be seen.
 */
#ifndef SETTING_H
#define SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SECTOR = 512 };
#define POISON UINT64_C(0xdeadbeef)

struct setting {
	const char *name;
	unsigned version, cluster_bits, refcount_order;
	bool extended, lazy, zstd, external, raw;
	bool snapshot;		/* an internal snapshot shares most clusters */
	bool backing;		/* a raw backing file, shorter than the image */
	bool bitmap;		/* a valid dirty bitmap, to be given up before the first change */
	bool packed;		/* some clusters are compressed, and the program compresses, too */
	bool empty;		/* starts with nothing allocated */
	bool resize;		/* the program makes the image grow */
	bool tight;		/* filled up to where the refcount table has to grow */
	uint64_t size;
};

struct setting_content {
	uint64_t size;
	uint8_t *active;	/* what the guest reads */
	uint8_t *snapshot;	/* the same of the snapshot, or NULL */
	uint8_t *backing;	/* `size` bytes, zeros behind the end of the backing file; or NULL */
};

extern const struct setting settings[];	/* ended by a name of NULL */

/* Writes image.qcow2, data.raw, backing.raw into dir, as far as the setting has them. */
void setting_build(const struct setting *s, const char *dir, uint64_t *seed,
		   struct setting_content *c);
void setting_free(struct setting_content *c);

/* Numbers from a seed, the same everywhere. below: 0 .. n-1. */
uint64_t random_next(uint64_t *seed);
uint64_t random_below(uint64_t *seed, uint64_t n);
bool random_chance(uint64_t *seed, unsigned percent);

/* Fills buf with the content that stamp has at guest offset `off`, of any alignment. */
void stamp_fill(uint8_t *buf, uint64_t off, uint64_t len, uint64_t stamp);
/* The stamp that a sector shows (0: zeros); UINT64_MAX when it is a mixture. */
uint64_t stamp_read(const uint8_t *sector);

#endif
