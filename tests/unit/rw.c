// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/image/rw, cow, clear, map: random reads, writes, zeroes and discards through a small format of the
 * test's own, against a model in memory. The format allocates whole clusters, sometimes fresh ones
 * behind the end of the file and sometimes used ones full of garbage, moves clusters, compresses, has a
 * shorter or longer backing file of the same kind, and refuses zeroing now and then. Host writes fail at
 * random: what is read then is what was there or what was to be written, and garbage never.
 */
#include <errno.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/opts.h"
#include "image/image.h"
#include "io/file.h"
#include "scratch.h"
#include "tap.h"

#define CLUSTER 4096u
#define CLUSTERS 64u
#define GARBAGE 0xdb

struct cell {
	enum extent_kind kind;
	uint64_t host;
	uint32_t packed;
};

struct toy {
	struct cell cells[CLUSTERS];
	uint64_t end;			/* of what was allocated */
	uint64_t blank_from;
	unsigned in_flight;
	bool zero_by_writing, discarded;
};

static uint8_t model[CLUSTERS * CLUSTER], data[sizeof(model)], got[sizeof(model)];
static struct qimg_error e;
static unsigned fail_in;	/* host writes until one fails; 0: never */
static uint64_t seed = 1;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 11) % below;
}

static struct toy *toy_of(struct qimg_image *img)
{
	return img->state;
}

/* ---- the format ---- */

static int toy_map(struct qimg_image *img, uint64_t off, uint64_t len, struct extent *x,
		   struct wait *w, struct qimg_error *err)
{
	struct toy *t = toy_of(img);
	struct cell *c = &t->cells[off / CLUSTER];
	uint64_t at = off % CLUSTER, n = 1;

	(void)w;
	(void)err;
	*x = (struct extent){ .start = off, .kind = c->kind, .allocated = c->kind != EXTENT_HOLE };
	if (c->kind == EXTENT_DATA || c->kind == EXTENT_PACKED) {
		x->host_valid = true;
		x->file = img->file;
		x->host = c->host + (c->kind == EXTENT_DATA ? at : 0);
		x->packed = c->packed;
		x->writable = c->kind == EXTENT_DATA;
	} else {
		while (off / CLUSTER + n < CLUSTERS && c[n].kind == c->kind && rnd(8))
			n++;
	}
	x->len = min_u64(len, n * CLUSTER - at);
	return 0;
}

/* Space for n clusters: fresh, or (below the blank end) with garbage in it. */
static uint64_t take(struct qimg_image *img, uint64_t bytes, bool *blank)
{
	struct toy *t = toy_of(img);
	uint64_t host = t->end;

	t->end += bytes;
	*blank = host >= t->blank_from;
	return host;
}

static int toy_begin(struct qimg_image *img, uint64_t off, uint64_t len, struct wmap *m,
		     struct wait *w, struct qimg_error *err)
{
	struct toy *t = toy_of(img);
	uint64_t first = off / CLUSTER, at = off % CLUSTER, n, end;
	bool move = rnd(4) == 0;
	struct cell *c = &t->cells[first];

	(void)w;
	(void)err;
	*m = (struct wmap){ .start = off, .file = img->file };
	if (c->kind == EXTENT_DATA && !move) {
		m->host = c->host + at;
		m->len = min_u64(len, CLUSTER - at);
		return 0;
	}
	n = min_u64(div_up(at + len, CLUSTER), 1 + rnd(4));
	m->len = min_u64(len, n * CLUSTER - at);
	end = at + m->len;
	m->head = at;
	m->tail = round_up(end, CLUSTER) - end;
	m->clusters = n;
	m->cluster = take(img, n * CLUSTER, &m->blank);
	m->host = m->cluster + at;
	m->link = true;
	t->in_flight++;
	return 0;
}

static int toy_commit(struct qimg_image *img, struct wmap *m, struct wait *w, struct qimg_error *err)
{
	struct toy *t = toy_of(img);
	struct cell *c = &t->cells[m->start / CLUSTER];

	(void)w;
	(void)err;
	t->in_flight--;
	for (unsigned i = 0; i < m->clusters; i++)
		c[i] = (struct cell){ EXTENT_DATA, m->cluster + i * CLUSTER, 0 };
	if (m->packed)
		c[0] = (struct cell){ EXTENT_PACKED, m->host, m->packed_len };
	return 0;
}

