// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/io/file: random transfers against a model in memory, buffered and direct, on the file system of
 * the scratch directory and on tmpfs; what is refused; holes; sticky sync errors; the hook.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"
#include "io/sparse.h"
#include "tap.h"

#define MODEL (3 * 1024 * 1024)

static uint8_t model[MODEL], data[MODEL + 8], got[MODEL];
static struct qimg_error e;
static unsigned warnings;

static void count_warning(void *ctx, const char *msg)
{
	(void)ctx;
	diag("warning: %s", msg);
	warnings++;
}

static uint64_t seed = 1;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* Lengths of all sizes, offsets on and off the borders of blocks. */
static uint64_t rnd_len(uint64_t max)
{
	uint64_t n = UINT64_C(1) << rnd(21);

	n = rnd(3) ? n : n + rnd(n + 1);
	return n > max ? max : n;
}

static bool same_as_model(struct file *f, uint64_t size)
{
	struct stat st;

	return !file_read(f, 0, got, MODEL, &e) && !memcmp(got, model, MODEL) &&
	       file_size(f) == size && !fstat(file_fd(f), &st) && (uint64_t)st.st_size == size;
}

/* Whatever file_extent calls a hole reads as zeros. */
static bool extents_hold(struct file *f)
{
	uint64_t off = 0, i;
	struct file_extent x;

	for (; off < MODEL; off += x.len) {
		if (file_extent(f, off, 1 + rnd(MODEL - off), &x, &e) || !x.len)
			return false;
		if (off + x.len > MODEL)
			return false;
		for (i = 0; x.hole && i < x.len; i++) {
			if (model[off + i])
				return false;
		}
	}
	return true;
}

static void random_transfers(const char *path, unsigned flags, unsigned rounds)
{
	struct file *f;
	uint64_t size = 0, off, len, shift;
	unsigned i, bad = 0, bad_extents = 0, failed = 0;

	unlink(path);
	memset(model, 0, sizeof(model));
	if (!ok(!file_open(&f, path, FILE_WRITE | FILE_CREATE | flags, &e), "open %s: %s", path, e.msg))
		return;
	for (i = 0; i < rounds; i++) {
		off = rnd(MODEL);
		off = rnd(2) ? off & ~UINT64_C(511) : off;
		len = rnd_len(MODEL - off);
		switch (rnd(8)) {
		default:
			shift = rnd(2) * 3;	/* off the alignment in memory, too */
			memset(data + shift, 1 + (int)rnd(255), len);
			failed += !!file_write(f, off, data + shift, len, &e);
			memcpy(model + off, data + shift, len);
			break;
		case 4:
			failed += !!sparse_zero(f, off, len, rnd(2) ? SPARSE_UNMAP : 0, NULL, &e);
			memset(model + off, 0, len);
			break;
		case 5:
			failed += !!file_truncate(f, off, &e);
			memset(model + off, 0, MODEL - off);
			size = off;
			continue;
		case 6:
			bad_extents += !extents_hold(f);
			continue;
		case 7:
			failed += !!file_read(f, off, got, len, &e);
			bad += !!memcmp(got, model + off, len);
			continue;
		}
		if (off + len > size)
			size = off + len;
		if (i % 16 == 0)
			bad += !same_as_model(f, size);
	}
	is_u64(failed, 0, "%s: all calls worked (%s)", path, e.msg);
	is_u64(bad, 0, "%s: reads and length always agreed with the model", path);
	is_u64(bad_extents, 0, "%s: holes were never data", path);
	ok(same_as_model(f, size), "%s: the file is as the model at the end", path);
	file_close(f);
	unlink(path);
}

int main(void)
{
	char shm[64];

	qimg_set_warning_handler(count_warning, NULL);
	random_transfers("buffered.raw", 0, 600);
	random_transfers("direct.raw", FILE_DIRECT, 600);
	snprintf(shm, sizeof(shm), "/dev/shm/qimg-unit-%d", (int)getpid());
	random_transfers(shm, FILE_DIRECT, 300);
	return done_testing();
}
