// SPDX-License-Identifier: BSD-2-Clause
/*
 * The least that a new target takes. Data may turn out to be zeros when it is read, so only where zeros are
 * written, too (a sparse size of 0, or space that is reserved) does its size say anything.
 */
#include "ops/space.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "io/file.h"
#include "qimg.h"

static uint64_t least(const struct qimg_convert *c, uint64_t size)
{
	const char *prealloc = c->create_opts ? qimg_opts_get(c->create_opts, "preallocation") : NULL;

	/* The guest data lies in another file then, or what is written is not known. */
	if (c->flags & QIMG_CONVERT_COMPRESS || (c->create_opts && qimg_opts_get(c->create_opts, "data_file")))
		return 0;
	if (prealloc && (!strcmp(prealloc, "falloc") || !strcmp(prealloc, "full")))
		return size;
	/* What a backing file supplies is left out. */
	if (c->create_opts && qimg_opts_get(c->create_opts, "backing_file"))
		return 0;
	return c->sparse_size ? 0 : size;
}

int space_check(const struct qimg_convert *c, struct file *f, uint64_t size, struct qimg_error *e)
{
	uint64_t need = least(c, size), have;

	if (!need || !file_space(f, &have) || need <= have)
		return 0;
	return error_errno(e, ENOSPC, "The target '%s' takes %" PRIu64 " bytes at least, and its file system has "
			   "%" PRIu64 " bytes free", c->target, need, have);
}
