// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/qcow2/second: random operations against plain arrays. Whatever happens to the file (content that is
 * changed, cut off, reads that fail), it never hands out anything but what the slice is now; a file that
 * keeps failing is given up with one warning.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/error.h"
#include "image/request.h"
#include "image/request_priv.h"
#include "io/file.h"
#include "io/unnamed.h"
#include "qcow2/second.h"
#include "request_image.h"
#include "scratch.h"
#include "tap.h"

#define SLICE 512
#define SLICES 64

static uint8_t want[SLICES][SLICE];	/* what each slice is now */
static uint64_t seed = 7;
static unsigned fail_read, fail_write;	/* one in so many; 0: none */
static unsigned warnings;
static char warning[1020];
static struct qimg_error e;
static struct qimg_image *img;		/* whose loop writes; NULL: each write is waited for */

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static void on_warning(void *ctx, const char *msg)
{
	(void)ctx;
	warnings++;
	snprintf(warning, sizeof(warning), "%s", msg);
}

static int inject(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		  uint64_t len)
{
	unsigned chance = op == FILE_OP_READ ? fail_read : op == FILE_OP_WRITE ? fail_write : 0;

	(void)ctx;
	(void)f;
	(void)off;
	(void)buf;
	(void)len;
	return chance && !rnd(chance) ? op == FILE_OP_WRITE ? ENOSPC : EIO : 0;
}

static struct second *open_second(const char *path, uint32_t slots)
{
	struct second_options o = { .path = path, .size = (uint64_t)slots * SLICE };
	struct second *s = NULL;

	if (second_open(&s, img, &o, SLICE, SLICES, &e) < 0) {
		diag("%s", e.msg);
		return NULL;
	}
	return s;
}

/* A read that has been started, and what the slice was then. */
static struct pending {
	struct second_place p;
	uint32_t n;
	uint8_t data[SLICE];
	bool on;
} pending[4];

static unsigned hits, misses;

/* false: something came out that the slice is not. */
static bool step(struct second *s, bool damage)
{
	uint32_t n = (uint32_t)rnd(SLICES);
	struct pending *p = &pending[rnd(4)];
	uint8_t got[SLICE];

	if (img && rnd(12) == 0)
		loop_step(image_loop(img, &e), rnd(3) == 0);
	switch (rnd(10)) {
	case 0:		/* changed in memory */
		want[n][rnd(SLICE)] = (uint8_t)rnd(256);
		second_kill(s, (uint64_t)n * SLICE);
		return true;
	case 1:
	case 2:
	case 3:		/* leaves memory */
		second_add(s, (uint64_t)n * SLICE, want[n]);
		return true;
	case 4:		/* somebody else's hands on the file */
		if (!damage || file_size(second_file(s)) < SLICE || rnd(60))
			return true;
		if (rnd(8)) {
			got[0] = (uint8_t)rnd(256);
			return !file_write(second_file(s), rnd(file_size(second_file(s))), got, 1, &e);
		}
		return !file_truncate(second_file(s), rnd(file_size(second_file(s))), &e);
	case 5:		/* a read is started here, and ends later */
		if (!p->on && second_find(s, (uint64_t)n * SLICE, &p->p)) {
			p->on = true;
			p->n = n;
			if (file_read(second_file(s), p->p.at, p->data, SLICE, &e) < 0)
				memset(p->data, 0x5a, SLICE);
		}
		return true;
	case 6:
		if (!p->on)
			return true;
		p->on = false;
		return !second_check(s, &p->p, (uint64_t)p->n * SLICE, p->data, 0) ||
		       !memcmp(p->data, want[p->n], SLICE);
	default:
		if (!second_read(s, (uint64_t)n * SLICE, got)) {
			misses++;
			return true;
		}
		hits++;
		return !memcmp(got, want[n], SLICE);
	}
}

static void random_steps(uint32_t slots)
{
	struct second *s = open_second("cache", slots);
	struct second_stats st;
	unsigned bad = 0;

	if (!ok(s, "%u slices%s: opens", slots, img ? ", written in the background" : ""))
		return;
	hits = misses = 0;
	memset(pending, 0, sizeof(pending));
	for (unsigned i = 0; i < 100000; i++)
		bad += !step(s, false);
	if (img)
		requests_drain(img);
	second_get_stats(s, &st);
	is_u64(bad, 0, "%u slices: 100000 steps, and never anything wrong", slots);
	ok(hits > (img ? 20 : 200) && misses > 100, "%u slices: %u reads were answered, %u were not", slots,
	   hits, misses);
	ok((st.entries || img) && st.entries <= slots && st.file_bytes == st.entries * SLICE,
	   "%u slices: %u in there at last", slots, (unsigned)st.entries);
	ok(!st.failures && !st.given_up && file_size(second_file(s)) <= (uint64_t)slots * SLICE,
	   "%u slices: nothing failed, and the file is no longer than that", slots);
	second_close(s);
}

