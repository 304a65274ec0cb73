// SPDX-License-Identifier: BSD-2-Clause
/*
 * Images as other programs may make them, within the specification: header lengths, fields and extensions
 * from a later version of the format, oversized tables, odd sizes. They read right, they can be written to, and
 * what this program does not know it leaves as it was.
 */
#include "qimg.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../build_image.h"
#include "../qcheck.h"
#include "../setting.h"
#include "tap.h"

enum { CLUSTER = 4096, CLUSTERS = 20, SIZE = CLUSTER * CLUSTERS, ROOM = 1 << 20 };

static char path[300];
static uint8_t content[SIZE], file[ROOM];
static size_t file_len;

/* Every other cluster has data, one in four is compressed. */
static void build(struct build *b)
{
	b->cluster_bits = 12;
	b->size = SIZE;
	memset(content, 0, sizeof(content));
	build_start(b);
	for (uint64_t off = 0, i = 0; off < SIZE; off += 2 * CLUSTER, i++) {
		stamp_fill(content + off, off, CLUSTER, i + 1);
		if (i % 2)
			build_packed(b, off, content + off);
		else
			build_data(b, off, content + off);
	}
	build_finish(b, path, NULL);
}

static void load(void)
{
	FILE *f = fopen(path, "rb");

	file_len = f ? fread(file, 1, ROOM, f) : 0;
	if (!f || file_len == 0 || file_len == ROOM)
		abort();
	fclose(f);
}

static void store(void)
{
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(file, 1, file_len, f) != file_len || fclose(f))
		abort();
}

static void put(uint64_t off, uint64_t v, unsigned bytes)
{
	while (bytes) {
		file[off + --bytes] = v;
		v >>= 8;
	}
}

static uint64_t get(uint64_t off, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | file[off + i];
	return v;
}

static void compare(void *ctx, uint64_t guest, uint64_t len, enum qcheck_kind kind,
		    const uint8_t *bytes)
{
	static const uint8_t zeros[CLUSTER];
	const uint8_t *have = kind == QCHECK_DATA ? bytes : zeros;
	unsigned *bad = ctx;

	if (guest >= SIZE)
		return;
	*bad += !have || memcmp(have, content + guest, guest + len > SIZE ? SIZE - guest : len);
}

/* Reads all, writes some, reads again; then the second reader looks at it. `file` is the result. */
static void use(const char *what, uint64_t size)
{
	static uint8_t buf[SIZE];
	struct qimg_image *img;
	unsigned bad = 0;
	struct qimg_error e;
	struct qcheck q;
	bool good;

	good = qimg_open(&img, path, NULL, NULL, 0, &e) == 0;
	if (!ok(good, "%s: opens", what)) {
		diag("%s", e.msg);
		return;
	}
	is_str(qimg_format(img), "qcow2", "%s: is taken for what it is", what);
	is_u64(qimg_size(img), size, "%s: its size", what);
	good = qimg_read(img, 0, buf, SIZE, &e) == 0;
	ok(good && !memcmp(buf, content, SIZE), "%s: reads right", what);
	ok(qimg_close(img, &e) == 0, "%s: closes", what);

	if (!ok(qimg_open(&img, path, NULL, NULL, QIMG_OPEN_WRITE | QIMG_OPEN_UNMAP, &e) == 0,
		"%s: opens for writing", what)) {
		diag("%s", e.msg);
		return;
	}
	stamp_fill(content + 3000, 3000, 9000, 77);
	memset(content + 8 * CLUSTER, 0, 2 * CLUSTER);
	good = qimg_write(img, 3000, content + 3000, 9000, &e) == 0 &&
	       qimg_zero(img, 8 * CLUSTER, 2 * CLUSTER, QIMG_ZERO_UNMAP, &e) == 0 &&
	       qimg_read(img, 0, buf, SIZE, &e) == 0;
	ok(good && !memcmp(buf, content, SIZE), "%s: takes writes", what);
	ok(qimg_close(img, &e) == 0, "%s: closes after writing", what);

	load();
	good = qcheck_open(&q, (struct qcheck_buf){ file, file_len },
			   (struct qcheck_buf){ NULL, 0 });
	if (good) {
		qcheck_refs(&q);
		qcheck_walk(&q, 0, compare, &bad);
	}
	ok(good && !qcheck_corruptions(&q) && !q.count[QCHECK_LEAK] && !bad,
	   "%s: is sound after that", what);
	if (*q.text)
		diag("%s", q.text);
	qcheck_close(&q);
}

