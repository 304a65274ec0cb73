// SPDX-License-Identifier: BSD-2-Clause
/*
 * cachestat(2) counts by itself. Older kernels have mincore(2), which looks at page after page of a mapping:
 * that is made piece by piece, and nothing is read through it.
 */
#include "io/cached.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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
	return !access(path, W_OK);
}

static bool by_mincore(const struct file *f, uint64_t *pages)
{
	uint64_t unit = pages_unit(), size = f->size;
	struct qimg_error ignored;
	uint8_t *there = mem_alloc((size_t)(min_u64(PIECE, size) / unit + 1), &ignored);
	bool ok = there;

	*pages = 0;
	for (uint64_t at = 0, len; ok && at < size; at += len) {
		void *map;

		len = min_u64(size - at, PIECE);
		map = mmap(NULL, (size_t)len, PROT_READ, MAP_SHARED, f->fd, (off_t)at);
		ok = map != MAP_FAILED;
		if (!ok)
			break;
		ok = !mincore(map, (size_t)len, there);
		for (uint64_t i = 0; ok && i < div_up(len, unit); i++)
			*pages += there[i] & 1;
		munmap(map, (size_t)len);
	}
	free(there);
	return ok;
}

bool cached_bytes(const struct file *f, uint64_t *bytes)
{
	struct cachestat_range all = { 0, 0 };
	struct cachestat s;
	uint64_t pages;

	*bytes = 0;
	if (!may_know(f))
		return false;
	if (!syscall(SYS_cachestat, f->fd, &all, &s, 0))
		pages = s.cached;
	else if (!by_mincore(f, &pages))
		return false;
	*bytes = pages * pages_unit();
	return true;
}
