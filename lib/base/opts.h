/* SPDX-License-Identifier: BSD-2-Clause */
/* Option lists: what qimg_opts_* of the public header do, and the typed getters behind them. */
#ifndef BASE_OPTS_H
#define BASE_OPTS_H

#include "qimg.h"

size_t opts_count(const struct qimg_opts *o);		/* 0 when o is NULL */
/* The i-th pair in order; *value belongs to the list. */
const char *opts_at(const struct qimg_opts *o, size_t i, const char **value);
struct qimg_opts *opts_copy(const struct qimg_opts *o, struct qimg_error *e);	/* o may be NULL */
void opts_remove(struct qimg_opts *o, const char *key);
/* A new list of the keys that start with prefix ("backing."), without the prefix. */
struct qimg_opts *opts_sub(const struct qimg_opts *o, const char *prefix, struct qimg_error *e);
/*
 * Typed getters: *v is left alone and 0 returned when the key is absent (o may be NULL). An error names
 * key, value and what is allowed.
 */
int opts_bool(const struct qimg_opts *o, const char *key, bool *v, struct qimg_error *e);
int opts_size(const struct qimg_opts *o, const char *key, uint64_t *v, struct qimg_error *e);
int opts_number(const struct qimg_opts *o, const char *key, uint64_t min, uint64_t max, uint64_t *v,
		struct qimg_error *e);
/* choices: ended by NULL; *v becomes the index. */
int opts_choice(const struct qimg_opts *o, const char *key, const char *const *choices, unsigned *v,
		struct qimg_error *e);
/*
 * Fails when a key is in none of the lists `known` (ended by NULL; a name that ends in '.' stands
 * for all keys with that prefix). `what` names the owner in the error.
 */
int opts_check_known(const struct qimg_opts *o, const char *const *known, const char *what,
		     struct qimg_error *e);

#endif
