// SPDX-License-Identifier: BSD-2-Clause
/*
 * Creating images: options, their checks, and the steps.
 *
 * Everything that can be refused is refused by qcow2_create_check, which touches nothing: values,
 * their combinations, sizes of tables, room in the first cluster, what the data file is. The header
 * and the layout that it judges are the ones that qcow2_create writes.
 */
#include "qcow2/qcow2.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/opts.h"
#include "io/file.h"
#include "io/lock.h"
#include "qcow2/fill.h"
#include "qcow2/format.h"
#include "qcow2/layout.h"

/* Clusters up to this size leave little room beside a backing file name: no feature name table. */
#define MAX_BITS_WITHOUT_NAMES 12

static const char *const prealloc_names[] = { "off", "metadata", "falloc", "full", NULL };
static const char *const compat_names[] = { "0.10", "v2", "1.1", "v3", NULL };
static const char *const codec_names[] = { "zlib", "zstd", NULL };

/* The encryption options are known in order to be refused by name. */
const struct qimg_option qcow2_create_options[] = {
	{ "backing_file", "str", "Name of the backing file", NULL },
	{ "backing_fmt", "str", "Format of the backing file", NULL },
	{ "cluster_size", "size", "Size of a cluster, a power of two from 512 to 2M", NULL },
	{ "compat", "str", "Version of the format: 0.10 (or v2), 1.1 (or v3)", "0.10 v2 1.1 v3" },
	{ "compression_type", "str", "How clusters are compressed", "zlib zstd" },
	{ "data_file", "str", "Name of an external file for the guest's data", NULL },
	{ "data_file_raw", "bool (on/off)", "The data file stays readable as a raw image", NULL },
	{ "encrypt.cipher-alg", "str", NULL, NULL },
	{ "encrypt.cipher-mode", "str", NULL, NULL },
	{ "encrypt.format", "str", NULL, NULL },
	{ "encrypt.hash-alg", "str", NULL, NULL },
	{ "encrypt.iter-time", "num", NULL, NULL },
	{ "encrypt.ivgen-alg", "str", NULL, NULL },
	{ "encrypt.ivgen-hash-alg", "str", NULL, NULL },
	{ "encrypt.key-secret", "str", NULL, NULL },
	{ "encryption", "bool (on/off)", NULL, NULL },
	{ "extended_l2", "bool (on/off)", "Allocate in 32 subclusters of each cluster", NULL },
	{ "extent_size_hint", "size", "Extent size hint for the image file, 0 to disable", NULL },
	{ "keep_data_file", "bool (on/off)", "Take an existing data file as it is", NULL },
	{ "lazy_refcounts", "bool (on/off)", "Write refcounts late, repair them after a crash", NULL },
	{ "nocow", "bool (on/off)", "Turn off copy-on-write (valid only on btrfs)", NULL },
	{ "preallocation", "str", "Preallocation mode", "off metadata falloc full" },
	{ "refcount_bits", "num", "Width of a reference count in bits", "1 2 4 8 16 32 64" },
	{ "size", "size", "Virtual disk size", NULL },
	{ NULL, NULL, NULL, NULL },
};

/* The options, decoded. Strings belong to c->opts. */
struct plan {
	uint64_t cluster_size, refcount_bits;
	bool extended, lazy, raw_data, keep_data, encryption;
	unsigned version, codec;
	enum fill_mode mode;
	const char *data_name;
	char *data_path; /* resolved, or NULL */
	struct header h;
	struct layout l;
};

static void plan_free(struct plan *p)
{
	free(p->data_path);
	header_free(&p->h);
}

/* ---- options ---- */

static int refuse_encryption(const struct qimg_creation *c, const struct plan *p,
			     struct qimg_error *e)
{
	const char *key, *value;
	size_t i;

	for (i = 0; i < opts_count(c->opts); i++) {
		key = opts_at(c->opts, i, &value);
		if (!strncmp(key, "encrypt.", 8))
			return error_set(e, ENOTSUP,
					 "Option '%s': encrypted images are not supported", key);
	}
	if (p->encryption)
		return error_set(e, ENOTSUP,
				 "Option 'encryption': encrypted images are not supported");
	return 0;
}

