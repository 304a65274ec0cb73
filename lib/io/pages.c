// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory straight from the system: malloc keeps notes beside what it hands out, in pages that stay in memory
 * when the rest is given back.
 */
#include "io/pages.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

size_t pages_unit(void)
{
	long size = sysconf(_SC_PAGESIZE);

	return size > 0 ? (size_t)size : 4096;
}

void *pages_new(size_t size, struct qimg_error *e)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED)
		return p;
	error_nomem(e);
	return NULL;
}

void pages_free(void *p, size_t size)
{
	if (p)
		munmap(p, size);
}

void pages_give_back(void *p, size_t size)
{
	/* Where it is not possible (locked memory, say) that does no harm. */
	madvise(p, size, MADV_DONTNEED);
}

size_t pages_resident(void)
{
	char text[128], *at;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strchr(text, ' ');
	return at ? strtoul(at, NULL, 10) * pages_unit() : 0;
}
