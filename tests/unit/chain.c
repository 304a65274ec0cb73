// SPDX-License-Identifier: BSD-2-Clause
/* lib/image/open, chain, info: what the flags of qimg_open do to a chain of images. */
#include <errno.h>

#include "qimg.h"
#include "scratch.h"
#include "tap.h"

static struct qimg_error e;

static void create(const char *name, const char *format, const char *list, unsigned flags)
{
	struct qimg_opts *o = qimg_opts_new();
	struct qimg_creation *c = NULL;

	if (qimg_opts_parse(o, list, &e) < 0 || qimg_create_prepare(&c, name, format, o, flags, &e) < 0 ||
	    qimg_create_run(c, NULL, &e) < 0) {
		diag("%s: %s", name, e.msg);
		exit(1);
	}
	qimg_create_free(c);
	qimg_opts_free(o);
}

static void fill(const char *name, const char *format, uint64_t off, uint8_t byte)
{
	struct qimg_image *img;
	static uint8_t buf[65536];

	memset(buf, byte, sizeof(buf));
	if (qimg_open(&img, name, format, NULL, QIMG_OPEN_WRITE, &e) < 0 ||
	    qimg_write(img, off, buf, sizeof(buf), &e) < 0 || qimg_close(img, &e) < 0) {
		diag("%s: %s", name, e.msg);
		exit(1);
	}
}

static int byte_at(struct qimg_image *img, uint64_t off)
{
	uint8_t b;

	return qimg_read(img, off, &b, 1, &e) < 0 ? -1 : b;
}

static void test_chain(void)
{
	struct qimg_image *img, *below;

	ok(qimg_open(&img, "top", NULL, NULL, 0, &e) == 0, "a chain of three opens: %s", e.msg);
	ok(byte_at(img, 0) == 3 && byte_at(img, 65536) == 2 && byte_at(img, 131072) == 1 &&
	   byte_at(img, 196608) == 0, "each image has its part");
	below = qimg_backing(img);
	ok(below && !strcmp(qimg_name(below), "mid") && !strcmp(qimg_format(below), "qcow2") &&
	   !qimg_was_probed(below), "the second has its name and format");
	below = qimg_backing(below);
	ok(below && !strcmp(qimg_format(below), "raw") && !qimg_backing(below), "the third is the last");
	ok(byte_at(below, 131072) == 1 && byte_at(below, 0) == 0, "and can be read by itself");
	ok(qimg_write(below, 0, "x", 1, &e) < 0 && e.code == EROFS, "but not written to");
	ok(!link("base", "hard"), "a file gets a second name");
	ok(qimg_same_file(img, "base") && qimg_same_file(img, "./hard") && qimg_same_file(img, "top") &&
	   !qimg_same_file(below, "top") && !qimg_same_file(img, "other") && !qimg_same_file(img, "none"),
	   "qimg_same_file knows the files of a chain");
	ok(qimg_close(img, &e) == 0, "it closes");

	ok(qimg_open(&img, "top", "qcow2", NULL, QIMG_OPEN_NO_BACKING, &e) == 0 && !qimg_backing(img) &&
	   byte_at(img, 0) == 3 && byte_at(img, 65536) == 0, "NO_BACKING reads zeros from below");
	qimg_close(img, &e);
	ok(qimg_open(&img, "top", "qcow2", NULL, QIMG_OPEN_HEADER_ONLY, &e) == 0 && !qimg_backing(img),
	   "HEADER_ONLY opens nothing below");
	qimg_close(img, &e);
}

static void test_failures(void)
{
	struct qimg_image *img = (void *)&e;

	create("lost", "qcow2", "size=1M,backing_file=none,backing_fmt=raw", QIMG_CREATE_UNSAFE);
	ok(qimg_open(&img, "lost", NULL, NULL, 0, &e) < 0 && !img && e.code == ENOENT &&
	   strstr(e.msg, "none") && strstr(e.msg, "lost"), "a missing backing file: %s", e.msg);
	ok(qimg_open(&img, "lost", NULL, NULL, QIMG_OPEN_WRITE, &e) < 0 && !img, "for writing, too");
	ok(qimg_open(&img, "lost", NULL, NULL, QIMG_OPEN_HEADER_ONLY, &e) == 0, "info is not stopped by it");
	qimg_close(img, &e);
	ok(qimg_open(&img, "none", NULL, NULL, 0, &e) < 0 && !img && e.code == ENOENT, "no such image");
	ok(qimg_open(&img, "base", "qcow2", NULL, 0, &e) < 0 && !img, "not of that format");
	ok(qimg_open(&img, "base", "vmdk", NULL, 0, &e) < 0 && !img && strstr(e.msg, "vmdk"),
	   "a format that is not known");
	ok(qimg_open(&img, "base", "raw", NULL, QIMG_OPEN_WRITE | QIMG_OPEN_SHARE, &e) < 0 && !img,
	   "writing without locks");
	ok(qimg_open(&img, NULL, "raw", NULL, 0, &e) < 0 && !img, "no name at all");
	ok(qimg_close(NULL, &e) == 0, "closing nothing");
}

