// SPDX-License-Identifier: BSD-2-Clause
/*
 * A draft of a file: the pages that were changed, one behind the other in a temporary file, in the order in which they
 * were changed first.
 */
#include "io/draft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/numbers.h"
#include "io/draft_priv.h"
#include "io/file_priv.h"
#include "io/unnamed.h"

#define PAGE 4096
#define FAR (16 * MIB)			/* how far a run is followed */

struct draft {
	struct file *store;
	struct numbers pages;		/* of the file; the index says where in the store */
	uint64_t seen;			/* of the file itself so much is left: it was never cut below */
};

static const char *folder(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/var/tmp";
}

int draft_begin(struct file *f, struct qimg_error *e)
{
	struct draft *d;

	if (f->draft)
		return 0;
	d = mem_zalloc(sizeof(*d), e);
	if (!d)
		return -1;
	d->seen = f->size;
	if (unnamed_open(&d->store, folder(), 0, e) < 0) {
		free(d);
		return error_prefix(e, "A file for what would be changed");
	}
	f->draft = d;
	return 0;
}

bool draft_is(const struct file *f)
{
	return f->draft;
}

void draft_free(struct draft *d)
{
	if (!d)
		return;
	file_close(d->store);
	numbers_free(&d->pages);
	free(d);
}

bool draft_is_cut(const struct file *f, uint64_t off)
{
	return off >= f->draft->seen;
}

uint64_t draft_run(const struct file *f, uint64_t off, uint64_t len, bool *drafted)
{
	const struct draft *d = f->draft;
	uint64_t end = off + min_u64(len, FAR), at = round_down(off, PAGE) + PAGE;

	*drafted = numbers_find(&d->pages, off / PAGE, NULL);
	while (at < end && numbers_find(&d->pages, at / PAGE, NULL) == *drafted)
		at += PAGE;
	at = min_u64(at, end);
	if (!*drafted && off < d->seen)
		at = min_u64(at, d->seen);
	return at - off;
}

static int read_page(struct draft *d, uint64_t off, void *buf, size_t len, struct qimg_error *e)
{
	size_t index = 0;

	numbers_find(&d->pages, off / PAGE, &index);
	return file_read(d->store, (uint64_t)index * PAGE + off % PAGE, buf, len, e);
}

int draft_read(struct file *f, uint64_t off, void *buf, size_t len, struct qimg_error *e)
{
	uint8_t *to = buf;
	uint64_t n;

	for (uint64_t end = off + len; off < end; off += n, to += n) {
		bool drafted;
		int ret = 0;

		n = draft_run(f, off, end - off, &drafted);
		if (drafted) {
			n = min_u64(n, PAGE - off % PAGE);
			ret = read_page(f->draft, off, to, n, e);
		} else if (draft_is_cut(f, off)) {
			memset(to, 0, n);
		} else {
			ret = file_read_plain(f, off, to, n, e);
		}
		if (ret < 0)
			return -1;
	}
	return 0;
}

/* A part of a page. */
static int write_page(struct file *f, uint64_t off, const uint8_t *from, size_t len, struct qimg_error *e)
{
	struct draft *d = f->draft;
	uint8_t page[PAGE];
	size_t index;
	bool added;

	if (!numbers_find(&d->pages, off / PAGE, NULL) && draft_read(f, round_down(off, PAGE), page, PAGE, e) < 0)
		return -1;
	if (numbers_add(&d->pages, off / PAGE, &index, &added, e) < 0)
		return -1;
	if (!added)
		return file_write(d->store, (uint64_t)index * PAGE + off % PAGE, from, len, e);
	memcpy(page + off % PAGE, from, len);
	return file_write(d->store, (uint64_t)index * PAGE, page, PAGE, e);
}

int draft_write(struct file *f, uint64_t off, const void *buf, size_t len, struct qimg_error *e)
{
	const uint8_t *from = buf;
	size_t n;

	if (f->device && (off > f->size || len > f->size - off))
		return file_failed(f, true, off, len, ENOSPC, e);
	for (uint64_t at = off, end = off + len; at < end; at += n, from += n) {
		n = (size_t)min_u64(PAGE - at % PAGE, end - at);
		if (write_page(f, at, from, n, e) < 0)
			return -1;
	}
	file_grown(f, off + len);
	return 0;
}

/* What is cut off reads as zeros when the file grows again. */
int draft_truncate(struct file *f, uint64_t size, struct qimg_error *e)
{
	struct draft *d = f->draft;
	static const uint8_t zeros[PAGE];

	for (size_t i = 0; size < f->size && i < d->pages.count; i++) {
		uint64_t at = d->pages.item[i] * PAGE, from = max_u64(at, size);

		if (at + PAGE > size && draft_write(f, from, zeros, (size_t)(at + PAGE - from), e) < 0)
			return -1;
	}
	d->seen = min_u64(d->seen, size);
	f->size = size;
	return 0;
}
