// SPDX-License-Identifier: BSD-2-Clause
/*
 * See disk.h. A crash is applied to the state in place and undone afterwards, so that thousands of them
 * cost little more than the writes in question.
 */
#include "disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "setting.h"

struct undo {
	unsigned file;
	uint64_t off, len;
	uint8_t *bytes;
};

static void *must(void *p)
{
	if (!p) {
		fputs("disk: out of memory\n", stderr);
		abort();
	}
	return p;
}

static void load(struct disk *d, const char *path)
{
	struct disk_state *s = &d->state[d->files];
	FILE *f = fopen(path, "rb");
	struct stat st;

	if (!f || fstat(fileno(f), &st)) {
		perror(path);
		abort();
	}
	d->id[d->files].dev = st.st_dev;
	d->id[d->files].ino = st.st_ino;
	s->len = s->room = st.st_size;
	s->p = must(calloc(1, s->room + 1));
	if (fread(s->p, 1, s->len, f) != s->len)
		abort();
	fclose(f);
	d->files++;
}

/* A file that was waited for, as long as it has nothing. */
static void take_coming(struct disk *d, struct file *f, struct file_id id)
{
	if (!d->coming || strcmp(file_path(f), d->coming))
		return;
	d->coming = NULL;
	d->id[d->files].dev = id.dev;
	d->id[d->files].ino = id.ino;
	d->state[d->files].p = must(calloc(1, 1));
	d->files++;
}

static int on_change(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf,
		     uint64_t len)
{
	struct file_id id = file_identity(f);
	struct disk *d = ctx;
	struct disk_event *ev;
	unsigned i;

	take_coming(d, f, id);
	for (i = 0; i < d->files && (d->id[i].dev != id.dev || d->id[i].ino != id.ino); i++)
		;
	if (i == d->files || (op == FILE_OP_READ && !d->fail_reads))
		return 0;
	if (d->fail_after) {
		d->fail_after--;
	} else if (d->fail_count) {
		d->fail_count--;
		d->failed++;
		d->failed_op = op;
		d->failed_syncs += op == FILE_OP_SYNC;
		return d->fail_code;
	}
	if (op == FILE_OP_READ)
		return 0;
	if (d->events == d->room) {
		d->room = d->room ? 2 * d->room : 1024;
		d->event = must(realloc(d->event, d->room * sizeof(*d->event)));
	}
	ev = &d->event[d->events++];
	*ev = (struct disk_event){ .op = op, .file = i, .off = off, .len = len, .end = off + len };
	if (op == FILE_OP_WRITE) {
		ev->bytes = must(malloc(len + 1));
		memcpy(ev->bytes, buf, len);
	}
	return 0;
}

void disk_record(struct disk *d, const char *path, const char *path2)
{
	static struct file_hook hook;

	memset(d, 0, sizeof(*d));
	load(d, path);
	if (path2)
		load(d, path2);
	hook = (struct file_hook){ on_change, d };
	file_set_hook(&hook);
}

void disk_await(struct disk *d, const char *path)
{
	d->coming = path;
}

/* ---- changing the state ---- */

static void remember(struct disk *d, unsigned file, uint64_t off, uint64_t len)
{
	struct undo *u;

	if (d->undos == d->undo_room) {
		d->undo_room = d->undo_room ? 2 * d->undo_room : 256;
		d->undo = must(realloc(d->undo, d->undo_room * sizeof(*d->undo)));
	}
	u = &d->undo[d->undos++];
	*u = (struct undo){ file, off, len, must(malloc(len + 1)) };
	memcpy(u->bytes, d->state[file].p + off, len);
}

/* Part of one event: [from, to) of the file. */
static void apply_part(struct disk *d, const struct disk_event *ev, uint64_t from, uint64_t to,
		       bool undoable)
{
	struct disk_state *s = &d->state[ev->file];

	if (ev->op == FILE_OP_PUNCH && to > s->len)
		to = s->len;
	if (from >= to)
		return;
	if (undoable)
		remember(d, ev->file, from, to - from);
	if (ev->op == FILE_OP_WRITE)
		memcpy(s->p + from, ev->bytes + (from - ev->off), to - from);
	else
		memset(s->p + from, 0, to - from);
	if (to > ev->end)
		to = ev->end;
	if (to > s->len)
		s->len = to;
}

static void apply(struct disk *d, const struct disk_event *ev, bool undoable)
{
	struct disk_state *s = &d->state[ev->file];

	switch (ev->op) {
	case FILE_OP_WRITE:
	case FILE_OP_ZERO:
	case FILE_OP_PUNCH:
		apply_part(d, ev, ev->off, ev->off + ev->len, undoable);
		break;
	case FILE_OP_ALLOCATE:
		if (ev->end > s->len)
			s->len = ev->end;
		break;
	case FILE_OP_TRUNCATE:
		if (ev->off < s->len) {
			if (undoable)
				remember(d, ev->file, ev->off, s->len - ev->off);
			memset(s->p + ev->off, 0, s->len - ev->off);
		}
		s->len = ev->off;
		break;
	default:
		break;
	}
}

/* ---- the end of the recording ---- */

