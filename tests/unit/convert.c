// SPDX-License-Identifier: BSD-2-Clause
/*
 * Conversions in which one I/O operation fails: each operation in turn, whatever it is. An error must
 * be reported and leave the old target or none, and no other file; what is reported as done must be.
 */
#include "qimg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "scratch.h"
#include "tap.h"

enum { SIZE = 304 * 1024, CLUSTER = 4096 };

static uint8_t content[SIZE];

/* ---- the failing operation ---- */

static struct {
	unsigned count, fail_at;	/* 0: none fails */
	int code;
	unsigned ops;			/* bits of the enum file_op that count */
} fault;

static int on_op(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		 uint64_t len)
{
	(void)ctx;
	(void)f;
	(void)off;
	(void)buf;
	(void)len;
	if (!(fault.ops & 1U << op))
		return 0;
	return ++fault.count == fault.fail_at ? fault.code : 0;
}

static const struct file_hook hook = { .call = on_op };

/* ---- files ---- */

static void put_file(const char *path, const void *buf, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, buf, len) != (ssize_t)len || close(fd))
		abort();
}

static bool file_holds(const char *path, const void *want, size_t len)
{
	uint8_t *got = malloc(len + 1);
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 || !got ? -1 : read(fd, got, len + 1);
	bool same = n == (ssize_t)len && !memcmp(got, want, len);

	if (fd >= 0)
		close(fd);
	free(got);
	return same;
}

