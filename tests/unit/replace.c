// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/io/replace: the target has its name only when it is complete, keeps its protection, and what can
 * not be replaced is refused with nothing changed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"
#include "io/lock.h"
#include "io/replace.h"
#include "scratch.h"
#include "tap.h"

static struct qimg_error e;
static char warning[1020];

static void keep_warning(void *ctx, const char *msg)
{
	(void)ctx;
	snprintf(warning, sizeof(warning), "%s", msg);
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static const char *get(const char *path)
{
	static char text[256];
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	return f ? text : "(missing)";
}

static unsigned entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_mode & 07777;
}

/* Writes a text and commits; 0 or -1. */
static int write_all(const char *path, unsigned flags, const char *text)
{
	struct replace *r;

	if (replace_open(&r, path, flags, &e))
		return -1;
	if (file_write(replace_file(r), 0, text, strlen(text), &e)) {
		replace_abort(r);
		return -1;
	}
	return replace_commit(r, &e);
}

static void new_target(void)
{
	struct replace *r;
	struct file *f;

	mkdir("n", 0755);
	umask(027);
	is_i64(replace_check("n/a", 0, &e), 0, "a new target is fine");
	is_u64(entries("n"), 0, "checking makes nothing");
	if (!ok(!replace_open(&r, "n/a", 0, &e), "open a new target"))
		return;
	ok(!replace_in_place(r), "it is not written in place");
	is_u64(file_size(replace_file(r)), 0, "it is empty");
	ok(!file_write(replace_file(r), 0, "new", 3, &e), "write to it");
	ok(access("n/a", F_OK), "it has no name yet");
	f = replace_take(r);
	file_close(f);
	ok(!replace_commit(r, &e), "commit after the caller closed the file");
	is_str(get("n/a"), "new", "the content is there");
	is_u64(mode_of("n/a"), 0640, "the mode follows the umask");
	is_u64(entries("n"), 1, "and nothing else is in the folder");
	umask(022);

	ok(!replace_open(&r, "n/b", 0, &e), "open another");
	ok(!file_write(replace_file(r), 0, "new", 3, &e), "write to it");
	replace_abort(r);
	is_u64(entries("n"), 1, "aborted, it leaves nothing");
	replace_abort(NULL);

	ok(!replace_open(&r, "n/b", 0, &e), "open it again");
	ok(!file_write(replace_file(r), 0, "mine", 4, &e), "write to it");
	put("n/b", "theirs");
	ok(!replace_commit(r, &e), "commit over what somebody made meanwhile");
	is_str(get("n/b"), "mine", "ours is there");
	ok(!write_all("n/c", REPLACE_NO_SYNC, "fast"), "without syncs");
	is_str(get("n/c"), "fast", "is there, too");
	ok(!write_all("n/d", REPLACE_DIRECT, "direct"), "with direct I/O");
	is_str(get("n/d"), "direct", "is there as well");
	is_u64(entries("n"), 4, "no other names are left");
}

