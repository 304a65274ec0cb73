// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/io/ioq where things fail: full disks, limits, devices that refuse direct I/O, signals, and systems
 * that have no io_uring or no threads to give.
 */
#include "io/ioq.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file_priv.h"
#include "io/sparse.h"
#include "scratch.h"
#include "tap.h"

#define BLOCK 4096
#define MANY  48

static const char *const engines[] = { "sync", "threads", "native", "io_uring" };
#define ENGINES 4

static struct qimg_error e;
static unsigned warnings;
static _Alignas(BLOCK) uint8_t out[MANY][BLOCK], in[MANY][BLOCK], large[4 << 20];

static void count_warning(void *ctx, const char *msg)
{
	(void)ctx;
	diag("warning: %s", msg);
	warnings++;
}

static bool size_is_known(struct file *f)
{
	struct stat st;

	return !fstat(file_fd(f), &st) && (uint64_t)st.st_size == file_size(f);
}

/* Writes many blocks at once and reads them back: how many were right. */
static unsigned there_and_back(struct ioq *q, struct file *f, unsigned turn)
{
	struct ioq_req r[MANY], *back;
	unsigned i, good = 0;

	for (i = 0; i < MANY; i++) {
		memset(out[i], (int)(i + turn + 1), BLOCK);
		r[i] = (struct ioq_req){
			.op = IOQ_WRITE, .file = f, .off = i * BLOCK, .buf = out[i], .len = BLOCK
		};
		ioq_submit(q, &r[i]);
	}
	while ((back = ioq_reap(q)))
		;
	memset(in, 0, sizeof(in));
	for (i = 0; i < MANY; i++) {
		r[i].op = IOQ_READ;
		r[i].buf = in[i];
		ioq_submit(q, &r[i]);
	}
	while ((back = ioq_reap(q))) {
		i = (unsigned)(back - r);
		good += !back->code && !memcmp(in[i], out[i], BLOCK);
	}
	return good;
}

static void full(const char *engine)
{
	struct ioq_req r = { .op = IOQ_WRITE, .buf = large, .len = sizeof(large) };
	struct ioq *q = NULL;

	if (ioq_new(&q, engine, 8, &e) ||
	    file_open(&r.file, "small/file", FILE_WRITE | FILE_CREATE, &e)) {
		skip("%s: %s", engine, e.msg);
		return;
	}
	ok(ioq_run(q, &r, &e) && e.code == ENOSPC, "%s: %s", engine, e.msg);
	ok(size_is_known(r.file) && file_size(r.file) > 0, "as much as fits is there, and counted");
	r.op = IOQ_DISCARD;
	ok(!ioq_run(q, &r, &e), "discards still work");
	ioq_free(q);
	file_close(r.file);
	unlink("small/file");
}

/* The kernel writes up to the limit, and refuses what is behind it. */
static void limited(const char *engine, unsigned flags)
{
	const struct rlimit low = { 20480, RLIM_INFINITY }, none = { RLIM_INFINITY, RLIM_INFINITY };
	struct ioq_req r = { .op = IOQ_WRITE, .buf = large, .off = 4096, .len = 65536 };
	struct ioq *q = NULL;

	if (ioq_new(&q, engine, 8, &e) ||
	    file_open(&r.file, "limited", FILE_WRITE | FILE_CREATE | flags, &e)) {
		skip("%s: %s", engine, e.msg);
		return;
	}
	setrlimit(RLIMIT_FSIZE, &low);
	ok(ioq_run(q, &r, &e) && e.code == EFBIG, "%s: %s", engine, e.msg);
	setrlimit(RLIMIT_FSIZE, &none);
	ok(size_is_known(r.file) && file_size(r.file) == 20480,
	   "the first part is written, and counted");
	ok(strstr(e.msg, "0x5000") && strstr(e.msg, "49152"), "the message says where it ends");
	ok(!ioq_run(q, &r, &e) && file_size(r.file) == 4096 + 65536,
	   "without the limit all is written");
	r.op = IOQ_READ;
	r.off = 65536;
	memset(large, 1, 65536);
	ok(!ioq_run(q, &r, &e) && large[4095] == 7 && large[4096] == 0 && large[65535] == 0 &&
		   large[65536] == 7,
	   "a read beyond the end gives zeros and stays in its bounds");
	memset(large, 7, 65536);
	ioq_free(q);
	file_close(r.file);
	unlink("limited");
}

