// SPDX-License-Identifier: BSD-2-Clause
/*
 * Cells become cases, rows become lines. On a model an image has its tables and no data, since the model
 * says how long data takes; on a real disk it is written in full.
 */
#include "bench_preset_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_preset_plot.h"
#include "ui.h"

enum { L2_ENTRY = 8 };

#define REAL_SECONDS 10			/* a slow disk does not have to do all requests */

static const char *engine(const struct preset_thread *t, const struct preset_how *how)
{
	if (how->aio)
		return how->aio;
	return how->real ? "threads" : t->model;
}

static uint64_t disk_size(const struct preset_thread *t, const struct preset_how *how)
{
	return how->size == BENCH_DEFAULT ? t->size : how->size;
}

char *preset_size(uint64_t bytes, char *buf, size_t len)
{
	static const char units[] = "\0KMGTPE";
	unsigned i = 0;

	while (bytes >= 1024 && bytes % 512 == 0 && units[i + 1]) {
		i++;
		if (bytes % 1024) {
			snprintf(buf, len, "%.1f%c", (double)bytes / 1024, units[i]);
			return buf;
		}
		bytes /= 1024;
	}
	snprintf(buf, len, "%" PRIu64 "%.1s", bytes, &units[i]);
	return buf;
}

/* ---- cases ---- */

/* A value of an option in a list: commas are doubled. NULL after a message. */
static const char *in_list(struct preset_rows *rows, const char *value)
{
	char *s = preset_text(rows, "%*s", (int)strlen(value) * 2, ""), *to = s;

	for (; s && *value; value++) {
		if (*value == ',')
			*to++ = ',';
		*to++ = *value;
	}
	if (s)
		*to = '\0';
	return s;
}

static const char *folder_of(const struct preset_how *how)
{
	const char *tmp = getenv("TMPDIR");

	return how->folder ? how->folder : tmp && *tmp ? tmp : "/var/tmp";
}

static const char *more_options(const struct preset_cell *cell, const struct preset_how *how,
				struct preset_rows *rows)
{
	const char *folder = cell->file_direct ? in_list(rows, folder_of(how)) : "";

	if (!folder)
		return NULL;
	return preset_text(rows, "cache-clean-interval=0,l2-cache-compact=%s%s%s%s%s%s%s",
			   cell->compact ? "on" : "off", cell->file_direct ? ",l2-cache-file=" : "", folder,
			   cell->file_direct ? ",l2-cache-file-direct=" : "",
			   cell->file_direct ? cell->file_direct : "", cell->more ? "," : "",
			   cell->more ? cell->more : "");
}

/* The same part of all tables where the disk has another size. */
static uint64_t scaled(uint64_t bytes, const struct preset_cell *cell, const struct preset_thread *t,
		       const struct preset_how *how)
{
	uint64_t unit = cell->l2_cache_entry_size;
	double part = (double)bytes * (double)disk_size(t, how) / (double)t->size;

	if (!bytes)
		return BENCH_DEFAULT;
	if (disk_size(t, how) == t->size || !unit)
		return bytes;
	return (uint64_t)(part / (double)unit + 0.5) * unit;
}

static void set_work(struct bench_case *c, const struct preset_table *table)
{
	c->work.order = table->what == PRESET_READS ? QIMG_IN_STEPS : QIMG_AT_RANDOM;
	c->work.write_percent = table->what == PRESET_RANDOM_WRITES ? 100 : 0;
	c->work.warm_count = table->warm;
	c->work.count = table->count;
}

static int make_case(struct bench_case *c, const struct preset *p, const struct preset_thread *t,
		     const struct preset_table *table, const struct preset_cell *cell,
		     const struct preset_how *how, struct preset_rows *rows)
{
	bench_case_init(c);
	set_work(c, table);
	c->preset = p->name;
	c->label = preset_text(rows, "%s%s%s%s%s", table->title ? table->title : "", table->title ? ": " : "",
			       cell->row, *cell->column ? ", " : "", cell->column);
	c->more = more_options(cell, how, rows);
	c->writeback = cell->writeback;
	c->published = cell->published;
	c->aio = engine(t, how);
	c->scratch.folder = how->folder;
	c->scratch.size = disk_size(t, how);
	c->scratch.cluster_size = table->cluster_size ? table->cluster_size : t->cluster_size;
	c->scratch.preallocation = how->real && t->preallocation ? "full" : t->preallocation;
	c->l2_cache_size = scaled(cell->l2_cache_size, cell, t, how);
	c->l2_cache_entry_size = cell->l2_cache_entry_size ? cell->l2_cache_entry_size : BENCH_DEFAULT;
	c->metadata_depth = cell->metadata_depth;
	c->work.depth = cell->depth ? cell->depth : 1;
	if (!how->real)
		c->how.flags |= QIMG_OPEN_NO_FLUSH;	/* that costs the time of the model all the same */
	c->cold = how->real || t->cold;
	if (c->cold && !cell->buffered)
		c->how.flags |= QIMG_OPEN_DIRECT;
	if (how->real)
		c->work.run_ns = REAL_SECONDS * UINT64_C(1000000000);
	return c->label && c->more ? 0 : -1;
}

static bool is_wanted(const struct preset_cell *cell, const struct preset_how *how)
{
	return !how->writeback || !cell->writeback || !strcmp(how->writeback, cell->writeback);
}