static int read_options(const struct qimg_creation *c, struct plan *p, struct qimg_error *e)
{
	const struct qimg_opts *o = c->opts;
	unsigned compat = 2, mode = FILL_OFF;

	p->cluster_size = 64 * KIB;
	p->refcount_bits = 16;
	if (opts_bool(o, "encryption", &p->encryption, e) < 0 || refuse_encryption(c, p, e) < 0)
		return -1;
	if (opts_size(o, "cluster_size", &p->cluster_size, e) < 0 ||
	    opts_number(o, "refcount_bits", 1, 64, &p->refcount_bits, e) < 0 ||
	    opts_choice(o, "compat", compat_names, &compat, e) < 0 ||
	    opts_choice(o, "compression_type", codec_names, &p->codec, e) < 0 ||
	    opts_choice(o, "preallocation", prealloc_names, &mode, e) < 0 ||
	    opts_bool(o, "extended_l2", &p->extended, e) < 0 ||
	    opts_bool(o, "lazy_refcounts", &p->lazy, e) < 0 ||
	    opts_bool(o, "data_file_raw", &p->raw_data, e) < 0 ||
	    opts_bool(o, "keep_data_file", &p->keep_data, e) < 0)
		return -1;
	p->version = compat < 2 ? 2 : 3;
	p->mode = mode;
	p->data_name = qimg_opts_get(o, "data_file");
	return 0;
}

/* Option `name` is set to something that version 2 of the format has no place for. */
static int needs_v3(const struct plan *p, bool set, const char *name, struct qimg_error *e)
{
	if (!set || p->version >= 3)
		return 0;
	return error_set(e, EINVAL,
			 "Option '%s' needs compatibility level 1.1 (compat=1.1), not 0.10", name);
}

static int check_values(const struct plan *p, struct qimg_error *e)
{
	if (!is_pow2(p->cluster_size) || p->cluster_size < UINT64_C(1) << FORMAT_MIN_CLUSTER_BITS ||
	    p->cluster_size > UINT64_C(1) << FORMAT_MAX_CLUSTER_BITS)
		return error_set(e, EINVAL,
				 "Cluster size must be a power of two between 512 and 2048k, "
				 "not cluster_size=%" PRIu64,
				 p->cluster_size);
	if (!is_pow2(p->refcount_bits))
		return error_set(e, EINVAL,
				 "Refcount width must be a power of two and may not exceed 64 "
				 "bits, not refcount_bits=%" PRIu64,
				 p->refcount_bits);
	if (needs_v3(p, p->refcount_bits != 16, "refcount_bits", e) < 0 ||
	    needs_v3(p, p->lazy, "lazy_refcounts", e) < 0 ||
	    needs_v3(p, p->extended, "extended_l2", e) < 0 ||
	    needs_v3(p, p->codec, "compression_type", e) < 0 ||
	    needs_v3(p, p->data_name, "data_file", e) < 0)
		return -1;
	if (p->extended && p->cluster_size < UINT64_C(1) << FORMAT_MIN_EXTENDED_BITS)
		return error_set(e, EINVAL,
				 "Option 'extended_l2' needs a cluster size of at least 16384 "
				 "bytes, not cluster_size=%" PRIu64,
				 p->cluster_size);
	return 0;
}

