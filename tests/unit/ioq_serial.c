// SPDX-License-Identifier: BSD-2-Clause
/* lib/io/ioq: writes to a serial file, with every engine. */
#include "io/ioq.h"

#include <string.h>

#include "base/error.h"
#include "io/file.h"
#include "scratch.h"
#include "tap.h"

#define DEPTH	64
#define LONGEST (128 * 1024)

static struct qimg_error e;

/* Writes to a serial file are made one after the other, in order: the last one stays. */
static void serial(const char *engine)
{
	static uint8_t buf[DEPTH][LONGEST], got[LONGEST];
	struct ioq_req req[DEPTH], *r;
	unsigned i, good = 0;
	struct file *f = NULL;
	struct ioq *q;

	if (file_open(&f, "order", FILE_WRITE | FILE_CREATE | FILE_SERIAL, &e) ||
	    ioq_new(&q, engine, DEPTH, &e)) {
		skip("%s: %s", engine, e.msg);
		file_close(f);
		return;
	}
	for (i = 0; i < DEPTH; i++) {
		memset(buf[i], (int)i + 1, LONGEST);
		req[i] = (struct ioq_req){ .op = IOQ_WRITE, .file = f, .buf = buf[i], .len = LONGEST };
		ioq_submit(q, &req[i]);
	}
	for (i = 0; (r = ioq_reap(q)); i++)
		good += r == &req[i] && !r->code;
	is_u64(good, DEPTH, "%s: writes to a serial file end in order", engine);
	ok(!file_read(f, 0, got, LONGEST, &e) && !memcmp(got, buf[DEPTH - 1], LONGEST),
	   "%s: the last one stays", engine);
	ioq_free(q);
	file_close(f);
}

int main(void)
{
	scratch_enter();
	serial("sync");
	serial("threads");
	serial("native");
	serial("io_uring");
	return done_testing();
}
