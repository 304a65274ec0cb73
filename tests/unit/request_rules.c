// SPDX-License-Identifier: BSD-2-Clause
/* lib/image/request: when done is called, how failures arrive, what happens when space runs out. */
#include <errno.h>

#include "base/error.h"
#include "image/request.h"
#include "io/file.h"
#include "request_image.h"
#include "scratch.h"
#include "tap.h"

static void count_done(struct qimg_io *io)
{
	++*(unsigned *)io->user;
}

static void test_errors(void)
{
	struct qimg_error e;
	struct qimg_image *img;
	unsigned done = 0;
	uint8_t buf[512];
	struct qimg_io io = { .op = QIMG_IO_READ, .off = 1 << 20, .len = 512, .buf = buf,
			      .done = count_done, .user = &done };

	create("errors", NULL, 1 << 20, 65536, NULL);
	img = open_image("errors", NULL, 0, &e);
	qimg_submit(img, &io);
	is_u64(done, 0, "a failure does not arrive in qimg_submit");
	is_u64(qimg_poll(img, true), 0, "it arrives in qimg_poll");
	ok(done == 1 && io.code == EINVAL && io.error.code == EINVAL && strstr(io.error.msg, "beyond"),
	   "with its code and message");
	io.op = QIMG_IO_WRITE;
	io.off = 0;
	qimg_submit(img, &io);
	qimg_poll(img, true);
	ok(done == 2 && io.code == EROFS, "writing to what is open for reading");
	io.op = QIMG_IO_READ;
	qimg_submit(img, &io);
	ok(done == 2 && request_count(img) == 1, "what needs no I/O does not arrive in qimg_submit either");
	qimg_cancel(img, &io);
	qimg_poll(img, true);
	ok(done == 3 && (io.code == 0 || io.code == ECANCELED), "given up too late, or not");
	qimg_cancel(img, &io);
	is_u64(qimg_poll(img, true), 0, "with nothing in flight qimg_poll does not block");
	qimg_close(img, &e);
}

/* Space that a flush may bring: the write is tried once more, and then no more. */
static unsigned no_space, refused;

static int refuse_some(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		       uint64_t len)
{
	(void)ctx;
	(void)off;
	(void)buf;
	if (op != FILE_OP_WRITE || !no_space || len < 65536 || !strstr(file_path(f), "space"))
		return 0;
	no_space--;
	refused++;
	return ENOSPC;
}

static void test_no_space(void)
{
	static const struct file_hook hook = { .call = refuse_some };
	static uint8_t buf[4 << 16], back[4 << 16];
	struct qimg_error e = { 0 };
	struct qimg_image *img;

	create("space", NULL, 1 << 20, 65536, NULL);
	img = open_image("space", NULL, QIMG_OPEN_WRITE, &e);
	file_set_hook(&hook);
	memset(buf, 0x77, sizeof(buf));
	no_space = 1;
	ok(qimg_write(img, 0, buf, sizeof(buf), &e) == 0 && refused == 1, "a write is tried again: %s", e.msg);
	ok(qimg_read(img, 0, back, sizeof(buf), &e) == 0 && !memcmp(buf, back, sizeof(buf)), "and is there");
	memset(buf, 0x78, sizeof(buf));
	no_space = 1;
	ok(qimg_write(img, 0, buf, sizeof(buf), &e) == 0 && refused == 2, "also in place");
	ok(qimg_read(img, 0, back, sizeof(buf), &e) == 0 && !memcmp(buf, back, sizeof(buf)), "and is there");
	no_space = 100;
	ok(qimg_write(img, 1 << 19, buf, sizeof(buf), &e) < 0 && e.code == ENOSPC, "but not for ever");
	is_u64(refused, 4, "once more and not oftener");
	no_space = 0;
	ok(qimg_read(img, 1 << 19, back, sizeof(buf), &e) == 0 && !back[0] &&
	   !memcmp(back, back + 1, sizeof(buf) - 1), "what failed has left nothing");
	ok(qimg_close(img, &e) == 0, "it closes");
}

int main(void)
{
	scratch_enter();
	test_errors();
	test_no_space();
	return done_testing();
}
