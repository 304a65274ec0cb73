// SPDX-License-Identifier: BSD-2-Clause
/*
 * Option lists: "key=value,key=value" and the typed getters on them.
 *
 * Lists are short and searched from the front. A key is in a list once: setting it again replaces
 * its value and leaves its place in the order.
 */
#include "base/opts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"

/* Far above what anybody needs; a list that comes from an image can not take more memory. */
#define MAX_PAIRS 1024

struct pair {
	char *key, *value;
};

struct qimg_opts {
	struct pair *pairs;
	size_t count, room;
};

struct qimg_opts *qimg_opts_new(void)
{
	return calloc(1, sizeof(struct qimg_opts));
}

static void pair_free(struct pair *p)
{
	free(p->key);
	free(p->value);
}

void qimg_opts_free(struct qimg_opts *o)
{
	size_t i;

	if (!o)
		return;
	for (i = 0; i < o->count; i++)
		pair_free(&o->pairs[i]);
	free(o->pairs);
	free(o);
}

/* The key may be a part of a longer text. */
static struct pair *pair_find(const struct qimg_opts *o, const char *key, size_t len)
{
	size_t i;

	for (i = 0; o && i < o->count; i++) {
		if (strlen(o->pairs[i].key) == len && !memcmp(o->pairs[i].key, key, len))
			return &o->pairs[i];
	}
	return NULL;
}

/* Takes value over, also when it fails; NULL is a failed allocation of the caller. */
static int pair_put(struct qimg_opts *o, const char *key, size_t len, char *value,
		    struct qimg_error *e)
{
	struct pair *p = pair_find(o, key, len);
	size_t room = o->room ? o->room * 2 : 8;
	void *pairs = o->pairs;

	if (!value)
		return -1;
	if (p) {
		free(p->value);
		p->value = value;
		return 0;
	}
	if (o->count == MAX_PAIRS) {
		error_set(e, E2BIG, "More than %d options are given", MAX_PAIRS);
		goto fail;
	}
	if (o->count == o->room) {
		if (mem_grow(&pairs, o->room, room, sizeof(*p), e))
			goto fail;
		o->pairs = pairs;
		o->room = room;
	}
	p = &o->pairs[o->count];
	p->key = mem_strndup(key, len, e);
	if (!p->key)
		goto fail;
	p->value = value;
	o->count++;
	return 0;
fail:
	free(value);
	return -1;
}

int qimg_opts_set(struct qimg_opts *o, const char *key, const char *value, struct qimg_error *e)
{
	if (!*key)
		return error_set(e, EINVAL, "An option has an empty name");
	return pair_put(o, key, strlen(key), mem_strdup(value, e), e);
}

/* Reads a value up to a single comma, taking ",," for a comma; *end is behind it. */
static char *read_value(const char *p, const char **end, struct qimg_error *e)
{
	char *value = mem_alloc(strlen(p) + 1, e), *to = value;

	if (!value)
		return NULL;
	while (*p && (*p != ',' || p[1] == ',')) {
		if (*p == ',')
			p++;
		*to++ = *p++;
	}
	*to = '\0';
	*end = p;
	return value;
}

int qimg_opts_parse(struct qimg_opts *o, const char *list, struct qimg_error *e)
{
	const char *p = list, *end = p;
	size_t len;
	char *value;
	bool off;

	do {
		len = strcspn(p, "=,");
		if (!len)
			return error_set(e, EINVAL, "Invalid option list '%s': %s", list,
					 *p == '=' ? "a value has no name before it" :
					 !*list ? "it is empty" : "there is a comma too many");
		if (p[len] == '=') {
			value = read_value(p + len + 1, &end, e);
			if (pair_put(o, p, len, value, e))
				return -1;
			p = end;
		} else {
			off = len > 2 && !strncmp(p, "no", 2);
			if (pair_put(o, off ? p + 2 : p, off ? len - 2 : len,
				     mem_strdup(off ? "off" : "on", e), e))
				return -1;
			p += len;
		}
	} while (*p++ == ',');
	return 0;
}

const char *qimg_opts_get(const struct qimg_opts *o, const char *key)
{
	struct pair *p = pair_find(o, key, strlen(key));

	return p ? p->value : NULL;
}

size_t opts_count(const struct qimg_opts *o)
{
	return o ? o->count : 0;
}

