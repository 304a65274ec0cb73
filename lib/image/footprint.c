// SPDX-License-Identifier: BSD-2-Clause
/*
 * What measuring needs to know of the host: engines by name, memory in use, room for an image that is removed
 * again.
 */
#include "qimg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/driver.h"
#include "image/image.h"
#include "image/options.h"
#include "io/cached.h"
#include "io/file.h"
#include "io/ioq.h"
#include "io/pages.h"
#include "io/scratch.h"
#include "io/sparse.h"

#define PROBED (64 * KIB)	/* bytes of a file */

const char *qimg_aio(unsigned i, const char **source)
{
	const char *aio = options_aio(i), *name;

	*source = NULL;
	for (unsigned j = 0; aio && !*source && (name = ioq_model(j, source)); j++)
		if (strcmp(name, aio))
			*source = NULL;
	return aio;
}

int qimg_source(struct qimg_image *img, uint64_t off, enum qimg_source *source, struct qimg_error *e)
{
	struct file_extent on_host;
	struct extent x;

	if (off >= img->size)
		return error_set(e, EINVAL, "Offset 0x%" PRIx64 " is beyond the end of '%s'", off, img->name);
	if (image_map_chain(img, off, 1, &x, NULL, e) != 0)
		return -1;
	*source = QIMG_SOURCE_NONE;
	if (x.kind != EXTENT_DATA && x.kind != EXTENT_PACKED)
		return 0;
	*source = QIMG_SOURCE_HOLE;
	if (x.host >= file_size(x.file))
		return 0;
	if (file_extent(x.file, x.host, 1, &on_host, e) < 0)
		return -1;
	if (!on_host.hole)
		*source = QIMG_SOURCE_DISK;
	return 0;
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

bool qimg_disk_read(uint64_t *bytes)
{
	return cached_disk_read(bytes);
}

void qimg_drop_cached(struct qimg_image *img)
{
	file_drop_cache(img->file);
	if (img->data_file)
		file_drop_cache(img->data_file);
}

char *qimg_scratch_new(const char *folder, const char *suffix, struct qimg_error *e)
{
	return scratch_new(folder, suffix, e);
}

void qimg_scratch_remove(const char *name)
{
	file_remove(name);
}

const char *qimg_file_system(const char *path)
{
	return file_system_name(path);
}

int qimg_abilities(const char *folder, struct qimg_abilities *x, struct qimg_error *e)
{
	char *name = scratch_new(folder, "", e);
	struct qimg_error why;
	struct file *f;
	int ret = -1;

	*x = (struct qimg_abilities){ .file_system = NULL };
	if (!name)
		return -1;
	x->file_system = file_system_name(name);
	ret = file_open(&f, name, FILE_WRITE | FILE_DIRECT, e);
	file_remove(name);
	free(name);
	if (ret < 0)
		return -1;
	/* A hint is taken only while a file has no blocks. */
	x->extent_size_hints = file_set_extent_hint(f, PROBED, &why) == 0 && file_extent_hint(f) == PROBED;
	x->reserves = sparse_allocate(f, 0, PROBED, &why) == 0;
	if (!x->reserves && why.code != ENOTSUP) {
		*e = why;
		ret = -1;
	} else {
		ret = file_truncate(f, PROBED, e) < 0 || sparse_zero(f, 0, PROBED, 0, NULL, e) < 0 ? -1 : 0;
	}
	x->zeroes = sparse_zeroed_by(f);
	x->direct = file_is_direct(f);
	file_close(f);
	return ret;
}
