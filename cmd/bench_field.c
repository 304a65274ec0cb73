// SPDX-License-Identifier: BSD-2-Clause
/* What tells rows apart, for tables and charts. */
#include "bench_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *bench_field_name(enum bench_field f)
{
	static const char *const names[BENCH_FIELDS] = {
		[BENCH_LABEL] = "", [BENCH_CLUSTER] = "cluster", [BENCH_HINT] = "hint", [BENCH_L2] = "L2 cache",
		[BENCH_ENTRY] = "L2 entry", [BENCH_REFCOUNT] = "refcounts", [BENCH_DEPTH] = "depth",
		[BENCH_METADATA_DEPTH] = "loads", [BENCH_FORMAT] = "format",
		[BENCH_PREALLOCATION] = "preallocation", [BENCH_AIO] = "aio", [BENCH_OPTIONS] = "options",
	};

	return names[f];
}

bool bench_field_number(const struct bench_row *row, enum bench_field f, uint64_t *number)
{
	switch (f) {
	case BENCH_CLUSTER: *number = row->cluster_size; break;
	case BENCH_HINT: *number = row->extent_size_hint; break;
	case BENCH_L2: *number = row->l2_cache_size; break;
	case BENCH_ENTRY: *number = row->l2_cache_entry_size; break;
	case BENCH_REFCOUNT: *number = row->refcount_cache_size; break;
	case BENCH_DEPTH: *number = row->c.work.depth; break;
	case BENCH_METADATA_DEPTH: *number = row->c.metadata_depth; break;
	default: return false;
	}
	return *number != BENCH_DEFAULT && (*number || f == BENCH_HINT);
}

static const char *word_of(const struct bench_row *row, enum bench_field f)
{
	const struct bench_case *c = &row->c;

	switch (f) {
	case BENCH_LABEL: return c->label;
	case BENCH_FORMAT: return row->format;
	case BENCH_PREALLOCATION:
		return c->file ? NULL : c->scratch.preallocation ? c->scratch.preallocation : "off";
	case BENCH_AIO: return c->aio ? c->aio : c->how.aio;
	case BENCH_OPTIONS: return c->more;
	default: return NULL;
	}
}

/* A size is told exactly, and as short as that can be: "64K", "1.5M", "1000". */
static void size_text(uint64_t bytes, char *cell)
{
	static const char units[] = "KMGTPE";
	int unit = -1;

	for (; bytes >= 1024 && bytes % 1024 == 0 && unit < 5; bytes /= 1024)
		unit++;
	if (bytes > 1024 && bytes % 512 == 0 && unit < 5)
		snprintf(cell, BENCH_CELL, "%.1f%c", (double)bytes / 1024, units[unit + 1]);
	else if (unit < 0)
		snprintf(cell, BENCH_CELL, "%" PRIu64, bytes);
	else
		snprintf(cell, BENCH_CELL, "%" PRIu64 "%c", bytes, units[unit]);
}

const char *bench_field_text(const struct bench_row *row, enum bench_field f, char *cell)
{
	uint64_t number;
	const char *word;

	if (bench_field_number(row, f, &number)) {
		if (f == BENCH_DEPTH || f == BENCH_METADATA_DEPTH)
			snprintf(cell, BENCH_CELL, "%" PRIu64, number);
		else
			size_text(number, cell);
		return cell;
	}
	word = word_of(row, f);
	snprintf(cell, BENCH_CELL, "%s", word ? word : "-");
	return cell;
}

bool bench_field_varies(const struct bench_row *rows, unsigned n, enum bench_field f)
{
	char first[BENCH_CELL], cell[BENCH_CELL];

	for (unsigned i = 1; i < n; i++)
		if (strcmp(bench_field_text(&rows[0], f, first), bench_field_text(&rows[i], f, cell)))
			return true;
	return false;
}