static void header_lengths(void)
{
	struct build b = { .version = 2, .refcount_order = 4 };

	build(&b);
	use("version 2", SIZE);

	b = (struct build){ .version = 3, .refcount_order = 4 };
	build(&b);
	load();
	put(100, 104, 4);
	store();
	use("a header of 104 bytes", SIZE);
	is_u64(get(100, 4), 104, "and it still has 104");

	b = (struct build){ .version = 3, .refcount_order = 4 };
	build(&b);
	load();
	put(100, 136, 4);
	put(112, UINT64_C(0x1122334455667788), 8);
	put(128, 99, 8);
	store();
	use("a header of 136 bytes", SIZE);
	ok(get(100, 4) == 136 && get(112, 8) == UINT64_C(0x1122334455667788) && get(128, 8) == 99,
	   "fields that are not known stay");
}

static void unknown_things(void)
{
	struct build b = { .version = 3, .refcount_order = 4 };

	build(&b);
	load();
	put(80, ~UINT64_C(1), 8);
	store();
	use("unknown compatible bits", SIZE);
	is_u64(get(80, 8), ~UINT64_C(1), "they stay");

	b = (struct build){ .version = 3, .refcount_order = 4 };
	build(&b);
	load();
	put(88, ~UINT64_C(3), 8);
	store();
	use("unknown autoclear bits", SIZE);
	is_u64(get(88, 8), 0, "they are cleared by writing");

	b = (struct build){ .version = 3, .refcount_order = 4 };
	build(&b);
	load();
	put(112, 0x12345678, 4);
	put(116, 5, 4);
	memcpy(file + 120, "hello", 5);
	put(128, 0x23456789, 4);
	store();
	use("unknown header extensions", SIZE);
	ok(get(112, 4) == 0x12345678 && !memcmp(file + 120, "hello", 5) &&
		   get(128, 4) == 0x23456789,
	   "they stay");
}

static void tables_and_sizes(void)
{
	struct build b = { .version = 3, .refcount_order = 4, .l1_spare = 3000 };

	build(&b);
	use("an L1 table of six clusters for one entry", SIZE);

	b = (struct build){ .version = 3, .refcount_order = 0, .rt_spare = 5 };
	build(&b);
	use("a refcount table of six clusters", SIZE);

	b = (struct build){ .version = 3, .refcount_order = 4, .zstd = true };
	build(&b);
	use("zstd", SIZE);

	/* The last part of a sector is there for the guest. */
	b = (struct build){ .version = 3, .refcount_order = 4 };
	build(&b);
	load();
	put(24, SIZE + 700, 8);
	store();
	use("a size that is no multiple of 512", SIZE + 1024);

	/* The last cluster need not be whole. */
	b = (struct build){ .version = 3, .refcount_order = 4 };
	build(&b);
	load();
	while (file_len && file[file_len - 1] == 0)
		file_len--;
	store();
	use("a file that ends with its last byte that is not zero", SIZE);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");
	char dir[200];

	snprintf(dir, sizeof(dir), "%s/qimg-foreign-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	snprintf(path, sizeof(path), "%s/image", dir);
	header_lengths();
	unknown_things();
	tables_and_sizes();
	unlink(path);
	rmdir(dir);
	return done_testing();
}
