// SPDX-License-Identifier: BSD-2-Clause
/*
 * A target that gets its name only when it is complete.
 *
 * The new file has no name at all until the end where the file system can do that, so that not even a
 * killed process leaves anything; a replaced one needs a temporary name for the last step, since only
 * rename takes the place of a file in one go. The old file is open and locked until then.
 *
 * Syncs before the end are pointless and do nothing (FILE_NO_SYNC); commit makes up for all of them, on
 * a descriptor of its own, which also keeps an unnamed file alive after the caller has closed his.
 */
#include "io/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "io/file_priv.h"
#include "io/replace_priv.h"

struct replace {
	struct place place;
	unsigned flags;
	bool in_place, taken;
	struct file *file;		/* the caller's, once taken */
	int fd;				/* the same open file, ours to the end */
	struct file *old;		/* the file to be replaced, locked; or NULL */
	struct temp *temp;		/* NULL: the new file has no name */
};

/* Opens and locks the file that is in the place now. */
static int hold_old(struct file **old, struct place *p, struct qimg_error *e)
{
	if (!S_ISREG(p->st.st_mode))
		return error_set(e, EEXIST, "Could not replace '%s': it became something else meanwhile",
				 p->path);
	if (place_check_access(p, e))
		return -1;
	if (file_open(old, p->path, FILE_WRITE, e))
		return -1;
	if (!file_id_same(file_identity(*old), (struct file_id){ p->st.st_dev, p->st.st_ino })) {
		error_set(e, EAGAIN, "Could not replace '%s': it was exchanged just now", p->path);
		goto fail;
	}
	if (lock_set(*old, LOCK_WRITE, e))
		goto fail;
	return 0;
fail:
	file_close(*old);
	*old = NULL;
	return -1;
}

static int check_clobber(const struct place *p, unsigned flags, struct qimg_error *e)
{
	if (p->exists && (flags & REPLACE_NO_CLOBBER))
		return error_set(e, EEXIST, "Could not create '%s': it exists already", p->path);
	return 0;
}

int replace_check(const char *path, unsigned flags, struct qimg_error *e)
{
	struct place p;
	struct file *f = NULL;
	int ret = -1;

	if (place_find(&p, path, e))
		return -1;
	if (check_clobber(&p, flags, e))
		goto out;
	if (!p.exists)
		ret = place_check_access(&p, e);
	else if (S_ISBLK(p.st.st_mode))
		ret = file_open(&f, path, FILE_WRITE, e) || lock_set(f, LOCK_WRITE, e) ? -1 : 0;
	else
		ret = hold_old(&f, &p, e);
out:
	file_close(f);
	place_free(&p);
	return ret;
}

/*
 * An unnamed file, or *fd -1 where the file system has none or it could not be linked in the end, which
 * takes /proc on most kernels.
 */
static int open_unnamed(const struct place *p, int *fd, struct qimg_error *e)
{
	char proc[32];

	*fd = openat(p->dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, p->exists ? 0600 : 0644);
	if (*fd < 0)
		return errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT ? 0 :
		       error_errno(e, errno, "Could not create '%s'", p->path);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", *fd);
	if (access(proc, F_OK)) {
		close(*fd);
		*fd = -1;
	}
	return 0;
}

static int open_new(struct replace *r, struct qimg_error *e)
{
	struct place *p = &r->place;
	int fd;

	if (open_unnamed(p, &fd, e) || (fd < 0 && temp_create(&r->temp, p, &fd, e)))
		return -1;
	if (r->old && attr_copy(fd, file_fd(r->old), &p->st, p->path, e))
		goto fail;
	if (file_adopt(&r->file, fd, p->path, FILE_WRITE | FILE_NO_SYNC |
		       (r->flags & REPLACE_NO_SYNC ? 0 : FILE_EAGER) |
		       (r->flags & REPLACE_DIRECT ? FILE_DIRECT : 0), e))
		goto fail;
	return 0;
fail:
	close(fd);
	return -1;
}

static int open_device(struct replace *r, struct qimg_error *e)
{
	r->in_place = true;
	return file_open(&r->file, r->place.path, FILE_WRITE |
			 (r->flags & REPLACE_DIRECT ? FILE_DIRECT : 0) |
			 (r->flags & REPLACE_NO_SYNC ? FILE_NO_SYNC : FILE_EAGER), e);
}