/* The device wants more alignment than it was thought to. */
static void undirect(const char *engine, const char *dev)
{
	struct ioq *q = NULL;
	struct file *f;
	struct ioq_req r = { .op = IOQ_WRITE, .off = 512, .buf = large, .len = 512 };

	if (ioq_new(&q, engine, 16, &e) || file_open(&f, dev, FILE_WRITE | FILE_DIRECT, &e)) {
		skip("%s: %s", engine, e.msg);
		return;
	}
	warnings = 0;
	is_u64(there_and_back(q, f, 1), MANY, "%s: direct", engine);
	f->direct_align = 512;
	r.file = f;
	ok(!ioq_run(q, &r, &e), "%s: what is refused goes through the page cache", engine);
	ok(warnings == 1 && !f->direct_align, "with one warning, for good");
	r.op = IOQ_READ;
	r.off = 0;
	r.buf = in;
	r.len = 2048;
	ok(!ioq_run(q, &r, &e) && !memcmp(in, out[0], 512) && !memcmp(in[0] + 512, large, 512) &&
		   !memcmp(in[0] + 1024, out[0], 1024),
	   "it is written where it should be");
	is_u64(there_and_back(q, f, 2), MANY, "%s: and so goes the rest", engine);
	ioq_free(q);
	file_close(f);
}

/* The same while what is aligned enough is in flight. */
static void undirect_in_flight(const char *engine, const char *dev)
{
	struct ioq_req r[MANY], *back;
	unsigned i, turn, failed = 0, bad = 0;
	struct ioq *q = NULL;
	struct file *f;

	for (turn = 0; turn < 10; turn++) {
		if (ioq_new(&q, engine, 16, &e) ||
		    file_open(&f, dev, FILE_WRITE | FILE_DIRECT, &e)) {
			ioq_free(q);
			skip("%s: %s", engine, e.msg);
			return;
		}
		f->direct_align = 512;
		warnings = 0;
		for (i = 0; i < MANY; i++) {
			bool small = i % 16 == turn;

			memset(out[i], (int)(i + turn + 1), BLOCK);
			r[i] = (struct ioq_req){ .op = IOQ_WRITE, .file = f, .buf = out[i],
						 .off = i * BLOCK + (small ? 512 : 0),
						 .len = small ? 1024 : BLOCK };
			ioq_submit(q, &r[i]);
		}
		while ((back = ioq_reap(q)))
			failed += !!back->code;
		failed += !!file_sync(f, &e) || warnings != 1 || f->direct_align;
		for (i = 0; i < MANY; i++) {
			bad += file_read(f, r[i].off, in[i], r[i].len, &e) ||
			       memcmp(in[i], out[i], r[i].len);
		}
		ioq_free(q);
		file_close(f);
	}
	ok(!failed && !bad, "%s: with others in flight: failed %u, bad %u", engine, failed, bad);
}

static void tick(int number)
{
	(void)number;
}

static void interrupted(const char *engine, unsigned flags)
{
	struct itimerval fast = { { 0, 300 }, { 0, 300 } }, off = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { .sa_handler = tick };
	unsigned i, good = 0;
	struct ioq *q = NULL;
	struct file *f;

	if (ioq_new(&q, engine, 16, &e) ||
	    file_open(&f, "ticks", FILE_WRITE | FILE_CREATE | flags, &e)) {
		skip("%s: %s", engine, e.msg);
		return;
	}
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &fast, NULL);
	for (i = 0; i < 20; i++)
		good += there_and_back(q, f, i);
	setitimer(ITIMER_REAL, &off, NULL);
	is_u64(good, 20 * MANY, "%s, flags %u: signals do no harm", engine, flags);
	ioq_free(q);
	file_close(f);
}

/* A file that is written in large parts and synced at the end. */
static void eager(const char *engine)
{
	struct ioq_req r = { .op = IOQ_WRITE, .buf = large, .len = sizeof(large) };
	struct ioq *q = NULL;
	unsigned i, bad = 0;

	if (ioq_new(&q, engine, 8, &e) ||
	    file_open(&r.file, "eager", FILE_WRITE | FILE_CREATE | FILE_EAGER, &e)) {
		skip("%s: %s", engine, e.msg);
		return;
	}
	for (i = 0; i < 8; i++, r.off += r.len) {
		bad += r.file->unsynced != i * r.len;
		bad += !!ioq_run(q, &r, &e);
	}
	ok(!bad && r.file->unsynced == 0, "%s: after 32 MiB the kernel was told to start", engine);
	is_u64(there_and_back(q, r.file, 3), MANY, "which changes nothing else");
	ioq_free(q);
	file_close(r.file);
	unlink("eager");
}