static void in_background(const char *aio)
{
	struct second_stats st = { .hits = 0 };
	struct second *s;

	img = open_image("image", aio, 0, &e);
	if (!img || !image_loop(img, &e)) {
		skip("%s: %s", aio, e.msg);
		return;
	}
	random_steps(1);
	random_steps(7);
	random_steps(40);
	/* Nobody looks at what has ended. */
	s = open_second("cache", SLICES);
	for (unsigned n = 0; s && n < SLICES; n++)
		second_add(s, (uint64_t)n * SLICE, want[n]);
	requests_drain(img);
	if (s) {
		second_get_stats(s, &st);
		ok(st.dropped && st.stores && st.dropped + st.stores == SLICES,
		   "%s: %u were stored, %u dropped since too many were under way", aio, (unsigned)st.stores,
		   (unsigned)st.dropped);
		warnings = 0;
		fail_write = 1;
		for (unsigned n = 0; n < SLICES; n++)
			second_add(s, (uint64_t)n * SLICE, want[n]);
		for (unsigned n = 0; n < SLICES; n++)
			second_kill(s, (uint64_t)n * SLICE);
		requests_drain(img);
		fail_write = 0;
		second_get_stats(s, &st);
		ok(st.given_up && warnings == 1 && file_size(second_file(s)) == 0,
		   "%s: writes that fail in the background: given up, one warning", aio);
	}
	second_close(s);
	qimg_close(img, &e);
	img = NULL;
}

/* What is changed behind its back, cut off, or cannot be read. */
static void damaged(uint32_t slots, unsigned reads_fail)
{
	unsigned bad = 0, failures = 0, given_up = 0;
	struct second_stats st;

	hits = warnings = 0;
	for (unsigned round = 0; round < 300; round++) {
		struct second *s = open_second("cache", slots);

		memset(pending, 0, sizeof(pending));
		fail_read = reads_fail;
		for (unsigned i = 0; s && i < 2000; i++)
			bad += !step(s, !reads_fail);
		fail_read = 0;
		if (!s)
			break;
		second_get_stats(s, &st);
		failures += st.failures;
		given_up += st.given_up;
		bad += st.given_up && (st.entries || file_size(second_file(s)));
		second_close(s);
	}
	is_u64(bad, 0, "%u slices, %s: never anything wrong", slots, reads_fail ? "failing reads" : "damage");
	ok(hits > 1000 && failures >= 5, "%u slices: %u reads were answered, %u failed", slots, hits, failures);
	if (slots == 1)
		return;
	ok(given_up && warnings == given_up, "%u slices: %u times it was given up, with one warning each",
	   slots, given_up);
}

static void full(void)
{
	struct second *s = open_second("cache", 8);
	struct second_stats st;
	uint8_t got[SLICE];

	if (!ok(s, "opens"))
		return;
	warnings = 0;
	second_add(s, 0, want[0]);
	ok(second_read(s, 0, got), "a slice is there");
	fail_write = 1;
	second_add(s, SLICE, want[1]);
	fail_write = 0;
	second_get_stats(s, &st);
	ok(st.given_up && st.failures == 1, "one write that fails is the end of it");
	ok(warnings == 1 && strstr(warning, "'cache'") && strstr(warning, "No space left"),
	   "one warning says why: %s", warning);
	second_add(s, SLICE, want[1]);
	second_kill(s, 0);
	ok(!second_read(s, 0, got) && !second_read(s, SLICE, got) && warnings == 1,
	   "afterwards nothing is in there, without further words");
	is_u64(file_size(second_file(s)), 0, "its space has been given back");
	second_close(s);
}

