// SPDX-License-Identifier: BSD-2-Clause
/*
 * Taking a repair back: what backup.c has saved is put where it was.
 *
 * An image that something has changed since would be damaged by that, so each place has to be as the repair has left
 * it, or as it was before. The backup is marked before the first byte is put back: when that is interrupted it can be
 * done again, whatever state it was left in. It is marked again when it is done: then there is nothing to be put back.
 */
#include "image/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/mem.h"
#include "image/backup.h"
#include "io/file.h"

struct saved {
	uint64_t off, at;		/* in the image, and in the backup */
	uint32_t len, before, after;	/* checksums */
};

struct undo {
	struct file *backup, *image;
	uint64_t length, after;		/* of the image file: before and after the repair */
	uint32_t cluster_size;
	struct saved *list;
	size_t count, room;
	uint64_t end;			/* of what is complete in the backup */
	bool done;			/* the repair was not interrupted */
	bool begun, ended;		/* something was put back before; all of it */
	uint8_t *buf;
};

/* ---- reading the backup ---- */

static int damaged(const struct undo *u, const char *what, struct qimg_error *e)
{
	return error_set(e, EINVAL, "The backup '%s' is damaged: %s", file_path(u->backup), what);
}

static int read_head(struct undo *u, struct qimg_error *e)
{
	uint8_t head[BACKUP_HEAD];

	if (file_read(u->backup, 0, head, sizeof(head), e) < 0)
		return -1;
	if (memcmp(head, BACKUP_MAGIC, 8))
		return error_set(e, EINVAL, "'%s' is no backup of a repair", file_path(u->backup));
	if (be32_get(head + 24) != checksum(0, head, 24))
		return damaged(u, "its head", e);
	if (be32_get(head + 8) != BACKUP_VERSION)
		return error_set(e, ENOTSUP, "'%s' is a backup of version %" PRIu32 ", only %d is known",
				 file_path(u->backup), be32_get(head + 8), BACKUP_VERSION);
	u->cluster_size = be32_get(head + 12);
	u->length = be64_get(head + 16);
	u->end = BACKUP_FIRST;
	return u->cluster_size && u->cluster_size <= BACKUP_MOST ? 0 : damaged(u, "its cluster size", e);
}

static int add(struct undo *u, const struct saved *s, struct qimg_error *e)
{
	void *list = u->list;
	size_t room = u->room ? u->room * 2 : 64;

	if (u->count == u->room) {
		if (mem_grow(&list, u->room, room, sizeof(*s), e) < 0)
			return -1;
		u->list = list;
		u->room = room;
	}
	u->list[u->count++] = *s;
	return 0;
}

/* A record; false: there is no complete one. */
static bool read_record(const struct undo *u, uint64_t at, uint8_t *record)
{
	struct qimg_error ignored;

	return at + BACKUP_RECORD <= file_size(u->backup) &&
	       file_read(u->backup, at, record, BACKUP_RECORD, &ignored) == 0 &&
	       be32_get(record + 20) == checksum(0, record, 20);
}

static bool is_marked(const struct undo *u, unsigned i, uint32_t kind)
{
	uint8_t record[BACKUP_RECORD];

	return read_record(u, BACKUP_HEAD + i * BACKUP_RECORD, record) && be32_get(record) == kind;
}

/* 1: it is not complete. */
static int read_saved(struct undo *u, const uint8_t *record, struct qimg_error *e)
{
	struct saved s = { .len = be32_get(record + 4), .off = be64_get(record + 8), .before = be32_get(record + 16),
			   .at = u->end + BACKUP_RECORD };

	if (!s.len || s.len > u->cluster_size || s.off >= u->length || s.len > u->length - s.off)
		return damaged(u, "a place that cannot be", e);
	if (s.len > file_size(u->backup) - s.at)
		return 1;
	if (file_read(u->backup, s.at, u->buf, s.len, e) < 0)
		return -1;
	if (checksum(0, u->buf, s.len) != s.before)
		return 1;
	u->end = s.at + s.len;
	return add(u, &s, e);
}

/* 1: it is not complete: what was to come after the repair, which was complete. */
static int read_done(struct undo *u, const uint8_t *record, struct qimg_error *e)
{
	uint64_t bytes = (uint64_t)u->count * 4, at = u->end + BACKUP_RECORD;
	uint32_t sum = 0;
	uint8_t one[4];

	if (be32_get(record + 4) != u->count)
		return damaged(u, "some places are missing", e);
	if (at + bytes > file_size(u->backup))
		return 1;
	for (size_t i = 0; i < u->count; i++, at += 4) {
		if (file_read(u->backup, at, one, sizeof(one), e) < 0)
			return -1;
		sum = checksum(sum, one, sizeof(one));
		u->list[i].after = be32_get(one);
	}
	if (sum != be32_get(record + 16))
		return 1;
	u->end = at;
	u->after = be64_get(record + 8);
	u->done = true;
	return 0;
}