static int check_combinations(const struct qimg_creation *c, const struct plan *p,
			      struct qimg_error *e)
{
	if (p->data_name && !*p->data_name)
		return error_set(e, EINVAL, "Option 'data_file' is empty");
	if (p->data_name && strlen(p->data_name) > HEADER_MAX_NAME)
		return error_set(e, EINVAL, "The data file name of %zu bytes is longer than %d",
				 strlen(p->data_name), HEADER_MAX_NAME);
	if (p->raw_data && !p->data_name)
		return error_set(e, EINVAL, "Option 'data_file_raw' requires 'data_file'");
	if (p->keep_data && !p->data_name)
		return error_set(e, EINVAL, "Option 'keep_data_file' requires 'data_file'");
	if (p->keep_data && p->mode >= FILL_FALLOC)
		return error_set(e, EINVAL,
				 "Options 'keep_data_file' and 'preallocation=%s' exclude each "
				 "other",
				 prealloc_names[p->mode]);
	if (p->raw_data && c->backing_name)
		return error_set(e, EINVAL,
				 "Options 'data_file_raw' and 'backing_file' exclude each "
				 "other: a raw data file cannot leave anything to a backing file");
	if (p->mode != FILL_OFF && c->backing_name && !p->extended)
		return error_set(e, EINVAL,
				 "Backing file and preallocation can only be used at the same "
				 "time if extended_l2 is on");
	if (c->backing_name && strlen(c->backing_name) > HEADER_MAX_NAME)
		return error_set(e, EINVAL, "Backing file name of %zu bytes is longer than %d",
				 strlen(c->backing_name), HEADER_MAX_NAME);
	return 0;
}

