// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/raw: sizes and windows, runs, writing in place, zeroing and discarding on the host, resizing, creating,
 * and the guard over the first sector of images whose format was probed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "qimg.h"
#include "scratch.h"
#include "tap.h"

static struct qimg_error e;
static unsigned warnings;

static void count_warning(void *ctx, const char *msg)
{
	(void)ctx;
	diag("warning: %s", msg);
	warnings++;
}

static void put(const char *path, const void *buf, size_t len, uint64_t off)
{
	int fd = open(path, O_RDWR | O_CREAT, 0644);

	if (fd < 0 || pwrite(fd, buf, len, off) != (ssize_t)len)
		exit(1);
	close(fd);
}

static struct stat look(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		memset(&st, 0, sizeof(st));
	return st;
}

/* An image with the options `list` ("offset=512,size=1k"). */
static struct qimg_image *image(const char *path, const char *format, const char *list,
				unsigned flags)
{
	struct qimg_opts *o = qimg_opts_new();
	struct qimg_image *img = NULL;

	if ((list && qimg_opts_parse(o, list, &e) < 0) ||
	    qimg_open(&img, path, format, o, flags, &e) < 0)
		img = NULL;
	qimg_opts_free(o);
	return img;
}

static bool is_filled(struct qimg_image *img, uint64_t off, size_t len, uint8_t want)
{
	uint8_t buf[8192];

	if (len > sizeof(buf) || qimg_read(img, off, buf, len, &e) < 0)
		return false;
	for (size_t i = 0; i < len; i++)
		if (buf[i] != want)
			return false;
	return true;
}

static void test_sizes(void)
{
	static const struct {
		uint64_t len, size;
	} t[] = { { 0, 0 }, { 1, 512 }, { 511, 512 }, { 512, 512 }, { 513, 1024 },
		  { 123456789, 123457024 } };

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct qimg_image *img;
		struct qimg_extent x;
		uint8_t last[2];

		unlink("odd");
		put("odd", "", 0, 0);
		if (truncate("odd", t[i].len) == 0 && t[i].len)
			put("odd", "\x5a", 1, t[i].len - 1);
		img = image("odd", "raw", NULL, 0);
		is_u64(img ? qimg_size(img) : 1, t[i].size, "size of a file of %" PRIu64 " bytes", t[i].len);
		if (t[i].len) {
			ok(is_filled(img, t[i].len - 1, 1, 0x5a), "its last byte");
			ok(is_filled(img, t[i].len, t[i].size - t[i].len, 0), "and zeros behind it");
		}
		if (t[i].size > t[i].len) {
			qimg_map(img, t[i].len, t[i].size - t[i].len, &x, &e);
			ok(x.kind == QIMG_ZERO && x.present && x.host_valid && x.host == t[i].len,
			   "which are mapped as zeros of the image");
			ok(qimg_map(img, t[i].len - 1, 2, &x, &e) == 0 && x.len == 1 &&
			   x.kind == QIMG_DATA, "with data in front of them");
		}
		ok(qimg_read(img, t[i].size, last, 1, &e) < 0, "nothing behind the end");
		qimg_close(img, &e);
		is_u64(look("odd").st_size, t[i].len, "reading leaves the length alone");
	}
}

static void test_windows(void)
{
	struct qimg_image *img;
	uint8_t buf[4096];

	for (unsigned i = 0; i < sizeof(buf); i++)
		buf[i] = i / 512 + 1;
	put("window", buf, sizeof(buf), 0);
	img = image("window", "raw", "offset=1024,size=1024", QIMG_OPEN_WRITE);
	is_u64(img ? qimg_size(img) : 0, 1024, "a window of 1024 bytes");
	ok(is_filled(img, 0, 512, 3) && is_filled(img, 512, 512, 4), "shows what is there");
	memset(buf, 0x77, 1024);
	ok(qimg_write(img, 0, buf, 1024, &e) == 0, "is written to: %s", e.msg);
	ok(qimg_write(img, 1000, buf, 25, &e) < 0, "and not beyond");
	ok(qimg_resize(img, 2048, "off", &e) < 0, "and not resized");
	qimg_close(img, &e);
	img = image("window", "raw", NULL, 0);
	ok(is_filled(img, 512, 512, 2) && is_filled(img, 1024, 1024, 0x77) && is_filled(img, 2048, 512, 5),
	   "what lies around it stays");
	qimg_close(img, &e);
	img = image("window", "raw", "offset=3000", 0);
	is_u64(img ? qimg_size(img) : 0, 1536, "the rest of a file is rounded up");
	qimg_close(img, &e);
	ok(!image("window", "raw", "offset=4097", 0), "an offset behind the end");
	ok(!image("window", "raw", "size=1000", 0) && strstr(e.msg, "512"), "an odd window");
	ok(!image("window", "raw", "offset=512,size=4096", 0), "a window behind the end");
	ok(!image("window", "raw", "offset=1024,size=9223372036854775296", 0), "a window that overflows");
}