static void existing_target(void)
{
	struct replace *r;
	struct stat before, after;
	bool acl;

	mkdir("x", 0755);
	put("x/a", "old");
	chmod("x/a", 0604);
	acl = sh("setfacl -m u:65534:rw x/a");
	setxattr("x/a", "user.note", "keep", 4, 0);
	if (!geteuid())
		ok(!chown("x/a", 1234, 4321), "give the old file away");
	stat("x/a", &before);
	is_i64(replace_check("x/a", 0, &e), 0, "an existing target is fine");
	if (!ok(!replace_open(&r, "x/a", 0, &e), "open it: %s", e.msg))
		return;
	ok(!file_write(replace_file(r), 0, "newer", 5, &e), "write");
	is_str(get("x/a"), "old", "the old one is there until the end");
	is_i64(replace_check("x/a", 0, &e), -1, "and locked");
	is_i64(e.code, EAGAIN, "with EAGAIN: %s", e.msg);
	ok(!replace_commit(r, &e), "commit");
	is_str(get("x/a"), "newer", "the new one is there");
	stat("x/a", &after);
	is_u64(after.st_mode, before.st_mode, "the mode is kept");
	ok(after.st_uid == before.st_uid && after.st_gid == before.st_gid, "owner and group are kept");
	ok(after.st_ino != before.st_ino, "it is another file");
	if (acl)
		ok(sh("getfacl -n x/a | grep -q '^user:65534:rw'"), "the ACL is kept");
	else
		skip("no ACLs here");
	{
		char value[8] = "";

		is_i64(getxattr("x/a", "user.note", value, sizeof(value)), 4, "the attribute is kept");
		is_str(value, "keep", "with its value");
	}
	is_u64(entries("x"), 1, "no other names are left");

	if (sh("mkdir x/d && touch x/d/a && chmod 600 x/d/a && setfacl -d -m u:65534:rwx x/d")) {
		ok(!write_all("x/d/a", 0, "q"), "replace a file without ACL where new files get one");
		ok(!sh("getfacl -n x/d/a | grep '^user:65534'"), "it gets none");
		is_u64(mode_of("x/d/a"), 0600, "and has its mode");
	} else {
		skip("no ACLs here");
	}

	ok(!replace_open(&r, "x/a", 0, &e), "open it again");
	put("x/b", "exchanged");
	rename("x/b", "x/a");
	ok(!file_write(replace_file(r), 0, "mine", 4, &e), "write");
	ok(!replace_commit(r, &e), "commit over a file that took its place: %s", e.msg);
	is_str(get("x/a"), "mine", "ours is there");
	ok(!replace_open(&r, "x/a", 0, &e), "open it again");
	unlink("x/a");
	ok(!file_write(replace_file(r), 0, "back", 4, &e), "write");
	ok(!replace_commit(r, &e), "commit where it was removed: %s", e.msg);
	is_str(get("x/a"), "back", "ours is there");
	ok(!replace_open(&r, "x/a", 0, &e), "open it again");
	ok(!file_write(replace_file(r), 0, "lost", 4, &e), "write");
	replace_abort(r);
	is_str(get("x/a"), "back", "aborted, it is as before");
}

static void no_clobber(void)
{
	struct replace *r;

	mkdir("k", 0755);
	put("k/a", "old");
	is_i64(replace_check("k/a", REPLACE_NO_CLOBBER, &e), -1, "no clobber: existing is refused");
	is_i64(e.code, EEXIST, "with EEXIST: %s", e.msg);
	is_i64(replace_open(&r, "k/a", REPLACE_NO_CLOBBER, &e), -1, "open, too");
	ok(!write_all("k/b", REPLACE_NO_CLOBBER, "b"), "a new one is made");
	ok(!replace_open(&r, "k/c", REPLACE_NO_CLOBBER, &e), "open a new one");
	put("k/c", "theirs");
	is_i64(replace_commit(r, &e), -1, "which somebody makes meanwhile: refused");
	is_i64(e.code, EEXIST, "with EEXIST: %s", e.msg);
	is_str(get("k/c"), "theirs", "and kept");
	is_u64(entries("k"), 3, "no other names are left");
}

