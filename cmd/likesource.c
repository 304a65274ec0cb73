// SPDX-License-Identifier: BSD-2-Clause
/* convert --like-source: creation options from what `info` says about the source. */
#include "likesource.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "createopts.h"
#include "ui.h"

static int set(struct qimg_opts *opts, const char *key, const char *value)
{
	return qimg_opts_get(opts, key) ? 0 : createopts_set(opts, key, value);
}

static int set_number(struct qimg_opts *opts, const char *key, const struct qimg_value *v)
{
	char text[24];

	if (!v)
		return 0;
	snprintf(text, sizeof(text), "%" PRId64, qimg_value_int(v));
	return set(opts, key, text);
}

static int set_text(struct qimg_opts *opts, const char *key, const struct qimg_value *v)
{
	return v ? set(opts, key, qimg_value_string(v)) : 0;
}

static int set_bool(struct qimg_opts *opts, const char *key, const struct qimg_value *v)
{
	return v ? set(opts, key, qimg_value_bool(v) ? "on" : "off") : 0;
}

/* Whether -o asks for something that only version 3 may have. */
static bool asks_for_version_3(const struct qimg_opts *opts)
{
	static const char *const keys[] = { "compression_type", "extended_l2", "lazy_refcounts",
					    "refcount_bits", "data_file", "data_file_raw" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (qimg_opts_get(opts, keys[i]))
			return true;
	return false;
}

/* Subclusters need clusters of 16 KiB. */
static bool may_have_subclusters(const struct qimg_opts *opts)
{
	const char *text = qimg_opts_get(opts, "cluster_size");
	struct qimg_error ignored;
	uint64_t size;

	return !text || qimg_parse_size(text, &size, &ignored) || size >= 16384;
}

/* What -o says decides also about what it excludes. */
static int add(struct qimg_opts *opts, const struct qimg_value *info)
{
	const struct qimg_value *data = qimg_value_get(qimg_value_get(info, "format-specific"), "data");
	const char *compat;

	if (set_number(opts, "cluster_size", qimg_value_get(info, "cluster-size")) ||
	    (!asks_for_version_3(opts) && set_text(opts, "compat", qimg_value_get(data, "compat"))))
		return -1;
	compat = qimg_opts_get(opts, "compat");
	/* The old version knows none of the rest. */
	if (compat && (!strcmp(compat, "0.10") || !strcmp(compat, "v2")))
		return 0;
	if (set_number(opts, "refcount_bits", qimg_value_get(data, "refcount-bits")) ||
	    set_bool(opts, "lazy_refcounts", qimg_value_get(data, "lazy-refcounts")) ||
	    (may_have_subclusters(opts) &&
	     set_bool(opts, "extended_l2", qimg_value_get(data, "extended-l2"))))
		return -1;
	return set_text(opts, "compression_type", qimg_value_get(data, "compression-type"));
}

int likesource_add(struct qimg_image *source, const char *format, struct qimg_opts *opts)
{
	struct qimg_value *info;
	struct qimg_error e;
	int ret;

	if (strcmp(qimg_format(source), format)) {
		ui_error("--like-source: the source '%s' is %s and the target is to be %s; there is nothing in "
			 "common to keep", qimg_name(source), qimg_format(source), format);
		return -1;
	}
	if (qimg_info(source, &info, &e)) {
		ui_error("%s", e.msg);
		return -1;
	}
	ret = add(opts, info);
	qimg_value_free(info);
	return ret;
}
