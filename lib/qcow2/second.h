/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The second level of a cache: clean slices in a file on a fast disk, keyed by their offset in the image.
 *
 * - What the file holds is believed only if it has the checksum that memory remembers, so a file that
 *   somebody else changes, or a disk that loses writes, costs loads and nothing else. Nothing is taken
 *   over from an earlier open.
 * - An entry dies when its slice is changed, when its clusters get a new meaning, and when reading it
 *   fails.
 * - Storing happens in the background and never delays anybody: when too much of it is under way, a
 *   slice is not stored.
 * - When the file cannot be written, or keeps failing, the level is given up with one warning.
 *
 * Memory: 24 bytes an entry (index) and 4 to 8 (hash), that is less than 1% of slices of 4 KiB, and at most
 * 1 MiB (or two slices) for what is being written.
 */
#ifndef QCOW2_SECOND_H
#define QCOW2_SECOND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct file;
struct qimg_error;
struct qimg_image;
struct second;

struct second_options {
	const char *path;		/* a block device, or a place in whose folder a file is made */
	uint64_t size;			/* of the file at most */
	bool direct;			/* past the page cache */
};

struct second_stats {
	uint64_t hits;			/* slices that came from the file */
	uint64_t stores;		/* slices written into it */
	uint64_t dropped;		/* not written, since too much was under way */
	uint64_t failures;		/* reads and writes that failed, content that was not what it had been */
	uint64_t entries;		/* slices in there */
	uint64_t file_bytes;		/* that they take */
	uint64_t ram_bytes;		/* taken by index and buffers */
	bool given_up;
};

/* Where a slice is, as long as nothing happens to its entry. */
struct second_place {
	uint64_t at;			/* in second_file */
	uint32_t entry, generation;
};

/*
 * img: whose loop carries out the writes (NULL: none, they block). slice_size: a power of two. Of the
 * size as much is used as holds whole slices, `most` of them at most, at least one.
 */
int second_open(struct second **s, struct qimg_image *img, const struct second_options *o,
		uint32_t slice_size, uint64_t most, struct qimg_error *e);
void second_close(struct second *s);	/* nothing may be under way; NULL is allowed */
struct file *second_file(const struct second *s);
void second_get_stats(const struct second *s, struct second_stats *stats);

/* Is the slice at off in the file? Then the caller may read it from p->at. */
bool second_find(struct second *s, uint64_t off, struct second_place *p);
/*
 * After that read (code: 0 or an errno value): is this still the slice at off? If not, the entry is dead,
 * and the caller reads from the image.
 */
bool second_check(struct second *s, const struct second_place *p, uint64_t off, const void *data,
		  int code);
/* Both, with a read that blocks. */
bool second_read(struct second *s, uint64_t off, void *data);
/* The slice at off, which is clean, leaves memory. */
void second_add(struct second *s, uint64_t off, const void *data);
void second_kill(struct second *s, uint64_t off);

#endif
