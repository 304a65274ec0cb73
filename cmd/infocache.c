// SPDX-License-Identifier: BSD-2-Clause
/*
 * The text of `qimg info --cache`: how much cache an image needs, how much it gets with the options given,
 * and what to write into the configuration of a virtual machine.
 */
#include "infocache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ui.h"

#define MUCH (UINT64_C(256) << 20)	/* memory for one image */

static uint64_t number(const struct qimg_value *v, const char *key)
{
	return (uint64_t)qimg_value_int(qimg_value_get(v, key));
}

static const char *string(const struct qimg_value *v, const char *key)
{
	return qimg_value_string(qimg_value_get(v, key));
}

static bool flag(const struct qimg_value *v, const char *key)
{
	return qimg_value_bool(qimg_value_get(v, key));
}

/* "1.25 GiB (1342177280 bytes)"; one for each use of a printf. */
static const char *both(uint64_t bytes, char *buf, size_t len)
{
	char size[UI_SIZE_LEN];

	snprintf(buf, len, "%s (%" PRIu64 " bytes)", ui_size(bytes, size, sizeof(size)), bytes);
	return buf;
}

static void print_size(const char *name, uint64_t bytes)
{
	char text[80];

	printf("%s: %s\n", name, both(bytes, text, sizeof(text)));
}

/* What a cache covers, never rounded up to 100%. */
static void print_cover(const char *name, uint64_t part, uint64_t whole, const char *of)
{
	char text[80];
	double percent;

	if (part >= whole) {
		printf("%s covers: the whole %s\n", name, of);
		return;
	}
	percent = (double)part / (double)whole * 100;
	printf("%s covers: %s, %d.%d%% of the %s\n", name, both(part, text, sizeof(text)), (int)percent,
	       (int)(percent * 10) % 10, of);
}

static void print_l2(const struct qimg_value *v)
{
	uint64_t size = number(v, "l2-cache-size"), entry = number(v, "l2-cache-entry-size");
	char text[80], cover[UI_SIZE_LEN];

	printf("L2 tables: %" PRIu64 ", each maps %s of the disk\n", number(v, "l2-tables"),
	       ui_size(number(v, "l2-table-cover"), cover, sizeof(cover)));
	print_size("L2 cache for the whole disk", number(v, "l2-cache-full"));
	if (flag(v, "metadata-cache"))
		printf("L2 cache: %s, %" PRIu64 " entries of %" PRIu64 "\n", both(size, text, sizeof(text)),
		       size / entry, entry);
	else
		puts("L2 cache: off");
	if (number(v, "l2-cache-compact-size"))
		print_size("compact tables, at most", number(v, "l2-cache-compact-size"));
	print_cover("L2 cache", number(v, "l2-cache-cover"), number(v, "virtual-size"), "disk");
	if (qimg_value_get(v, "l2-cache-file"))
		printf("second level: %s in '%s'%s\n",
		       both(number(v, "l2-cache-file-size"), text, sizeof(text)),
		       string(v, "l2-cache-file"),
		       flag(v, "l2-cache-file-direct") ? "" : ", through the page cache");
}

/* What the numbers do not say by themselves. */
static void print_notes(const struct qimg_value *v)
{
	char size[UI_SIZE_LEN];

	if (number(v, "virtual-size") % number(v, "l2-table-cover"))
		printf("The disk is no multiple of %s: its last table is used in part and takes the same "
		       "room.\n", ui_size(number(v, "l2-table-cover"), size, sizeof(size)));
	if (flag(v, "rounding-matters"))
		puts("QEMU 3.1 to 4.1 has no room for that table, whatever size is given.");
	if (number(v, "l2-cache-cover") < number(v, "virtual-size"))
		puts("Access to other parts of the disk has to read a table first.");
	if (number(v, "l2-cache-full") > MUCH)
		puts("Less memory is needed with larger clusters, or with l2-cache-file=PATH on a fast disk.");
}