/* ---- lines ---- */

void preset_print_head(const struct preset *p, const struct preset_thread *t, const struct preset_how *how)
{
	char size[32], cluster[32];

	preset_size(disk_size(t, how), size, sizeof(size));
	preset_size(t->cluster_size, cluster, sizeof(cluster));
	printf("%s: %s\n", p->name, t->title);
	printf("Published: %s\n", t->published);
	if (how->real)
		printf("Here: this machine's disk, past the page cache, aio=%s; ", engine(t, how));
	else
		printf("Here: the caches are real, time is that of %s; ", engine(t, how));
	printf("%s in clusters of %s\n", size, cluster);
	if (disk_size(t, how) != t->size)
		printf("That was measured on %s: sizes of caches are in proportion\n",
		       preset_size(t->size, size, sizeof(size)));
	if (t->assumed && !how->real)
		printf("%s\n", t->assumed);
}

static unsigned columns_of(const struct preset_table *table)
{
	unsigned n = 0;

	while (n < table->cells && !strcmp(table->cell[n].row, table->cell[0].row))
		n++;
	return n;
}

static unsigned widest_row(const struct preset_table *table)
{
	size_t most = strlen(table->head);

	for (unsigned i = 0; i < table->cells; i++)
		most = strlen(table->cell[i].row) > most ? strlen(table->cell[i].row) : most;
	return (unsigned)most;
}

static void print_cell(const struct preset_cell *cell, const struct bench_row *row)
{
	if (cell->published > 0)
		printf("   %9.0f  ", cell->published);
	else
		printf("   %9s  ", "-");
	printf("%9.*f  ", row->iops < 1000 ? 1 : 0, row->iops);
	if (cell->published > 0)
		printf("%5.2f", row->iops / cell->published);
	else
		printf("%5s", "-");
}

/* rows: of the cells that are wanted. */
void preset_table_print(const struct preset_table *table, const struct preset_how *how,
			const struct bench_row *rows)
{
	unsigned columns = columns_of(table), width = widest_row(table);

	printf("\n");
	if (table->title)
		printf("%s\n", table->title);
	if (*table->cell[0].column) {
		printf("%-*s", (int)width, "");
		for (unsigned i = 0; i < columns; i++)
			printf(i + 1 < columns ? "   %-27s" : "   %s\n", table->cell[i].column);
	}
	printf("%-*s", (int)width, table->head);
	for (unsigned i = 0; i < columns; i++)
		printf("   %9s  %9s  %5s", "published", "here", "ratio");
	printf("\n");
	for (unsigned i = 0; i < table->cells; i++) {
		const struct preset_cell *cell = &table->cell[i];

		if (!is_wanted(cell, how))
			continue;
		if (i % columns == 0)
			printf("%-*s", (int)width, cell->row);
		print_cell(cell, rows++);
		if (i % columns == columns - 1)
			printf("\n");
	}
}

/* ---- whole tables ---- */

/* A small disk has so few tables that the least of caches has them all: then nothing is compared. */
static void warn_if_full(const struct preset *p, const struct preset_thread *t, const struct preset_table *table,
			 const struct preset_how *how, const struct bench_row *row, unsigned n)
{
	char size[32];

	for (unsigned i = 0; i < n; i++, row++) {
		uint64_t clusters = row->cluster_size ? row->size / row->cluster_size : 0;

		if (row->c.l2_cache_size != BENCH_DEFAULT && row->l2_cache_size < clusters * L2_ENTRY)
			return;
	}
	ui_warning("%s%s%s: of a disk of %s each L2 cache has all tables: the figures tell nothing about their size; "
		   "--size takes a larger one", p->name, table->title ? ", " : "", table->title ? table->title : "",
		   preset_size(disk_size(t, how), size, sizeof(size)));
}

int preset_table_run(const struct preset *p, const struct preset_thread *t, const struct preset_table *table,
		     const struct preset_how *how, struct preset_rows *rows, unsigned *first)
{
	struct bench_case *c = calloc(table->cells, sizeof(*c));
	unsigned n = 0;
	int ret = 0;

	if (!c) {
		ui_error("Out of memory");
		return -1;
	}
	for (unsigned i = 0; i < table->cells && !ret; i++) {
		if (is_wanted(&table->cell[i], how))
			ret = make_case(&c[n++], p, t, table, &table->cell[i], how, rows);
	}
	if (!ret)
		ret = preset_measure(rows, c, n, first);
	free(c);
	if (!ret && how->form == BENCH_HUMAN && !how->quiet)
		preset_table_print(table, how, rows->row + *first);
	if (!ret && disk_size(t, how) != t->size)
		warn_if_full(p, t, table, how, rows->row + *first, n);
	return ret;
}

int preset_thread_run(const struct preset *p, const struct preset_thread *t, const struct preset_how *how,
		      struct preset_rows *rows)
{
	unsigned first, from = rows->n;

	if (how->form == BENCH_HUMAN && !how->quiet)
		preset_print_head(p, t, how);
	for (unsigned i = 0; i < t->tables; i++) {
		if (preset_table_run(p, t, &t->table[i], how, rows, &first) || ui_flush())
			return -1;
	}
	return how->plot ? preset_plot(p, t, how, rows->row + from) : 0;
}