static bool changes_data(const struct disk_event *ev)
{
	return ev->op == FILE_OP_WRITE || ev->op == FILE_OP_ZERO || ev->op == FILE_OP_PUNCH;
}

/* Widens a change to whole sectors, with what the file held beside it after the change. */
static void widen(struct disk_event *ev, const struct disk_state *now)
{
	uint64_t from = ev->off / SECTOR * SECTOR;
	uint64_t to = (ev->off + ev->len + SECTOR - 1) / SECTOR * SECTOR;
	bool punch = ev->op == FILE_OP_PUNCH;

	if (from == ev->off && to == ev->off + ev->len)
		return;
	/* A hole inside one sector is a write of zeros; it does not grow the file. */
	if (punch && ev->end > now->len)
		ev->end = now->len;
	ev->op = FILE_OP_WRITE;
	free(ev->bytes);
	ev->bytes = must(malloc(to - from + 1));
	memcpy(ev->bytes, now->p + from, to - from);
	ev->off = from;
	ev->len = to - from;
}

void disk_stop(struct disk *d)
{
	struct disk_state first[DISK_FILES];

	file_set_hook(NULL);
	d->pending = must(calloc(d->events + 1, sizeof(*d->pending)));
	for (unsigned i = 0; i < d->files; i++) {
		struct disk_state *s = &d->state[i];

		for (size_t j = 0; j < d->events; j++)
			if (d->event[j].file == i && d->event[j].end > s->room)
				s->room = d->event[j].end;
		s->room = (s->room + SECTOR - 1) / SECTOR * SECTOR;
		s->p = must(realloc(s->p, s->room + 1));
		memset(s->p + s->len, 0, s->room - s->len);
		first[i] = *s;
		s->p = must(malloc(s->room + 1));
		memcpy(s->p, first[i].p, s->room);
	}
	for (size_t j = 0; j < d->events; j++) {
		apply(d, &d->event[j], false);
		if (changes_data(&d->event[j]))
			widen(&d->event[j], &d->state[d->event[j].file]);
	}
	for (unsigned i = 0; i < d->files; i++) {
		free(d->state[i].p);
		// cppcheck-suppress uninitvar // the first loop filled as many
		d->state[i] = first[i];
	}
}

void disk_free(struct disk *d)
{
	for (size_t i = 0; i < d->events; i++)
		free(d->event[i].bytes);
	for (unsigned i = 0; i < d->files; i++)
		free(d->state[i].p);
	free(d->event);
	free(d->pending);
	free(d->undo);
}

/* ---- crashing ---- */

/* Each 512-byte sector made it or not: up to a point, from a point on, or any. */
static void apply_torn(struct disk *d, const struct disk_event *ev, uint64_t *seed)
{
	uint64_t from = ev->off, end = ev->off + ev->len, next;
	uint64_t sectors = (end + SECTOR - 1) / SECTOR - from / SECTOR;
	unsigned how = random_below(seed, 3);
	uint64_t cut = random_below(seed, sectors + 1), i = 0;

	for (; from < end; from = next, i++) {
		next = from / SECTOR * SECTOR + SECTOR;
		if (next > end)
			next = end;
		if (how == 0 ? i < cut : how == 1 ? i >= cut : random_chance(seed, 50))
			apply_part(d, ev, from, next, true);
	}
}

void disk_advance(struct disk *d, size_t event)
{
	for (; d->next < event; d->next++) {
		const struct disk_event *ev = &d->event[d->next];
		size_t left = 0;

		if (ev->op != FILE_OP_SYNC) {
			d->pending[d->pendings++] = d->next;
			continue;
		}
		for (size_t i = 0; i < d->pendings && !ev->dropped; i++) {
			if (d->event[d->pending[i]].file == ev->file)
				apply(d, &d->event[d->pending[i]], false);
			else
				d->pending[left++] = d->pending[i];
		}
		if (!ev->dropped)
			d->pendings = left;
	}
}

void disk_crash(struct disk *d, enum disk_survival how, uint64_t *seed)
{
	size_t one = d->pendings ? random_below(seed, d->pendings) : 0;
	size_t late = 1 + random_below(seed, 6);
	bool only = random_chance(seed, 30);
	unsigned percent = 10 + 20 * random_below(seed, 5);

	for (unsigned i = 0; i < d->files; i++)
		d->before[i] = d->state[i].len;
	for (size_t i = 0; i < d->pendings && how != DISK_NONE; i++) {
		const struct disk_event *ev = &d->event[d->pending[i]];

		if ((how == DISK_SOME || how == DISK_TORN) && !random_chance(seed, percent))
			continue;
		if (how == DISK_ONE && (only ? i != one : i == one))
			continue;
		if (how == DISK_LATE && i + late < d->pendings)
			continue;
		if (how == DISK_TORN && changes_data(ev) && ev->len && random_chance(seed, 60))
			apply_torn(d, ev, seed);
		else
			apply(d, ev, true);
	}
}

void disk_restore(struct disk *d)
{
	while (d->undos) {
		struct undo *u = &d->undo[--d->undos];

		memcpy(d->state[u->file].p + u->off, u->bytes, u->len);
		free(u->bytes);
	}
	for (unsigned i = 0; i < d->files; i++)
		d->state[i].len = d->before[i];
}
