// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/io/file: random transfers against a model in memory, buffered and direct, on all the file systems
 * and sector sizes that can be had here; what is refused; holes; sticky sync errors; the hook.
 */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "io/sparse.h"
#include "scratch.h"
#include "tap.h"

#define MODEL (3 * 1024 * 1024)

static uint8_t model[MODEL], data[2 * MODEL], got[MODEL];
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
	       file_size(f) == size && !fstat(file_fd(f), &st) &&
	       (S_ISBLK(st.st_mode) || (uint64_t)st.st_size == size);
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

/* device: of MODEL bytes, and full of something. */
static void random_transfers(const char *path, unsigned flags, unsigned rounds, bool device)
{
	struct file *f;
	uint64_t size = device ? MODEL : 0, off, len, shift;
	unsigned i, bad = 0, bad_extents = 0, failed = 0;

	memset(model, 0, sizeof(model));
	if (!ok(!file_open(&f, path, FILE_WRITE | FILE_CREATE | flags, &e), "open %s: %s", path, e.msg))
		return;
	if (device)
		ok(file_is_device(f) && !file_read(f, 0, model, MODEL, &e), "%s is a device", path);
	for (i = 0; i < rounds; i++) {
		off = rnd(MODEL);
		off = rnd(2) ? off & ~UINT64_C(511) : off;
		len = rnd_len(MODEL - off);
		switch (rnd(8)) {
		default:
			shift = rnd(2) ? rnd(MODEL / 512) * 512 : rnd(MODEL);
			failed += !!file_write(f, off, data + shift, len, &e);
			memcpy(model + off, data + shift, len);
			break;
		case 4:
			failed += !!sparse_zero(f, off, len, rnd(2) ? SPARSE_UNMAP : 0, NULL, &e);
			memset(model + off, 0, len);
			break;
		case 5:
			if (device)
				continue;
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
	if (!ok(!file_open(&f, path, 0, &e), "open %s again", path))
		return;
	ok(same_as_model(f, size), "%s: and when it is opened buffered", path);
	file_close(f);
}

static void mounted(const char *fs, unsigned mib)
{
	char path[64];

	if (!scratch_mount(fs, fs, mib)) {
		skip("%s can not be mounted here", fs);
		return;
	}
	snprintf(path, sizeof(path), "%s/buffered", fs);
	random_transfers(path, 0, 200, false);
	snprintf(path, sizeof(path), "%s/direct", fs);
	random_transfers(path, FILE_DIRECT, 200, false);
	is_u64(warnings, !strcmp(fs, "tmpfs"), "direct I/O on %s: warnings", fs);
	warnings = 0;
}

static void devices(void)
{
	char dev[64];

	if (!scratch_loop("dev512", MODEL, dev)) {
		skip("no loop devices here");
		return;
	}
	random_transfers(dev, 0, 200, true);
	random_transfers(dev, FILE_DIRECT, 200, true);
	if (scratch_loop("dev4k", MODEL, dev) &&
	    sh("PATH=$PATH:/usr/sbin:/sbin losetup --sector-size 4096 %s", dev)) {
		random_transfers(dev, 0, 200, true);
		random_transfers(dev, FILE_DIRECT, 200, true);
	} else {
		skip("no loop devices with sectors of 4096 bytes here");
	}
}

static void refusals(void)
{
	struct file *f = NULL;
	char byte = 1;

	sh("mkfifo fifo; mkdir dir; touch file; chmod 644 file");
	ok(file_open(&f, "fifo", 0, &e) && e.code == EINVAL, "a pipe: %s", e.msg);
	ok(file_open(&f, "fifo", FILE_WRITE, &e) && e.code == EINVAL, "a pipe, for writing");
	ok(file_open(&f, "dir", 0, &e) && e.code == EISDIR, "a directory: %s", e.msg);
	ok(file_open(&f, "/dev/null", FILE_WRITE, &e) && e.code == EINVAL, "a device: %s", e.msg);
	ok(file_open(&f, "none", 0, &e) && e.code == ENOENT, "nothing: %s", e.msg);
	ok(file_open(&f, "none", FILE_WRITE, &e) && access("none", F_OK), "nothing is made of it");
	ok(file_open(&f, "file", FILE_WRITE | FILE_CREATE | FILE_EXCL, &e) && e.code == EEXIST,
	   "one that exists: %s", e.msg);
	ok(!f, "no file is given");

	ok(!file_open(&f, "file", 0, &e), "open for reading");
	ok(file_write(f, 0, &byte, 1, &e) && e.code == EBADF, "write: %s", e.msg);
	ok(file_truncate(f, 1, &e) && e.code == EBADF, "truncate: %s", e.msg);
	ok(sparse_zero(f, 0, 1, 0, NULL, &e) && e.code == EBADF, "zero: %s", e.msg);
	ok(!file_writable(f) && !file_is_device(f), "what it is");
	is_str(file_path(f), "file", "its name");
	ok(file_read(f, INT64_MAX, &byte, 1, &e) && e.code == EINVAL, "reading beyond 2^63: %s", e.msg);
	byte = 1;
	ok(!file_read(f, INT64_MAX - 5, &byte, 1, &e) && !byte, "reading far beyond the end: zeros");
	file_close(f);
	ok(!file_open(&f, "file", FILE_WRITE, &e), "open for writing");
	ok(file_write(f, INT64_MAX, &byte, 1, &e) && e.code == EFBIG, "writing beyond 2^63: %s", e.msg);
	ok(file_truncate(f, UINT64_MAX, &e) && e.code == EFBIG, "a length beyond 2^63: %s", e.msg);
	ok(!file_write(f, 0, &byte, 0, &e) && file_size(f) == 0, "writing nothing");
	file_close(f);
	file_close(NULL);
}

static void identity(void)
{
	struct file *f = NULL;
	struct file_id a, b;

	sh("echo x > id; ln id id2; ln -s id id3; echo x > other");
	ok(!file_open(&f, "id", FILE_WRITE, &e), "open");
	ok(!file_identify("id2", &a, &e) && file_id_same(a, file_identity(f)), "a hard link is the same");
	ok(!file_identify("id3", &a, &e) && file_id_same(a, file_identity(f)), "a symbolic link, too");
	ok(!file_identify("other", &b, &e) && !file_id_same(a, b), "another file is not");
	ok(file_identify("none", &b, &e) && e.code == ENOENT, "nothing is an error");
	is_u64(file_size(f), 2, "size");
	sh("echo more >> id");
	ok(!file_refresh(f, &e) && file_size(f) == 7, "the size changed by others");
	file_close(f);
}

/* ---- holes ---- */

static void holes(void)
{
	struct file *f;
	struct file_extent x;
	uint64_t bytes = 0;

	if (!ok(!file_open(&f, "holes", FILE_WRITE | FILE_CREATE, &e), "open"))
		return;
	memset(got, 1, 1 << 20);
	ok(!file_write(f, 1 << 20, got, 1 << 20, &e) && !file_truncate(f, 4 << 20, &e), "hole, data, hole");
	if (file_extent(f, 0, 8 << 20, &x, &e) || !x.hole) {
		skip("no holes on this file system");
		file_close(f);
		return;
	}
	is_u64(x.len, 1 << 20, "the first hole");
	ok(!file_extent(f, 1 << 20, 8 << 20, &x, &e) && !x.hole && x.len == 1 << 20, "the data");
	ok(!file_extent(f, (1 << 20) + 4096, 100, &x, &e) && !x.hole && x.len == 100, "a part of it");
	ok(!file_extent(f, 2 << 20, 8 << 20, &x, &e) && x.hole && x.len == 2 << 20, "the last hole");
	ok(!file_extent(f, 4 << 20, 55, &x, &e) && x.hole && x.len == 55, "beyond the end");
	ok(!file_write(f, 3 << 20, got, 4096, &e), "write into a hole that is remembered");
	ok(!file_extent(f, 3 << 20, 8 << 20, &x, &e) && !x.hole && x.len == 4096, "it is data");
	ok(!sparse_discard(f, 3 << 20, 4096, &e), "punch it again");
	ok(!file_extent(f, 3 << 20, 8 << 20, &x, &e) && x.hole, "it is a hole");
	ok(!file_allocated(f, &bytes, &e) && bytes >= 1 << 20 && bytes < 2 << 20, "what it takes");
	file_close(f);
}

/* ---- the hook ---- */

static struct {
	enum file_op op;
	uint64_t off, len;
	unsigned calls;
	int code;
	enum file_op fail;
	uint64_t size_then;
} seen;

static int watch(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		 uint64_t len)
{
	(void)ctx;
	seen.op = op;
	seen.off = off;
	seen.len = len;
	seen.calls++;
	seen.size_then = file_size(f);
	if ((op == FILE_OP_WRITE) != (buf != NULL))
		seen.calls += 1000;
	return seen.code && op == seen.fail ? seen.code : 0;
}

static bool saw(enum file_op op, uint64_t off, uint64_t len)
{
	bool right = seen.calls == 1 && seen.op == op && seen.off == off && seen.len == len;

	seen.calls = 0;
	return right;
}

static void hook(void)
{
	static const struct file_hook h = { watch, NULL };
	struct file *f, *g;
	uint64_t i;

	if (!ok(!file_open(&f, "hook", FILE_WRITE | FILE_CREATE, &e), "open"))
		return;
	file_set_hook(&h);
	ok(!file_write(f, 100, "abc", 3, &e) && saw(FILE_OP_WRITE, 100, 3), "the hook sees a write");
	is_u64(seen.size_then, 0, "before it happens");
	ok(!file_read(f, 1, got, 10, &e) && saw(FILE_OP_READ, 1, 10), "a read");
	ok(!sparse_zero(f, 50, 5000, 0, NULL, &e) && saw(FILE_OP_ZERO, 50, 5000), "zeroing, as one");
	ok(!sparse_discard(f, 0, 4096, &e) && saw(FILE_OP_PUNCH, 0, 4096), "a discard");
	ok(!file_truncate(f, 9999, &e) && saw(FILE_OP_TRUNCATE, 9999, 0), "a new length");
	ok(!file_sync(f, &e) && saw(FILE_OP_SYNC, 0, 0), "a sync");
	if (!sparse_allocate(f, 9999, 100, &e))
		ok(saw(FILE_OP_ALLOCATE, 9999, 100), "an allocation");
	seen.calls = 0;

	seen.code = EIO;
	for (i = 0; i < 3; i++) {
		static const enum file_op ops[] = { FILE_OP_WRITE, FILE_OP_ZERO, FILE_OP_TRUNCATE };
		int ret;

		seen.fail = ops[i];
		ret = ops[i] == FILE_OP_WRITE ? file_write(f, 0, "x", 1, &e) :
		      ops[i] == FILE_OP_ZERO ? sparse_zero(f, 0, 1, 0, NULL, &e) : file_truncate(f, 5, &e);
		ok(ret == -1 && e.code == EIO, "it can make one fail: %s", e.msg);
	}
	seen.fail = FILE_OP_READ;
	ok(file_read(f, 0, got, 1, &e) && e.code == EIO, "a read, too: %s", e.msg);

	seen.fail = FILE_OP_SYNC;
	ok(file_sync(f, &e) && e.code == EIO, "a sync that fails: %s", e.msg);
	seen.code = 0;
	ok(file_sync(f, &e) && e.code == EIO, "fails for ever: %s", e.msg);
	ok(file_write(f, 0, "x", 1, &e) && e.code == EIO, "and so do writes: %s", e.msg);
	ok(sparse_zero(f, 0, 1, 0, NULL, &e) && sparse_discard(f, 0, 1, &e) && file_truncate(f, 0, &e),
	   "and all other changes");
	ok(!file_read(f, 0, got, 1, &e), "reading goes on");
	file_close(f);

	seen.calls = 0;
	ok(!file_open(&g, "hook", FILE_WRITE | FILE_NO_SYNC, &e) && !file_sync(g, &e), "without syncs");
	is_u64(seen.calls, 0, "there are none");
	file_close(g);
	file_set_hook(NULL);
}

/* From here on O_DIRECT can not be had. */
static void without_direct(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fcntl, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETFL, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_DIRECT, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		skip("no seccomp filters here");
		return;
	}
	warnings = 0;
	random_transfers("undirect", FILE_DIRECT, 100, false);
	is_u64(warnings, 1, "direct I/O refused: one warning");
}

int main(void)
{
	uint64_t i;

	qimg_set_warning_handler(count_warning, NULL);
	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(1 + rnd(255));
	scratch_enter();
	random_transfers("buffered", 0, 400, false);
	random_transfers("direct", FILE_DIRECT, 400, false);
	mounted("ext4", 64);
	mounted("xfs", 300);
	mounted("btrfs", 120);
	mounted("tmpfs", 32);
	devices();
	is_u64(warnings, 0, "no warnings");
	refusals();
	identity();
	holes();
	hook();
	without_direct();
	return done_testing();
}