static int read_backup(struct undo *u, struct qimg_error *e)
{
	uint8_t record[BACKUP_RECORD];
	int ret = 0;

	u->begun = is_marked(u, 0, BACKUP_UNDO);
	u->ended = u->begun && is_marked(u, 1, BACKUP_BACK);
	while (ret == 0 && !u->done && read_record(u, u->end, record)) {
		if (be32_get(record) == BACKUP_SAVE)
			ret = read_saved(u, record, e);
		else if (be32_get(record) == BACKUP_DONE)
			ret = read_done(u, record, e);
		else
			return damaged(u, "a record of an unknown kind", e);
	}
	if (ret < 0)
		return -1;
	/* What is not complete was not needed yet when the repair was interrupted. */
	if (!u->count && file_size(u->image) == u->length)
		return error_set(e, EINVAL, "Nothing was saved in '%s'", file_path(u->backup));
	return 0;
}

/* ---- the image ---- */

static int has_changed(const struct undo *u, struct qimg_error *e)
{
	return error_set(e, EINVAL, "'%s' is not what the repair of '%s' has left: it was changed since, or is another "
			 "image", file_path(u->image), file_path(u->backup));
}

static int check_image(struct undo *u, struct qimg_error *e)
{
	uint64_t size = file_size(u->image);

	if (u->begun && !u->ended)
		return 0;
	if (size < u->length || (u->ended && size != u->length) || (u->done && size != u->after && size != u->length))
		return has_changed(u, e);
	/* Of an interrupted repair nobody knows how far it came. */
	for (size_t i = 0; (u->done || u->ended) && i < u->count; i++) {
		uint32_t sum;

		if (file_read(u->image, u->list[i].off, u->buf, u->list[i].len, e) < 0)
			return -1;
		sum = checksum(0, u->buf, u->list[i].len);
		if (sum != u->list[i].before && (u->ended || sum != u->list[i].after))
			return has_changed(u, e);
	}
	return 0;
}

static int mark(struct undo *u, unsigned i, uint32_t kind, struct qimg_error *e)
{
	uint8_t record[BACKUP_RECORD] = { 0 };

	be32_put(record, kind);
	be32_put(record + 20, checksum(0, record, 20));
	if (file_write(u->backup, BACKUP_HEAD + i * sizeof(record), record, sizeof(record), e) < 0)
		return -1;
	return file_sync(u->backup, e);
}

static int put_back(struct undo *u, struct qimg_error *e)
{
	for (size_t i = 0; i < u->count; i++) {
		const struct saved *s = &u->list[i];

		if (file_read(u->backup, s->at, u->buf, s->len, e) < 0)
			return -1;
		if (checksum(0, u->buf, s->len) != s->before)
			return damaged(u, "it has just been changed", e);
		if (file_write(u->image, s->off, u->buf, s->len, e) < 0)
			return -1;
	}
	if (file_sync(u->image, e) < 0)
		return -1;
	if (!file_is_device(u->image) && file_size(u->image) != u->length &&
	    (file_truncate(u->image, u->length, e) < 0 || file_sync(u->image, e) < 0))
		return -1;
	return 0;
}

static int undo(struct undo *u, struct qimg_error *e)
{
	if (!u->begun && mark(u, 0, BACKUP_UNDO, e) < 0)
		return -1;
	return put_back(u, e) < 0 || mark(u, 1, BACKUP_BACK, e) < 0 ? -1 : 0;
}

int qimg_check_undo(struct qimg_image *img, const char *backup, uint64_t *places, struct qimg_error *e)
{
	struct undo u = { .image = img->file };
	int ret = -1;

	u.buf = mem_buffer(BACKUP_MOST, e);
	if (u.buf && file_open(&u.backup, backup, FILE_WRITE, e) == 0 && read_head(&u, e) == 0 &&
	    read_backup(&u, e) == 0 && check_image(&u, e) == 0)
		ret = u.ended ? 0 : undo(&u, e);
	*places = u.count;
	file_close(u.backup);
	free(u.list);
	free(u.buf);
	return ret;
}
