// SPDX-License-Identifier: BSD-2-Clause
/*
 * The least that a target takes. Data may turn out to be zeros when it is read, or to be shared with the
 * source, so only where zeros are written, too (a sparse size of 0, or space that is reserved) does its
 * size say anything; what is compressed may become as small as one likes.
 */
#include "ops/space.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "io/file.h"
#include "qimg.h"

static const char *create_opt(const struct qimg_convert *c, const char *key)
{
	return c->create_opts ? qimg_opts_get(c->create_opts, key) : NULL;
}

static uint64_t least(const struct qimg_convert *c, uint64_t size)
{
	const char *prealloc = create_opt(c, "preallocation");

	/* The guest data lies in another file then, or what is written is not known. */
	if (c->flags & QIMG_CONVERT_COMPRESS || create_opt(c, "data_file"))
		return 0;
	if (prealloc && (!strcmp(prealloc, "falloc") || !strcmp(prealloc, "full")))
		return size;
	/* What a backing file supplies is left out. */
	return c->sparse_size || create_opt(c, "backing_file") ? 0 : size;
}

int space_check(const struct qimg_convert *c, struct file *f, uint64_t size, struct qimg_error *e)
{
	uint64_t need = least(c, size), has, have;

	if (!need)
		return 0;
	/* What an existing target has may all be written over. */
	if (file_allocated(f, &has, e) < 0)
		return -1;
	if (need <= has || !file_lacks_space(f, need - has, &have))
		return 0;
	return error_errno(e, ENOSPC, "The target '%s' takes %" PRIu64 " more bytes at least, and its file system "
			   "has %" PRIu64 " bytes free", c->target, need - has, have);
}