static void toy_abort(struct qimg_image *img, struct wmap *m)
{
	(void)m;
	toy_of(img)->in_flight--;
}

static int toy_zero(struct qimg_image *img, uint64_t off, uint64_t len, unsigned flags, uint64_t *did,
		    struct wait *w, struct qimg_error *err)
{
	struct toy *t = toy_of(img);

	(void)flags;
	(void)w;
	*did = min_u64(len, (1 + rnd(3)) * CLUSTER);
	if (t->zero_by_writing || rnd(4) == 0)
		return error_set(err, ENOTSUP, "Not now");
	if (off % CLUSTER || (*did % CLUSTER && off + *did != img->size))
		return error_set(err, EINVAL, "Zeroing parts of clusters");
	for (uint64_t i = 0; i < div_up(*did, CLUSTER); i++)
		t->cells[off / CLUSTER + i] = (struct cell){ .kind = EXTENT_ZERO };
	return 0;
}

static int toy_discard(struct qimg_image *img, uint64_t off, uint64_t len, uint64_t *did,
		       struct wait *w, struct qimg_error *err)
{
	toy_of(img)->discarded = true;
	if (toy_of(img)->zero_by_writing) {	/* a hint need not be taken */
		*did = len;
		return 0;
	}
	for (;;) {
		int rc = toy_zero(img, off, len, 0, did, w, err);

		if (rc == 0 || err->code != ENOTSUP)
			return rc;
	}
}

static int toy_pack(struct qimg_image *img, uint64_t off, uint32_t packed, struct wmap *m,
		    struct wait *w, struct qimg_error *err)
{
	(void)w;
	(void)err;
	*m = (struct wmap){ .start = off, .len = CLUSTER, .file = img->file, .link = true, .packed = true,
			    .clusters = 1, .packed_len = round_up(packed, 512) + 512 };
	m->host = m->cluster = take(img, packed, &m->blank);
	toy_of(img)->in_flight++;
	return 0;
}

static const struct driver toy = {
	.name = "toy",
	.caps = DRIVER_WRITE | DRIVER_PACK | DRIVER_BACKING,
	.map = toy_map,
	.begin = toy_begin,
	.commit = toy_commit,
	.abort = toy_abort,
	.zero = toy_zero,
	.discard = toy_discard,
	.pack = toy_pack,
};

/* ---- the test ---- */

/* Garbage up to a border: allocations below it are not blank, those behind it are. */
static struct qimg_image *make(const char *path, uint64_t size, struct qimg_image *backing)
{
	struct qimg_image *img = calloc(1, sizeof(*img));
	struct toy *t = calloc(1, sizeof(*t));

	unlink(path);
	img->driver = &toy;
	img->state = t;
	img->name = strdup(path);
	img->filename = strdup(path);
	img->flags = QIMG_OPEN_WRITE;
	img->size = size;
	img->cluster_size = img->grain = CLUSTER;
	img->codec = rnd(2) ? CODEC_ZLIB : CODEC_ZSTD;
	img->cow_zero = rnd(3);
	img->detect_zeroes = rnd(3);
	img->backing = backing;
	if (backing)
		backing->depth = 1;
	t->blank_from = rnd(3) * 24 * CLUSTER;
	t->zero_by_writing = rnd(4) == 0;
	if (file_open(&img->file, path, FILE_WRITE | FILE_CREATE, &e) < 0) {
		diag("%s", e.msg);
		exit(1);
	}
	fail_in = 0;
	memset(data, GARBAGE, t->blank_from);
	if (t->blank_from && file_write(img->file, 0, data, t->blank_from, &e) < 0)
		exit(1);
	return img;
}