static void test_holes(void)
{
	const uint64_t m = 1 << 20;
	struct qimg_image *img;
	struct qimg_extent x;
	static uint8_t buf[1 << 20];

	memset(buf, 0x33, sizeof(buf));
	put("holes", buf, m, m);
	put("holes", buf, m, 4 * m);
	img = image("holes", "raw", "discard=unmap", QIMG_OPEN_WRITE);
	ok(qimg_map(img, 0, 5 * m, &x, &e) == 0 && x.kind == QIMG_ZERO && x.len == m && x.present,
	   "a hole is a run of zeros");
	ok(qimg_map(img, m, 4 * m, &x, &e) == 0 && x.kind == QIMG_DATA && x.len == m && x.host == m &&
	   !strcmp(x.path, "holes"), "then data, where it is");
	ok(qimg_zero(img, 0, 5 * m, QIMG_ZERO_UNMAP, &e) == 0, "all of it is zeroed: %s", e.msg);
	ok(qimg_map(img, 0, 5 * m, &x, &e) == 0 && x.kind == QIMG_ZERO && x.len == 5 * m,
	   "which leaves one hole");
	is_u64(look("holes").st_size, 5 * m, "of the same length");
	ok(look("holes").st_blocks <= 16, "without blocks");
	ok(qimg_write(img, 3 * m, buf, m, &e) == 0 && qimg_discard(img, 3 * m + 100, m - 100, &e) == 0 &&
	   look("holes").st_blocks < 32, "what is written and discarded takes no space");
	ok(is_filled(img, 3 * m, 100, 0x33), "what is in front of the discard stays");
	ok(qimg_write(img, 3 * m, buf, m, &e) == 0 && qimg_zero(img, 3 * m, m, 0, &e) == 0 &&
	   is_filled(img, 4 * m - 1000, 1000, 0) && look("holes").st_blocks >= 2048,
	   "zeroing without UNMAP keeps the space");
	ok(qimg_write_compressed(img, 0, buf, 4096, &e) < 0 && e.code == ENOTSUP,
	   "there is no compression");
	qimg_close(img, &e);
	img = image("holes", "raw", NULL, QIMG_OPEN_WRITE);
	qimg_write(img, 0, buf, m, &e);
	ok(qimg_discard(img, 0, m, &e) == 0 && is_filled(img, 0, 4096, 0x33),
	   "without discard=unmap a discard does nothing");
	qimg_close(img, &e);
}

static void test_resize(void)
{
	struct qimg_image *img;

	put("resize", "abc", 3, 0);
	img = image("resize", "raw", NULL, QIMG_OPEN_WRITE);
	ok(qimg_resize(img, 100001, "off", &e) == 0 && qimg_size(img) == 100352, "growing to an odd size");
	is_u64(look("resize").st_size, 100001, "which the file gets");
	ok(qimg_resize(img, 1 << 20, "falloc", &e) == 0 && look("resize").st_blocks >= 1700, "falloc: %s",
	   e.msg);
	ok(qimg_resize(img, 2 << 20, "full", &e) == 0 && look("resize").st_blocks >= 3700, "full: %s",
	   e.msg);
	ok(qimg_resize(img, 4096, "off", &e) == 0 && look("resize").st_size == 4096, "shrinking");
	ok(is_filled(img, 3, 4000, 0), "what was grown is zero");
	ok(qimg_resize(img, 8192, "metadata", &e) < 0 && strstr(e.msg, "metadata"), "a mode raw has not");
	ok(qimg_resize(img, UINT64_MAX, "off", &e) < 0 && qimg_resize(img, INT64_MAX, "off", &e) < 0,
	   "absurd sizes");
	is_u64(look("resize").st_size, 4096, "which change nothing");
	qimg_close(img, &e);
}

static bool create(const char *path, const char *list, const char **line)
{
	static char text[512];
	struct qimg_opts *o = qimg_opts_new();
	struct qimg_creation *c = NULL;
	bool done = qimg_opts_parse(o, list, &e) == 0 &&
		    qimg_create_prepare(&c, path, "raw", o, 0, &e) == 0;

	if (done) {
		snprintf(text, sizeof(text), "%s", qimg_create_summary(c));
		*line = text;
		done = qimg_create_run(c, NULL, &e) == 0;
	}
	qimg_create_free(c);
	qimg_opts_free(o);
	return done;
}

