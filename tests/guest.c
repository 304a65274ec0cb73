// SPDX-License-Identifier: BSD-2-Clause
/* See guest.h. */
#include "guest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "setting.h"

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static struct guest_version *add(struct guest *g, size_t event, uint64_t sector)
{
	struct guest_sector *s = &g->sector[sector];
	struct guest_version *v = must(malloc(sizeof(*v)));

	s->version = must(realloc(s->version, (s->versions + 1) * sizeof(*s->version)));
	if (s->versions)
		memcpy(v->bytes, s->version[s->versions - 1]->bytes, SECTOR);
	else
		memset(v->bytes, 0, SECTOR);
	v->from = event;
	v->op = g->op;
	v->partial = v->failed = false;
	s->version[s->versions++] = v;
	return v;
}

static void add_size(struct guest *g, size_t event, uint64_t size)
{
	uint64_t sectors = size / SECTOR;

	g->resize = must(realloc(g->resize, (g->resizes + 1) * sizeof(*g->resize)));
	g->resize[g->resizes].from = event;
	g->resize[g->resizes].op = g->op;
	g->resize[g->resizes++].size = size;
	if (sectors > g->sectors) {
		g->sector = must(realloc(g->sector, sectors * sizeof(*g->sector)));
		memset(g->sector + g->sectors, 0, (sectors - g->sectors) * sizeof(*g->sector));
		for (; g->sectors < sectors; g->sectors++)
			add(g, event, g->sectors);
	}
	g->size = size;
}

void guest_start(struct guest *g, const uint8_t *content, uint64_t size)
{
	memset(g, 0, sizeof(*g));
	add_size(g, 0, size);
	for (uint64_t i = 0; i < g->sectors; i++)
		memcpy(g->sector[i].version[0]->bytes, content + i * SECTOR, SECTOR);
}

void guest_free(struct guest *g)
{
	for (size_t i = 0; i < g->sectors; i++) {
		for (unsigned j = 0; j < g->sector[i].versions; j++)
			free(g->sector[i].version[j]);
		free(g->sector[i].version);
	}
	free(g->sector);
	free(g->resize);
	free(g->flush);
}

unsigned guest_op(struct guest *g)
{
	return ++g->op;
}

void guest_write(struct guest *g, size_t event, uint64_t off, const uint8_t *bytes, uint64_t len)
{
	bool partial = off % SECTOR || len % SECTOR;

	for (uint64_t end = off + len, n; off < end; off += n) {
		struct guest_version *v = add(g, event, off / SECTOR);

		n = SECTOR - off % SECTOR;
		if (n > end - off)
			n = end - off;
		v->partial = partial;
		if (bytes) {
			memcpy(v->bytes + off % SECTOR, bytes, n);
			bytes += n;
		} else {
			memset(v->bytes + off % SECTOR, 0, n);
		}
	}
}

void guest_failed(struct guest *g)
{
	for (size_t i = 0; i < g->sectors; i++) {
		struct guest_sector *s = &g->sector[i];

		for (unsigned j = s->versions; j > 0 && s->version[j - 1]->op == g->op; j--)
			s->version[j - 1]->failed = s->version[j - 1]->partial = true;
	}
}

void guest_resize(struct guest *g, size_t event, uint64_t size)
{
	add_size(g, event, size);
}

void guest_flushed(struct guest *g, size_t event, unsigned op)
{
	g->flush = must(realloc(g->flush, (g->flushes + 1) * sizeof(*g->flush)));
	g->flush[g->flushes].done = event;
	g->flush[g->flushes++].op = op;
}

void guest_forget(struct guest *g)
{
	for (size_t i = 0; i < g->sectors; i++) {
		struct guest_sector *s = &g->sector[i];

		for (unsigned j = 0; j + 1 < s->versions; j++)
			free(s->version[j]);
		s->version[0] = s->version[s->versions - 1];
		s->versions = 1;
	}
	g->flushes = g->resizes = 0;
}

const uint8_t *guest_now(const struct guest *g, uint64_t sector)
{
	const struct guest_sector *s = &g->sector[sector];

	return s->version[s->versions - 1]->bytes;
}

unsigned guest_floor(const struct guest *g, size_t event)
{
	for (size_t i = g->flushes; i > 0; i--)
		if (g->flush[i - 1].done <= event)
			return g->flush[i - 1].op;
	return 0;
}

bool guest_size_allowed(const struct guest *g, size_t event, uint64_t size)
{
	unsigned floor = guest_floor(g, event);

	for (size_t i = g->resizes; i > 0; i--) {
		if (g->resize[i - 1].from <= event && g->resize[i - 1].size == size)
			return true;
		if (g->resize[i - 1].op < floor)
			break; /* what came before was replaced and flushed */
	}
	return g->resizes == 1 && g->resize[0].size == size;
}

bool guest_allowed(const struct guest *g, size_t event, unsigned floor, uint64_t sector,
		   const uint8_t *bytes)
{
	const struct guest_sector *s = &g->sector[sector];
	bool partial = false, known[SECTOR] = { false };
	unsigned i;

	for (i = s->versions; i > 0; i--) {
		const struct guest_version *v = s->version[i - 1];

		if (v->from <= event && !memcmp(v->bytes, bytes, SECTOR))
			return true;
		partial |= v->from <= event && v->partial;
		if (v->op <= floor && !v->failed)
			break;
	}
	if (!partial)
		return false;
	for (; i <= s->versions; i++) {
		const struct guest_version *v = s->version[i ? i - 1 : 0];

		for (unsigned j = 0; j < SECTOR && v->from <= event; j++)
			known[j] |= v->bytes[j] == bytes[j];
	}
	return !memchr(known, 0, SECTOR);
}

bool guest_is_old(const struct guest *g, uint64_t sector, const uint8_t *bytes)
{
	const struct guest_sector *s = &g->sector[sector];

	for (unsigned i = 0; i < s->versions; i++)
		if (!memcmp(s->version[i]->bytes, bytes, SECTOR))
			return true;
	return false;
}
