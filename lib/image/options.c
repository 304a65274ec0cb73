// SPDX-License-Identifier: BSD-2-Clause
/*
 * Open options: those that hold for every image are read and taken out here, what is left belongs to
 * the format, which refuses what it does not know.
 *
 * An image is a format over a file: "driver" names the format, "file.*" the file. "driver=file" alone
 * is the file itself, which is the same as raw.
 */
#include "image/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/opts.h"
#include "io/ioq.h"

#define MOST_MODELS 16

static const char *const engines[] = { "threads", "native", "io_uring", "sync" };
static const char *const locking_values[] = { "off", "on", "auto", NULL };
static const char *const discard_values[] = { "ignore", "off", "unmap", "on", NULL };
static const char *const detect_values[] = { "off", "on", "unmap", NULL };
static const char *const cow_values[] = { "auto", "on", "off", NULL };

const char *options_aio(unsigned i)
{
	const char *source;

	if (i < ARRAY_SIZE(engines))
		return engines[i];
	return ioq_model(i - (unsigned)ARRAY_SIZE(engines), &source);
}

static void set_flag(unsigned *flags, unsigned bit, bool on)
{
	*flags = on ? *flags | bit : *flags & ~bit;
}

/* A boolean that stands for a flag; taken out of o. */
static int take_flag(struct qimg_opts *o, const char *key, unsigned bit, unsigned *flags,
		     struct qimg_error *e)
{
	bool on = *flags & bit;

	if (opts_bool(o, key, &on, e) < 0)
		return -1;
	set_flag(flags, bit, on);
	opts_remove(o, key);
	return 0;
}

static int take_choice(struct qimg_opts *o, const char *key, const char *const *values,
		       unsigned *v, struct qimg_error *e)
{
	if (opts_choice(o, key, values, v, e) < 0)
		return -1;
	opts_remove(o, key);
	return 0;
}

static int take_string(struct qimg_opts *o, const char *key, char **s, struct qimg_error *e)
{
	const char *v = qimg_opts_get(o, key);

	if (!v)
		return 0;
	free(*s);
	*s = mem_strdup(v, e);
	opts_remove(o, key);
	return *s ? 0 : -1;
}

/*
 * What may be said of the image as a whole (prefix "") or of the file below it ("file."), with the same
 * effect. The file's word counts for the file: it comes second.
 */
static int take_common(struct open_options *o, const char *prefix, struct qimg_error *e)
{
	static const struct {
		const char *key;
		unsigned flag;
	} flags[] = {
		{ "cache.direct", QIMG_OPEN_DIRECT },
		{ "cache.no-flush", QIMG_OPEN_NO_FLUSH },
		{ "force-share", QIMG_OPEN_SHARE },
	};
	bool read_only = false, auto_read_only = false;
	const char *engine[ARRAY_SIZE(engines) + MOST_MODELS + 1];
	unsigned discard = 0, aio = 0, n;
	char key[64];

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		snprintf(key, sizeof(key), "%s%s", prefix, flags[i].key);
		if (take_flag(o->rest, key, flags[i].flag, &o->flags, e) < 0)
			return -1;
	}
	snprintf(key, sizeof(key), "%sread-only", prefix);
	if (opts_bool(o->rest, key, &read_only, e) < 0)
		return -1;
	if (read_only && (o->flags & QIMG_OPEN_WRITE))
		return error_set(e, EROFS, "Option '%s=on' excludes opening for writing", key);
	opts_remove(o->rest, key);
	snprintf(key, sizeof(key), "%sauto-read-only", prefix);
	if (opts_bool(o->rest, key, &auto_read_only, e) < 0)
		return -1;
	opts_remove(o->rest, key);
	snprintf(key, sizeof(key), "%sdiscard", prefix);
	if (qimg_opts_get(o->rest, key)) {
		if (take_choice(o->rest, key, discard_values, &discard, e) < 0)
			return -1;
		/* What the image does not discard does not get to the file, whatever it would do with it. */
		if (!*prefix || discard < 2)
			set_flag(&o->flags, QIMG_OPEN_UNMAP, discard >= 2);
	}
	/* Names for other parts of a running virtual machine to refer to: nothing refers to them here. */
	snprintf(key, sizeof(key), "%snode-name", prefix);
	opts_remove(o->rest, key);
	snprintf(key, sizeof(key), "%saio", prefix);
	if (!qimg_opts_get(o->rest, key))
		return 0;
	for (n = 0; n + 1 < ARRAY_SIZE(engine) && (engine[n] = options_aio(n)); n++)
		;
	engine[n] = NULL;
	if (take_choice(o->rest, key, engine, &aio, e) < 0)
		return -1;
	if (o->aio && strcmp(o->aio, engine[aio]))
		return error_set(e, EINVAL, "Options 'aio' (%s) and 'file.aio' (%s) contradict each other",
				 o->aio, engine[aio]);
	o->aio = engine[aio];
	return 0;
}