/* An L2 table is freed and its cluster gets another one. */
static void reused(void)
{
	struct second *s = open_second("cache", 1);
	struct second_place before, now;
	uint8_t got[SLICE];

	if (!ok(s, "one slice: opens"))
		return;
	second_add(s, 4096, want[1]);
	ok(second_find(s, 4096, &before), "the old table is there");
	second_kill(s, 4096);
	ok(!second_find(s, 4096, &now), "and gone with its cluster");
	second_add(s, 4096, want[2]);
	ok(second_read(s, 4096, got) && !memcmp(got, want[2], SLICE), "then the new one is there");
	ok(!second_check(s, &before, 4096, want[1], 0), "a read of the old one that ends now is worth nothing");
	ok(second_find(s, 4096, &now), "and does the new one no harm");
	ok(second_check(s, &now, 4096, want[2], 0), "whose own read counts");
	second_add(s, 8192, want[2]);
	ok(!second_find(s, 4096, &now) && second_find(s, 8192, &now), "another slice takes its place");
	ok(!second_check(s, &now, 4096, want[2], 0), "the same bytes at another offset are not the same");
	second_close(s);
}

static void nameless(void)
{
	struct second *s;
	struct stat st;

	sh("mkdir folder && echo mine >folder/cache");
	s = open_second("folder/cache", 4);
	if (!ok(s && !fstat(file_fd(second_file(s)), &st), "a file is opened"))
		return;
	second_add(s, 0, want[0]);
	ok((st.st_mode & 07777) == 0600 && st.st_nlink == 0, "it has mode 0600 and no name");
	ok(sh("test $(ls -A folder) = cache && test $(cat folder/cache) = mine"),
	   "nothing else changed where it is");
	second_close(s);
	s = open_second("folder", 4);
	ok(s && sh("test $(ls -A folder) = cache"), "a folder can be named itself");
	second_close(s);
	ok(!open_second("absent/cache", 4) && e.code == ENOENT, "without the folder it fails: %s", e.msg);
	ok(!open_second("/dev/null", 4), "a character device is refused: %s", e.msg);
}

static void device(void)
{
	struct second_options o = { .size = 1 << 20 };
	struct second *s = NULL, *t = NULL;
	uint8_t got[SLICE];
	char dev[64];

	if (!scratch_loop("disk", 16 << 20, dev)) {
		skip("no block devices here");
		return;
	}
	o.path = dev;
	o.direct = true;
	ok(!second_open(&s, NULL, &o, SLICE, SLICES, &e), "a block device is used in place");
	if (!s) {
		diag("%s", e.msg);
		return;
	}
	second_add(s, 0, want[3]);
	ok(second_read(s, 0, got) && !memcmp(got, want[3], SLICE), "and keeps a slice");
	ok(second_open(&t, NULL, &o, SLICE, SLICES, &e) < 0, "but only for one: %s", e.msg);
	second_close(s);
	if (!sh("PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q %s && mkdir there && mount %s there", dev, dev)) {
		skip("cannot mount");
		return;
	}
	scratch_later("umount -l %s/there", scratch_path);
	ok(second_open(&t, NULL, &o, SLICE, SLICES, &e) < 0 && e.code == EBUSY, "a mounted one is refused: %s",
	   e.msg);
	ok(sh("test -d there/lost+found"), "and keeps what it has");
}

/* A kernel or a file system in which every file has a name; for the whole program. */
static bool all_have_names;

int open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (all_have_names && (flags & __O_TMPFILE)) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void named(void)
{
	struct second *s;
	struct stat st;

	all_have_names = true;
	s = open_second("folder/cache", 4);
	ok(s && !fstat(file_fd(second_file(s)), &st) && (st.st_mode & 07777) == 0600 && st.st_nlink == 0 &&
	   sh("test $(ls -A folder) = cache"), "where files must have names, it has lost it at once");
	all_have_names = false;
	second_close(s);
}

int main(void)
{
	struct file_hook hook = { inject, NULL };

	scratch_enter();
	for (size_t i = 0; i < sizeof(want); i++)
		want[i / SLICE][i % SLICE] = (uint8_t)rnd(256);
	is_u64(checksum(0, "123456789", 9), 0xcbf43926, "the checksum is CRC-32");
	is_u64(checksum(checksum(0, "1234", 4), "56789", 5), 0xcbf43926, "in pieces, too");
	qimg_set_warning_handler(on_warning, NULL);
	file_set_hook(&hook);
	random_steps(1);
	random_steps(7);
	random_steps(40);
	random_steps(SLICES + 5);
	create("image", NULL, 1 << 20, 65536, NULL);
	in_background("sync");
	in_background("threads");
	in_background("io_uring");
	damaged(1, 0);
	damaged(30, 0);
	damaged(30, 40);
	full();
	reused();
	file_set_hook(NULL);
	nameless();
	device();
	named();
	return done_testing();
}