static void links(void)
{
	struct stat st;

	mkdir("l", 0755);
	mkdir("l/sub", 0755);
	put("l/sub/real", "old");
	sh("ln -s sub/real l/link");
	sh("ln -s link l/link2");
	ok(!write_all("l/link2", 0, "through"), "write through two links: %s", e.msg);
	is_str(get("l/sub/real"), "through", "into what they name");
	ok(!lstat("l/link2", &st) && S_ISLNK(st.st_mode), "the link stays one");
	is_u64(entries("l"), 3, "nothing is left beside the link");
	is_u64(entries("l/sub"), 1, "nor beside its target");
	sh("ln -s sub/new l/dangling");
	ok(!write_all("l/dangling", 0, "made"), "a dangling link: %s", e.msg);
	is_str(get("l/sub/new"), "made", "makes what it names");
	sh("ln -s loop l/loop");
	is_i64(replace_check("l/loop", 0, &e), -1, "a link to itself is refused");
	is_i64(e.code, ELOOP, "with ELOOP: %s", e.msg);
	sh("ln -s no/such/folder l/lost");
	is_i64(replace_check("l/lost", 0, &e), -1, "a link into a missing folder: %s", e.msg);

	sh("ln l/sub/real l/sub/second");
	is_i64(replace_check("l/sub/real", 0, &e), -1, "a file with two names is refused");
	is_i64(e.code, EMLINK, "with EMLINK: %s", e.msg);
	ok(strstr(e.msg, "2 names") && strstr(e.msg, "-n"), "says how many and what to do");
	is_i64(write_all("l/sub/real", 0, "x"), -1, "open refuses it, too");
	is_str(get("l/sub/second"), "through", "its content is as it was");
}

static void refused(void)
{
	static const struct {
		const char *path;
		int code;
	} bad[] = {
		{ "r/dir", EISDIR }, { "r/dir/", EISDIR }, { "r/new/", EISDIR }, { "r/fifo", EINVAL },
		{ "/dev/null", EINVAL }, { "r/none/a", ENOENT }, { "", ENOENT }, { "r/file/a", ENOTDIR },
		{ "r/.", EISDIR },
	};
	char name[300] = "r/";
	size_t i;
	struct replace *r;

	mkdir("r", 0755);
	mkdir("r/dir", 0755);
	put("r/file", "f");
	mkfifo("r/fifo", 0644);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		is_i64(replace_check(bad[i].path, 0, &e), -1, "'%s' is refused", bad[i].path);
		is_i64(e.code, bad[i].code, "'%s': %s", bad[i].path, e.msg);
		is_i64(replace_open(&r, bad[i].path, 0, &e), -1, "'%s' is not opened", bad[i].path);
	}
	memset(name + 2, 'n', 256);
	is_i64(replace_check(name, 0, &e), -1, "a name of 256 bytes is refused");
	is_i64(e.code, ENAMETOOLONG, "%s", e.msg + 250);
	name[2 + 255] = '\0';
	ok(!write_all(name, 0, "1"), "a name of 255 bytes is made");
	ok(!write_all(name, 0, "2"), "and replaced: %s", e.msg);
	is_str(get(name), "2", "it is there");
	is_u64(entries("r"), 4, "no other names are left");
}

