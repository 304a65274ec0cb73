// SPDX-License-Identifier: BSD-2-Clause
/*
 * The second level of a cache: an index in memory (a hash and a clock hand over the entries), the slices
 * in a file, entry i at i * stride.
 *
 * An entry is read only when its write has ended, and gets another slice only then: so nothing in the
 * file is read and written at the same time. Its generation changes whenever it dies: a read under
 * way that comes back to another generation is worth nothing.
 */
#include "qcow2/second.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/mem.h"
#include "image/background.h"
#include "io/file.h"
#include "io/unnamed.h"

#define MOST_WRITES 16		/* under way, of at most: */
#define WRITE_BYTES MIB
#define MOST_FAILURES 8		/* reads in vain, before the file is given up */

enum { ENTRY_FREE, ENTRY_WRITING, ENTRY_READY, ENTRY_DEAD /* being written for nothing */ };

struct second_entry {
	uint64_t off;
	uint32_t checksum;
	uint32_t generation;
	uint32_t next;		/* 1 + index: in the hash chain, or of free entries; 0: none */
	uint8_t state;
	bool referenced;
};

struct store {
	struct background b;
	struct second *s;
	struct store *next;	/* of those that are not under way */
	uint32_t entry;
	uint8_t *buf;
};

struct second {
	struct qimg_image *img;
	struct file *file;
	uint32_t slice_size, stride;
	unsigned slice_bits;
	uint32_t slots, used;		/* entries [0, used) have been in use */
	uint32_t hand;
	uint32_t free;			/* 1 + index */
	uint32_t *bucket;		/* 1 + index */
	uint32_t bucket_mask;
	struct second_entry *entry;
	struct store *idle;
	unsigned stores, most_stores;	/* that exist */
	unsigned writing;		/* under way */
	bool given_up;
	struct second_stats stats;
};

static void free_index(struct second *s)
{
	free(s->entry);
	free(s->bucket);
	s->entry = NULL;
	s->bucket = NULL;
	s->stats.entries = 0;
}

int second_open(struct second **out, struct qimg_image *img, const struct second_options *o,
		uint32_t slice_size, uint64_t most, struct qimg_error *e)
{
	struct second *s = mem_zalloc(sizeof(*s), e);
	uint64_t slots, size = o->size;
	uint32_t buckets = 2;

	if (!s)
		return -1;
	s->img = img;
	s->slice_size = slice_size;
	s->slice_bits = log2_u64(slice_size);
	if (unnamed_open(&s->file, o->path, o->direct ? FILE_DIRECT : 0, e) < 0) {
		error_prefix(e, "L2 cache file");
		goto fail;
	}
	s->stride = (uint32_t)round_up(slice_size, unnamed_unit(s->file));
	if (file_is_device(s->file))
		size = min_u64(size, file_size(s->file));
	if (size < s->stride && file_is_device(s->file)) {
		error_set(e, ENOSPC, "The L2 cache device '%s' has no room for a slice of %u bytes", o->path,
			  s->stride);
		goto fail;
	}
	slots = min_u64(min_u64(max_u64(size / s->stride, 1), max_u64(most, 1)), INT32_MAX);
	s->slots = (uint32_t)slots;
	while (buckets < s->slots)
		buckets *= 2;
	s->bucket_mask = buckets - 1;
	s->most_stores = (unsigned)min_u64(max_u64(WRITE_BYTES / s->stride, 2), MOST_WRITES);
	s->entry = mem_array(s->slots, sizeof(*s->entry), e);
	s->bucket = mem_array(buckets, sizeof(*s->bucket), e);
	if (!s->entry || !s->bucket)
		goto fail;
	*out = s;
	return 0;
fail:
	second_close(s);
	return -1;
}

void second_close(struct second *s)
{
	struct store *st;

	if (!s)
		return;
	while ((st = s->idle)) {
		s->idle = st->next;
		free(st->buf);
		free(st);
	}
	free_index(s);
	file_close(s->file);
	free(s);
}

