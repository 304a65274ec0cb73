// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/io/lock: which modes exclude which, the message, and both directions against qemu-io and qemu-img.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"
#include "io/holders.h"
#include "io/lock.h"
#include "scratch.h"
#include "tap.h"

static struct qimg_error e;

static struct file *open_file(const char *path)
{
	struct file *f = NULL;

	ok(!file_open(&f, path, FILE_WRITE | FILE_CREATE, &e), "open '%s'", path);
	return f;
}

/* The bytes that a child, who shares nothing with us, finds locked: bit n is byte 100 + n or 200 + n. */
static unsigned locked_bytes(const char *path, off_t base)
{
	unsigned bits = 0, n;
	int fd = open(path, O_RDWR);

	for (n = 0; n < 4; n++) {
		struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = base + (off_t)n,
				   .l_len = 1 };

		if (!fcntl(fd, F_OFD_GETLK, &l) && l.l_type != F_UNLCK)
			bits |= 1u << n;
		if (l.l_type == F_WRLCK)
			bits |= 1u << 31;
	}
	close(fd);
	return bits;
}

static void bytes(void)
{
	static const struct {
		enum lock_mode mode;
		unsigned used, unshared;
		const char *name;
	} want[] = {
		{ LOCK_READ, 0x1, 0xa, "read" },
		{ LOCK_WRITE, 0xb, 0xa, "write" },
		{ LOCK_TARGET, 0x3, 0x0, "target" },
		{ LOCK_LOOK, 0x1, 0x0, "look" },
		{ LOCK_READ, 0x1, 0xa, "read again" },
		{ LOCK_NONE, 0x0, 0x0, "none" },
	};
	struct file *f = open_file("bytes");
	size_t i;

	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		is_i64(lock_set(f, want[i].mode, &e), 0, "lock for: %s", want[i].name);
		is_u64(locked_bytes("bytes", 100), want[i].used, "%s: bytes from 100 on", want[i].name);
		is_u64(locked_bytes("bytes", 200), want[i].unshared, "%s: bytes from 200 on",
		       want[i].name);
	}
	file_close(f);
}

static void pairs(void)
{
	static const char *const names[] = { "none", "read", "write", "target", "look" };
	/* [held][asked]: may be had at the same time */
	static const bool allowed[5][5] = {
		[LOCK_NONE] = { true, true, true, true, true },
		[LOCK_READ] = { true, true, false, false, true },
		[LOCK_WRITE] = { true, false, false, false, true },
		[LOCK_TARGET] = { true, false, false, true, true },
		[LOCK_LOOK] = { true, true, true, true, true },
	};
	struct file *a = open_file("pairs"), *b = open_file("pairs");
	unsigned i, k;

	for (i = 0; i < 5; i++) {
		for (k = 0; k < 5; k++) {
			ok(!lock_set(a, (enum lock_mode)i, &e), "held: %s", names[i]);
			ok(!lock_set(b, (enum lock_mode)k, &e) == allowed[i][k], "held %s, asked for %s: %s",
			   names[i], names[k], allowed[i][k] ? "had" : "refused");
			lock_set(b, LOCK_NONE, &e);
		}
		lock_set(a, LOCK_NONE, &e);
	}

	ok(!lock_set(a, LOCK_READ, &e) && !lock_set(b, LOCK_READ, &e), "two readers");
	is_i64(lock_set(b, LOCK_WRITE, &e), -1, "one wants to write");
	is_i64(e.code, EAGAIN, "is refused with EAGAIN");
	ok(strstr(e.msg, "\"write\" lock"), "%s", e.msg);
	is_u64(locked_bytes("pairs", 100), 0x1, "and has what it had");
	is_u64(locked_bytes("pairs", 200), 0xa, "and has what it had");
	file_close(a);
	is_u64(locked_bytes("pairs", 100), 0x1, "the other one ends: still a reader");
	is_i64(lock_set(b, LOCK_WRITE, &e), 0, "who can write now");
	file_close(b);
	is_u64(locked_bytes("pairs", 100) | locked_bytes("pairs", 200), 0, "closing gives all back");
}

