// SPDX-License-Identifier: BSD-2-Clause
/*
 * cachestat(2) counts by itself. Older kernels have mincore(2), which looks at page after page of a mapping:
 * that is made piece by piece, and nothing is read through it.
 */
#include "io/cached.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file_priv.h"
#include "io/pages.h"

#define PIECE (UINT64_C(1) << 30)

#ifndef SYS_cachestat
#define SYS_cachestat 451		/* on all architectures but alpha, where it fails */
#endif

struct cachestat_range {
	uint64_t off, len;		/* len 0: up to the end */
};

struct cachestat {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

/*
 * Whom the system does not trust gets made-up answers from mincore; so who is trusted is found out by the
 * same rule.
 */
static bool may_know(const struct file *f)
{
	char path[64];
	struct stat st;

	if (fstat(f->fd, &st))
		return false;
	if (!geteuid() || st.st_uid == geteuid() || f->flags & FILE_WRITE)
		return true;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	return !faccessat(AT_FDCWD, path, W_OK, AT_EACCESS);
}

bool cached_bytes_by_page(const struct file *f, uint64_t *bytes)
{
	uint64_t unit = pages_unit(), size = f->size, pages = 0;
	struct qimg_error ignored;
	uint8_t *there;
	bool ok;

	*bytes = 0;
	if (!may_know(f))
		return false;
	there = mem_alloc((size_t)(min_u64(PIECE, size) / unit + 1), &ignored);
	ok = there;
	for (uint64_t at = 0, len; ok && at < size; at += len) {
		void *map;

		len = min_u64(size - at, PIECE);
		map = mmap(NULL, (size_t)len, PROT_READ, MAP_SHARED, f->fd, (off_t)at);
		ok = map != MAP_FAILED;
		if (!ok)
			break;
		ok = !mincore(map, (size_t)len, there);
		for (uint64_t i = 0; ok && i < div_up(len, unit); i++)
			pages += there[i] & 1;
		munmap(map, (size_t)len);
	}
	free(there);
	if (ok)
		*bytes = pages * unit;
	return ok;
}

bool cached_bytes(const struct file *f, uint64_t *bytes)
{
	struct cachestat_range all = { 0, 0 };
	struct cachestat s;

	*bytes = 0;
	if (!may_know(f))
		return false;
	if (syscall(SYS_cachestat, f->fd, &all, &s, 0))
		return cached_bytes_by_page(f, bytes);
	*bytes = s.cached * pages_unit();
	return true;
}

bool cached_disk_read(uint64_t *bytes)
{
	static const char key[] = "\nread_bytes: ";
	int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
	const char *at;
	char text[512];
	ssize_t n = -1;

	*bytes = 0;
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strstr(text, key);
	if (at)
		*bytes = strtoull(at + sizeof(key) - 1, NULL, 10);
	return at;
}