struct file *second_file(const struct second *s)
{
	return s->file;
}

void second_get_stats(const struct second *s, struct second_stats *stats)
{
	*stats = s->stats;
	stats->file_bytes = stats->entries * s->stride;
	stats->ram_bytes = (uint64_t)s->stores * (sizeof(struct store) + s->stride);
	if (!s->given_up)
		stats->ram_bytes += s->used * sizeof(*s->entry) +
				    ((uint64_t)s->bucket_mask + 1) * sizeof(*s->bucket);
	stats->given_up = s->given_up;
}

/* ---- the index ---- */

static uint32_t *bucket_of(struct second *s, uint64_t off)
{
	uint64_t h = (off >> s->slice_bits) * UINT64_C(0x9e3779b97f4a7c15);

	return &s->bucket[(h >> 32) & s->bucket_mask];
}

static struct second_entry *lookup(struct second *s, uint64_t off)
{
	uint32_t i = s->given_up ? 0 : *bucket_of(s, off);

	while (i && s->entry[i - 1].off != off)
		i = s->entry[i - 1].next;
	return i ? &s->entry[i - 1] : NULL;
}

static uint32_t number(const struct second *s, const struct second_entry *en)
{
	return (uint32_t)(en - s->entry) + 1;
}

static void put_free(struct second *s, struct second_entry *en)
{
	en->state = ENTRY_FREE;
	en->next = s->free;
	s->free = number(s, en);
}

static void unhash(struct second *s, struct second_entry *en)
{
	uint32_t *link = bucket_of(s, en->off);

	while (*link != number(s, en))
		link = &s->entry[*link - 1].next;
	*link = en->next;
	en->generation++;
	s->stats.entries--;
}

static void kill_entry(struct second *s, struct second_entry *en)
{
	unhash(s, en);
	if (en->state == ENTRY_WRITING)
		en->state = ENTRY_DEAD;
	else
		put_free(s, en);
}

void second_kill(struct second *s, uint64_t off)
{
	struct second_entry *en = lookup(s, off);

	if (en)
		kill_entry(s, en);
}

/* An entry for another slice. NULL: all are being written. */
static struct second_entry *take_entry(struct second *s)
{
	struct second_entry *en;

	if (s->free) {
		en = &s->entry[s->free - 1];
		s->free = en->next;
		return en;
	}
	if (s->used < s->slots)
		return &s->entry[s->used++];
	for (uint64_t n = 0; n < 2 * (uint64_t)s->slots; n++) {
		en = &s->entry[s->hand];
		s->hand = s->hand + 1 == s->slots ? 0 : s->hand + 1;
		if (en->state != ENTRY_READY)
			continue;
		if (!en->referenced) {
			unhash(s, en);
			return en;
		}
		en->referenced = false;
	}
	return NULL;
}

/* ---- giving up ---- */

/* Its room may be what others lack; writes under way would take it again. */
static void give_back(struct second *s)
{
	struct qimg_error ignored;

	if (s->given_up && !s->writing && !file_is_device(s->file))
		file_truncate(s->file, 0, &ignored);
}

static void give_up(struct second *s, const char *why)
{
	if (s->given_up)
		return;
	s->given_up = true;
	free_index(s);
	warn("The L2 cache file '%s' is used no longer: %s", file_path(s->file), why);
	give_back(s);
}

/* ---- reading ---- */

bool second_find(struct second *s, uint64_t off, struct second_place *p)
{
	struct second_entry *en = lookup(s, off);

	if (!en || en->state != ENTRY_READY)
		return false;
	p->entry = number(s, en) - 1;
	p->generation = en->generation;
	p->at = (uint64_t)p->entry * s->stride;
	return true;
}

/* The offset is in it: the right bytes of another slice are wrong ones. */
static uint32_t checksum_of(const struct second *s, uint64_t off, const void *data)
{
	return checksum(checksum(0, &off, sizeof(off)), data, s->slice_size);
}

