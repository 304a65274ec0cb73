// SPDX-License-Identifier: BSD-2-Clause
/* lib/io/cached and scratch: what the page cache has of a file, in both ways; files for a while. */
#include "io/cached.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "io/file.h"
#include "io/scratch.h"
#include "scratch.h"
#include "tap.h"

#define MIB (1024 * 1024)

static uint8_t data[MIB];
static struct qimg_error e;

/* Both ways agree that there are so many bytes. */
static void holds(const struct file *f, uint64_t want, const char *what)
{
	uint64_t now = 1, before = 1;

	ok(cached_bytes(f, &now) && now == want, "%s: %" PRIu64 " bytes", what, now);
	ok(cached_bytes_by_page(f, &before) && before == want, "%s: page by page, too", what);
}

/* A user whom the system would tell lies is told nothing. */
static void test_others(const char *path)
{
	struct file *f;
	uint64_t n = 1;

	if (geteuid()) {
		skip("needs root");
		skip("needs root");
		return;
	}
	if (chmod(path, 0644) || seteuid(65534)) {
		ok(false, "become somebody else");
		return;
	}
	ok(!file_open(&f, path, 0, &e), "somebody else's file can be read");
	ok(!cached_bytes(f, &n) && !n && !cached_bytes_by_page(f, &n) && !n, "and what is cached is not told");
	file_close(f);
	if (seteuid(0))
		ok(false, "become root again");
}

static void test_scratch(void)
{
	char *one, *two;
	struct stat st;

	one = scratch_new(".", ".a", &e);
	two = scratch_new(".", ".a", &e);
	ok(one && two && strcmp(one, two), "two names: %s, %s", one ? one : "", two ? two : "");
	ok(one && !stat(one, &st) && !st.st_size && (st.st_mode & 07777) == 0600, "an empty file of one's own");
	ok(one && !strcmp(one + strlen(one) - 2, ".a"), "with the suffix");
	free(one);
	free(two);
	ok(!setenv("TMPDIR", "nowhere", 1) && !scratch_new(NULL, "", &e), "%s", e.msg);
	mkdir("somewhere", 0700);
	setenv("TMPDIR", "somewhere", 1);
	one = scratch_new(NULL, "", &e);
	ok(one && !strncmp(one, "somewhere/", 10), "TMPDIR counts");
	free(one);
}

int main(void)
{
	struct file *f;

	scratch_enter();
	memset(data, 7, sizeof(data));
	if (!ok(!file_open(&f, "f", FILE_WRITE | FILE_CREATE, &e), "open"))
		return done_testing();
	holds(f, 0, "an empty file");
	ok(!file_write(f, 0, data, MIB, &e), "write");
	holds(f, MIB, "what was written");
	ok(!file_sync(f, &e), "sync");
	if (!posix_fadvise(file_fd(f), 0, 0, POSIX_FADV_DONTNEED)) {
		uint64_t then, now, again;
		bool told = cached_disk_read(&then);

		holds(f, 0, "given up");
		ok(!file_read(f, 0, data, 4096, &e), "read");
		told = told && cached_disk_read(&now) && !file_read(f, 0, data, 4096, &e) && cached_disk_read(&again);
		if (told)
			ok(now >= then + 4096 && again == now, "from the disk, and the second time not (%" PRIu64
			   " bytes)", now - then);
		else
			skip("the system does not tell what it reads");
	}
	ok(!file_truncate(f, UINT64_C(5) << 30, &e), "make it longer than is looked at in one piece");
	ok(!file_write(f, UINT64_C(3) << 30, data, 8192, &e), "write there");
	{
		uint64_t now, before;

		ok(cached_bytes(f, &now) && cached_bytes_by_page(f, &before) && now == before && now >= 8192,
		   "a long one: %" PRIu64, now);
	}
	file_close(f);
	test_others("f");
	test_scratch();
	return done_testing();
}
