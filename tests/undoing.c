// SPDX-License-Identifier: BSD-2-Clause
/* See undoing.h. */
#include "undoing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "io/file.h"
#include "qimg.h"

static bool undo(const char *path, const char *backup, struct qimg_error *e)
{
	struct qimg_image *img = NULL;
	struct qimg_error closing;
	uint64_t places;
	bool good;

	if (qimg_open(&img, path, "qcow2", NULL, QIMG_OPEN_CHECK | QIMG_OPEN_NO_BACKING | QIMG_OPEN_WRITE, e) < 0)
		return false;
	good = qimg_check_undo(img, backup, &places, e) == 0;
	return qimg_close(img, &closing) == 0 && good;
}

static bool has_bytes(const char *path, const struct disk_state *s)
{
	static uint8_t buf[1 << 16];
	FILE *f = fopen(path, "rb");
	uint64_t at = 0;
	size_t n;

	if (!f)
		return false;
	while ((n = fread(buf, 1, sizeof(buf), f)) && at + n <= s->len && !memcmp(buf, s->p + at, n))
		at += n;
	fclose(f);
	return n == 0 && at == s->len;
}

static int cut(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf, uint64_t len)
{
	int *left = ctx;

	(void)f, (void)off, (void)buf, (void)len;
	if (op == FILE_OP_READ)
		return 0;
	return *left ? (--*left, 0) : EIO;
}

const char *undoing_judge(const char *path, const char *backup, const struct disk_state *original, int fail)
{
	struct file_hook hook = { cut, &fail };
	static struct qimg_error e;

	if (fail >= 0) {
		file_set_hook(&hook);
		undo(path, backup, &e);
		file_set_hook(NULL);
	}
	e.msg[0] = 0;
	undo(path, backup, &e);
	if (has_bytes(path, original))
		return NULL;
	return e.msg[0] ? e.msg : "another file than it was";
}
