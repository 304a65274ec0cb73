// SPDX-License-Identifier: BSD-2-Clause
/*
 * Temporary names beside targets, and the list of them that a signal handler can clear.
 *
 * A slot is live from just after its name exists until just after it is gone, with signals blocked in
 * between: the handler neither misses a name of ours nor removes a file of somebody else's.
 */
#include "io/replace_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/replace.h"

#define SLOTS 64
#define TRIES 100
#define SUFFIX 13		/* ".qimg-XXXXXX" and the NUL */

struct temp {
	volatile sig_atomic_t live;	/* the name exists */
	bool used;
	int dirfd;			/* the slot's own */
	char name[NAME_MAX + 1];
};

static struct temp slots[SLOTS];

static void block_signals(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, old);
}

static void restore_signals(const sigset_t *old)
{
	sigprocmask(SIG_SETMASK, old, NULL);
}

static struct temp *slot_get(const struct place *p, struct qimg_error *e)
{
	struct temp *t;

	/* Threads that work on different images may come here at the same time. */
	for (t = slots; t < slots + SLOTS && __atomic_test_and_set(&t->used, __ATOMIC_ACQUIRE); t++)
		;
	if (t == slots + SLOTS) {
		error_set(e, EMFILE, "More than %d files are being replaced", SLOTS);
		return NULL;
	}
	t->dirfd = fcntl(p->dirfd, F_DUPFD_CLOEXEC, 0);
	if (t->dirfd < 0) {
		__atomic_clear(&t->used, __ATOMIC_RELEASE);
		error_errno(e, errno, "Could not create '%s'", p->path);
		return NULL;
	}
	return t;
}

/* ".NAME.qimg-XXXXXX"; of a long NAME as much as fits. */
static void random_name(struct temp *t, const struct place *p)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	long max = fpathconf(p->dirfd, _PC_NAME_MAX);
	unsigned char r[6];
	size_t i, keep;

	if (max < 32 || max > NAME_MAX)
		max = NAME_MAX;
	keep = min_u64(strlen(p->base), (uint64_t)max - SUFFIX);
	/* Without random numbers the tries collide and end in an error. */
	memset(r, 0, sizeof(r));
	if (getrandom(r, sizeof(r), GRND_NONBLOCK) < 0)
		r[0] = (unsigned char)getpid();
	for (i = 0; i < sizeof(r); i++)
		r[i] = (unsigned char)letters[r[i] % (sizeof(letters) - 1)];
	snprintf(t->name, sizeof(t->name), ".%.*s.qimg-%.6s", (int)keep, p->base, (const char *)r);
}

int link_unnamed(int fd, int dirfd, const char *name)
{
	char proc[32];

	if (!linkat(fd, "", dirfd, name, AT_EMPTY_PATH))
		return 0;
	/* Older kernels ask for a capability there, and say ENOENT for want of it. */
	if (errno == EEXIST)
		return EEXIST;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, proc, dirfd, name, AT_SYMLINK_FOLLOW) ? errno : 0;
}

/* Makes a name: for the unnamed file *fd, or where that is -1 for a new one, which goes there. */
static int make(struct temp **out, const struct place *p, int *fd, struct qimg_error *e)
{
	struct temp *t = slot_get(p, e);
	bool create = *fd < 0;
	sigset_t old;
	int code = EEXIST;
	unsigned i;

	if (!t)
		return -1;
	for (i = 0; i < TRIES && code == EEXIST; i++) {
		random_name(t, p);
		block_signals(&old);
		if (!create) {
			code = link_unnamed(*fd, p->dirfd, t->name);
		} else {
			/* What replaces a file may at no time be easier to read than the old one. */
			*fd = openat(p->dirfd, t->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
				     p->exists ? 0600 : 0644);
			code = *fd < 0 ? errno : 0;
		}
		t->live = !code;
		restore_signals(&old);
	}
	if (code) {
		temp_free(t);
		return error_errno(e, code, "Could not create a file beside '%s'", p->path);
	}
	*out = t;
	return 0;
}

int temp_create(struct temp **t, const struct place *p, int *fd, struct qimg_error *e)
{
	*fd = -1;
	return make(t, p, fd, e);
}

int temp_link(struct temp **t, const struct place *p, int fd, struct qimg_error *e)
{
	return make(t, p, &fd, e);
}

/* Some file systems know no RENAME_NOREPLACE: a second name, then the first one goes. */
static int rename_noreplace(struct temp *t, const struct place *p)
{
	if (!renameat2(t->dirfd, t->name, p->dirfd, p->base, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return errno;
	if (linkat(t->dirfd, t->name, p->dirfd, p->base, 0))
		return errno;
	return unlinkat(t->dirfd, t->name, 0) ? errno : 0;
}

int temp_rename(struct temp *t, const struct place *p, bool no_clobber)
{
	sigset_t old;
	int code;

	block_signals(&old);
	if (no_clobber)
		code = rename_noreplace(t, p);
	else
		code = renameat(t->dirfd, t->name, p->dirfd, p->base) ? errno : 0;
	t->live = code != 0;
	restore_signals(&old);
	return code;
}

void temp_free(struct temp *t)
{
	sigset_t old;

	if (!t)
		return;
	block_signals(&old);
	if (t->live)
		unlinkat(t->dirfd, t->name, 0);
	t->live = 0;
	restore_signals(&old);
	close(t->dirfd);
	__atomic_clear(&t->used, __ATOMIC_RELEASE);
}

void replace_abort_all(void)
{
	struct temp *t;

	for (t = slots; t < slots + SLOTS; t++) {
		if (t->live)
			unlinkat(t->dirfd, t->name, 0);
	}
}
