// SPDX-License-Identifier: BSD-2-Clause
/* See points.h. */
#include "points.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "setting.h"

const char *const points_how[] = { "all", "none", "some", "torn", "one", "late" };

void points_spread(struct disk *d, unsigned points, uint64_t *seed, points_judge *judge, void *ctx)
{
	static const enum disk_survival mix[] = { DISK_ALL,  DISK_SOME, DISK_LATE, DISK_ONE,
						  DISK_TORN, DISK_SOME, DISK_LATE, DISK_NONE,
						  DISK_TORN, DISK_ONE };
	size_t places = d->events + 1, syncs = 1;
	double due = 0, anywhere, before_sync;
	unsigned n = 0;

	for (size_t i = 0; i < d->events; i++)
		syncs += d->event[i].op == FILE_OP_SYNC && !d->event[i].dropped;
	anywhere = points / 2.0 / places;
	before_sync = points / 2.0 / syncs;
	for (size_t event = 0; event < places; event++) {
		const struct disk_event *ev = &d->event[event];

		due += anywhere;
		if (event == d->events || (ev->op == FILE_OP_SYNC && !ev->dropped))
			due += before_sync;
		for (; due >= 1; due--, n++)
			judge(ctx, event, mix[(n * 7 + random_below(seed, 2)) % 10], n);
	}
	disk_advance(d, d->events);
}

char *points_scratch(const char *name)
{
	static char dir[200];
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/%s-XXXXXX", tmp ? tmp : access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
		 name);
	if (mkdtemp(dir))
		return dir;
	perror(dir);
	return NULL;
}

bool points_put(const char *dir, const char *name, const struct disk_state *s)
{
	char path[600];
	FILE *f;
	bool good;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	if (!f)
		return false;
	good = fwrite(s->p, 1, s->len, f) == s->len;
	return fclose(f) == 0 && good;
}

bool points_get(const char *dir, const char *name, struct qcheck_buf *b)
{
	char path[600];
	struct stat st;
	uint8_t *p;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	if (!f || fstat(fileno(f), &st))
		return false;
	p = malloc(st.st_size + 1);
	if (!p)
		abort();
	*b = (struct qcheck_buf){ p, fread(p, 1, st.st_size, f) };
	fclose(f);
	// cppcheck-suppress memleak // p is in *b
	return true;
}