static int fail_writes(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		       uint64_t len)
{
	(void)ctx;
	(void)f;
	(void)off;
	(void)buf;
	(void)len;
	if (op == FILE_OP_READ || op == FILE_OP_SYNC || !fail_in)
		return 0;
	return --fail_in ? 0 : EIO;
}

/* After a failure each byte is the old or the new one. */
static bool torn(struct qimg_image *img, uint64_t off, uint64_t len, const uint8_t *new)
{
	if (qimg_read(img, 0, got, img->size, &e) < 0)
		return false;
	for (uint64_t i = 0; i < img->size; i++) {
		bool in = i >= off && i < off + len;

		if (got[i] != model[i] && !(in && got[i] == (new ? new[i - off] : 0))) {
			diag("byte %" PRIu64 " is 0x%02x after a failed change of %" PRIu64 "+%" PRIu64, i,
			     got[i], off, len);
			return false;
		}
	}
	memcpy(model, got, img->size);
	return true;
}

static bool step(struct qimg_image *img)
{
	uint64_t off = rnd(img->size), len = 1 + rnd(rnd(2) ? 600 : 5 * CLUSTER);
	const uint8_t *new = NULL;
	int what = rnd(10), rc;

	len = min_u64(len, img->size - off);
	if (what == 0) {	/* one compressed cluster */
		off = round_down(off, CLUSTER);
		len = min_u64(CLUSTER, img->size - off);
	}
	for (uint64_t i = 0; i < len; i++)
		data[i] = what == 0 ? (off / CLUSTER + i / 100) : rnd(200);
	if (what == 1)
		memset(data, 0, len);
	fail_in = rnd(5) ? 0 : 1 + rnd(3);
	switch (what) {
	case 0:
		new = data;
		rc = qimg_write_compressed(img, off, data, len, &e);
		break;
	case 5:
	case 6:
		rc = qimg_zero(img, off, len, rnd(2) ? QIMG_ZERO_UNMAP : 0, &e);
		break;
	case 7:
		img->flags ^= rnd(2) ? QIMG_OPEN_UNMAP : 0;
		toy_of(img)->discarded = false;
		rc = qimg_discard(img, off, len, &e);
		if (toy_of(img)->discarded && !(img->flags & QIMG_OPEN_UNMAP)) {
			diag("discarded without QIMG_OPEN_UNMAP");
			return false;
		}
		if (rc == 0 && qimg_read(img, 0, got, img->size, &e) == 0) {
			/* Only whole clusters, and of them any. */
			for (uint64_t i = 0; i < img->size; i++) {
				uint64_t c = round_down(i, CLUSTER), end = min_u64(c + CLUSTER, img->size);

				if (got[i] != model[i] && (got[i] || c < off || end > off + len)) {
					diag("discard of %" PRIu64 "+%" PRIu64 " changed byte %" PRIu64, off,
					     len, i);
					return false;
				}
			}
			memcpy(model, got, img->size);
		}
		break;
	case 8:
	case 9:
		rc = qimg_read(img, off, got, len, &e);
		if (rc == 0 && memcmp(got, model + off, len)) {
			diag("read of %" PRIu64 "+%" PRIu64 " differs", off, len);
			return false;
		}
		break;
	default:
		new = data;
		rc = qimg_write(img, off, data, len, &e);
	}
	if (rc < 0 && e.code != EIO) {
		diag("step %d: %s", what, e.msg);
		return false;
	}
	fail_in = 0;
	if (rc < 0)
		return torn(img, off, what == 7 || what > 7 ? 0 : len, new);
	if (what < 7)
		memcpy(model + off, new ? new : (memset(got, 0, len), got), len);
	if (toy_of(img)->in_flight) {
		diag("step %d left a write in flight", what);
		return false;
	}
	return true;
}

