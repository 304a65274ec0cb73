// SPDX-License-Identifier: BSD-2-Clause
/*
 * Image locks, compatible with QEMU's: permission n in use is a read lock on byte 100 + n, permission
 * n not shared with others is one on byte 200 + n.
 *
 * First all bytes of the new mode are locked, then those that contradict it are tested: of two that
 * start at the same time at least one sees the other. Nobody ever holds a write lock; testing for one
 * is how read locks of others are seen. Locks belong to the open file, not to the process, so that two
 * images in one process exclude each other, too, and closing another descriptor loses nothing.
 */
#include "io/lock.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "io/file_priv.h"
#include "io/holders.h"

enum { CONSISTENT_READ, WRITE, WRITE_UNCHANGED, RESIZE, PERMISSIONS };

#define USED_BASE 100
#define UNSHARED_BASE 200

#define BIT(n) (1u << (n))

static const char *const names[] = {
	[CONSISTENT_READ] = "consistent read",
	[WRITE] = "write",
	[WRITE_UNCHANGED] = "write unchanged",
	[RESIZE] = "resize",
};

static const struct {
	unsigned used, unshared;
} modes[] = {
	[LOCK_NONE] = { 0, 0 },
	[LOCK_READ] = { BIT(CONSISTENT_READ), BIT(WRITE) | BIT(RESIZE) },
	[LOCK_WRITE] = { BIT(CONSISTENT_READ) | BIT(WRITE) | BIT(RESIZE), BIT(WRITE) | BIT(RESIZE) },
	[LOCK_TARGET] = { BIT(CONSISTENT_READ) | BIT(WRITE), 0 },
	[LOCK_LOOK] = { BIT(CONSISTENT_READ), 0 },
};

static int change_byte(struct file *f, off_t at, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

	while (fcntl(f->fd, F_OFD_SETLK, &l)) {
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

/* Whether another open file has the byte locked. */
static bool byte_taken(struct file *f, off_t at)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

	return !fcntl(f->fd, F_OFD_GETLK, &l) && l.l_type != F_UNLCK;
}

/* Locks (F_RDLCK) or unlocks the bytes of the permissions that are in `to` and not in `from`. */
static int change_bytes(struct file *f, short type, off_t base, unsigned to, unsigned from)
{
	unsigned n;
	int code = 0;

	for (n = 0; n < PERMISSIONS && !code; n++) {
		if ((to & ~from) & BIT(n))
			code = change_byte(f, base + (off_t)n, type);
	}
	return code;
}

/* From what is held for mode `from` to what `to` needs: type F_RDLCK adds, F_UNLCK takes away. */
static int change_mode(struct file *f, short type, enum lock_mode to, enum lock_mode from)
{
	int code = change_bytes(f, type, USED_BASE, modes[to].used, modes[from].used);

	return code ? code : change_bytes(f, type, UNSHARED_BASE, modes[to].unshared,
					  modes[from].unshared);
}

/* No such locks here: old kernels, some network file systems. The lock is a courtesy then. */
static bool no_locks(int code)
{
	return code == EINVAL || code == ENOLCK || code == EOPNOTSUPP || code == ENOSYS;
}

static int refused(struct file *f, enum lock_mode mode, bool shared, const char *name,
		   struct qimg_error *e)
{
	bool reader = mode == LOCK_READ || mode == LOCK_LOOK;
	char text[512];
	unsigned n = holders_describe(f->id, text, sizeof(text));

	return error_set(e, EAGAIN, "Failed to get %s\"%s\" lock on '%s': %s%s%s", shared ? "shared " : "",
			 name, f->path, n ? "it is open in " : "another process uses it that can not be "
			 "seen from here (of another user, container or machine)", n ? text : "",
			 reader ? "; -U reads it without a lock" : "");
}

int lock_set(struct file *f, enum lock_mode mode, struct qimg_error *e)
{
	enum lock_mode old = f->lock;
	unsigned n;
	int code, ret;

	code = change_mode(f, F_RDLCK, mode, old);
	if (code && no_locks(code))
		return 0;
	if (code == EAGAIN || code == EACCES) {
		/* Somebody has a write lock there, which QEMU never takes. */
		ret = refused(f, mode, false, "image", e);
		goto undo;
	}
	if (code) {
		ret = error_errno(e, code, "Could not lock '%s'", f->path);
		goto undo;
	}

	for (n = 0; n < PERMISSIONS; n++) {
		if ((modes[mode].used & BIT(n)) && byte_taken(f, UNSHARED_BASE + (off_t)n)) {
			ret = refused(f, mode, false, names[n], e);
			goto undo;
		}
	}
	for (n = 0; n < PERMISSIONS; n++) {
		if ((modes[mode].unshared & BIT(n)) && byte_taken(f, USED_BASE + (off_t)n)) {
			ret = refused(f, mode, true, names[n], e);
			goto undo;
		}
	}
	change_mode(f, F_UNLCK, old, mode);
	f->lock = mode;
	return 0;
undo:
	change_mode(f, F_UNLCK, mode, old);
	return ret;
}