static int take_file(struct open_options *o, struct qimg_error *e)
{
	/* About a migrating virtual machine: read and checked, for configurations that have it. */
	static const char *const migration[] = { "file.drop-cache", "file.x-check-cache-dropped" };
	const char *driver = qimg_opts_get(o->rest, "file.driver"), *key, *value;
	unsigned locking = 2, nothing = 0;

	if (driver && strcmp(driver, "file") && strcmp(driver, "host_device"))
		return error_set(e, ENOTSUP, "Option 'file.driver' is '%s'; below a format there can be "
				 "'file' or 'host_device'", driver);
	opts_remove(o->rest, "file.driver");
	if (qimg_opts_get(o->rest, "file"))
		return error_set(e, ENOTSUP, "Option 'file' refers to a node by name, and there are no "
				 "named nodes; give 'file.filename'");
	if (take_common(o, "file.", e) < 0 ||
	    take_choice(o->rest, "file.locking", locking_values, &locking, e) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(migration); i++)
		if (take_flag(o->rest, migration[i], 0, &nothing, e) < 0)
			return -1;
	o->no_lock = locking == 0;	/* where the file system's locks are broken; also for writing */
	if (take_string(o->rest, "file.filename", &o->filename, e) < 0)
		return -1;
	for (size_t i = 0; i < opts_count(o->rest); i++) {
		key = opts_at(o->rest, i, &value);
		if (!strncmp(key, "file.", 5))
			return error_set(e, EINVAL, "Unknown option '%s' of driver 'file'", key + 5);
	}
	return 0;
}

static int take_backing(struct open_options *o, struct qimg_error *e)
{
	const char *node = qimg_opts_get(o->rest, "backing"), *key, *value;
	struct qimg_opts *rest;

	if (node && *node)
		return error_set(e, ENOTSUP, "Option 'backing' refers to a node by name, and there are no "
				 "named nodes; give 'backing.file.filename'");
	o->no_backing = node != NULL;
	opts_remove(o->rest, "backing");
	o->backing = opts_sub(o->rest, "backing.", e);
	rest = o->backing ? qimg_opts_new() : NULL;
	if (!rest)
		return error_nomem(e);
	for (size_t i = 0; i < opts_count(o->rest); i++) {
		key = opts_at(o->rest, i, &value);
		if (strncmp(key, "backing.", 8) && qimg_opts_set(rest, key, value, e) < 0) {
			qimg_opts_free(rest);
			return -1;
		}
	}
	qimg_opts_free(o->rest);
	o->rest = rest;
	if (opts_count(o->backing) == 0) {
		qimg_opts_free(o->backing);
		o->backing = NULL;
	} else if (o->no_backing) {
		return error_set(e, EINVAL, "Options 'backing=' (no backing file) and 'backing.%s' exclude "
				 "each other", opts_at(o->backing, 0, &value));
	}
	return 0;
}

static int take_name(struct open_options *o, const char *name, bool plain, struct qimg_error *e)
{
	if (!name)
		return 0;
	if (!plain && name_is_reference(name) && !strncmp(name, "json:", 5))
		return json_to_opts(o->rest, name + 5, e);
	if (!plain && !strncmp(name, "file:", 5))
		name += 5;
	o->filename = mem_strdup(name, e);
	return o->filename ? 0 : -1;
}

/* "driver=file,filename=NAME" names the file without a format over it. */
static int take_driver(struct open_options *o, struct qimg_error *e)
{
	const char *locking;

	if (take_string(o->rest, "driver", &o->driver, e) < 0)
		return -1;
	if (!o->driver || (strcmp(o->driver, "file") && strcmp(o->driver, "host_device")))
		return 0;
	locking = qimg_opts_get(o->rest, "locking");
	if (locking && qimg_opts_set(o->rest, "file.locking", locking, e) < 0)
		return -1;
	opts_remove(o->rest, "locking");
	return take_string(o->rest, "filename", &o->filename, e);
}

int options_read(struct open_options *o, const char *name, bool plain, const struct qimg_opts *opts,
		 unsigned flags, struct qimg_error *e)
{
	const char *key, *value;
	unsigned cow = COW_ZERO_AUTO, detect = DETECT_OFF;

	*o = (struct open_options){ .flags = flags };
	o->rest = qimg_opts_new();
	if (!o->rest) {
		error_nomem(e);
		goto fail;
	}
	if (take_name(o, name, plain, e) < 0)
		goto fail;
	for (size_t i = 0; i < opts_count(opts); i++) {
		key = opts_at(opts, i, &value);
		if (qimg_opts_set(o->rest, key, value, e) < 0)
			goto fail;
	}
	if (take_driver(o, e) < 0 || take_common(o, "", e) < 0 || take_file(o, e) < 0 ||
	    take_backing(o, e) < 0)
		goto fail;
	if (take_choice(o->rest, "cow-zero-range", cow_values, &cow, e) < 0 ||
	    take_choice(o->rest, "detect-zeroes", detect_values, &detect, e) < 0)
		goto fail;
	o->cow_zero = cow;
	o->detect_zeroes = detect;
	if ((o->flags & QIMG_OPEN_SHARE) && (o->flags & QIMG_OPEN_WRITE)) {
		error_set(e, EINVAL, "An image cannot be opened for writing without locks "
			  "('force-share' is for reading)");
		goto fail;
	}
	if (o->aio && !strcmp(o->aio, "native") && !(o->flags & QIMG_OPEN_DIRECT)) {
		error_set(e, EINVAL, "Option 'aio=native' needs 'cache.direct=on' (cache mode 'none' or "
			  "'directsync'), which is not given");
		goto fail;
	}
	if (!o->filename) {
		error_set(e, EINVAL, "No file is named; give 'file.filename'");
		goto fail;
	}
	if (!*o->filename) {
		error_set(e, EINVAL, "The file name is empty");
		goto fail;
	}
	return 0;
fail:
	options_free(o);
	return -1;
}

void options_free(struct open_options *o)
{
	free(o->driver);
	free(o->filename);
	qimg_opts_free(o->backing);
	qimg_opts_free(o->rest);
	*o = (struct open_options){ 0 };
}
