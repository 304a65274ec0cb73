/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists on the command line: "1M,2M", "64K..4M*2", "1..9+2", "min..full", "default". What the words stand for is
 * known later than the text is read, so reading and expanding are two steps.
 */
#ifndef CMD_BENCH_LIST_H
#define CMD_BENCH_LIST_H

#include <stdint.h>

#include "bench.h"

enum { BENCH_MOST_ROWS = 1000, BENCH_MOST_ITEMS = 64 };

enum bench_word { BENCH_NUMBER, BENCH_FULL, BENCH_MIN, BENCH_AS_DEFAULT };

struct bench_bound {
	enum bench_word word;
	uint64_t number;		/* NUMBER */
};

struct bench_item {			/* one member of a list; a single value is a range of one */
	struct bench_bound from, to;
	char way;			/* '*' or '+' */
	uint64_t by;
};

struct bench_list {
	const char *option;		/* "--l2-cache-size", for messages */
	struct bench_item item[BENCH_MOST_ITEMS];
	unsigned n;			/* 0: the option was not given */
};

/* What the words come to, BENCH_UNKNOWN where one makes no sense; `standard` may be BENCH_DEFAULT. */
struct bench_words {
	uint64_t full, min, standard;
	uint64_t least, most;		/* what a value may be */
};

struct bench_values {
	uint64_t value[BENCH_MOST_ROWS];
	unsigned n;
};

/* -1 after a message. */
int bench_list_read(struct bench_list *l, const char *option, const char *text);
/* Values as often as they are given; `otherwise` alone when the list is empty. -1 after a message. */
int bench_list_expand(const struct bench_list *l, const struct bench_words *w, uint64_t otherwise,
		      struct bench_values *v);

struct bench_texts {
	char *memory;			/* that of the words */
	const char *word[BENCH_MOST_ITEMS];
	unsigned n;
};

/*
 * The words of "a,b,c", each of which must be in `known`, ended by NULL; the text is copied. -1 after a message;
 * in any case to be freed.
 */
int bench_texts_read(struct bench_texts *t, const char *option, const char *text, const char *const *known);
void bench_texts_free(struct bench_texts *t);

#endif
