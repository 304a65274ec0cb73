// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/io/sparse: which rung of the ladder each file system and device gives, that each means zeros, and
 * what happens where there is none. And the request queue, which is the other user of these calls.
 */
#include "io/sparse.h"

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
#include "base/zero.h"
#include "io/file.h"
#include "io/ioq.h"
#include "scratch.h"
#include "tap.h"

#define SIZE (1 << 20)

static uint8_t buf[2 * SIZE];
static struct qimg_error e;

static const char *const rungs[] = { "nothing", "punch", "zero range", "write zeroes", "discard",
				     "truncate", "write" };

/* Fills the file, zeroes a part, and looks whether that and nothing else is zero. */
static enum sparse_how zero_part(struct file *f, uint64_t off, uint64_t len, unsigned flags,
				 const char *name)
{
	enum sparse_how how = SPARSE_NOTHING;
	bool right;

	memset(buf, 0x55, SIZE);
	ok(!file_write(f, 0, buf, SIZE, &e), "%s: fill", name);
	ok(!sparse_zero(f, off, len, flags, &how, &e), "%s: zero %d from %d on: by %s", name, (int)len,
	   (int)off, rungs[how]);
	memset(buf, 0xff, SIZE);
	right = !file_read(f, 0, buf, SIZE, &e) && zero_is(buf + off, len) &&
		(!off || (buf[0] == 0x55 && buf[off - 1] == 0x55)) &&
		(off + len == SIZE || (buf[off + len] == 0x55 && buf[SIZE - 1] == 0x55));
	ok(right, "%s: it is zero, and nothing else", name);
	return how;
}

static uint64_t allocated(struct file *f)
{
	uint64_t bytes = 0;

	file_sync(f, &e);
	file_allocated(f, &bytes, &e);
	return bytes;
}

static void on_file(const char *fs, const char *path, enum sparse_how unmap, enum sparse_how keep)
{
	struct file *f;
	enum sparse_how how;

	if (!ok(!file_open(&f, path, FILE_WRITE | FILE_CREATE, &e), "%s: open", fs))
		return;
	is_u64(zero_part(f, 0, SIZE, SPARSE_UNMAP, fs), unmap, "%s: may unmap, all", fs);
	is_u64(zero_part(f, 777, 300001, SPARSE_UNMAP, fs), unmap, "%s: may unmap, unaligned", fs);
	is_u64(zero_part(f, 5, 7, SPARSE_UNMAP, fs), unmap, "%s: may unmap, tiny", fs);
	is_u64(zero_part(f, 65536, 65536, 0, fs), keep, "%s: keep, aligned", fs);
	is_u64(zero_part(f, 777, 300001, 0, fs), keep, "%s: keep, unaligned", fs);
	is_u64(zero_part(f, 0, SIZE, 0, fs), keep, "%s: keep, all", fs);
	ok(allocated(f) >= SIZE, "%s: keeping keeps the space", fs);
	is_u64(zero_part(f, 0, SIZE, SPARSE_UNMAP | SPARSE_NO_FALLBACK, fs), unmap, "%s: no fallback", fs);
	ok(allocated(f) < SIZE / 2, "%s: unmapping gives it back", fs);

	ok(!sparse_zero(f, SIZE - 10, 100, SPARSE_UNMAP, &how, &e) && how == SPARSE_TRUNCATE,
	   "%s: across the end", fs);
	is_u64(file_size(f), SIZE + 90, "%s: makes it longer", fs);
	ok(!sparse_zero(f, SIZE + 5000, 100, 0, &how, &e) && how == SPARSE_TRUNCATE, "%s: far behind it", fs);
	is_u64(file_size(f), SIZE + 5100, "%s: makes it longer still", fs);
	ok(!sparse_zero(f, SIZE + 10000, 0, 0, &how, &e) && how == SPARSE_NOTHING &&
	   file_size(f) == SIZE + 5100, "%s: nothing at all", fs);
	memset(buf, 1, sizeof(buf));
	ok(!file_read(f, SIZE - 10, buf, 6000, &e) && zero_is(buf, 6000), "%s: what is new is zero", fs);

	memset(buf, 0x55, SIZE);
	ok(!file_write(f, 0, buf, SIZE, &e) && !sparse_discard(f, 0, SIZE, &e), "%s: discard", fs);
	ok(allocated(f) < SIZE / 2, "%s: gives space back", fs);
	ok(!sparse_discard(f, 10 * SIZE, SIZE, &e) && file_size(f) == SIZE + 5100, "%s: never grows", fs);
	ok(!sparse_allocate(f, 0, 2 * SIZE, &e), "%s: allocate: %s", fs, e.msg);
	is_u64(file_size(f), 2 * SIZE, "%s: makes it longer", fs);
	ok(allocated(f) >= 2 * SIZE, "%s: takes the space", fs);
	ok(!file_read(f, 0, buf, 2 * SIZE, &e) && zero_is(buf + SIZE, SIZE), "%s: what is new is zero", fs);
	file_close(f);
	unlink(path);
}

