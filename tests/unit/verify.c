// SPDX-License-Identifier: BSD-2-Clause
/* qimg_convert with VERIFY: a target that is changed behind its back is noticed, and does not get its name. */
#include "qimg.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "io/file.h"
#include "scratch.h"
#include "tap.h"

enum { SIZE = 3 << 20 };

static uint8_t content[SIZE];
static struct {
	int fd;			/* of the target */
	uint64_t off, len;	/* its longest write */
	bool spoil, verified;
	uint64_t last;		/* progress within the phase */
	bool back;		/* it went back */
} seen;

static int on_op(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		 uint64_t len)
{
	(void)ctx;
	(void)buf;
	if (op != FILE_OP_WRITE || len <= seen.len)
		return 0;
	seen.fd = file_fd(f);
	seen.off = off;
	seen.len = len;
	return 0;
}

static void on_phase(void *ctx, const char *phase)
{
	uint8_t byte;

	(void)ctx;
	/* Nothing is counted while it is synced. */
	if (strcmp(phase, "sync"))
		seen.last = 0;
	if (strcmp(phase, "verify"))
		return;
	seen.verified = true;
	if (!seen.spoil)
		return;
	if (pread(seen.fd, &byte, 1, (off_t)seen.off + 1234) != 1)
		abort();
	byte ^= 1;
	if (pwrite(seen.fd, &byte, 1, (off_t)seen.off + 1234) != 1)
		abort();
}

static void on_report(void *ctx, uint64_t done, uint64_t total)
{
	(void)ctx;
	if (done < seen.last || done > total)
		seen.back = true;
	seen.last = done;
}

static const struct qimg_progress progress = { .report = on_report, .phase = on_phase };
static const struct file_hook hook = { .call = on_op };

static int convert(const char *format, unsigned flags, const char *options, bool spoil,
		   struct qimg_error *e)
{
	struct qimg_opts *opts = qimg_opts_new();
	struct qimg_image *source;
	struct qimg_error ignored;
	struct qimg_convert c;
	int ret;

	memset(&seen, 0, sizeof(seen));
	seen.spoil = spoil;
	if (!opts || (*options && qimg_opts_parse(opts, options, &ignored) < 0) ||
	    qimg_open(&source, "in.raw", "raw", NULL, 0, &ignored) < 0)
		abort();
	qimg_convert_init(&c);
	c.sources = &source;
	c.source_count = 1;
	c.target = "out";
	c.target_format = format;
	c.create_opts = opts;
	c.flags = flags | QIMG_CONVERT_VERIFY;
	c.progress = &progress;
	file_set_hook(&hook);
	ret = qimg_convert(&c, e);
	file_set_hook(NULL);
	qimg_close(source, &ignored);
	qimg_opts_free(opts);
	return ret;
}

static void test(const char *format, unsigned flags, const char *options, const char *what)
{
	struct qimg_error e = { .code = 0 };

	unlink("out");
	unlink("data");
	ok(convert(format, flags, options, true, &e) < 0 && e.code == EIO, "%s: a change is noticed", what);
	ok(strstr(e.msg, "differs") && strstr(e.msg, "0x"), "%s: the error says where", what);
	ok(seen.verified && access("out", F_OK) < 0, "%s: it does not get its name", what);
	ok(convert(format, flags, options, false, &e) == 0, "%s: without one all is well", what);
	ok(!seen.back && seen.last == SIZE, "%s: the progress goes to the end", what);
}

int main(void)
{
	int fd;

	scratch_enter();
	srand(3);
	/* a hole at the end, zeros that are written in between */
	for (unsigned i = 0; i < SIZE - 700000; i++)
		content[i] = i / 100000 % 4 == 2 ? 0 : rand();
	fd = open("in.raw", O_WRONLY | O_CREAT, 0644);
	if (fd < 0 || write(fd, content, SIZE - 700000) != SIZE - 700000 || ftruncate(fd, SIZE) < 0 ||
	    close(fd) < 0)
		abort();
	test("raw", 0, "", "raw");
	test("qcow2", 0, "", "qcow2");
	test("qcow2", QIMG_CONVERT_NO_SYNC, "cluster_size=4k", "not synced");
	test("qcow2", 0, "data_file=data", "with a data file");
	return done_testing();
}
