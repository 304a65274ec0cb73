// SPDX-License-Identifier: BSD-2-Clause
/*
 * JSON objects as option lists. The text may come from an image (a backing file name), so its length
 * and depth are bounded before and while it is taken apart.
 */
#include "base/json.h"

#include <errno.h>

#include "base/error.h"
#include "config.h"

#ifdef HAVE_JANSSON

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/opts.h"

#define MAX_TEXT 65536
#define MAX_DEPTH 16

static int add(struct qimg_opts *o, const char *prefix, const char *key, json_t *v, unsigned depth,
	       struct qimg_error *e);

static int add_members(struct qimg_opts *o, const char *name, json_t *v, unsigned depth,
		       struct qimg_error *e)
{
	const char *key;
	json_t *member;
	size_t i;
	char index[24];

	if (depth == MAX_DEPTH)
		return error_set(e, EINVAL, "JSON options are nested more than %d levels deep",
				 MAX_DEPTH);
	if (json_is_object(v)) {
		json_object_foreach(v, key, member) {
			if (add(o, name, key, member, depth + 1, e))
				return -1;
		}
		return 0;
	}
	json_array_foreach(v, i, member) {
		snprintf(index, sizeof(index), "%zu", i);
		if (add(o, name, index, member, depth + 1, e))
			return -1;
	}
	return 0;
}

static int add(struct qimg_opts *o, const char *prefix, const char *key, json_t *v, unsigned depth,
	       struct qimg_error *e)
{
	char number[24];
	const char *value = "";
	char *name;
	int ret = -1;

	name = mem_printf(e, "%s%s%s", prefix, *prefix ? "." : "", key);
	if (!name)
		return -1;
	if (!*key) {
		error_set(e, EINVAL, "JSON option '%s' has an empty name", name);
		goto out;
	}

	switch (json_typeof(v)) {
	case JSON_OBJECT:
	case JSON_ARRAY:
		ret = add_members(o, name, v, depth, e);
		goto out;
	case JSON_STRING:
		value = json_string_value(v);
		break;
	case JSON_INTEGER:
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		value = number;
		break;
	case JSON_REAL:
		error_set(e, EINVAL, "JSON option '%s' is %g: no option takes a fraction or a number "
			  "above 2^63-1", name, json_real_value(v));
		goto out;
	case JSON_TRUE:
		value = "on";
		break;
	case JSON_FALSE:
		value = "off";
		break;
	case JSON_NULL:
		break;
	}
	/* The parser refuses a key twice in one object, but "a.b" may also be spelt both ways. */
	if (qimg_opts_get(o, name)) {
		error_set(e, EINVAL, "JSON option '%s' is given twice", name);
		goto out;
	}
	ret = qimg_opts_set(o, name, value, e);
out:
	free(name);
	return ret;
}

int json_to_opts(struct qimg_opts *o, const char *text, struct qimg_error *e)
{
	struct qimg_opts *found = NULL;
	json_error_t why;
	json_t *root;
	const char *value;
	size_t i, n = strlen(text);
	int ret = -1;

	if (n > MAX_TEXT)
		return error_set(e, EINVAL, "JSON options of %zu bytes are too long (at most %d)", n,
				 MAX_TEXT);
	root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return error_set(e, EINVAL, "Invalid JSON at position %d: %s", why.position, why.text);
	if (!json_is_object(root)) {
		error_set(e, EINVAL, "Invalid JSON options: not an object");
		goto out;
	}
	/* Into a list of its own first: what o had before may be overridden, and o stays on errors. */
	found = qimg_opts_new();
	if (!found) {
		error_nomem(e);
		goto out;
	}
	if (add_members(found, "", root, 0, e))
		goto out;
	for (i = 0; i < opts_count(found); i++) {
		const char *key = opts_at(found, i, &value);

		if (qimg_opts_set(o, key, value, e))
			goto out;
	}
	ret = 0;
out:
	qimg_opts_free(found);
	json_decref(root);
	return ret;
}

#else

int json_to_opts(struct qimg_opts *o, const char *text, struct qimg_error *e)
{
	(void)o;
	(void)text;
	return error_set(e, ENOTSUP, "JSON file names are not supported: qimg was built without a JSON "
			 "parser (jansson)");
}

#endif
