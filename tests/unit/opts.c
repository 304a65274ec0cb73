// SPDX-License-Identifier: BSD-2-Clause
/* Option lists: parsing, replacing, the typed getters, and options from JSON. */
#include "base/opts.h"

#include <errno.h>

#include "base/error.h"
#include "base/json.h"
#include "config.h"
#include "tap.h"

static struct qimg_error e;

/* The list as "key=value;key=value". */
static const char *text_of(const struct qimg_opts *o)
{
	static char text[1024];
	const char *key, *value;
	size_t i;

	*text = '\0';
	for (i = 0; i < opts_count(o); i++) {
		key = opts_at(o, i, &value);
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s=%s", i ? ";" : "", key,
			 value);
	}
	return text;
}

static void parsing(void)
{
	static const char *const good[][2] = {
		{ "a=1", "a=1" }, { "a=1,b=2", "a=1;b=2" }, { "a", "a=on" }, { "noa", "a=off" },
		{ "no", "no=on" }, { "a=,b=", "a=;b=" }, { "a=x,,y,b=2", "a=x,y;b=2" },
		{ "a=,,", "a=," }, { "a=,,,,b=3", "a=,,b=3" }, { "a=1,a=2", "a=2" },
		{ "a=1,b=2,a=3", "a=3;b=2" }, { "a=b=c", "a=b=c" }, { "a=x,,,b", "a=x,;b=on" },
		{ "backing.driver=raw,lazy", "backing.driver=raw;lazy=on" }, { "nob,b", "b=on" },
		{ "help", "help=on" }, { "?", "?=on" }, { "a= 1 ", "a= 1 " },
	};
	static const char *const bad[] = { "", ",", "a=1,", ",a=1", "a,,b", "=1", "a=1,=2", "a=1,,,", "a," };
	struct qimg_opts *o;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		o = qimg_opts_new();
		ok(!qimg_opts_parse(o, good[i][0], &e), "'%s' is a list", good[i][0]);
		is_str(text_of(o), good[i][1], "'%s' is read right", good[i][0]);
		qimg_opts_free(o);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		o = qimg_opts_new();
		is_i64(qimg_opts_parse(o, bad[i], &e), -1, "'%s' is none", bad[i]);
		ok(e.code == EINVAL && strstr(e.msg, "Invalid option list"), "'%s': %s", bad[i], e.msg);
		if (*bad[i] && strlen(bad[i]) > 2)
			ok(strstr(e.msg, bad[i]), "'%s' is shown whole", bad[i]);
		qimg_opts_free(o);
	}
	qimg_opts_free(NULL);
}

static void lists(void)
{
	struct qimg_opts *o = qimg_opts_new(), *copy, *sub;
	char key[16];
	unsigned i;

	ok(!qimg_opts_set(o, "backing.driver", "raw", &e), "set");
	ok(!qimg_opts_set(o, "x", "1", &e), "set");
	ok(!qimg_opts_set(o, "backing.file.filename", "f", &e), "set");
	is_i64(qimg_opts_set(o, "", "1", &e), -1, "a name may not be empty");
	is_str(qimg_opts_get(o, "x"), "1", "get");
	is_str(qimg_opts_get(o, "y"), NULL, "get what is not there");
	is_str(qimg_opts_get(NULL, "y"), NULL, "get from no list");
	sub = opts_sub(o, "backing.", &e);
	is_str(text_of(sub), "driver=raw;file.filename=f", "the options of a part");
	copy = opts_copy(o, &e);
	opts_remove(o, "backing.driver");
	opts_remove(o, "nothing");
	is_str(text_of(o), "x=1;backing.file.filename=f", "remove");
	is_str(text_of(copy), "backing.driver=raw;x=1;backing.file.filename=f", "the copy is its own");
	qimg_opts_free(copy);
	qimg_opts_free(sub);
	copy = opts_copy(NULL, &e);
	is_u64(opts_count(copy), 0, "the copy of no list is empty");
	qimg_opts_free(copy);
	is_u64(opts_count(NULL), 0, "no list has no pairs");
	for (i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		if (qimg_opts_set(o, key, key, &e))
			break;
	}
	is_u64(i, 1000, "a thousand options");
	is_str(qimg_opts_get(o, "k999"), "k999", "are found");
	for (; i < 2000; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		if (qimg_opts_set(o, key, key, &e))
			break;
	}
	ok(i < 1100 && e.code == E2BIG, "but not any number: %s", e.msg);
	qimg_opts_free(o);
}