static int add_summary(struct qimg_creation *c, const struct plan *p, struct qimg_error *e)
{
	static const struct {
		const char *key;
		enum { GIVEN, GIVEN_BOOL, GIVEN_SIZE, BOOL, NUMBER, STRING } how;
	} lines[] = {
		{ "cluster_size", NUMBER },
		{ "extended_l2", BOOL },
		{ "preallocation", GIVEN },
		{ "compression_type", STRING },
		{ "size", NUMBER },
		{ "compat", GIVEN },
		{ "backing_file", GIVEN },
		{ "backing_fmt", GIVEN },
		{ "data_file", GIVEN },
		{ "data_file_raw", GIVEN_BOOL },
		{ "keep_data_file", GIVEN_BOOL },
		{ "lazy_refcounts", BOOL },
		{ "refcount_bits", NUMBER },
		{ "nocow", GIVEN_BOOL },
		{ "extent_size_hint", GIVEN_SIZE },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lines); i++) {
		const char *key = lines[i].key, *value = qimg_opts_get(c->opts, key);
		uint64_t n = 0;
		bool on = false;
		char number[32];

		if (lines[i].how <= GIVEN_SIZE && !value)
			continue;
		switch (lines[i].how) {
		case GIVEN:
			break;
		case GIVEN_BOOL:
		case BOOL:
			if (opts_bool(c->opts, key, &on, e) < 0)
				return -1;
			value = on ? "on" : "off";
			break;
		case STRING:
			value = codec_names[p->codec];
			break;
		case GIVEN_SIZE:
		case NUMBER:
			n = !strcmp(key, "cluster_size")    ? p->cluster_size
			    : !strcmp(key, "refcount_bits") ? p->refcount_bits
							    : c->asked_size;
			if (lines[i].how == GIVEN_SIZE && opts_size(c->opts, key, &n, e) < 0)
				return -1;
			snprintf(number, sizeof(number), "%" PRIu64, n);
			value = number;
			break;
		}
		if (qimg_opts_set(c->summary, key, value, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- header and layout ---- */

static int copy_string(char **to, const char *from, struct qimg_error *e)
{
	if (!from)
		return 0;
	*to = mem_strdup(from, e);
	return *to ? 0 : -1;
}

static int make_layout(const struct qimg_creation *c, struct plan *p, struct qimg_error *e)
{
	struct layout *l = &p->l;

	/* Without backing file the reference can tell raw data only from entries for all of it. */
	if (p->raw_data && p->mode == FILL_OFF)
		p->mode = FILL_METADATA;
	l->size = c->size;
	l->cluster_bits = log2_u64(p->cluster_size);
	l->refcount_order = log2_u64(p->refcount_bits);
	l->extended = p->extended;
	l->mapped = p->mode != FILL_OFF;
	l->external = p->data_name;
	if (layout_compute(l, e) < 0)
		return -1;
	if (c->device && l->file_len > c->device_size)
		return error_set(e, ENOSPC,
				 "The image takes %" PRIu64
				 " bytes, but the device '%s' has %" PRIu64,
				 l->file_len, c->name, c->device_size);
	return 0;
}

static int make_header(const struct qimg_creation *c, struct plan *p, struct qimg_error *e)
{
	const struct layout *l = &p->l;
	struct header *h = &p->h;

	h->version = p->version;
	h->header_length = p->version < 3 ? HDR_V2_LENGTH : HDR_NEW_LENGTH;
	h->cluster_bits = l->cluster_bits;
	h->refcount_order = l->refcount_order;
	h->size = c->size;
	h->l1_size = (uint32_t)l->l1_entries;
	h->l1_offset = l->l1_entries ? l->l1_at << l->cluster_bits : 0;
	h->rt_offset = l->rt_at << l->cluster_bits;
	h->rt_clusters = (uint32_t)l->rt_clusters;
	h->compression_type = p->codec;
	h->incompatible = (p->codec ? INCOMPAT_COMPRESSION : 0) |
			  (p->extended ? INCOMPAT_EXTENDED_L2 : 0) |
			  (p->data_name ? INCOMPAT_DATA_FILE : 0);
	h->compatible = p->lazy ? COMPAT_LAZY_REFCOUNTS : 0;
	h->autoclear = p->raw_data ? AUTOCLEAR_DATA_FILE_RAW : 0;
	if (copy_string(&h->backing_name, c->backing_name, e) < 0 ||
	    copy_string(&h->backing_format, c->backing_format, e) < 0 ||
	    copy_string(&h->data_file, p->data_name, e) < 0)
		return -1;
	if (p->version >= 3 && l->cluster_bits > MAX_BITS_WITHOUT_NAMES &&
	    header_add_feature_names(h, e) < 0)
		return -1;
	if (header_need(h) > p->cluster_size)
		return error_set(e, ENOSPC,
				 "Header and file names take %" PRIu64 " bytes, which do not "
				 "fit in the first cluster of %" PRIu64
				 ": use shorter names or a larger cluster_size",
				 header_need(h), p->cluster_size);
	return 0;
}

/* ---- the data file ---- */

/* What the two paths are one file, or would be one when both have been created. */
static bool same_place(const char *a, const char *b)
{
	const char *base_a = strrchr(a, '/'), *base_b = strrchr(b, '/');
	struct qimg_error ignored;
	struct file_id ia, ib;
	char *dir_a, *dir_b;
	bool same = false;

	if (file_identify(a, &ia, &ignored) == 0 && file_identify(b, &ib, &ignored) == 0)
		return file_id_same(ia, ib);
	base_a = base_a ? base_a + 1 : a;
	base_b = base_b ? base_b + 1 : b;
	if (strcmp(base_a, base_b))
		return false;
	dir_a = mem_printf(&ignored, "%.*s.", (int)(base_a - a), a);
	dir_b = mem_printf(&ignored, "%.*s.", (int)(base_b - b), b);
	if (dir_a && dir_b && file_identify(dir_a, &ia, &ignored) == 0 &&
	    file_identify(dir_b, &ib, &ignored) == 0)
		same = file_id_same(ia, ib);
	free(dir_a);
	free(dir_b);
	return same;
}

static int open_data_file(const struct plan *p, struct file **f, unsigned flags,
			  struct qimg_error *e)
{
	if (file_open(f, p->data_path, flags, e) < 0)
		return error_prefix(e, "Data file");
	if (lock_set(*f, LOCK_WRITE, e) == 0)
		return 0;
	file_close(*f);
	*f = NULL;
	return -1;
}

/* An existing data file must be one that can be used, a new one one that can be made. */
static int check_data_target(const struct qimg_creation *c, const struct plan *p,
			     struct qimg_error *e)
{
	const char *slash = strrchr(p->data_path, '/');
	struct file *f = NULL;
	struct file_id id;
	char *dir;
	int ret;

	if (file_identify(p->data_path, &id, e) < 0) {
		if (e->code != ENOENT)
			return error_prefix(e, "Data file");
		if (p->keep_data)
			return error_set(e, ENOENT,
					 "The data file '%s' does not exist, and keep_data_file "
					 "is on",
					 p->data_path);
		if (!slash)
			return 0;
		dir = mem_strndup(p->data_path, (size_t)(slash - p->data_path) + 1, e);
		if (!dir)
			return -1;
		ret = file_identify(dir, &id, e);
		free(dir);
		return ret < 0 ? error_prefix(e, "Data file '%s'", p->data_path) : 0;
	}
	if (open_data_file(p, &f, FILE_WRITE, e) < 0)
		return -1;
	ret = 0;
	if (file_is_device(f) && file_size(f) < c->size)
		ret = error_set(e, ENOSPC,
				"The data file '%s' is a device of %" PRIu64
				" bytes, too small for the size %" PRIu64,
				p->data_path, file_size(f), c->size);
	file_close(f);
	return ret;
}

static int check_data_file(const struct qimg_creation *c, struct plan *p, struct qimg_error *e)
{
	char *backing;
	bool same;

	if (!p->data_name)
		return 0;
	p->data_path = name_resolve(c->name, p->data_name, false, e);
	if (!p->data_path)
		return error_prefix(e, "Data file");
	if (same_place(p->data_path, c->name))
		return error_set(e, EINVAL, "The data file '%s' is the image itself", p->data_path);
	if (c->backing_name && !name_is_reference(c->backing_name)) {
		backing = name_resolve(c->name, c->backing_name, false, e);
		if (!backing)
			return -1;
		same = same_place(p->data_path, backing);
		free(backing);
		if (same)
			return error_set(e, EINVAL, "The data file '%s' is the backing file",
					 p->data_path);
	}
	return check_data_target(c, p, e);
}

static int write_data_file(const struct qimg_creation *c, struct plan *p,
			   const struct qimg_progress *progress, struct qimg_error *e)
{
	struct file *f;
	int ret = 0;

	if (!p->data_name)
		return 0;
	if (open_data_file(p, &f, FILE_WRITE | (p->keep_data ? 0 : FILE_CREATE), e) < 0)
		return -1;
	if (!p->keep_data) {
		if (!file_is_device(f))
			ret = file_truncate(f, 0, e);
		if (ret == 0)
			ret = fill_data_file(f, c->size, p->mode, progress, e);
		if (ret == 0 && !(c->flags & QIMG_CREATE_NO_SYNC))
			ret = file_sync(f, e);
	}
	file_close(f);
	return ret;
}

/* ---- the driver's calls ---- */

static int make_plan(const struct qimg_creation *c, struct plan *p, struct qimg_error *e)
{
	memset(p, 0, sizeof(*p));
	if (read_options(c, p, e) < 0 || check_values(p, e) < 0 || check_combinations(c, p, e) < 0)
		return -1;
	return make_layout(c, p, e) < 0 || make_header(c, p, e) < 0 ? -1 : 0;
}

int qcow2_create_check(struct qimg_creation *c, struct qimg_error *e)
{
	struct plan p;
	int ret = make_plan(c, &p, e);

	if (ret == 0)
		ret = check_data_file(c, &p, e);
	if (ret == 0)
		ret = add_summary(c, &p, e);
	/* The reference makes it in the current folder, where it does not find it again. */
	if (ret == 0 && p.data_name && *p.data_name != '/' && strncmp(p.data_name, "file:", 5) &&
	    strcmp(p.data_name, p.data_path))
		warn("The data file '%s' is taken relative to the image: it is '%s'", p.data_name,
		     p.data_path);
	plan_free(&p);
	return ret;
}

int qcow2_create(struct qimg_creation *c, struct file *f, const struct qimg_progress *progress,
		 struct qimg_error *e)
{
	struct plan p;
	int ret = make_plan(c, &p, e);

	if (ret == 0)
		ret = check_data_file(c, &p, e);
	if (ret == 0)
		ret = fill_write(f, &p.h, &p.l, p.mode, progress, e);
	/* The last step, so that an existing data file outlives a failure of all others. */
	if (ret == 0)
		ret = write_data_file(c, &p, progress, e);
	plan_free(&p);
	return ret;
}
