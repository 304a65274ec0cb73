// SPDX-License-Identifier: BSD-2-Clause
/* Small files that commands write beside images: under their names only when complete. */
#include "qimg.h"

#include <errno.h>

#include "base/error.h"
#include "io/file.h"
#include "io/replace.h"

int qimg_save_file(const char *path, const void *data, size_t len, struct qimg_error *e)
{
	struct replace *r;

	if (replace_open(&r, path, 0, e) < 0)
		return -1;
	if (replace_in_place(r)) {
		replace_abort(r);
		return error_set(e, EINVAL, "Could not create '%s': it is a block device", path);
	}
	if (len && file_write(replace_file(r), 0, data, len, e) < 0) {
		replace_abort(r);
		return -1;
	}
	return replace_commit(r, e);
}
