// SPDX-License-Identifier: BSD-2-Clause
/* `qimg info`: describes an image, or all images of a chain. */
#include "commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "infocache.h"
#include "open.h"
#include "ui.h"

enum { BACKING_CHAIN = 256, CACHE };

static const struct opt options[] = {
	OPEN_OPT_FORMAT("Format of the image (default: found out from its content)"),
	OPEN_OPT_IMAGE_OPTS,
	{ .id = BACKING_CHAIN, .name = "backing-chain",
	  .help = "Describe all images of the backing chain" },
	{ .id = CACHE, .name = "cache",
	  .help = "Describe the caches of metadata instead: how large they have\n"
		  "to be and are, what they cover, which options to give" },
	OPEN_OPT_OUTPUT,
	OPEN_OPT_SHARE,
	{ 0 }
};

/* ---- text for people ---------------------------------------------------------------- */

static int64_t number(const struct qimg_value *v, const char *key)
{
	return qimg_value_int(qimg_value_get(v, key));
}

static const char *string(const struct qimg_value *v, const char *key)
{
	const struct qimg_value *s = qimg_value_get(v, key);

	return s ? qimg_value_string(s) : NULL;
}

/*
 * The part that only the format knows, as a tree: one level in is four spaces deeper. Names are
 * those of the JSON document with spaces for '-'.
 */
static void print_tree(const struct qimg_value *v, int depth)
{
	const struct qimg_value *member;
	const char *key;
	size_t i;

	for (i = 0; (member = qimg_value_at(v, i, &key)); i++) {
		printf("%*s", depth * 4, "");
		if (!key)
			printf("[%zu]:", i);
		for (; key && *key; key++)
			putchar(*key == '-' ? ' ' : *key);
		if (qimg_value_type(v) == QIMG_OBJECT)
			putchar(':');
		switch (qimg_value_type(member)) {
		case QIMG_NULL:
			puts(" null");
			break;
		case QIMG_BOOL:
			printf(" %s\n", qimg_value_bool(member) ? "true" : "false");
			break;
		case QIMG_INT:
			printf(" %" PRId64 "\n", qimg_value_int(member));
			break;
		case QIMG_STRING:
			printf(" %s\n", qimg_value_string(member));
			break;
		case QIMG_LIST:
		case QIMG_OBJECT:
			putchar('\n');
			print_tree(member, depth + 1);
			break;
		}
	}
}

