// SPDX-License-Identifier: BSD-2-Clause
/* Trees of values and the JSON text made of them. */
#include "base/value.h"

#include "base/error.h"
#include "tap.h"

static struct qimg_error e;

static void is_json(struct qimg_value *v, const char *want, const char *name)
{
	char *text = qimg_value_json(v);

	is_str(text, want, "JSON of %s", name);
	free(text);
	qimg_value_free(v);
}

/* The JSON of a string, with its quotes. */
static void is_string(const char *s, const char *want)
{
	struct qimg_value *list = value_list(&e);
	char whole[256];

	value_append_string(list, s, &e);
	snprintf(whole, sizeof(whole), "[\n    %s\n]", want);
	is_json(list, whole, want);
}

static void layout(void)
{
	struct qimg_value *o = value_object(&e), *in = value_object(&e), *list = value_list(&e);

	ok(!value_set_string(o, "filename", "a.qcow2", &e), "a string");
	ok(!value_set_int(o, "virtual-size", INT64_MAX, &e), "a number");
	ok(!value_set_int(o, "least", INT64_MIN, &e), "the least one");
	ok(!value_set_bool(o, "dirty-flag", false, &e), "a boolean");
	ok(!value_append_string(list, "auto", &e), "a string in a list");
	ok(!value_append(list, value_object(&e), &e), "an object in it");
	ok(!value_append(list, value_list(&e), &e), "a list in it");
	ok(!value_set(in, "flags", list, &e), "the list in an object");
	ok(!value_set(o, "data", in, &e), "the object in an object");
	ok(!value_set_bool(o, "dirty-flag", true, &e), "a member set again");
	is_u64(qimg_value_count(o), 5, "keeps its place");
	is_json(o,
		"{\n"
		"    \"filename\": \"a.qcow2\",\n"
		"    \"virtual-size\": 9223372036854775807,\n"
		"    \"least\": -9223372036854775808,\n"
		"    \"dirty-flag\": true,\n"
		"    \"data\": {\n"
		"        \"flags\": [\n"
		"            \"auto\",\n"
		"            {\n"
		"            },\n"
		"            [\n"
		"            ]\n"
		"        ]\n"
		"    }\n"
		"}", "a tree");
	is_json(value_object(&e), "{\n}", "an empty object");
}

static void strings(void)
{
	is_string("plain", "\"plain\"");
	is_string("", "\"\"");
	is_string("\"\\/", "\"\\\"\\\\/\"");
	is_string("\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001F\\u007F\"");
	is_string("\xc3\xa9", "\"\\u00E9\"");
	is_string("\xf0\x9f\x98\x80", "\"\\uD83D\\uDE00\"");
	is_string("\xf4\x8f\xbf\xbd", "\"\\uDBFF\\uDFFD\"");
	/* not UTF-8: stray and missing continuations, overlong forms, surrogates, too large */
	is_string("a\xff" "b", "\"a\\uFFFDb\"");
	is_string("\x80", "\"\\uFFFD\"");
	is_string("\xc3", "\"\\uFFFD\"");
	is_string("\xc3(", "\"\\uFFFD(\"");
	is_string("\xe2\x82", "\"\\uFFFD\\uFFFD\"");
	is_string("\xc0\x80", "\"\\uFFFD\\uFFFD\"");
	is_string("\xe0\x80\xaf", "\"\\uFFFD\\uFFFD\\uFFFD\"");
	is_string("\xed\xa0\x80", "\"\\uFFFD\\uFFFD\\uFFFD\"");
	is_string("\xf4\x90\x80\x80", "\"\\uFFFD\\uFFFD\\uFFFD\\uFFFD\"");
	is_string("\xf8\x88\x80\x80\x80", "\"\\uFFFD\\uFFFD\\uFFFD\\uFFFD\\uFFFD\"");
	is_string("\xef\xbf\xbf", "\"\\uFFFD\"");
}

static void looking(void)
{
	struct qimg_value *o = value_object(&e), *list = value_list(&e);
	const struct qimg_value *v;
	const char *key;
	unsigned i;

	value_set_int(o, "n", 42, &e);
	value_set_string(o, "s", "text", &e);
	value_set_bool(o, "b", true, &e);
	for (i = 0; i < 100; i++)
		value_append_string(list, "x", &e);
	value_set(o, "l", list, &e);
	is_i64(qimg_value_int(qimg_value_get(o, "n")), 42, "a number by key");
	is_str(qimg_value_string(qimg_value_get(o, "s")), "text", "a string by key");
	ok(qimg_value_bool(qimg_value_get(o, "b")), "a boolean by key");
	is_i64(qimg_value_int(qimg_value_get(o, "s")), 0, "a string is no number");
	is_str(qimg_value_string(qimg_value_get(o, "n")), "", "a number is no string");
	ok(!qimg_value_bool(qimg_value_get(o, "n")), "nor true");
	ok(!qimg_value_get(o, "none") && !qimg_value_get(NULL, "n"), "what is not there is NULL");
	ok(!qimg_value_get(qimg_value_get(o, "l"), "n"), "lists have no keys");
	is_u64(qimg_value_count(qimg_value_get(o, "l")), 100, "a list has a length");
	v = qimg_value_at(o, 1, &key);
	ok(v && !strcmp(key, "s"), "members by number");
	v = qimg_value_at(qimg_value_get(o, "l"), 99, &key);
	ok(v && !key, "have no key in lists");
	ok(!qimg_value_at(o, 4, &key) && !key, "and there are no more");
	ok(qimg_value_at(o, 0, NULL), "the key need not be asked for");
	is_i64(qimg_value_type(o), QIMG_OBJECT, "type");
	is_i64(qimg_value_type(NULL), QIMG_NULL, "type of nothing");
	is_i64(value_set(o, "x", NULL, &e), -1, "a failed member fails the call");
	is_u64(qimg_value_count(o), 4, "and adds nothing");
	qimg_value_free(o);
	qimg_value_free(NULL);
}

int main(void)
{
	layout();
	strings();
	looking();
	return done_testing();
}