const char *opts_at(const struct qimg_opts *o, size_t i, const char **value)
{
	*value = o->pairs[i].value;
	return o->pairs[i].key;
}

struct qimg_opts *opts_copy(const struct qimg_opts *o, struct qimg_error *e)
{
	return opts_sub(o, "", e);
}

void opts_remove(struct qimg_opts *o, const char *key)
{
	struct pair *p = pair_find(o, key, strlen(key));

	if (!p)
		return;
	pair_free(p);
	o->count--;
	memmove(p, p + 1, (size_t)(o->pairs + o->count - p) * sizeof(*p));
}

struct qimg_opts *opts_sub(const struct qimg_opts *o, const char *prefix, struct qimg_error *e)
{
	struct qimg_opts *sub = qimg_opts_new();
	size_t i, n = strlen(prefix);

	if (!sub) {
		error_nomem(e);
		return NULL;
	}
	for (i = 0; o && i < o->count; i++) {
		if (strncmp(o->pairs[i].key, prefix, n))
			continue;
		if (qimg_opts_set(sub, o->pairs[i].key + n, o->pairs[i].value, e)) {
			qimg_opts_free(sub);
			return NULL;
		}
	}
	return sub;
}

int opts_bool(const struct qimg_opts *o, const char *key, bool *v, struct qimg_error *e)
{
	static const char *const names[][2] = {
		{ "off", "on" }, { "no", "yes" }, { "false", "true" }, { "n", "y" },
	};
	const char *text = qimg_opts_get(o, key);
	unsigned i, b;

	if (!text)
		return 0;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (b = 0; b < 2; b++) {
			if (!strcmp(text, names[i][b])) {
				*v = b;
				return 0;
			}
		}
	}
	return error_set(e, EINVAL, "Parameter '%s' expects 'on' or 'off', not '%s'", key, text);
}

int opts_size(const struct qimg_opts *o, const char *key, uint64_t *v, struct qimg_error *e)
{
	const char *text = qimg_opts_get(o, key);

	if (!text || !qimg_parse_size(text, v, e))
		return 0;
	error_prefix(e, "Parameter '%s' expects a size", key);
	return -1;
}

int opts_number(const struct qimg_opts *o, const char *key, uint64_t min, uint64_t max, uint64_t *v,
		struct qimg_error *e)
{
	const char *text = qimg_opts_get(o, key);
	unsigned long long n;
	char *end;

	if (!text)
		return 0;
	/* strtoull would take a sign and blanks in front; base 0 would take octal. */
	errno = 0;
	n = strtoull(text, &end, !strncasecmp(text, "0x", 2) ? 16 : 10);
	if (*text < '0' || *text > '9' || *end || errno || n < min || n > max)
		return error_set(e, EINVAL, "Parameter '%s' expects a number from %" PRIu64 " to %" PRIu64
				 ", not '%s'", key, min, max, text);
	*v = n;
	return 0;
}

int opts_choice(const struct qimg_opts *o, const char *key, const char *const *choices, unsigned *v,
		struct qimg_error *e)
{
	const char *text = qimg_opts_get(o, key);
	char list[256] = "";
	unsigned i;

	if (!text)
		return 0;
	for (i = 0; choices[i]; i++) {
		if (!strcmp(text, choices[i])) {
			*v = i;
			return 0;
		}
	}
	for (i = 0; choices[i]; i++) {
		size_t n = strlen(list);

		if (n + strlen(choices[i]) + 7 > sizeof(list))
			break;
		if (i)
			strcat(list, choices[i + 1] ? ", " : " or ");
		strcat(list, choices[i]);
	}
	return error_set(e, EINVAL, "Parameter '%s' expects %s, not '%s'", key, list, text);
}

int opts_check_known(const struct qimg_opts *o, const char *const *known, const char *what,
		     struct qimg_error *e)
{
	size_t i, k, n;

	for (i = 0; o && i < o->count; i++) {
		const char *key = o->pairs[i].key;

		for (k = 0; known[k]; k++) {
			n = strlen(known[k]);
			if (n && known[k][n - 1] == '.' ? !strncmp(key, known[k], n) :
			    !strcmp(key, known[k]))
				break;
		}
		if (!known[k])
			return error_set(e, EINVAL, "Invalid parameter '%s': %s has no such option", key,
					 what);
	}
	return 0;
}
