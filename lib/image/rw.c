// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reading and writing guest data.
 *
 * All changes a guest can see pass through change_begin, whatever call they come from: it checks
 * that the change is allowed and makes the image forget what it kept of the old content.
 */
#include "image/rw.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/range.h"
#include "base/zero.h"
#include "io/file.h"
#include "io/ioq.h"

static int check_range(const struct qimg_image *img, uint64_t off, uint64_t len,
		       struct qimg_error *e)
{
	if (range_within(off, len, img->size))
		return 0;
	return error_set(e, EINVAL, "The range 0x%" PRIx64 "+0x%" PRIx64 " reaches beyond the end of '%s' "
			 "(%" PRIu64 " bytes)", off, len, img->name, img->size);
}

static int no_encryption(const struct qimg_image *img, struct qimg_error *e)
{
	return error_set(e, ENOTSUP, "'%s' is encrypted, and encryption is not supported: its data can "
			 "neither be read nor written", img->name);
}

/* ---- reading ---- */

static int read_run(struct qimg_image *img, const struct extent *x, void *buf, struct qimg_error *e)
{
	struct ioq_req req = { .op = IOQ_READ, .file = x->file, .off = x->host, .buf = buf,
			       .len = x->len };
	struct ioq *q;

	if (x->kind == EXTENT_HOLE || x->kind == EXTENT_ZERO) {
		memset(buf, 0, x->len);
		return 0;
	}
	if (x->image->encrypted)
		return no_encryption(x->image, e);
	if (x->kind == EXTENT_PACKED)
		return packed_read(img, x, buf, x->len, e);
	q = image_queue(img, e);
	return q ? ioq_run(q, &req, e) : -1;
}

int qimg_read(struct qimg_image *img, uint64_t off, void *buf, size_t len, struct qimg_error *e)
{
	struct extent x;

	if (check_range(img, off, len, e) < 0)
		return -1;
	for (size_t done = 0; done < len; done += x.len)
		if (image_map_chain(img, off + done, len - done, &x, NULL, e) < 0 ||
		    read_run(img, &x, (uint8_t *)buf + done, e) < 0)
			return -1;
	return 0;
}

int rw_read_padded(struct qimg_image *img, uint64_t off, void *buf, size_t len, struct qimg_error *e)
{
	struct range r = range_clip(off, len, 0, img->size);

	if (r.len < len)
		memset((uint8_t *)buf + r.len, 0, len - r.len);
	return r.len ? qimg_read(img, off, buf, r.len, e) : 0;
}

/* ---- changes: where they all pass ---- */

/*
 * A guest that writes the header of another format to the start of a disk whose format nobody gave
 * would choose how its host reads the file next time.
 */
static int check_first_sector(struct qimg_image *img, uint64_t off, const void *buf, uint64_t len,
			      struct qimg_error *e)
{
	uint8_t head[512];
	struct range r = range_clip(off, len, 0, sizeof(head));

	if (!img->probed || img->driver != &raw_driver || !r.len)
		return 0;
	if (rw_read_padded(img, 0, head, sizeof(head), e) < 0)
		return -1;
	if (buf)
		memcpy(head + r.start, buf, r.len);
	else
		memset(head + r.start, 0, r.len);
	if (registry_probe_head(head, sizeof(head), img->size) == img->driver)
		return 0;
	return error_set(e, EPERM, "Writing this to the first 512 bytes of '%s' would make it look like "
			 "an image of another format, and its own was not given; give the format 'raw' to "
			 "allow it", img->name);
}

int rw_change_begin(struct qimg_image *img, uint64_t off, const void *buf, uint64_t len,
		    struct qimg_error *e)
{
	if (check_range(img, off, len, e) < 0)
		return -1;
	if (!(img->flags & QIMG_OPEN_WRITE))
		return error_set(e, EROFS, "'%s' is not open for writing", img->name);
	if (img->encrypted)
		return no_encryption(img, e);
	packed_forget(img);
	return check_first_sector(img, off, buf, len, e);
}

int rw_change_end(struct qimg_image *img, struct qimg_error *e)
{
	return img->flags & QIMG_OPEN_WRITETHROUGH ? qimg_flush(img, e) : 0;
}

int qimg_flush(struct qimg_image *img, struct qimg_error *e)
{
	if (!(img->flags & QIMG_OPEN_WRITE))
		return 0;
	return img->driver->flush ? img->driver->flush(img, NULL, e) : file_sync(img->file, e);
}

/* ---- writing ---- */

int rw_host_write(struct qimg_image *img, struct file *f, uint64_t host, const void *buf, size_t len,
		  struct qimg_error *e)
{
	struct ioq_req req = { .op = IOQ_WRITE, .file = f, .off = host, .buf = (void *)buf, .len = len };
	struct ioq *q = image_queue(img, e);

	return q ? ioq_run(q, &req, e) : -1;
}