static void mounted(const char *fs, unsigned mib, enum sparse_how keep)
{
	char path[64];

	if (!scratch_mount(fs, fs, mib)) {
		skip("%s can not be mounted here", fs);
		return;
	}
	snprintf(path, sizeof(path), "%s/file", fs);
	on_file(fs, path, SPARSE_PUNCH, keep);
}

/* Somebody else makes the file longer: zeroing beyond the end we know must not cut that off. */
static void grown_by_others(void)
{
	struct file *f;

	sh("rm -f grown; touch grown");
	ok(!file_open(&f, "grown", FILE_WRITE, &e), "open");
	sh("head -c 1000 /dev/zero | tr '\\0' x > grown");
	ok(!sparse_zero(f, 100, 100, 0, NULL, &e), "zero where we see nothing");
	is_u64(file_size(f), 1000, "what others wrote behind it is there");
	ok(!file_read(f, 0, buf, 1000, &e) && buf[99] == 'x' && zero_is(buf + 100, 100) && buf[200] == 'x',
	   "and around it");
	file_close(f);
}

static void on_device(const char *dev, const char *name)
{
	struct file *f;

	if (!ok(!file_open(&f, dev, FILE_WRITE, &e), "%s: open", name))
		return;
	is_u64(zero_part(f, 0, SIZE, SPARSE_UNMAP, name), SPARSE_PUNCH, "%s: may unmap", name);
	is_u64(zero_part(f, 0, SIZE, 0, name), SPARSE_WRITE_ZEROES, "%s: keep", name);
	is_u64(zero_part(f, 100, 20000, SPARSE_UNMAP, name), SPARSE_PUNCH, "%s: unaligned ends", name);
	is_u64(zero_part(f, 4095, 8193, 0, name), SPARSE_WRITE_ZEROES, "%s: unaligned start", name);
	is_u64(zero_part(f, 10, 20, 0, name), SPARSE_WRITE, "%s: within a sector", name);
	is_u64(zero_part(f, 500, 100, SPARSE_UNMAP, name), SPARSE_WRITE, "%s: across a border", name);
	ok(sparse_zero(f, 0, SIZE, SPARSE_NO_FALLBACK, NULL, &e) && e.code == ENOTSUP,
	   "%s: keep, no fallback: %s", name, e.msg);
	ok(sparse_zero(f, SIZE - 5, 10, 0, NULL, &e) && e.code == ENOSPC, "%s: beyond the end: %s", name,
	   e.msg);
	ok(!sparse_discard(f, 100, SIZE, &e), "%s: discard across the end", name);
	ok(!sparse_allocate(f, 0, SIZE, &e), "%s: allocate what is there", name);
	ok(sparse_allocate(f, SIZE, 1, &e) && e.code == ENOSPC, "%s: allocate more: %s", name, e.msg);
	ok(file_truncate(f, 5, &e) && e.code == ENOTSUP, "%s: truncate: %s", name, e.msg);
	ok(!file_truncate(f, SIZE, &e), "%s: truncate to the size it has", name);
	file_close(f);
}

static void devices(void)
{
	char dev[64];

	if (!scratch_loop("dev512", SIZE, dev)) {
		skip("no loop devices here");
		return;
	}
	on_device(dev, "sectors of 512");
	if (scratch_loop("dev4k", SIZE, dev) &&
	    sh("PATH=$PATH:/usr/sbin:/sbin losetup --sector-size 4096 %s", dev))
		on_device(dev, "sectors of 4096");
	else
		skip("no loop devices with sectors of 4096 bytes here");
}