static unsigned count_files(void)
{
	DIR *d = opendir(".");
	unsigned n = 0;

	if (!d)
		abort();
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static bool image_read(const char *path, const char *format, uint8_t *buf)
{
	struct qimg_image *img;
	struct qimg_error e;
	bool good;

	if (qimg_open(&img, path, format, NULL, 0, &e) < 0) {
		diag("%s", e.msg);
		return false;
	}
	good = qimg_size(img) == SIZE && qimg_read(img, 0, buf, SIZE, &e) == 0;
	qimg_close(img, &e);
	return good;
}

static bool image_holds(const char *path, const char *format)
{
	static uint8_t got[SIZE];

	return image_read(path, format, got) && !memcmp(got, content, SIZE);
}

/* Each byte is the one of full.qcow2 or the one of the source. */
static bool image_mixes(const char *path, const char *format)
{
	static uint8_t before[SIZE], got[SIZE];

	if (!image_read(path, format, got) || !image_read("full.qcow2", "qcow2", before))
		return false;
	for (unsigned i = 0; i < SIZE; i++)
		if (got[i] != before[i] && got[i] != content[i])
			return false;
	return true;
}

/* ---- conversions ---- */

struct job {
	const char *name;
	const char *source, *source_format, *target, *target_format, *options;
	unsigned flags;
	const char *data;		/* the data file that is made, or NULL */
};

static const struct job jobs[] = {
	{ "raw to raw", "in.raw", "raw", "out", "raw", NULL, 0, NULL },
	{ "raw to qcow2", "in.raw", "raw", "out", "qcow2", "cluster_size=4k", 0, NULL },
	{ "raw to compressed qcow2", "in.raw", "raw", "out", "qcow2", "cluster_size=4k",
	  QIMG_CONVERT_COMPRESS, NULL },
	{ "raw to qcow2 with a data file", "in.raw", "raw", "out", "qcow2", "data_file=out.data", 0,
	  "out.data" },
	{ "raw to preallocated qcow2", "in.raw", "raw", "out", "qcow2", "preallocation=falloc", 0,
	  NULL },
	{ "overlay to qcow2", "over.qcow2", "qcow2", "out", "qcow2", "cluster_size=16k", 0, NULL },
	{ "overlay to an overlay", "over.qcow2", "qcow2", "out", "qcow2",
	  "backing_file=base.raw,backing_fmt=raw", 0, NULL },
	{ "overlay to raw", "over.qcow2", "qcow2", "out", "raw", NULL, 0, NULL },
	{ "raw into a qcow2 in use", "in.raw", "raw", "out", "qcow2", NULL, QIMG_CONVERT_NO_CREATE,
	  NULL },
	{ "raw into a raw in use", "in.raw", "raw", "out", "raw", NULL, QIMG_CONVERT_NO_CREATE, NULL },
	{ "raw, compressed, into a qcow2 in use", "in.raw", "raw", "out", "qcow2", NULL,
	  QIMG_CONVERT_NO_CREATE | QIMG_CONVERT_COMPRESS, NULL },
};

static const struct job sharing[] = {
	{ "raw to raw that shares", "in.raw", "raw", "out", "raw", NULL, 0, NULL },
	{ "raw to qcow2 that shares", "in.raw", "raw", "out", "qcow2", "cluster_size=4k", 0, NULL },
};

static int convert(const struct job *j, unsigned flags, struct qimg_error *e)
{
	struct qimg_opts *opts = qimg_opts_new();
	struct qimg_image *source = NULL;
	struct qimg_error ignored;
	struct qimg_convert c;
	int ret = -1;

	if (!opts || (j->options && qimg_opts_parse(opts, j->options, e) < 0))
		abort();
	if (qimg_open(&source, j->source, j->source_format, NULL, 0, e) < 0)
		goto out;
	qimg_convert_init(&c);
	c.sources = &source;
	c.source_count = 1;
	c.target = j->target;
	c.target_format = j->target_format;
	c.create_opts = opts;
	c.flags = j->flags | flags;
	ret = qimg_convert(&c, e);
out:
	qimg_close(source, &ignored);
	qimg_opts_free(opts);
	return ret;
}

/* A new image that reads as `want`; clusters that `below` holds already are left out. */
static void make_image(const char *name, const char *options, const uint8_t *want,
		       const uint8_t *below)
{
	struct qimg_opts *opts = qimg_opts_new();
	struct qimg_creation *c;
	struct qimg_image *img;
	struct qimg_error e;

	if (!opts || qimg_opts_parse(opts, options, &e) < 0 ||
	    qimg_create_prepare(&c, name, "qcow2", opts, 0, &e) < 0 ||
	    qimg_create_run(c, NULL, &e) < 0 ||
	    qimg_open(&img, name, "qcow2", NULL, QIMG_OPEN_WRITE, &e) < 0)
		abort();
	for (unsigned at = 0; at < SIZE; at += CLUSTER)
		if (memcmp(want + at, below + at, CLUSTER) &&
		    qimg_write(img, at, want + at, CLUSTER, &e) < 0)
			abort();
	if (qimg_close(img, &e) < 0)
		abort();
	qimg_create_free(c);
	qimg_opts_free(opts);
}

static void make_sources(void)
{
	static uint8_t other[SIZE], zeros[SIZE];

	/* data, zeros that are written, whole clusters of zeros */
	srand(1);
	for (unsigned i = 0; i < SIZE; i++)
		content[i] = i / CLUSTER % 5 == 3 || i / 65536 == 2 ? 0 : rand() % (i / 65536 + 2);
	for (unsigned i = 0; i < SIZE; i++)
		other[i] = i / CLUSTER % 7 < 3 ? content[i] : 0x5a;
	put_file("in.raw", content, SIZE);
	put_file("base.raw", other, SIZE);
	make_image("over.qcow2", "backing_file=base.raw,backing_fmt=raw,cluster_size=4k", content,
		   other);
	make_image("full.qcow2", "cluster_size=4k,size=304k", other, zeros);
	put_file("full.raw", other, SIZE);
}

static void make_target(const struct job *j, bool old)
{
	unlink(j->target);
	if (j->data)
		unlink(j->data);
	if (j->flags & QIMG_CONVERT_NO_CREATE) {
		if (!sh("cp full.%s %s", j->target_format, j->target))
			abort();
	} else if (old) {
		put_file(j->target, "the old target", 14);
	}
}

/* What is wrong after a conversion, or NULL. old: there was a target before. */
static const char *judge(const struct job *j, int ret, bool old, unsigned files)
{
	bool there = access(j->target, F_OK) == 0;

	if (ret == 0) {
		if (!image_holds(j->target, j->target_format))
			return "reported as done, and the content is wrong";
		return NULL;
	}
	/* Half of it may be written, but it is an image, and what was not written is what it was. */
	if (j->flags & QIMG_CONVERT_NO_CREATE)
		return image_mixes(j->target, j->target_format) ? NULL : "failed, and left a broken image";
	if (old && !file_holds(j->target, "the old target", 14))
		return "failed, and the old target is not what it was";
	if (!old && there)
		return "failed, and left a target";
	if (j->data && access(j->data, F_OK) == 0)
		return "failed, and left a data file";
	if (count_files() != files)
		return "failed, and left another file";
	return NULL;
}

/* Fails each operation of a kind in turn, until a run has no more of them. */
static void test_faults(const struct job *j, bool old, unsigned ops, int code, const char *what)
{
	/* Syncs are slow: they are left out unless it is they that fail. */
	unsigned flags = ops & 1U << FILE_OP_SYNC ? 0 : QIMG_CONVERT_NO_SYNC;
	unsigned n = 0, failed = 0, files;
	struct qimg_error e;
	const char *wrong = NULL;
	bool end = false;

	do {
		int ret;

		make_target(j, old);
		files = count_files();
		fault.count = 0;
		fault.fail_at = ++n;
		fault.ops = ops;
		fault.code = code;
		file_set_hook(&hook);
		memset(&e, 0, sizeof(e));
		ret = convert(j, flags, &e);
		file_set_hook(NULL);
		end = fault.count < n;
		if (ret < 0 && (e.code == 0 || !e.msg[0]))
			wrong = "failed without a reason";
		else if (ret < 0 && end)
			wrong = "failed although nothing else did";
		else
			wrong = judge(j, ret, old, files);
		failed += ret < 0;
	} while (!wrong && !end && n < 5000);
	ok(!wrong && end, "%s%s, %s fails: %u places, %u of them fatal", j->name,
	   old ? " over an old file" : "", what, n - 1, failed);
	if (wrong)
		diag("at operation %u it %s (%s)", n, wrong, e.msg);
}

static void test_job(const struct job *j)
{
	for (int old = 0; old < 2; old++) {
		test_faults(j, old, 1U << FILE_OP_READ, EIO, "a read");
		test_faults(j, old, 1U << FILE_OP_WRITE, EIO, "a write");
		test_faults(j, old, 1U << FILE_OP_WRITE, ENOSPC, "space for a write");
		test_faults(j, old, 1U << FILE_OP_SYNC, EIO, "a sync");
		test_faults(j, old,
			    1U << FILE_OP_ZERO | 1U << FILE_OP_PUNCH | 1U << FILE_OP_TRUNCATE |
				    1U << FILE_OP_ALLOCATE,
			    EIO, "anything else");
		if (j->flags & QIMG_CONVERT_NO_CREATE)
			break;
	}
}

int main(void)
{
	scratch_enter();
	make_sources();
	for (unsigned i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		test_job(&jobs[i]);
	/* Where blocks can be shared, which is neither a read nor a write. */
	if (scratch_mount("xfs", "xfs", 300) && !chdir("xfs")) {
		make_sources();
		test_job(&sharing[0]);
		test_job(&sharing[1]);
		if (chdir(".."))
			abort();
	} else {
		skip("no XFS here");
	}
	return done_testing();
}
