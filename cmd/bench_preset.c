// SPDX-License-Identifier: BSD-2-Clause
/*
 * Running presets: one after the other, each printing what it has found. As JSON and CSV the rows of all of
 * them come at the end, in one document.
 */
#include "bench_preset.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

const struct preset *const presets[] = {
	&preset_l2_size,
	&preset_l2_entry_size,
	&preset_l2_rounding,
	&preset_l2_on_disk,
	&preset_chain,
	&preset_preallocation,
	NULL
};

enum { MOST_PRESETS = 64 };

char *preset_text(struct preset_rows *rows, const char *fmt, ...)
{
	char **list = realloc(rows->text, (rows->texts + 1) * sizeof(*list)), *s = NULL;
	va_list ap;
	int ret = -1;

	if (list) {
		rows->text = list;
		va_start(ap, fmt);
		ret = vasprintf(&s, fmt, ap);
		va_end(ap);
	}
	if (ret < 0) {
		ui_error("Out of memory");
		return NULL;
	}
	rows->text[rows->texts++] = s;
	return s;
}

/* Makes room for n rows. */
static int reserve(struct preset_rows *rows, unsigned n)
{
	struct bench_row *list;

	if (rows->n + n <= rows->room)
		return 0;
	list = realloc(rows->row, (rows->n + n) * 2 * sizeof(*list));
	if (!list) {
		ui_error("Out of memory");
		return -1;
	}
	rows->row = list;
	rows->room = (rows->n + n) * 2;
	return 0;
}

struct bench_row *preset_row(struct preset_rows *rows)
{
	struct bench_row *row;

	if (reserve(rows, 1))
		return NULL;
	row = &rows->row[rows->n++];
	*row = (struct bench_row){ .images = 0 };
	return row;
}

int preset_measure(struct preset_rows *rows, const struct bench_case *c, unsigned n, unsigned *first)
{
	unsigned done = 0;
	int ret;

	*first = rows->n;
	if (reserve(rows, n))
		return -1;
	ret = bench_measure_all(c, rows->row + rows->n, n, &done);
	rows->n += done;
	return ret;
}

static void free_rows(struct preset_rows *rows)
{
	for (unsigned i = 0; i < rows->n; i++)
		bench_row_free(&rows->row[i]);
	for (unsigned i = 0; i < rows->texts; i++)
		free(rows->text[i]);
	free(rows->row);
	free(rows->text);
}

static const struct preset *find(const char *name, size_t len)
{
	for (unsigned i = 0; presets[i]; i++) {
		if (strlen(presets[i]->name) == len && !strncmp(presets[i]->name, name, len))
			return presets[i];
	}
	return NULL;
}

static void unknown(const char *name, size_t len)
{
	const char *names[MOST_PRESETS] = { NULL }, *near;
	char list[512] = "", *word = strndup(name, len);
	unsigned i;

	for (i = 0; presets[i] && i + 2 < MOST_PRESETS; i++) {
		names[i] = presets[i]->name;
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s, ", names[i]);
	}
	names[i] = "all";
	near = word ? ui_nearest(word, names) : NULL;
	ui_error("There is no preset '%.*s'", (int)len, name);
	if (near)
		ui_more("Did you mean '%s'?", near);
	ui_more("Known are %sall", list);
	free(word);
}

/* Each is run once. Returns how many there are then. */
static unsigned add(const struct preset *p, const struct preset **chosen, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (chosen[i] == p)
			return n;
	chosen[n] = p;
	return n + 1;
}

/* Those that are named, in `chosen`, ended by NULL. -1 after a message. */
static int choose(const char *names, const struct preset_how *how, const struct preset **chosen)
{
	const struct preset *p;
	unsigned n = 0;
	size_t len;

	for (;; names += len + 1) {
		bool all;

		len = strcspn(names, ",");
		all = len == 3 && !strncmp(names, "all", len);
		p = find(names, len);
		for (unsigned i = 0; all && presets[i]; i++)
			n = add(presets[i], chosen, n);
		if (!p && !all) {
			unknown(names, len);
			return -1;
		}
		if (p && p->real_only && !how->real) {
			ui_error("The preset '%s' is about this machine's disk, no model tells anything about it: "
				 "say --real", p->name);
			return -1;
		}
		if (p)
			n = add(p, chosen, n);
		if (!names[len])
			return 0;
	}
}

static void list_presets(void)
{
	for (unsigned i = 0; presets[i]; i++)
		printf("%-16s %s%s\n", presets[i]->name, presets[i]->summary,
		       presets[i]->real_only ? " (with --real)" : "");
	printf("%-16s %s\n", "all", "One after the other");
}

int preset_main(const char *names, const struct preset_how *how)
{
	const struct preset *chosen[MOST_PRESETS] = { NULL };
	bool text = how->form == BENCH_HUMAN && !how->quiet, blank = false;
	struct preset_rows rows = { .n = 0 };
	int ret = 0;

	if (!strcmp(names, "help")) {
		list_presets();
		return 0;
	}
	if (choose(names, how, chosen))
		return 1;
	if (how->plot && chosen[1]) {
		ui_error("--plot draws one preset, not several");
		return 1;
	}
	for (unsigned i = 0; chosen[i] && (how->count || how->runs); i++) {
		if (chosen[i]->counts)
			continue;
		ui_error("The preset '%s' has requests of its own: leave out --%s", chosen[i]->name,
			 how->count ? "count" : "runs");
		return 1;
	}
	for (unsigned i = 0; chosen[i] && !ret; i++) {
		if (chosen[i]->real_only && !how->real) {
			ui_warning("The preset '%s' is left out: it is about this machine's disk and needs --real",
				   chosen[i]->name);
			continue;
		}
		if (text && blank)
			printf("\n");
		blank = true;
		ret = chosen[i]->run(chosen[i], how, &rows);
		if (!ret)
			ret = ui_flush();
	}
	if (!ret && how->form != BENCH_HUMAN)
		bench_report(rows.row, rows.n, how->form);
	if (!ret && how->plot && chosen[0] && !chosen[0]->draws)
		ret = bench_plot(how->plot, names, rows.row, rows.n);
	free_rows(&rows);
	return ret ? 1 : 0;
}