static void no_space(void)
{
	struct file *f;

	if (!scratch_mount("tmpfs", "small", 1)) {
		skip("tmpfs can not be mounted here");
		return;
	}
	ok(!file_open(&f, "small/a", FILE_WRITE | FILE_CREATE, &e), "open on a full file system");
	ok(sparse_allocate(f, 0, 100 << 20, &e) && e.code == ENOSPC, "allocate too much: %s", e.msg);
	{
		struct stat st;

		fstat(file_fd(f), &st);
		is_u64(file_size(f), (uint64_t)st.st_size, "the length is known afterwards");
	}
	file_close(f);
}

static void queue(void)
{
	struct ioq_req r[6];
	struct qimg_error errors[6];
	struct ioq *q = NULL;
	struct file *f, *g;
	unsigned i, right = 0;

	ok(ioq_new(&q, "none", 1, &e) && e.code == EINVAL, "no such engine: %s", e.msg);
	ok(ioq_new(&q, "sync", 0, &e) && e.code == EINVAL, "no depth: %s", e.msg);
	ok(!ioq_new(&q, "sync", 2, &e), "a queue");
	ok(!ioq_reap(q), "is empty");
	ok(!file_open(&f, "queue", FILE_WRITE | FILE_CREATE, &e) && !file_open(&g, "queue", 0, &e), "open");
	memset(r, 0, sizeof(r));
	memset(buf, 7, 100);
	for (i = 0; i < 6; i++) {
		r[i].file = f;
		r[i].error = &errors[i];
		r[i].len = 100;
		r[i].off = 100 * i;
		r[i].buf = buf;
		r[i].op = IOQ_WRITE;
	}
	r[1].op = IOQ_ZERO;
	r[2].op = IOQ_SYNC;
	r[3].file = g;
	r[4].op = IOQ_DISCARD;
	r[5].op = IOQ_READ;
	r[5].buf = buf + 1000;
	r[5].off = 0;
	for (i = 0; i < 6; i++)
		ioq_submit(q, &r[i]);
	for (i = 0; i < 6; i++)
		right += ioq_reap(q) == &r[i] && r[i].code == (i == 3 ? EBADF : 0);
	is_u64(right, 6, "six requests, one of which fails, through two places");
	ok(strstr(errors[3].msg, "reading only"), "with its message: %s", errors[3].msg);
	is_mem(buf + 1000, buf, 100, "the last one sees what the first wrote");
	ok(!ioq_reap(q), "it is empty again");
	is_u64(file_size(f), 200, "all was done");
	is_i64(ioq_run(q, &r[0], &e), 0, "run one");
	is_i64(ioq_run(q, &r[3], &e), -1, "run one that fails");
	is_i64(e.code, EBADF, "which says why");
	ioq_free(q);
	ioq_free(NULL);
	file_close(f);
	file_close(g);
}

/* From here on the kernel knows no fallocate. */
static void without_fallocate(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fallocate, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	struct file *f;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		skip("no seccomp filters here");
		return;
	}
	ok(!file_open(&f, "without", FILE_WRITE | FILE_CREATE, &e), "open");
	is_u64(zero_part(f, 777, 300001, SPARSE_UNMAP, "no fallocate"), SPARSE_WRITE, "zeros are written");
	is_u64(zero_part(f, 0, SIZE, 0, "no fallocate"), SPARSE_WRITE, "zeros are written");
	ok(sparse_zero(f, 0, 10, SPARSE_NO_FALLBACK, NULL, &e) && e.code == ENOTSUP, "if they may be: %s",
	   e.msg);
	ok(!sparse_discard(f, 0, SIZE, &e), "a discard does nothing");
	ok(sparse_allocate(f, 0, 2 * SIZE, &e) && e.code == ENOTSUP, "no space is reserved: %s", e.msg);
	is_u64(file_size(f), SIZE, "the length is as it was");
	file_close(f);
}

int main(void)
{
	scratch_enter();
	mounted("ext4", 64, SPARSE_ZERO_RANGE);
	mounted("xfs", 300, SPARSE_ZERO_RANGE);
	mounted("btrfs", 120, SPARSE_ZERO_RANGE);
	mounted("tmpfs", 32, SPARSE_PUNCH);
	grown_by_others();
	devices();
	no_space();
	queue();
	without_fallocate();
	return done_testing();
}