bool second_check(struct second *s, const struct second_place *p, uint64_t off, const void *data,
		  int code)
{
	struct second_entry *en;

	if (s->given_up)
		return false;
	en = &s->entry[p->entry];
	if (en->generation != p->generation || en->state != ENTRY_READY)
		return false;
	if (!code && en->checksum == checksum_of(s, off, data)) {
		en->referenced = true;
		s->stats.hits++;
		return true;
	}
	kill_entry(s, en);
	if (++s->stats.failures >= MOST_FAILURES)
		give_up(s, code ? "it cannot be read" : "it does not keep what is written to it");
	return false;
}

bool second_read(struct second *s, uint64_t off, void *data)
{
	struct second_place p;
	struct qimg_error ignored;
	int code = 0;

	if (!second_find(s, off, &p))
		return false;
	if (file_read(s->file, p.at, data, s->slice_size, &ignored) < 0)
		code = EIO;
	return second_check(s, &p, off, data, code);
}

/* ---- storing ---- */

static struct store *take_store(struct second *s)
{
	struct qimg_error ignored;
	struct store *st = s->idle;

	if (st) {
		s->idle = st->next;
		return st;
	}
	if (s->stores == s->most_stores)
		return NULL;
	st = mem_zalloc(sizeof(*st), &ignored);
	if (!st)
		return NULL;
	st->s = s;
	st->buf = mem_buffer(s->stride, &ignored);
	if (!st->buf) {
		free(st);
		return NULL;
	}
	memset(st->buf, 0, s->stride);
	s->stores++;
	return st;
}

static void put_store(struct second *s, struct store *st)
{
	st->next = s->idle;
	s->idle = st;
}

static void stored(struct second *s, struct store *st, int code, const char *why)
{
	struct second_entry *en = s->given_up ? NULL : &s->entry[st->entry];

	put_store(s, st);
	if (code)
		s->stats.failures++;
	else
		s->stats.stores++;
	if (en && en->state == ENTRY_DEAD)
		put_free(s, en);
	else if (en)
		en->state = ENTRY_READY;
	if (code)
		give_up(s, why);
	give_back(s);
}

static void store_ended(struct background *b)
{
	struct store *st = (struct store *)((char *)b - offsetof(struct store, b));

	st->s->writing--;
	stored(st->s, st, b->io.req.code, b->io.error.msg);
}

static void start_store(struct second *s, struct store *st)
{
	struct qimg_error e = { .code = 0 };

	st->b.io.req = (struct ioq_req){ .op = IOQ_WRITE, .file = s->file, .buf = st->buf, .len = s->stride,
					 .off = (uint64_t)st->entry * s->stride, .flags = IOQ_METADATA };
	st->b.done = store_ended;
	s->writing++;
	if (s->img && background_start(s->img, &st->b))
		return;
	s->writing--;
	if (file_write(s->file, st->b.io.req.off, st->buf, s->stride, &e) < 0)
		stored(s, st, e.code, e.msg);
	else
		stored(s, st, 0, NULL);
}

void second_add(struct second *s, uint64_t off, const void *data)
{
	struct second_entry *en;
	struct store *st;
	uint32_t *bucket;

	if (s->given_up || lookup(s, off))
		return;
	st = take_store(s);
	en = st ? take_entry(s) : NULL;
	if (!en) {
		if (st)
			put_store(s, st);
		s->stats.dropped++;
		return;
	}
	memcpy(st->buf, data, s->slice_size);
	bucket = bucket_of(s, off);
	en->off = off;
	en->checksum = checksum_of(s, off, data);
	en->state = ENTRY_WRITING;
	en->referenced = false;
	en->next = *bucket;
	*bucket = number(s, en);
	s->stats.entries++;
	st->entry = number(s, en) - 1;
	start_store(s, st);
}