static void getters(void)
{
	static const char *const on[] = { "on", "yes", "true", "y" };
	static const char *const off[] = { "off", "no", "false", "n" };
	static const char *const neither[] = { "1", "0", "", "ON", "onn" };
	static const char *const choices[] = { "off", "metadata", "falloc", "full", NULL };
	static const char *const known[] = { "a", "backing.", "number", NULL };
	struct qimg_opts *o = qimg_opts_new();
	uint64_t n = 7;
	unsigned c = 9;
	size_t i;
	bool b;

	for (i = 0; i < 4; i++) {
		b = false;
		qimg_opts_set(o, "a", on[i], &e);
		ok(!opts_bool(o, "a", &b, &e) && b, "'%s' is on", on[i]);
		qimg_opts_set(o, "a", off[i], &e);
		ok(!opts_bool(o, "a", &b, &e) && !b, "'%s' is off", off[i]);
	}
	for (i = 0; i < sizeof(neither) / sizeof(neither[0]); i++) {
		qimg_opts_set(o, "a", neither[i], &e);
		is_i64(opts_bool(o, "a", &b, &e), -1, "'%s' is neither", neither[i]);
		ok(strstr(e.msg, "'a'") && strstr(e.msg, "'on' or 'off'"), "%s", e.msg);
	}
	b = true;
	ok(!opts_bool(o, "none", &b, &e) && b, "an option that is not there changes nothing");
	ok(!opts_bool(NULL, "none", &b, &e) && b, "nor does no list");

	qimg_opts_set(o, "a", "64k", &e);
	ok(!opts_size(o, "a", &n, &e) && n == 65536, "a size");
	qimg_opts_set(o, "a", "64kk", &e);
	is_i64(opts_size(o, "a", &n, &e), -1, "no size");
	ok(strstr(e.msg, "Parameter 'a' expects a size") && strstr(e.msg, "64kk"), "%s", e.msg);
	is_u64(n, 65536, "the value is left alone");

	qimg_opts_set(o, "a", "16", &e);
	ok(!opts_number(o, "a", 1, 64, &n, &e) && n == 16, "a number");
	qimg_opts_set(o, "a", "0x10", &e);
	ok(!opts_number(o, "a", 1, 64, &n, &e) && n == 16, "a hex number");
	qimg_opts_set(o, "a", "010", &e);
	ok(!opts_number(o, "a", 1, 64, &n, &e) && n == 10, "a zero in front means nothing");
	qimg_opts_set(o, "a", "18446744073709551615", &e);
	ok(!opts_number(o, "a", 0, UINT64_MAX, &n, &e) && n == UINT64_MAX, "the largest number");
	{
		static const char *const bad[] = { "0", "65", "-1", "", " 1", "1k", "+1", "0x", "1 ",
						   "18446744073709551616", "0x-1", "0x 1" };

		for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			qimg_opts_set(o, "a", bad[i], &e);
			is_i64(opts_number(o, "a", 1, 64, &n, &e), -1, "'%s' is no number from 1 to 64",
			       bad[i]);
		}
		ok(strstr(e.msg, "from 1 to 64"), "%s", e.msg);
	}

	qimg_opts_set(o, "a", "falloc", &e);
	ok(!opts_choice(o, "a", choices, &c, &e) && c == 2, "a choice");
	qimg_opts_set(o, "a", "fall", &e);
	is_i64(opts_choice(o, "a", choices, &c, &e), -1, "no choice");
	is_str(e.msg, "Parameter 'a' expects off, metadata, falloc or full, not 'fall'", "says them all");

	qimg_opts_set(o, "backing.x.y", "1", &e);
	ok(!opts_check_known(o, known, "qcow2", &e), "all are known");
	ok(!opts_check_known(NULL, known, "qcow2", &e), "and in no list");
	qimg_opts_set(o, "backing", "1", &e);
	is_i64(opts_check_known(o, known, "qcow2", &e), -1, "one is not");
	ok(strstr(e.msg, "Invalid parameter 'backing'") && strstr(e.msg, "qcow2"), "%s", e.msg);
	qimg_opts_free(o);
}

#ifdef HAVE_JANSSON
static void json(void)
{
	static const char *const good[][2] = {
		{ "{}", "" },
		{ "{\"driver\": \"qcow2\", \"file\": {\"driver\": \"file\", \"filename\": \"a b\"}}",
		  "driver=qcow2;file.driver=file;file.filename=a b" },
		{ "{\"a\": true, \"b\": false, \"c\": null, \"d\": -5, \"e\": 9223372036854775807}",
		  "a=on;b=off;c=;d=-5;e=9223372036854775807" },
		{ "{\"l\": [1, {\"x\": \"y\"}]}", "l.0=1;l.1.x=y" },
		{ "{\"file.driver\": \"file\", \"file\": {\"filename\": \"\\u00e9\"}}",
		  "file.driver=file;file.filename=\xc3\xa9" },
		{ "{\"o\": {}, \"l\": []}", "" },
	};
	static const char *const bad[] = {
		"", "{", "[]", "1", "\"x\"", "{} x", "{\"a\": 1.5}", "{\"\": 1}", "{\"a\": {\"\": 1}}",
		"{\"a\": 1, \"a\": 2}", "{\"a.b\": 1, \"a\": {\"b\": 2}}", "{\"a\": \"\\u0000\"}",
		"{\"a\": 99999999999999999999}", "{'a': 1}",
		"{\"a\":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}", "{\"a\": \"\xff\"}",
	};
	struct qimg_opts *o;
	char *deep = malloc(200001);
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		o = qimg_opts_new();
		ok(!json_to_opts(o, good[i][0], &e), "%s", good[i][0]);
		is_str(text_of(o), good[i][1], "is read right");
		qimg_opts_free(o);
	}
	o = qimg_opts_new();
	qimg_opts_set(o, "x", "1", &e);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(json_to_opts(o, bad[i], &e) && e.code == EINVAL, "case %zu: %s", i, e.msg);
	memset(deep, '[', 200000);
	deep[200000] = '\0';
	ok(json_to_opts(o, deep, &e) && e.code == EINVAL, "very long: %s", e.msg);
	deep[60000] = '\0';
	memcpy(deep, "{\"a\":", 5);
	ok(json_to_opts(o, deep, &e) && e.code == EINVAL, "very deep: %s", e.msg);
	is_str(text_of(o), "x=1", "the list is as it was");
	ok(!json_to_opts(o, "{\"x\": 2}", &e), "what was set before");
	is_str(text_of(o), "x=2", "is replaced");
	qimg_opts_free(o);
	free(deep);
}
#else
static void json(void)
{
	struct qimg_opts *o = qimg_opts_new();

	ok(json_to_opts(o, "{}", &e) && e.code == ENOTSUP, "%s", e.msg);
	qimg_opts_free(o);
}
#endif

int main(void)
{
	parsing();
	lists();
	getters();
	json();
	return done_testing();
}