/* As another user, in a child: the exit status is what the function returns. */
static int as_nobody(int (*call)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(99);
		_exit(call());
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

static int nobody_replaces(void)
{
	return write_all("p/closed/a", 0, "x") ? (e.code == EACCES ? 1 : 2) : 0;
}

static int nobody_replaces_sticky(void)
{
	return write_all("p/sticky/a", 0, "x") ? (e.code == EPERM ? 1 : 2) : 0;
}

static int nobody_replaces_readonly(void)
{
	return write_all("p/open/readonly", 0, "x") ? (e.code == EACCES ? 1 : 2) : 0;
}

static int nobody_replaces_foreign(void)
{
	*warning = '\0';
	return write_all("p/open/a", 0, "x") ? 1 : strstr(warning, "belongs to user") ? 0 : 2;
}

static int nobody_replaces_foreign_group(void)
{
	return write_all("p/open/g", 0, "x") ? (e.code == EPERM ? 1 : 2) : 0;
}

static void permissions(void)
{
	if (geteuid()) {
		skip("takes root");
		return;
	}
	sh("mkdir -p p/closed p/open p/sticky && chmod 777 p/open && chmod 1777 p/sticky");
	sh("for f in p/closed/a p/open/a p/open/g p/open/readonly p/sticky/a; do echo old >$f; chmod 666 $f; "
	   "chgrp 65534 $f; done; chgrp 0 p/open/g; chmod 444 p/open/readonly");
	is_i64(as_nobody(nobody_replaces), 1, "a folder that can not be written to");
	is_i64(as_nobody(nobody_replaces_sticky), 1, "a sticky folder, somebody else's file");
	is_i64(as_nobody(nobody_replaces_readonly), 1, "a file that can not be written to");
	is_i64(as_nobody(nobody_replaces_foreign), 0, "somebody else's file in an open folder: a warning");
	is_u64(mode_of("p/open/a"), 0666, "it keeps its mode");
	is_i64(as_nobody(nobody_replaces_foreign_group), 1, "not where the group would be another");
	is_str(get("p/open/g"), "old\n", "which leaves the old file");
}

/* A child that is killed, or ends, with a replacement half done; how: its last act. */
static void killed(const char *path, int how)
{
	struct replace *r;
	pid_t pid = fork();

	if (!pid) {
		if (replace_open(&r, path, 0, &e) || file_write(replace_file(r), 0, "half", 4, &e))
			_exit(1);
		if (how == 0)
			_exit(0);
		if (how == 1)
			raise(SIGKILL);
		replace_abort_all();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void interrupted(void)
{
	mkdir("i", 0755);
	put("i/a", "old");
	killed("i/a", 0);
	killed("i/a", 1);
	killed("i/b", 1);
	is_str(get("i/a"), "old", "a killed process leaves the old file");
	is_u64(entries("i"), 1, "and nothing else");
}

/* From here on the kernel refuses unnamed files, as some file systems do. */
static bool forbid_unnamed(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void named(void)
{
	struct replace *r;

	if (!forbid_unnamed()) {
		skip("no seccomp filters here");
		return;
	}
	mkdir("f", 0755);
	put("f/a", "old");
	chmod("f/a", 0640);
	ok(!replace_open(&r, "f/a", 0, &e), "open where no unnamed files are: %s", e.msg);
	is_u64(entries("f"), 2, "a temporary name stands beside it");
	ok(sh("ls -A f | grep -q '^\\.a\\.qimg-......$'"), "of the right form");
	ok(!file_write(replace_file(r), 0, "new", 3, &e), "write");
	is_str(get("f/a"), "old", "the old one is there");
	ok(!replace_commit(r, &e), "commit: %s", e.msg);
	is_str(get("f/a"), "new", "the new one is there");
	is_u64(mode_of("f/a"), 0640, "with the mode of the old one");
	is_u64(entries("f"), 1, "alone");
	ok(!replace_open(&r, "f/a", 0, &e), "open again");
	replace_abort(r);
	is_u64(entries("f"), 1, "aborted, it leaves nothing");
	killed("f/a", 2);
	is_u64(entries("f"), 1, "a signal handler removes the temporary name");
	ok(!write_all("f/b", REPLACE_NO_CLOBBER, "b"), "no clobber works: %s", e.msg);
	is_u64(mode_of("f/b"), 0644, "a new file has the usual mode");
	ok(!replace_open(&r, "f/c", REPLACE_NO_CLOBBER, &e), "no clobber: open");
	put("f/c", "theirs");
	is_i64(replace_commit(r, &e), -1, "no clobber: made meanwhile");
	is_str(get("f/c"), "theirs", "no clobber: kept");
	ok(!replace_open(&r, "f/d", 0, &e), "open a new one");
	put("f/d", "theirs");
	ok(!replace_commit(r, &e), "made meanwhile: commit");
	is_i64(access("f/d", F_OK), 0, "it is there");
	is_u64(entries("f"), 4, "no other names are left");
}

/*
 * What the device holds just after the commit, without unmounting, is what a crash would leave (and
 * more): the file must be there whole after the journal was replayed.
 */
static void durable(const char *fs, unsigned mib)
{
	static char big[300000];
	char path[64];
	unsigned i;

	if (!scratch_mount(fs, fs, mib)) {
		skip("%s can not be mounted here", fs);
		return;
	}
	sh("mkdir -p crashed; echo old > %s/1; sync -f %s", fs, fs);
	for (i = 0; i < 2; i++) {
		struct replace *r;

		memset(big, 'a' + (int)i, sizeof(big));
		snprintf(path, sizeof(path), "%s/%u", fs, i);
		ok(!replace_open(&r, path, 0, &e) && !file_write(replace_file(r), 0, big, sizeof(big), &e) &&
		   !replace_commit(r, &e), "%s: %s file", fs, i ? "replace a" : "make a new");
		/* Unmounted, since btrfs takes two devices with one name for one. */
		ok(sh("cp %s.img copy.img && cp %s want && umount %s && mount -o loop copy.img crashed", fs, path,
		      fs), "%s: power is cut", fs);
		ok(sh("cmp crashed/%u want", i), "%s: the file is there", fs);
		ok(sh("umount crashed && rm copy.img && mount -o loop %s.img %s", fs, fs), "%s: go on", fs);
	}
}

static void no_space(void)
{
	struct replace *r;
	char *big = calloc(1, 4 << 20);
	int ret;

	if (!big || !scratch_mount("tmpfs", "t", 2)) {
		free(big);
		skip("no tmpfs can be mounted");
		return;
	}
	memset(big, 1, 4 << 20);
	put("t/a", "old");
	ok(!replace_open(&r, "t/a", 0, &e), "open on a small file system");
	ret = file_write(replace_file(r), 0, big, 4 << 20, &e);
	ok(ret && e.code == ENOSPC, "writing more than fits: %s", e.msg);
	replace_abort(r);
	is_str(get("t/a"), "old", "the old one is there");
	is_u64(entries("t"), 1, "alone");
	free(big);
}

static void device(void)
{
	struct replace *r;
	char dev[64], byte = 0;

	if (!scratch_loop("dev.img", 1 << 20, dev)) {
		skip("no loop devices");
		return;
	}
	is_i64(replace_check(dev, 0, &e), 0, "a block device is fine");
	ok(!replace_open(&r, dev, 0, &e), "open it: %s", e.msg);
	ok(replace_in_place(r), "it is written in place");
	is_u64(file_size(replace_file(r)), 1 << 20, "it has its size");
	ok(!file_write(replace_file(r), 5, "\xaa", 1, &e), "write");
	ok(!replace_commit(r, &e), "commit: %s", e.msg);
	{
		struct file *f;

		ok(!file_open(&f, dev, 0, &e) && !file_read(f, 5, &byte, 1, &e) && byte == '\xaa',
		   "it is written");
		file_close(f);
	}
}

/* A lock that the caller takes on the new file is gone with the commit. */
static void new_lock(void)
{
	struct replace *r;
	struct file *f;

	ok(!replace_open(&r, "lock", 0, &e) && !lock_set(replace_file(r), LOCK_WRITE, &e),
	   "lock the new file");
	file_close(replace_take(r));
	ok(!replace_commit(r, &e), "commit");
	ok(!file_open(&f, "lock", FILE_WRITE, &e) && !lock_set(f, LOCK_WRITE, &e), "it is free: %s", e.msg);
	is_i64(replace_check("lock", 0, &e), -1, "while somebody uses it, it can not be replaced");
	ok(strstr(e.msg, "lock") && strstr(e.msg, "this command itself"), "%s", e.msg);
	file_close(f);
	is_i64(replace_check("lock", 0, &e), 0, "afterwards it can");
}

int main(void)
{
	qimg_set_warning_handler(keep_warning, NULL);
	scratch_enter();
	umask(022);
	new_target();
	existing_target();
	no_clobber();
	links();
	refused();
	permissions();
	interrupted();
	durable("ext4", 64);
	durable("xfs", 300);
	durable("btrfs", 120);
	no_space();
	device();
	new_lock();
	named();		/* last: what it forbids stays forbidden */
	return done_testing();
}