static void print_one(const struct qimg_value *v)
{
	uint64_t interval = number(v, "cache-clean-interval");

	printf("image: %s\n", string(v, "filename"));
	printf("file format: %s\n", string(v, "format"));
	print_size("virtual size", number(v, "virtual-size"));
	if (!qimg_value_get(v, "l2-tables")) {
		puts("No caches: this format has no metadata to keep.");
		return;
	}
	printf("cluster_size: %" PRIu64 "\n", number(v, "cluster-size"));
	print_l2(v);
	print_size("refcount cache", number(v, "refcount-cache-size"));
	print_cover("refcount cache", number(v, "refcount-cache-cover"), number(v, "file-length"), "file");
	if (interval)
		printf("unused entries are dropped after: %" PRIu64 " s\n", interval);
	else
		puts("unused entries are dropped after: never");
	print_notes(v);
}

/* Commas are doubled in lists of options. */
static void print_value(const char *s)
{
	for (; *s; s++) {
		if (*s == ',')
			putchar(',');
		putchar(*s);
	}
}

/* The recommendations of all images, as one list of options for the top one. */
static void print_options(const struct qimg_value *v)
{
	const struct qimg_value *one;
	bool some = false;

	if (qimg_value_type(v) != QIMG_LIST) {
		fputs(string(v, "recommendation"), stdout);
		return;
	}
	for (size_t i = 0; (one = qimg_value_at(v, i, NULL)); i++) {
		if (!qimg_value_get(one, "recommendation"))
			continue;
		if (some)
			putchar(',');
		fputs(string(one, "recommendation"), stdout);
		some = true;
	}
}

/* Would each image of a virtual machine get all it needs without an option? */
static bool default_does(const struct qimg_value *v)
{
	const struct qimg_value *one;

	if (qimg_value_type(v) != QIMG_LIST)
		return number(v, "l2-cache-full") <= QIMG_SHARED_CACHE;
	for (size_t i = 0; (one = qimg_value_at(v, i, NULL)); i++)
		if (number(one, "l2-cache-full") > QIMG_SHARED_CACHE)
			return false;
	return true;
}

static void print_recommendation(const struct qimg_value *v, const struct qimg_value *top)
{
	fputs("\nRecommended, to keep all tables in memory:\n    ", stdout);
	print_options(v);
	if (default_does(v))
		fputs("\nwhich is also what QEMU takes without an option, since version 3.1.", stdout);
	fputs("\nFor a virtual machine that is\n    -drive file=", stdout);
	print_value(string(top, "filename"));
	printf(",format=%s,", string(top, "format"));
	print_options(v);
	putchar('\n');
	/* There, a backing file would have to be described as a whole. */
	if (v != top && qimg_value_count(v) > 1)
		return;
	printf("or  -blockdev driver=%s,node-name=disk,file.driver=file,file.filename=",
	       string(top, "format"));
	print_value(string(top, "filename"));
	putchar(',');
	print_options(v);
	putchar('\n');
}

/* Of a chain: what it takes together. */
static void print_sum(const struct qimg_value *list)
{
	const struct qimg_value *one;
	uint64_t need = 0, shared = 0, own = 0;
	char a[80], b[80];

	for (size_t i = 0; (one = qimg_value_at(list, i, NULL)); i++) {
		need += number(one, "l2-cache-full");
		if (flag(one, "l2-cache-shared"))
			shared += number(one, "l2-cache-size");
		else
			own += number(one, "l2-cache-size");
	}
	printf("\nL2 caches of the chain: %s for everything\n", both(need, a, sizeof(a)));
	shared = shared < QIMG_SHARED_CACHE ? shared : QIMG_SHARED_CACHE;
	if (shared && own)
		printf("L2 caches as opened: %s, and %s at most for the images without a size of their own\n",
		       both(own, a, sizeof(a)), both(shared, b, sizeof(b)));
	else
		printf("L2 caches as opened: %s%s\n", both(own + shared, a, sizeof(a)), shared ? " at most" : "");
}

void infocache_print(const struct qimg_value *v)
{
	const struct qimg_value *top = v;
	bool some = false;

	if (qimg_value_type(v) == QIMG_LIST) {
		top = qimg_value_at(v, 0, NULL);
		for (size_t i = 0; i < qimg_value_count(v); i++) {
			if (i)
				putchar('\n');
			print_one(qimg_value_at(v, i, NULL));
			some |= qimg_value_get(qimg_value_at(v, i, NULL), "recommendation") != NULL;
		}
		if (qimg_value_count(v) > 1)
			print_sum(v);
	} else {
		print_one(v);
		some = qimg_value_get(v, "recommendation");
	}
	if (some)
		print_recommendation(v, top);
}
