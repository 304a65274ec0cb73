// SPDX-License-Identifier: BSD-2-Clause
/* Nothing grows with what is asked for: too many values are refused before they are made. */
#include "bench_list.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

enum { TEXT = 64 };	/* room for one member of a list */

static int read_bound(const char *option, const char *text, struct bench_bound *b)
{
	static const char *const words[] = {
		[BENCH_FULL] = "full", [BENCH_MIN] = "min", [BENCH_AS_DEFAULT] = "default",
	};
	struct qimg_error e;

	for (unsigned i = BENCH_FULL; i <= BENCH_AS_DEFAULT; i++) {
		if (!strcmp(text, words[i])) {
			*b = (struct bench_bound){ .word = (enum bench_word)i };
			return 0;
		}
	}
	*b = (struct bench_bound){ .word = BENCH_NUMBER };
	if (!qimg_parse_size(text, &b->number, &e))
		return 0;
	if (isdigit((unsigned char)*text))
		ui_error("Option '%s': %s", option, e.msg);
	else
		ui_error("Option '%s': '%s' is neither a size nor 'full', 'default' or 'min'", option, text);
	return -1;
}

/* What follows "..": an end, and how to get there. Cuts it off. */
static int read_way(const char *option, char *end, struct bench_item *item)
{
	char *at = strpbrk(end, "*+");
	struct qimg_error e;

	item->way = at ? *at : '*';
	item->by = 2;
	if (!at)
		return 0;
	if (qimg_parse_size(at + 1, &item->by, &e)) {
		ui_error("Option '%s': %s", option, e.msg);
		return -1;
	}
	if (item->by < (item->way == '*' ? 2 : 1)) {
		ui_error("Option '%s': a range does not end with '%s'", option, at);
		return -1;
	}
	*at = 0;
	return 0;
}

static int read_item(const char *option, char *text, struct bench_item *item)
{
	char *dots = strstr(text, "..");

	*item = (struct bench_item){ .way = '*', .by = 2 };
	if (!dots) {
		if (read_bound(option, text, &item->from))
			return -1;
		item->to = item->from;
		return 0;
	}
	*dots = 0;
	if (read_way(option, dots + 2, item) || read_bound(option, text, &item->from) ||
	    read_bound(option, dots + 2, &item->to))
		return -1;
	if (item->from.word == BENCH_AS_DEFAULT || item->to.word == BENCH_AS_DEFAULT) {
		ui_error("Option '%s': 'default' is no end of a range", option);
		return -1;
	}
	return 0;
}

int bench_list_read(struct bench_list *l, const char *option, const char *text)
{
	char copy[TEXT];
	size_t len;

	*l = (struct bench_list){ .option = option };
	for (;; text += len + 1) {
		len = strcspn(text, ",");
		if (!len || len >= sizeof(copy)) {
			ui_error("Option '%s': a member of the list is %s", option, len ? "too long" : "empty");
			return -1;
		}
		if (l->n == BENCH_MOST_ITEMS) {
			ui_error("Option '%s': a list has at most %d members", option, BENCH_MOST_ITEMS);
			return -1;
		}
		memcpy(copy, text, len);
		copy[len] = 0;
		if (read_item(option, copy, &l->item[l->n]))
			return -1;
		l->n++;
		if (!text[len])
			return 0;
	}
}

/* ---- expanding ---- */

static int resolve(const struct bench_list *l, const struct bench_words *w, const struct bench_bound *b,
		   uint64_t *value)
{
	const char *word = b->word == BENCH_FULL ? "full" : b->word == BENCH_MIN ? "min" : "default";

	*value = b->word == BENCH_FULL ? w->full : b->word == BENCH_MIN ? w->min :
		 b->word == BENCH_AS_DEFAULT ? w->standard : b->number;
	if (b->word == BENCH_AS_DEFAULT)
		return 0;
	if (b->word != BENCH_NUMBER && *value == BENCH_UNKNOWN) {
		ui_error("Option '%s': '%s' makes no sense here", l->option, word);
		return -1;
	}
	if (*value >= w->least && *value <= w->most)
		return 0;
	ui_error("Option '%s': %" PRIu64 " is not from %" PRIu64 " to %" PRIu64, l->option, *value, w->least,
		 w->most);
	return -1;
}

static int put(const struct bench_list *l, struct bench_values *v, uint64_t value)
{
	if (v->n < BENCH_MOST_ROWS) {
		v->value[v->n++] = value;
		return 0;
	}
	ui_error("Option '%s': more than %d values", l->option, BENCH_MOST_ROWS);
	return -1;
}

static int expand_item(const struct bench_list *l, const struct bench_words *w,
		       const struct bench_item *item, struct bench_values *v)
{
	uint64_t from, to, at;
	bool over;

	if (resolve(l, w, &item->from, &from) || resolve(l, w, &item->to, &to))
		return -1;
	if (from == to)
		return put(l, v, from);
	if (from > to || (!from && item->way == '*')) {
		ui_error("Option '%s': a range from %" PRIu64 " to %" PRIu64 " has no steps", l->option, from, to);
		return -1;
	}
	for (at = from, over = false; !over && at <= to;) {
		if (put(l, v, at))
			return -1;
		over = item->way == '*' ? __builtin_mul_overflow(at, item->by, &at) :
					  __builtin_add_overflow(at, item->by, &at);
	}
	/* Steps from a size of one's choice seldom meet it. */
	return item->to.word == BENCH_FULL && v->value[v->n - 1] != to ? put(l, v, to) : 0;
}

int bench_list_expand(const struct bench_list *l, const struct bench_words *w, uint64_t otherwise,
		      struct bench_values *v)
{
	v->n = 0;
	if (!l->n)
		return put(l, v, otherwise);
	for (unsigned i = 0; i < l->n; i++)
		if (expand_item(l, w, &l->item[i], v))
			return -1;
	return 0;
}

/* ---- words ---- */

static int check_known(const char *option, const char *word, const char *const *known)
{
	for (unsigned i = 0; known[i]; i++)
		if (!strcmp(known[i], word))
			return 0;
	ui_error("'%s' is not a value of option '%s': it can be one of:", word, option);
	for (unsigned i = 0; known[i]; i++)
		ui_more("  %s", known[i]);
	return -1;
}

int bench_texts_read(struct bench_texts *t, const char *option, const char *text, const char *const *known)
{
	char *word, *next;

	*t = (struct bench_texts){ .memory = strdup(text) };
	if (!t->memory) {
		ui_error("Out of memory");
		return -1;
	}
	for (word = t->memory; word; word = next) {
		next = strchr(word, ',');
		if (next)
			*next++ = 0;
		if (check_known(option, word, known))
			return -1;
		if (t->n == BENCH_MOST_ITEMS) {
			ui_error("Option '%s': a list has at most %d members", option, BENCH_MOST_ITEMS);
			return -1;
		}
		t->word[t->n++] = word;
	}
	return 0;
}

void bench_texts_free(struct bench_texts *t)
{
	free(t->memory);
	*t = (struct bench_texts){ .n = 0 };
}
