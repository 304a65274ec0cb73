// SPDX-License-Identifier: BSD-2-Clause
/*
 * Trees of values and their JSON text.
 *
 * The text is laid out as the reference does it: members one a line, 4 spaces a level, a line break
 * also in empty containers. It is pure ASCII: what lies outside is escaped, and bytes that are no
 * valid UTF-8 (file names can hold any) become U+FFFD, so that every parser takes it.
 */
#include "base/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

struct qimg_value {
	enum qimg_type type;
	bool b;
	int64_t n;
	char *s;
	struct member {
		char *key;		/* NULL in lists */
		struct qimg_value *v;
	} *members;
	size_t count, room;
};

static struct qimg_value *value_new(enum qimg_type type, struct qimg_error *e)
{
	struct qimg_value *v = mem_zalloc(sizeof(*v), e);

	if (v)
		v->type = type;
	return v;
}

struct qimg_value *value_object(struct qimg_error *e)
{
	return value_new(QIMG_OBJECT, e);
}

struct qimg_value *value_list(struct qimg_error *e)
{
	return value_new(QIMG_LIST, e);
}

/* Trees are as deep as the code that builds them nests, so recursion is bounded. */
void qimg_value_free(struct qimg_value *v)
{
	size_t i;

	if (!v)
		return;
	for (i = 0; i < v->count; i++) {
		free(v->members[i].key);
		qimg_value_free(v->members[i].v);
	}
	free(v->members);
	free(v->s);
	free(v);
}

enum qimg_type qimg_value_type(const struct qimg_value *v)
{
	return v ? v->type : QIMG_NULL;
}

bool qimg_value_bool(const struct qimg_value *v)
{
	return v && v->type == QIMG_BOOL && v->b;
}

int64_t qimg_value_int(const struct qimg_value *v)
{
	return v && v->type == QIMG_INT ? v->n : 0;
}

const char *qimg_value_string(const struct qimg_value *v)
{
	return v && v->type == QIMG_STRING ? v->s : "";
}

size_t qimg_value_count(const struct qimg_value *v)
{
	return v ? v->count : 0;
}

const struct qimg_value *qimg_value_at(const struct qimg_value *v, size_t i, const char **key)
{
	bool there = v && i < v->count;

	if (key)
		*key = there ? v->members[i].key : NULL;
	return there ? v->members[i].v : NULL;
}

static struct member *member_find(const struct qimg_value *v, const char *key)
{
	size_t i;

	for (i = 0; v && v->type == QIMG_OBJECT && i < v->count; i++) {
		if (!strcmp(v->members[i].key, key))
			return &v->members[i];
	}
	return NULL;
}

const struct qimg_value *qimg_value_get(const struct qimg_value *v, const char *key)
{
	struct member *m = member_find(v, key);

	return m ? m->v : NULL;
}

static int member_add(struct qimg_value *to, const char *key, struct qimg_value *v,
		      struct qimg_error *e)
{
	size_t room = to->room ? to->room * 2 : 8;
	char *name = NULL;
	void *members = to->members;

	if (!v)
		return -1;
	if (key) {
		name = mem_strdup(key, e);
		if (!name)
			goto fail;
	}
	if (to->count == to->room) {
		if (mem_grow(&members, to->room, room, sizeof(*to->members), e))
			goto fail;
		to->members = members;
		to->room = room;
	}
	to->members[to->count++] = (struct member){ name, v };
	return 0;
fail:
	free(name);
	qimg_value_free(v);
	return -1;
}

int value_set(struct qimg_value *obj, const char *key, struct qimg_value *v, struct qimg_error *e)
{
	struct member *m = member_find(obj, key);

	if (!m || !v)
		return member_add(obj, key, v, e);
	qimg_value_free(m->v);
	m->v = v;
	return 0;
}

int value_set_bool(struct qimg_value *obj, const char *key, bool b, struct qimg_error *e)
{
	struct qimg_value *v = value_new(QIMG_BOOL, e);

	if (v)
		v->b = b;
	return value_set(obj, key, v, e);
}