/* Runs of qimg_map cover the image, and what they call zero reads as zeros. */
static bool map_holds(struct qimg_image *img)
{
	struct qimg_extent x, last = { 0 };

	for (uint64_t off = 0; off < img->size; off += x.len, last = x) {
		if (qimg_map(img, off, img->size - off, &x, &e) < 0 || !x.len || x.start != off)
			return false;
		if (off && x.kind == last.kind && x.depth == last.depth && x.present == last.present &&
		    (x.kind == QIMG_HOLE || x.kind == QIMG_ZERO)) {
			diag("runs at %" PRIu64 " and %" PRIu64 " are one", last.start, off);
			return false;
		}
		if (x.kind == QIMG_DATA || x.kind == QIMG_PACKED)
			continue;
		for (uint64_t i = 0; i < x.len; i++)
			if (model[off + i]) {
				diag("byte %" PRIu64 " is data and mapped as zero", off + i);
				return false;
			}
	}
	return true;
}

static void take_apart(struct qimg_image *img)
{
	while (img) {
		struct qimg_image *below = img->backing;

		image_free(img);
		img = below;
	}
}

static bool world(uint64_t s)
{
	struct qimg_image *base, *top;
	uint64_t size;
	bool good = true;

	seed = s * 0x9e3779b97f4a7c15ull + 1;
	base = make("base", (1 + rnd(CLUSTERS * 8)) * 512, NULL);
	memset(model, 0, sizeof(model));
	for (unsigned i = 0; i < 60 && good; i++)
		good = step(base);
	size = (1 + rnd(CLUSTERS * 8)) * 512;
	memset(model + base->size, 0, sizeof(model) - base->size);
	top = make("top", size, base);
	for (unsigned i = 0; i < 200 && good; i++)
		good = step(top);
	good = good && qimg_read(top, 0, got, size, &e) == 0 && !memcmp(got, model, size) &&
	       map_holds(top);
	take_apart(top);
	if (!good)
		diag("seed %" PRIu64, s);
	return good;
}

static void test_ranges(void)
{
	struct qimg_image *img = make("ranges", 10 * 512, NULL);
	struct qimg_extent x;
	uint8_t b[1024] = { 1 };

	ok(qimg_read(img, 5120, b, 0, &e) == 0, "nothing can be read at the end");
	ok(qimg_read(img, 5121, b, 0, &e) < 0, "but not behind it");
	ok(qimg_read(img, 5119, b, 2, &e) < 0 && e.code == EINVAL, "reading across the end");
	ok(qimg_read(img, UINT64_MAX, b, 2, &e) < 0, "an offset and a length that overflow");
	ok(qimg_write(img, 5119, b, 2, &e) < 0, "writing across the end");
	ok(qimg_write(img, UINT64_MAX - 1, b, 1024, &e) < 0, "writing with overflow");
	ok(qimg_zero(img, 5000, UINT64_MAX - 4000, 0, &e) < 0, "zeroing with overflow");
	ok(qimg_discard(img, 0, 5121, &e) < 0, "discarding across the end");
	ok(qimg_map(img, 5000, 200, &x, &e) < 0, "mapping across the end");
	ok(qimg_write_compressed(img, 512, b, 512, &e) < 0, "a compressed write off the cluster");
	img->flags = 0;
	ok(qimg_write(img, 0, b, 1, &e) < 0 && e.code == EROFS, "writing to what is open for reading");
	ok(qimg_zero(img, 0, 1, 0, &e) < 0 && qimg_discard(img, 0, 1, &e) < 0 &&
	   qimg_resize(img, 512, "off", &e) < 0, "other changes of it");
	img->flags = QIMG_OPEN_WRITE;
	img->encrypted = true;
	ok(qimg_write(img, 0, b, 1, &e) < 0 && strstr(e.msg, "encryption is not supported"),
	   "writing to an encrypted image");
	toy_of(img)->cells[0] = (struct cell){ EXTENT_DATA, 0, 0 };
	ok(qimg_read(img, 0, b, 1, &e) < 0 && strstr(e.msg, "encryption is not supported"),
	   "reading data of an encrypted image");
	take_apart(img);
}

int main(void)
{
	static const struct file_hook hook = { .call = fail_writes };
	unsigned good = 0, worlds = 150;

	scratch_enter();
	file_set_hook(&hook);
	for (unsigned s = 1; s <= worlds; s++)
		good += world(s);
	is_u64(good, worlds, "random steps leave what the model says");
	test_ranges();
	return done_testing();
}