static void message(void)
{
	struct file *f = open_file("msg file"), *g;
	char text[400];
	int ready[2];
	char c;
	pid_t pid;

	is_u64(holders_describe(file_identity(f), text, sizeof(text)), 0, "nobody else has it open");
	if (pipe(ready))
		return;
	pid = fork();
	if (!pid) {
		if (file_open(&g, "msg file", FILE_WRITE, &e) || lock_set(g, LOCK_WRITE, &e))
			_exit(1);
		file_close(f);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	ok(read(ready[0], &c, 1) == 1, "a child has locked it");
	is_i64(lock_set(f, LOCK_READ, &e), -1, "reading is refused");
	snprintf(text, sizeof(text), "(pid %ld)", (long)pid);
	ok(strstr(e.msg, text) && strstr(e.msg, "'msg file'") && strstr(e.msg, "-U") &&
	   strstr(e.msg, "Failed to get shared \"write\" lock"), "%s", e.msg);
	is_i64(lock_set(f, LOCK_WRITE, &e), -1, "writing is refused");
	ok(strstr(e.msg, "Failed to get \"write\" lock") && !strstr(e.msg, "-U"), "%s", e.msg);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	is_i64(lock_set(f, LOCK_READ, &e), 0, "it is free when the child is gone");
	close(ready[0]);
	file_close(f);
}

/* Starts qemu-io, which holds the file until it is killed. mode: "-r", or "-m" for nothing special. */
static pid_t start_qemu(const char *path, const char *format, const char *mode)
{
	struct file *f;
	pid_t pid = fork();
	unsigned i;

	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execlp("qemu-io", "qemu-io", mode, "-f", format, "-c", "sleep 20000", path, (char *)NULL);
		_exit(127);
	}
	for (i = 0; i < 500; i++) {
		if (file_open(&f, path, 0, &e))
			break;
		if (locked_bytes(path, 100)) {
			file_close(f);
			return pid;
		}
		file_close(f);
		usleep(10000);
	}
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void with_qemu(void)
{
	struct file *f;
	pid_t pid;

	if (!sh("qemu-io --version") || !sh("qemu-img create -f qcow2 q.qcow2 1M") ||
	    !sh("qemu-img create -f raw q.raw 1M")) {
		skip("no qemu-io and qemu-img here");
		return;
	}

	pid = start_qemu("q.qcow2", "qcow2", "-m");
	f = open_file("q.qcow2");
	is_i64(lock_set(f, LOCK_READ, &e), -1, "qemu-io writes qcow2: reading is refused");
	ok(strstr(e.msg, "qemu-io"), "%s", e.msg);
	is_i64(lock_set(f, LOCK_WRITE, &e), -1, "qemu-io writes qcow2: writing is refused");
	is_i64(lock_set(f, LOCK_TARGET, &e), -1, "qemu-io writes qcow2: it is no target");
	stop(pid);
	is_i64(lock_set(f, LOCK_READ, &e), 0, "qemu-io is gone: reading");
	lock_set(f, LOCK_NONE, &e);

	pid = start_qemu("q.qcow2", "qcow2", "-r");
	is_i64(lock_set(f, LOCK_READ, &e), 0, "qemu-io reads qcow2: reading works");
	is_i64(lock_set(f, LOCK_WRITE, &e), -1, "qemu-io reads qcow2: writing is refused");
	is_i64(lock_set(f, LOCK_TARGET, &e), -1, "qemu-io reads qcow2: it is no target");
	stop(pid);

	is_i64(lock_set(f, LOCK_WRITE, &e), 0, "we write qcow2");
	ok(!sh("qemu-img info q.qcow2"), "qemu-img info is refused");
	ok(sh("qemu-img info q.qcow2 2>&1 | grep -q 'shared \"write\" lock'"), "because of the lock");
	ok(sh("qemu-img info -U q.qcow2"), "with -U it works");
	ok(!sh("qemu-io -c 'write 0 512' q.qcow2"), "qemu-io can not write");
	is_i64(lock_set(f, LOCK_READ, &e), 0, "we read qcow2");
	ok(sh("qemu-img check q.qcow2"), "qemu-img check works");
	ok(!sh("qemu-img resize q.qcow2 2M"), "qemu-img resize is refused");
	lock_set(f, LOCK_NONE, &e);
	ok(sh("qemu-img resize q.qcow2 2M"), "without a lock it works");
	file_close(f);

	f = open_file("q.raw");
	is_i64(lock_set(f, LOCK_TARGET, &e), 0, "we write raw");
	ok(sh("qemu-img map -f raw q.raw"), "qemu-img map works");
	is_i64(lock_set(f, LOCK_LOOK, &e), 0, "we read raw");
	ok(sh("qemu-io -f raw -c 'write 0 512' q.raw"), "qemu-io can write");
	lock_set(f, LOCK_NONE, &e);
	pid = start_qemu("q.raw", "raw", "-m");
	is_i64(lock_set(f, LOCK_LOOK, &e), 0, "qemu-io writes raw: looking works");
	is_i64(lock_set(f, LOCK_TARGET, &e), 0, "qemu-io writes raw and shares it: a target for us");
	is_i64(lock_set(f, LOCK_READ, &e), -1, "qemu-io writes raw: relying on it is refused");
	stop(pid);
	file_close(f);
}

int main(void)
{
	scratch_enter();
	bytes();
	pairs();
	message();
	with_qemu();
	return done_testing();
}