int value_set_int(struct qimg_value *obj, const char *key, int64_t n, struct qimg_error *e)
{
	struct qimg_value *v = value_new(QIMG_INT, e);

	if (v)
		v->n = n;
	return value_set(obj, key, v, e);
}

static struct qimg_value *value_string(const char *s, struct qimg_error *e)
{
	struct qimg_value *v = value_new(QIMG_STRING, e);

	if (!v)
		return NULL;
	v->s = mem_strdup(s, e);
	if (!v->s) {
		free(v);
		return NULL;
	}
	return v;
}

int value_set_string(struct qimg_value *obj, const char *key, const char *s, struct qimg_error *e)
{
	return value_set(obj, key, value_string(s, e), e);
}

int value_append(struct qimg_value *list, struct qimg_value *v, struct qimg_error *e)
{
	return member_add(list, NULL, v, e);
}

int value_append_string(struct qimg_value *list, const char *s, struct qimg_error *e)
{
	return value_append(list, value_string(s, e), e);
}

/* ---- JSON ---- */

/*
 * Decodes the character at p, at most n bytes long, and returns its length. What is not UTF-8 (also
 * overlong forms, surrogates and noncharacters at the end of a plane) is one byte of U+FFFD.
 */
static size_t utf8_get(const unsigned char *p, uint32_t *c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xf0 && p[0] < 0xf8 ? 4 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 :
		     p[0] >= 0xc0 && p[0] < 0xe0 ? 2 : 0;
	size_t i;

	*c = 0xfffd;
	if (len < 2) {
		if (len)
			*c = p[0];
		return 1;
	}
	{
		uint32_t v = p[0] & (0x7fu >> len);

		/* The NUL at the end of the string stops this, too. */
		for (i = 1; i < len; i++) {
			if ((p[i] & 0xc0) != 0x80)
				return 1;
			v = v << 6 | (p[i] & 0x3f);
		}
		if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
			return 1;
		if ((v & 0xfffe) != 0xfffe)
			*c = v;
		return len;
	}
}

static void put_string(FILE *out, const char *s)
{
	static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const unsigned char *p = (const unsigned char *)s;
	const char *at;
	uint32_t c;

	putc('"', out);
	while (*p) {
		p += utf8_get(p, &c);
		if (c < 0x80 && (at = strchr(plain, (int)c)))
			fprintf(out, "\\%c", letters[at - plain]);
		else if (c >= 0x20 && c < 0x7f)
			putc((int)c, out);
		else if (c < 0x10000)
			fprintf(out, "\\u%04X", c);
		else
			fprintf(out, "\\u%04X\\u%04X", 0xd800 + ((c - 0x10000) >> 10),
				0xdc00 + ((c - 0x10000) & 0x3ff));
	}
	putc('"', out);
}

static void put_indent(FILE *out, unsigned level)
{
	fprintf(out, "\n%*s", (int)(level * 4), "");
}

static void put_value(FILE *out, const struct qimg_value *v, unsigned level)
{
	size_t i;

	switch (v->type) {
	case QIMG_NULL:
		fputs("null", out);
		break;
	case QIMG_BOOL:
		fputs(v->b ? "true" : "false", out);
		break;
	case QIMG_INT:
		fprintf(out, "%" PRId64, v->n);
		break;
	case QIMG_STRING:
		put_string(out, v->s);
		break;
	case QIMG_LIST:
	case QIMG_OBJECT:
		putc(v->type == QIMG_LIST ? '[' : '{', out);
		for (i = 0; i < v->count; i++) {
			if (i)
				putc(',', out);
			put_indent(out, level + 1);
			if (v->members[i].key) {
				put_string(out, v->members[i].key);
				fputs(": ", out);
			}
			put_value(out, v->members[i].v, level + 1);
		}
		put_indent(out, level);
		putc(v->type == QIMG_LIST ? ']' : '}', out);
		break;
	}
}

char *qimg_value_json(const struct qimg_value *v)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	bool failed;

	if (!out)
		return NULL;
	put_value(out, v, 0);
	failed = ferror(out);
	if (fclose(out) || failed) {
		free(text);
		return NULL;
	}
	return text;
}