int rw_host_zero(struct qimg_image *img, struct file *f, uint64_t host, uint64_t len, unsigned flags,
		 struct qimg_error *e)
{
	struct ioq_req req = { .op = IOQ_ZERO, .file = f, .off = host, .len = len, .flags = flags };
	struct ioq *q = image_queue(img, e);

	return q ? ioq_run(q, &req, e) : -1;
}

uint8_t *rw_scratch(struct qimg_image *img, struct qimg_error *e)
{
	if (!img->scratch)
		img->scratch = mem_buffer(RW_SCRATCH, e);
	return img->scratch;
}

/* What a flush releases may be what was missing. */
static bool may_find_space(struct qimg_image *img, const struct qimg_error *e)
{
	struct qimg_error ignored;

	return (e->code == ENOSPC || e->code == EDQUOT || e->code == EFBIG) &&
		img->driver->flush && img->driver->flush(img, NULL, &ignored) == 0;
}

/* Writes the front part; *m says how much. */
static int write_part(struct qimg_image *img, uint64_t off, const uint8_t *buf, size_t len,
		      struct wmap *m, struct qimg_error *e)
{
	if (img->driver->begin(img, off, len, m, NULL, e) < 0)
		return -1;
	if (cow_write(img, m, buf, e) < 0) {
		if (m->link)
			img->driver->abort(img, m);
		return -1;
	}
	return m->link ? img->driver->commit(img, m, NULL, e) : 0;
}

int rw_write(struct qimg_image *img, uint64_t off, const void *buf, size_t len, struct qimg_error *e)
{
	bool retried = false;
	struct wmap m;

	for (size_t done = 0; done < len; ) {
		if (write_part(img, off + done, (const uint8_t *)buf + done, len - done, &m, e) == 0) {
			done += m.len;
			retried = false;
		} else if (retried || !may_find_space(img, e)) {
			return -1;
		} else {
			retried = true;
		}
	}
	return 0;
}

int qimg_write(struct qimg_image *img, uint64_t off, const void *buf, size_t len,
	       struct qimg_error *e)
{
	if (img->detect_zeroes != DETECT_OFF && len && zero_is(buf, len)) {
		bool unmap = img->detect_zeroes == DETECT_UNMAP && (img->flags & QIMG_OPEN_UNMAP);

		return qimg_zero(img, off, len, unmap ? QIMG_ZERO_UNMAP : 0, e);
	}
	if (rw_change_begin(img, off, buf, len, e) < 0 || rw_write(img, off, buf, len, e) < 0)
		return -1;
	return rw_change_end(img, e);
}

/* ---- compressed writing ---- */

static int write_packed_once(struct qimg_image *img, uint64_t off, const void *packed, size_t len,
			     struct qimg_error *e)
{
	struct wmap m;

	if (img->driver->pack(img, off, len, &m, NULL, e) < 0)
		return -1;
	if (rw_host_write(img, m.file, m.host, packed, len, e) < 0) {
		img->driver->abort(img, &m);
		return -1;
	}
	return img->driver->commit(img, &m, NULL, e);
}

static int write_packed(struct qimg_image *img, uint64_t off, const void *packed, size_t len,
			struct qimg_error *e)
{
	if (write_packed_once(img, off, packed, len, e) == 0)
		return 0;
	return may_find_space(img, e) ? write_packed_once(img, off, packed, len, e) : -1;
}

int qimg_write_compressed(struct qimg_image *img, uint64_t off, const void *buf, size_t len,
			  struct qimg_error *e)
{
	size_t cluster = img->cluster_size, packed_len = cluster - 1;
	uint8_t *padded = NULL, *packed = NULL;
	struct codec_ctx *ctx;
	int rc = -1;

	if (!(img->driver->caps & DRIVER_PACK))
		return error_set(e, ENOTSUP, "Format '%s' has no compression", img->driver->name);
	if (check_range(img, off, len, e) < 0)
		return -1;
	if (!is_aligned(off, cluster) || (len != cluster && len != img->size - off))
		return error_set(e, EINVAL, "A compressed write to '%s' is of one whole cluster (%zu bytes) "
				 "at a time", img->name, cluster);
	if (rw_change_begin(img, off, buf, len, e) < 0)
		return -1;
	if (len == 0)
		return 0;
	ctx = image_codec(img, e);
	packed = mem_alloc(packed_len, e);
	if (!ctx || !packed)
		goto out;
	if (len < cluster) {
		padded = mem_zalloc(cluster, e);
		if (!padded)
			goto out;
		memcpy(padded, buf, len);
	}
	rc = codec_ctx_deflate(ctx, img->codec, 0, padded ? padded : buf, cluster, packed, &packed_len,
			       e);
	if (rc == 0)
		rc = write_packed(img, off, packed, packed_len, e);
	else if (rc > 0)	/* it would not become smaller */
		rc = rw_write(img, off, buf, len, e);
	if (rc == 0)
		rc = rw_change_end(img, e);
out:
	free(padded);
	free(packed);
	return rc;
}