int replace_open(struct replace **out, const char *path, unsigned flags, struct qimg_error *e)
{
	struct replace *r = mem_zalloc(sizeof(*r), e);
	struct place *p;

	if (!r)
		return -1;
	r->fd = -1;
	r->flags = flags;
	p = &r->place;
	if (place_find(p, path, e)) {
		free(r);
		return -1;
	}
	if (check_clobber(p, flags, e))
		goto fail;
	if (p->exists && S_ISBLK(p->st.st_mode)) {
		if (open_device(r, e))
			goto fail;
	} else {
		if (p->exists ? hold_old(&r->old, p, e) : place_check_access(p, e))
			goto fail;
		if (open_new(r, e))
			goto fail;
	}
	r->fd = fcntl(file_fd(r->file), F_DUPFD_CLOEXEC, 0);
	if (r->fd < 0) {
		error_errno(e, errno, "Could not create '%s'", path);
		goto fail;
	}
	*out = r;
	return 0;
fail:
	replace_abort(r);
	return -1;
}

struct file *replace_file(struct replace *r)
{
	return r->file;
}

struct file *replace_take(struct replace *r)
{
	r->taken = true;
	return r->file;
}

bool replace_in_place(const struct replace *r)
{
	return r->in_place;
}

/* Frees r; what has no final name is gone then. */
static void release(struct replace *r)
{
	if (!r->taken)
		file_close(r->file);
	if (r->fd >= 0)
		close(r->fd);
	temp_free(r->temp);
	file_close(r->old);
	place_free(&r->place);
	free(r);
}

void replace_abort(struct replace *r)
{
	if (r)
		release(r);
}

static int sync_file(struct replace *r, struct qimg_error *e)
{
	if (r->flags & REPLACE_NO_SYNC)
		return 0;
	/* fsync, not fdatasync: mode and attributes were set, too. */
	while (fsync(r->fd)) {
		if (errno != EINTR)
			return error_errno(e, errno, "Could not bring '%s' to stable storage",
					   r->place.path);
	}
	return 0;
}

/* The name itself must survive, too. Some file systems have no fsync for folders and need none. */
static int sync_folder(struct replace *r, struct qimg_error *e)
{
	int fd, code = 0;

	if (r->flags & REPLACE_NO_SYNC)
		return 0;
	fd = openat(r->place.dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* A folder that may be written to but not be read can only be synced with all others. */
	if (fd < 0 ? syncfs(r->fd) : fsync(fd))
		code = errno;
	if (fd >= 0)
		close(fd);
	if (code && code != EINVAL && code != EOPNOTSUPP && code != ENOSYS)
		return error_errno(e, code, "'%s' is complete, but its name could not be brought to stable "
				   "storage", r->place.path);
	return 0;
}

/* Sees to it that r->old is what is in the place now, if there is anything. */
static int renew_old(struct replace *r, struct qimg_error *e)
{
	struct place *p = &r->place;

	if (place_refresh(p, e) || check_clobber(p, r->flags, e))
		return -1;
	if (r->old && p->exists && file_id_same(file_identity(r->old),
						(struct file_id){ p->st.st_dev, p->st.st_ino }))
		return place_check_access(p, e);
	file_close(r->old);
	r->old = NULL;
	return p->exists ? hold_old(&r->old, p, e) : 0;
}

static int give_name(struct replace *r, struct qimg_error *e)
{
	struct place *p = &r->place;
	int code;

	if (renew_old(r, e))
		return -1;
	if (!p->exists && !r->temp) {
		code = link_unnamed(r->fd, p->dirfd, p->base);
		if (!code)
			return 0;
		if (code != EEXIST)
			return error_errno(e, code, "Could not give '%s' its name", p->path);
		/* Somebody made it just now. */
		if (renew_old(r, e))
			return -1;
	}
	if (!r->temp && temp_link(&r->temp, p, r->fd, e))
		return -1;
	code = temp_rename(r->temp, p, r->flags & REPLACE_NO_CLOBBER);
	if (code == EEXIST)
		return error_set(e, code, "Could not create '%s': it exists already", p->path);
	if (code)
		return error_errno(e, code, "Could not give '%s' its name", p->path);
	return 0;
}

int replace_commit(struct replace *r, struct qimg_error *e)
{
	struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	int ret = -1;

	if (!r->taken && r->file->sync_error) {
		file_sync(r->file, e);
		goto out;
	}
	if (sync_file(r, e))
		goto out;
	if (r->in_place) {
		ret = 0;
		goto out;
	}
	/* The caller's lock would stay as long as our descriptor: it must be gone with the name there. */
	fcntl(r->fd, F_OFD_SETLK, &all);
	if (give_name(r, e) || sync_folder(r, e))
		goto out;
	ret = close(r->fd) ? error_errno(e, errno, "Could not close '%s'", r->place.path) : 0;
	r->fd = -1;
out:
	release(r);
	return ret;
}
