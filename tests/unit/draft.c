// SPDX-License-Identifier: BSD-2-Clause
/* Drafts against an array of bytes: random writes, cuts and reads; the file itself stays as it is. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "io/draft.h"
#include "io/file.h"
#include "qimg.h"
#include "scratch.h"
#include "tap.h"

enum { MOST = 1 << 20, START = 300000 };

static uint8_t want[MOST], got[MOST], first[START];
static uint64_t size = START;
static unsigned long state = 1;

static uint64_t dice(uint64_t n)
{
	state = state * 6364136223846793005UL + 1442695040888963407UL;
	return (state >> 33) % n;
}

static void same(struct file *f, const char *what)
{
	struct qimg_error e;
	bool read = file_read(f, 0, got, MOST, &e) == 0;

	ok(read && file_size(f) == size && !memcmp(got, want, MOST), "%s: %" PRIu64 " bytes", what, size);
}

/* Extents end where they say, and holes are zeros. */
static void extents(struct file *f)
{
	struct file_extent x;
	struct qimg_error e;
	unsigned bad = 0;

	for (uint64_t at = 0; at < size && !bad; at += x.len) {
		if (file_extent(f, at, size - at, &x, &e) < 0 || !x.len || x.len > size - at) {
			bad++;
			break;
		}
		for (uint64_t i = 0; x.hole && i < x.len; i++)
			bad += want[at + i] != 0;
	}
	ok(!bad, "extents");
}

static void change(struct file *f)
{
	uint64_t off = dice(MOST - 70000), len = 1 + dice(dice(4) ? 600 : 70000);
	struct qimg_error e;
	unsigned bad = 0;

	if (!dice(20)) {
		size = dice(MOST);
		memset(want + size, 0, MOST - size);
		bad += file_truncate(f, size, &e) < 0;
	} else {
		for (uint64_t i = 0; i < len; i++)
			got[i] = (uint8_t)(1 + dice(255));
		memcpy(want + off, got, len);
		if (off + len > size)
			size = off + len;
		bad += file_write(f, off, got, len, &e) < 0;
	}
	if (bad)
		ok(false, "%s", e.msg);
}

int main(void)
{
	const char *name = "file";
	struct qimg_error e;
	struct file *f;

	scratch_enter();
	for (size_t i = 0; i < START; i++)
		first[i] = want[i] = (uint8_t)(i < 100000 || i > 200000 ? 1 + dice(255) : 0);
	ok(file_open(&f, name, FILE_WRITE | FILE_CREATE, &e) == 0 && file_write(f, 0, first, 100000, &e) == 0 &&
	   file_write(f, 200000, first + 200000, START - 200000, &e) == 0, "a file with a hole");
	file_close(f);
	ok(file_open(&f, name, 0, &e) == 0 && draft_begin(f, &e) == 0 && draft_is(f), "a draft of a file to be read");
	same(f, "as it is");
	for (unsigned round = 0; round < 30; round++) {
		for (unsigned i = 0; i < 20; i++)
			change(f);
		same(f, "changed");
		extents(f);
	}
	ok(file_sync(f, &e) == 0 && file_refresh(f, &e) == 0, "synced");
	same(f, "synced");
	file_close(f);
	ok(file_open(&f, name, 0, &e) == 0, "opened again");
	ok(file_size(f) == START && file_read(f, 0, got, START, &e) == 0 && !memcmp(got, first, START),
	   "the file itself is what it was");
	file_close(f);
	return done_testing();
}