static void test_create(void)
{
	const char *line = NULL;

	ok(create("new", "size=1000000", &line), "create: %s", e.msg);
	is_str(line, "fmt=raw size=1000000", "which is announced unrounded");
	is_u64(look("new").st_size, 1000448, "and rounded up");
	is_u64(look("new").st_blocks, 0, "and takes no space");
	ok(create("new", "size=1M,preallocation=falloc,nocow=on,extent_size_hint=64k", &line) &&
	   look("new").st_blocks >= 2048, "falloc: %s", e.msg);
	is_str(line, "fmt=raw size=1048576 nocow=on preallocation=falloc extent_size_hint=65536",
	       "with all options in order");
	ok(create("new", "size=3M,preallocation=full", &line) && look("new").st_blocks >= 6144, "full: %s",
	   e.msg);
	ok(!create("new", "preallocation=off", &line) && strstr(e.msg, "size"), "no size");
	ok(!create("new", "size=1M,preallocation=metadata", &line), "a mode raw has not");
	ok(!create("new", "size=1M,cluster_size=64k", &line) && strstr(e.msg, "cluster_size"),
	   "an option raw has not");
	ok(!create("new", "size=1M,backing_file=x,backing_fmt=raw", &line), "a backing file");
	ok(!create("new", "size=8E", &line), "too large");
	ok(!create("nodir/new", "size=1M", &line), "no such folder");
	is_u64(look("new").st_size, 3 << 20, "what is refused changes nothing");
	ok(create("new", "size=0", &line) && look("new").st_size == 0, "nothing at all");
	ok(create("a:b,c", "size=512", &line) && look("a:b,c").st_size == 512, "an odd name");
	ok(create("file:plain", "size=512", &line) && look("plain").st_size == 512, "the prefix file:");
}

/* What a guest writes must not choose how the host reads the disk next time. */
static void test_guard(void)
{
	static const uint8_t header[512] = { 'Q', 'F', 'I', 0xfb, 0, 0, 0, 3 };
	struct qimg_image *img;

	put("guard", "x", 1, 9999);
	warnings = 0;
	img = image("guard", NULL, NULL, QIMG_OPEN_WRITE);
	ok(img && !strcmp(qimg_format(img), "raw") && qimg_was_probed(img), "probed as raw");
	is_u64(warnings, 1, "with a warning");
	ok(qimg_write(img, 0, header, 512, &e) < 0 && e.code == EPERM, "a header is refused");
	ok(qimg_write(img, 0, header, 3, &e) == 0 && qimg_write(img, 3, header + 3, 509, &e) < 0,
	   "in pieces, too");
	ok(qimg_write(img, 512, header, 512, &e) == 0, "elsewhere it is data");
	ok(qimg_zero(img, 0, 512, 0, &e) == 0, "zeros are fine");
	qimg_close(img, &e);
	warnings = 0;
	img = image("guard", "raw", NULL, QIMG_OPEN_WRITE);
	ok(qimg_write(img, 0, header, 512, &e) == 0, "allowed when the format is given");
	qimg_close(img, &e);
	img = image("guard", NULL, NULL, 0);
	qimg_close(img, &e);
	is_u64(warnings, 0, "no warning when it is given, or only read");
}

static void test_device(void)
{
	const char *line;
	struct qimg_image *img;
	char dev[64], list[128];

	if (!scratch_loop("disk", 1 << 20, dev)) {
		skip("no loop devices");
		return;
	}
	img = image(dev, "raw", NULL, QIMG_OPEN_WRITE);
	is_u64(img ? qimg_size(img) : 0, 1 << 20, "a device has its size: %s", e.msg);
	ok(img && qimg_write(img, 5000, "abc", 3, &e) == 0 && is_filled(img, 5000, 1, 'a'), "written to");
	ok(img && qimg_zero(img, 4000, 8192, 0, &e) == 0 && is_filled(img, 4000, 8192, 0), "zeroed");
	ok(img && qimg_resize(img, 2 << 20, "off", &e) < 0 && strstr(e.msg, "device"), "not grown");
	qimg_close(img, &e);
	ok(create(dev, "size=1M", &line) && create(dev, "size=300k", &line), "created in place: %s", e.msg);
	ok(!create(dev, "size=1025k", &line) && strstr(e.msg, "1048576"), "not larger than it is");
	for (unsigned i = 0; i < 2; i++) {
		snprintf(list, sizeof(list), "size=1M,preallocation=%s", i ? "full" : "falloc");
		ok(!create(dev, list, &line), "%s is for files", list);
	}
}

int main(void)
{
	scratch_enter();
	qimg_set_warning_handler(count_warning, NULL);
	test_sizes();
	test_windows();
	test_holes();
	test_resize();
	test_create();
	test_guard();
	test_device();
	return done_testing();
}