static void test_references(void)
{
	static const char json[] = "size=1M,backing_fmt=raw,backing_file="
				   "json:{\"driver\":\"raw\",,\"file\":{\"driver\":\"file\",,\"filename\":\"base\"}}";
	struct qimg_image *img;
	struct qimg_value *list;

	create("js", "qcow2", json, QIMG_CREATE_UNSAFE);
	ok(qimg_open(&img, "js", NULL, NULL, 0, &e) < 0 && e.code == EPERM, "a reference is refused: %s",
	   e.msg);
	ok(qimg_info_chain("js", NULL, NULL, 0, &list, &e) < 0, "by info on chains, too");
	ok(qimg_open(&img, "js", NULL, NULL, QIMG_OPEN_EXTERNAL, &e) == 0 && byte_at(img, 131072) == 1,
	   "EXTERNAL follows it: %s", e.msg);
	qimg_close(img, &e);
	ok(qimg_info_chain("js", NULL, NULL, QIMG_OPEN_EXTERNAL, &list, &e) == 0 &&
	   qimg_value_count(list) == 2, "so does info");
	qimg_value_free(list);
}

/* A reader keeps writers out and the other way round; SHARE does not care. */
static void test_locks(void)
{
	struct qimg_image *a = NULL, *b = NULL;

	ok(qimg_open(&a, "top", NULL, NULL, 0, &e) == 0 && qimg_open(&b, "top", NULL, NULL, 0, &e) == 0,
	   "two readers");
	qimg_close(b, &e);
	ok(qimg_open(&b, "top", NULL, NULL, QIMG_OPEN_WRITE, &e) < 0 && e.code == EAGAIN,
	   "no writer beside a reader: %s", e.msg);
	ok(qimg_open(&b, "base", "raw", NULL, QIMG_OPEN_WRITE, &e) < 0 && e.code == EAGAIN,
	   "not even of a backing file");
	qimg_close(a, &e);
	ok(qimg_open(&a, "top", NULL, NULL, QIMG_OPEN_WRITE, &e) == 0, "a writer alone: %s", e.msg);
	ok(qimg_open(&b, "top", NULL, NULL, 0, &e) < 0, "no reader beside it");
	ok(qimg_open(&b, "top", NULL, NULL, QIMG_OPEN_SHARE, &e) == 0, "but one that shares");
	qimg_close(b, &e);
	ok(qimg_open(&b, "base", "raw", NULL, 0, &e) == 0, "its backing file can be read");
	qimg_close(b, &e);
	qimg_close(a, &e);
}

static void test_cache_modes(void)
{
	static const struct {
		const char *mode;
		unsigned flags;
	} t[] = { { "none", QIMG_OPEN_DIRECT }, { "writeback", 0 }, { "unsafe", QIMG_OPEN_NO_FLUSH },
		  { "writethrough", QIMG_OPEN_WRITETHROUGH },
		  { "directsync", QIMG_OPEN_DIRECT | QIMG_OPEN_WRITETHROUGH } };
	unsigned flags;

	for (unsigned i = 0; i < sizeof(t) / sizeof(*t); i++)
		ok(qimg_cache_flags(t[i].mode, &flags) == 0 && flags == t[i].flags, "cache mode %s", t[i].mode);
	ok(qimg_cache_flags("", &flags) < 0 && qimg_cache_flags("None", &flags) < 0, "others are not known");
}

int main(void)
{
	scratch_enter();
	create("base", "raw", "size=1M", 0);
	create("other", "raw", "size=1M", 0);
	fill("base", "raw", 131072, 1);
	create("mid", "qcow2", "backing_file=base,backing_fmt=raw", 0);
	fill("mid", "qcow2", 65536, 2);
	create("top", "qcow2", "backing_file=mid,backing_fmt=qcow2", 0);
	fill("top", "qcow2", 0, 3);
	test_chain();
	test_failures();
	test_references();
	test_locks();
	test_cache_modes();
	return done_testing();
}
