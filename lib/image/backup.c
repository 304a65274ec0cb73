// SPDX-License-Identifier: BSD-2-Clause
/* What a repair is going to overwrite, in a file of its own. */
#include "image/backup.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/numbers.h"
#include "io/file.h"

struct backup {
	struct file *file, *image;
	uint32_t cluster_size;
	uint64_t length;		/* of the image file at the beginning */
	uint64_t end;			/* of what was written here */
	struct numbers saved;		/* clusters, in the order of the records */
	bool named;			/* its name is on stable storage */
	bool dirty;
	uint8_t *buf;			/* a record with a cluster */
};

static int append(struct backup *b, const void *data, size_t len, struct qimg_error *e)
{
	if (file_write(b->file, b->end, data, len, e) < 0)
		return -1;
	b->end += len;
	b->dirty = true;
	return 0;
}

static int write_head(struct backup *b, struct qimg_error *e)
{
	/* There is room for the marks of undo.c, should the file system be full by then. */
	uint8_t head[BACKUP_FIRST] = { 0 };

	memcpy(head, BACKUP_MAGIC, 8);
	be32_put(head + 8, BACKUP_VERSION);
	be32_put(head + 12, b->cluster_size);
	be64_put(head + 16, b->length);
	be32_put(head + 24, checksum(0, head, 24));
	return append(b, head, sizeof(head), e);
}

static void put_record(uint8_t *p, uint32_t kind, uint32_t n, uint64_t off, uint32_t sum)
{
	be32_put(p, kind);
	be32_put(p + 4, n);
	be64_put(p + 8, off);
	be32_put(p + 16, sum);
	be32_put(p + 20, checksum(0, p, 20));
}

int backup_open(struct backup **out, const char *path, struct file *image, uint32_t cluster_size, struct qimg_error *e)
{
	struct backup *b = mem_zalloc(sizeof(*b), e);

	if (!b)
		return -1;
	b->image = image;
	b->cluster_size = cluster_size;
	b->length = file_size(image);
	b->buf = mem_buffer(BACKUP_RECORD + cluster_size, e);
	if (!b->buf || file_open(&b->file, path, FILE_WRITE | FILE_CREATE | FILE_EXCL, e) < 0) {
		free(b->buf);
		free(b);
		return -1;
	}
	if (write_head(b, e) < 0) {
		backup_close(b, false, NULL);
		return -1;
	}
	*out = b;
	return 0;
}

static int save_cluster(struct backup *b, uint64_t cluster, struct qimg_error *e)
{
	uint64_t off = cluster * b->cluster_size;
	uint32_t len = (uint32_t)min_u64(b->cluster_size, b->length - off);
	size_t index;
	bool added;

	if (numbers_find(&b->saved, cluster, NULL))
		return 0;
	if (file_read(b->image, off, b->buf + BACKUP_RECORD, len, e) < 0)
		return -1;
	put_record(b->buf, BACKUP_SAVE, len, off, checksum(0, b->buf + BACKUP_RECORD, len));
	return append(b, b->buf, BACKUP_RECORD + len, e) < 0 ? -1 : numbers_add(&b->saved, cluster, &index, &added, e);
}

int backup_save(struct backup *b, uint64_t off, uint64_t len, struct qimg_error *e)
{
	uint64_t end = min_u64(off + len, b->length);

	for (uint64_t cluster = off / b->cluster_size; cluster * b->cluster_size < end; cluster++)
		if (save_cluster(b, cluster, e) < 0)
			return error_prefix(e, "The backup '%s'", file_path(b->file));
	return 0;
}

int backup_sync(struct backup *b, struct qimg_error *e)
{
	if (b->dirty && file_sync(b->file, e) < 0)
		return -1;
	b->dirty = false;
	if (!b->named && file_sync_name(b->file, e) < 0)
		return -1;
	b->named = true;
	return 0;
}

/* What the repair has made of what was saved. */
static int write_end(struct backup *b, struct qimg_error *e)
{
	size_t n = b->saved.count;
	uint8_t *sums = mem_alloc(max_u64(n, 1) * 4, e), record[BACKUP_RECORD];
	int ret = sums ? 0 : -1;

	for (size_t i = 0; ret == 0 && i < n; i++) {
		uint64_t off = b->saved.item[i] * b->cluster_size;
		uint32_t len = (uint32_t)min_u64(b->cluster_size, b->length - off);

		ret = file_read(b->image, off, b->buf, len, e);
		if (ret == 0)
			be32_put(sums + i * 4, checksum(0, b->buf, len));
	}
	if (ret == 0) {
		put_record(record, BACKUP_DONE, (uint32_t)n, file_size(b->image), checksum(0, sums, n * 4));
		ret = append(b, record, sizeof(record), e) < 0 || append(b, sums, n * 4, e) < 0 ||
		      backup_sync(b, e) < 0 ? -1 : 0;
	}
	free(sums);
	return ret;
}

int backup_close(struct backup *b, bool done, struct qimg_error *e)
{
	int ret = 0;

	if (!b)
		return 0;
	/* A file that is longer than it was can be cut. */
	if (!b->saved.count && file_size(b->image) == b->length)
		file_remove(file_path(b->file));
	else if (done)
		ret = write_end(b, e);
	file_close(b->file);
	numbers_free(&b->saved);
	free(b->buf);
	free(b);
	return ret < 0 ? error_prefix(e, "The end of the backup") : 0;
}