static bool forbid(unsigned number, int code)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)code),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void all_operations(struct ioq *q, unsigned flags)
{
	struct ioq_req r = { .op = IOQ_ZERO, .off = 100, .len = 5000 };
	unsigned bad = 0;

	file_open(&r.file, "modest", FILE_WRITE | FILE_CREATE | flags, &e);
	is_u64(there_and_back(q, r.file, 5), MANY, "%s writes and reads", ioq_engine_name(q));
	bad += !!ioq_run(q, &r, &e);
	r.op = IOQ_DISCARD;
	r.off = 8192;
	bad += !!ioq_run(q, &r, &e);
	r.op = IOQ_SYNC;
	bad += !!ioq_run(q, &r, &e);
	r.op = IOQ_READ;
	r.buf = in;
	r.off = 1;
	bad += !!ioq_run(q, &r, &e);
	ok(!bad && in[0][98] && !in[0][99] && !in[1][903], "%s zeroes, discards, syncs",
	   ioq_engine_name(q));
	file_close(r.file);
}

/* In a process of its own, which can't take that back. */
static void on_a_poor_system(void)
{
	struct ioq *q = NULL;
	unsigned i;

	if (!forbid(__NR_io_uring_setup, EPERM)) {
		skip("no seccomp filters here");
		return;
	}
	warnings = 0;
	ok(ioq_new(&q, "io_uring", 8, &e), "no io_uring: %s", e.msg);
	ok(!ioq_new(&q, NULL, 8, &e), "there is another one");
	is_str(ioq_engine_name(q), "threads", "which is 'threads'");
	all_operations(q, 0);
	ioq_free(q);
	if (!forbid(__NR_clone3, ENOSYS) || !forbid(__NR_clone, EAGAIN)) {
		skip("no more filters");
		return;
	}
	ok(ioq_new(&q, "threads", 8, &e), "no threads: %s", e.msg);
	ok(!ioq_new(&q, NULL, 8, &e), "there is another one");
	is_str(ioq_engine_name(q), "sync", "which is 'sync'");
	ioq_free(q);
	is_u64(warnings, 0, "nobody is told");
	for (i = 0; i < 2; i++) {
		if (ioq_new(&q, "native", 8, &e)) {
			skip("native: %s", e.msg);
			continue;
		}
		all_operations(q, i ? FILE_DIRECT : 0);
		ioq_free(q);
	}
}

int main(void)
{
	bool small;
	char dev[64];
	unsigned i;
	pid_t pid;
	int status;

	qimg_set_warning_handler(count_warning, NULL);
	signal(SIGXFSZ, SIG_IGN);
	scratch_enter();
	memset(large, 7, sizeof(large));
	small = scratch_mount("tmpfs", "small", 2);
	for (i = 0; i < ENGINES; i++) {
		if (small)
			full(engines[i]);
		limited(engines[i], 0);
		limited(engines[i], FILE_DIRECT);
		interrupted(engines[i], 0);
		interrupted(engines[i], FILE_DIRECT);
		if (i)
			eager(engines[i]);
	}
	if (!small)
		skip("no tmpfs here");
	if (scratch_loop("dev4k", 1 << 20, dev) &&
	    sh("PATH=$PATH:/usr/sbin:/sbin losetup --sector-size 4096 %s", dev)) {
		for (i = 0; i < ENGINES; i++) {
			undirect(engines[i], dev);
			undirect_in_flight(engines[i], dev);
		}
	} else {
		skip("no loop devices with sectors of 4096 bytes here");
	}
	fflush(stdout);
	pid = fork();
	if (!pid) {
		/* Its checks count as one. */
		dup2(STDERR_FILENO, STDOUT_FILENO);
		tap_failed = 0;
		on_a_poor_system();
		fflush(stdout);
		_exit(tap_failed ? 1 : 0);
	}
	ok(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "a poor system");
	return done_testing();
}