/* A line of the table of snapshots; what is too long pushes the rest to the right. */
static void print_snapshot(const struct qimg_value *s)
{
	char size[UI_SIZE_LEN], date[64] = "", clock[64], icount[32] = "";
	int64_t sec = number(s, "vm-clock-sec");
	time_t when = (time_t)number(s, "date-sec");
	struct tm tm;

	if (localtime_r(&when, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(clock, sizeof(clock), "%02" PRId64 ":%02d:%02d.%03d", sec / 3600,
		 (int)(sec / 60 % 60), (int)(sec % 60),
		 (int)(number(s, "vm-clock-nsec") / 1000000));
	if (qimg_value_get(s, "icount"))
		snprintf(icount, sizeof(icount), "%" PRId64, number(s, "icount"));
	ui_size((uint64_t)number(s, "vm-state-size"), size, sizeof(size));
	printf("%-9s %-16s %8s%20s%13s%11s\n", string(s, "id"), string(s, "name"), size, date,
	       clock, icount);
}

static void print_backing(const struct qimg_value *info)
{
	const char *stored = string(info, "backing-filename");
	const char *full = string(info, "full-backing-filename");
	const char *format = string(info, "backing-filename-format");

	if (stored && !full)
		printf("backing file: %s (cannot determine actual path)\n", stored);
	else if (stored && strcmp(stored, full))
		printf("backing file: %s (actual path: %s)\n", stored, full);
	else if (stored)
		printf("backing file: %s\n", stored);
	if (format)
		printf("backing file format: %s\n", format);
}

static void print_info(const struct qimg_value *info)
{
	const struct qimg_value *snapshots = qimg_value_get(info, "snapshots");
	const struct qimg_value *data =
		qimg_value_get(qimg_value_get(info, "format-specific"), "data");
	int64_t size = number(info, "virtual-size");
	char text[UI_SIZE_LEN];
	size_t i;

	printf("image: %s\n", string(info, "filename"));
	printf("file format: %s\n", string(info, "format"));
	printf("virtual size: %s (%" PRId64 " bytes)\n",
	       ui_size((uint64_t)size, text, sizeof(text)), size);
	if (qimg_value_get(info, "actual-size"))
		ui_size((uint64_t)number(info, "actual-size"), text, sizeof(text));
	else
		strcpy(text, "unavailable");
	printf("disk size: %s\n", text);
	if (qimg_value_bool(qimg_value_get(info, "encrypted")))
		puts("encrypted: yes");
	if (qimg_value_get(info, "cluster-size"))
		printf("cluster_size: %" PRId64 "\n", number(info, "cluster-size"));
	if (qimg_value_bool(qimg_value_get(info, "dirty-flag")))
		puts("cleanly shut down: no");
	print_backing(info);
	if (qimg_value_count(snapshots)) {
		puts("Snapshot list:");
		printf("%-9s %-16s %8s%20s%13s%11s\n", "ID", "TAG", "VM SIZE", "DATE", "VM CLOCK",
		       "ICOUNT");
		for (i = 0; i < qimg_value_count(snapshots); i++)
			print_snapshot(qimg_value_at(snapshots, i, NULL));
	}
	if (qimg_value_count(data)) {
		puts("Format specific information:");
		print_tree(data, 1);
	}
}

static int print(const struct qimg_value *v, bool json)
{
	size_t i;

	if (json)
		return ui_json(v);
	if (qimg_value_type(v) != QIMG_LIST) {
		print_info(v);
		return 0;
	}
	for (i = 0; i < qimg_value_count(v); i++) {
		if (i)
			putchar('\n');
		print_info(qimg_value_at(v, i, NULL));
	}
	return 0;
}

/* ---- asking ---------------------------------------------------------------- */

static int info_one(const char *name, struct open_how *h, bool cache, struct qimg_value **v)
{
	struct qimg_image *img;
	struct qimg_error e;
	int ret;

	h->flags |= QIMG_OPEN_HEADER_ONLY | QIMG_OPEN_NO_BACKING;
	if (open_image(name, h, &img))
		return -1;
	ret = cache ? qimg_cache_info(img, v, &e) : qimg_info(img, v, &e);
	if (ret)
		ui_error("Could not read what '%s' is: %s", name, e.msg);
	if (qimg_close(img, &e))
		ret = -1;
	return ret;
}

static int info_chain(const char *name, const struct open_how *h, bool cache, struct qimg_value **v)
{
	int (*const ask)(const char *, const char *, const struct qimg_opts *, unsigned,
			 struct qimg_value **, struct qimg_error *) =
		cache ? qimg_cache_info_chain : qimg_info_chain;
	struct qimg_opts *opts = NULL;
	struct qimg_error e;
	int ret = -1;

	if (!h->image_opts)
		ret = ask(name, h->format, NULL, h->flags, v, &e);
	else if ((opts = open_options(name, &e)))
		ret = ask(NULL, NULL, opts, h->flags, v, &e);
	if (ret)
		open_failed(name, &e);
	qimg_opts_free(opts);
	return ret;
}

static int run(const struct args *a)
{
	const struct arg *output = args_last(a, OPEN_OUTPUT);
	bool json = output && output->number == 1, cache = args_has(a, CACHE);
	struct qimg_value *v = NULL;
	struct open_how h;
	int ret;

	if (open_how(a, 0, &h))
		return 1;
	ret = args_has(a, BACKING_CHAIN) ? info_chain(a->operands[0], &h, cache, &v)
					 : info_one(a->operands[0], &h, cache, &v);
	if (!ret && cache && !json)
		infocache_print(v);
	else if (!ret)
		ret = print(v, json);
	qimg_value_free(v);
	return ret ? 1 : 0;
}

const struct command info_command = {
	.name = "info",
	.summary = "Describe an image",
	.operands = "FILE",
	.min_operands = 1,
	.max_operands = 1,
	.missing = "one image file name",
	.options = options,
	.run = run,
};
