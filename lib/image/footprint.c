// SPDX-License-Identifier: BSD-2-Clause
/*
 * What measuring needs to know of the host: engines by name, memory in use, room for an image that is removed
 * again.
 */
#include "qimg.h"

#include <string.h>

#include "image/image.h"
#include "image/options.h"
#include "io/cached.h"
#include "io/file.h"
#include "io/ioq.h"
#include "io/pages.h"
#include "io/scratch.h"

const char *qimg_aio(unsigned i, const char **source)
{
	const char *aio = options_aio(i), *name;

	*source = NULL;
	for (unsigned j = 0; aio && !*source && (name = ioq_model(j, source)); j++)
		if (strcmp(name, aio))
			*source = NULL;
	return aio;
}

uint64_t qimg_resident(void)
{
	return pages_resident();
}

bool qimg_cached(struct qimg_image *img, enum qimg_file which, uint64_t *bytes)
{
	struct file *f = img->file;
	uint64_t more = 0;

	*bytes = 0;
	if (which == QIMG_FILE_CACHE) {
		f = img->driver->cache_file ? img->driver->cache_file(img) : NULL;
		return f && cached_bytes(f, bytes);
	}
	if (!cached_bytes(f, bytes) || (img->data_file && !cached_bytes(img->data_file, &more)))
		return false;
	*bytes += more;
	return true;
}

char *qimg_scratch_new(const char *folder, const char *suffix, struct qimg_error *e)
{
	return scratch_new(folder, suffix, e);
}

void qimg_scratch_remove(const char *name)
{
	file_remove(name);
}
