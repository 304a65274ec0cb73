// SPDX-License-Identifier: BSD-2-Clause
/*
 * The extension area of the header.
 *
 * What is not known is kept and written again, so that rewriting a header loses nothing that
 * another program stored there. A bitmaps extension whose autoclear bit is not set says nothing
 * about the image: it is kept without being judged, as an unknown one when its fields make no
 * sense.
 */
#include "qcow2/extension.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "qcow2/format.h"
#include "qcow2/header.h"

static int add_unknown(struct header *h, uint32_t type, const uint8_t *data, uint32_t len,
		       struct qimg_error *e)
{
	struct header_extension *x;
	uint8_t *copy;

	/* Room doubles, and is not stored: it is the next power of two, from 4 on. */
	if (h->ext_count == 0 || (h->ext_count >= 4 && is_pow2(h->ext_count))) {
		void *p = h->ext;

		if (mem_grow(&p, h->ext_count, h->ext_count ? h->ext_count * 2 : 4, sizeof(*x), e) <
		    0)
			return -1;
		h->ext = p;
	}
	copy = mem_alloc(len, e);
	if (!copy)
		return -1;
	memcpy(copy, data, len);
	x = &h->ext[h->ext_count++];
	x->type = type;
	x->len = len;
	x->data = copy;
	return 0;
}

static int get_string(char **s, const char *what, const uint8_t *data, uint32_t len,
		      struct qimg_error *e)
{
	if (*s)
		return error_set(e, EINVAL, "The header has two extensions for the %s", what);
	/* Some writers count a terminating zero byte. */
	while (len && !data[len - 1])
		len--;
	if (len > HEADER_MAX_NAME)
		return error_set(e, EINVAL,
				 "The %s in the header is %" PRIu32 " bytes long, more than %d",
				 what, len, HEADER_MAX_NAME);
	if (memchr(data, 0, len))
		return error_set(e, EINVAL, "The %s in the header contains a zero byte", what);
	*s = mem_strndup((const char *)data, len, e);
	return *s ? 0 : -1;
}

static int get_crypt(struct header *h, const uint8_t *data, uint32_t len, struct qimg_error *e)
{
	if (h->has_crypt)
		return error_set(e, EINVAL, "The header has two encryption header extensions");
	if (h->crypt_method != CRYPT_LUKS)
		return error_set(e, EINVAL,
				 "The header has an encryption header extension, which "
				 "encryption method %" PRIu32 " does not use",
				 h->crypt_method);
	if (len != EXT_CRYPT_LEN)
		return error_set(
		    e, EINVAL, "The encryption header extension is %" PRIu32 " bytes long, not %d",
		    len, EXT_CRYPT_LEN);
	h->crypt_offset = be64_get(data);
	h->crypt_length = be64_get(data + 8);
	/* Whether it lies within the file is not looked at here, either: check tells both. */
	if (!h->lenient && (!is_aligned(h->crypt_offset, UINT64_C(1) << h->cluster_bits) || !h->crypt_offset))
		return error_set(e, EINVAL,
				 "Encryption header offset 0x%" PRIx64
				 " is not aligned to a cluster of %" PRIu64 " bytes",
				 h->crypt_offset, UINT64_C(1) << h->cluster_bits);
	h->has_crypt = true;
	return 0;
}

static int check_bitmaps(const struct header *h, uint32_t reserved, struct qimg_error *e)
{
	if (reserved)
		return error_set(e, EINVAL,
				 "The reserved field of the bitmaps extension is 0x%" PRIx32
				 ", not 0",
				 reserved);
	if (!h->nb_bitmaps || h->nb_bitmaps > HEADER_MAX_BITMAPS)
		return error_set(e, EINVAL,
				 "The bitmaps extension counts %" PRIu32
				 " bitmaps, allowed are 1 to %d",
				 h->nb_bitmaps, HEADER_MAX_BITMAPS);
	if (!is_aligned(h->bitmap_dir_offset, UINT64_C(1) << h->cluster_bits) ||
	    !h->bitmap_dir_offset)
		return error_set(e, EINVAL,
				 "Bitmap directory offset 0x%" PRIx64
				 " is not aligned to a cluster of %" PRIu64 " bytes",
				 h->bitmap_dir_offset, UINT64_C(1) << h->cluster_bits);
	if (h->bitmap_dir_size > HEADER_MAX_BITMAP_DIR ||
	    h->bitmap_dir_size < (uint64_t)h->nb_bitmaps * BITMAP_HEAD)
		return error_set(e, EINVAL,
				 "Bitmap directory size %" PRIu64 " for %" PRIu32
				 " bitmaps is not between %" PRIu64 " and %" PRIu64,
				 h->bitmap_dir_size, h->nb_bitmaps,
				 (uint64_t)h->nb_bitmaps * BITMAP_HEAD, HEADER_MAX_BITMAP_DIR);
	return 0;
}

static int get_bitmaps(struct header *h, const uint8_t *data, uint32_t len, struct qimg_error *e)
{
	bool trusted = h->autoclear & AUTOCLEAR_BITMAPS;
	struct qimg_error ignored;

	if (h->has_bitmaps)
		return error_set(e, EINVAL, "The header has two bitmaps extensions");
	if (len != EXT_BITMAPS_LEN) {
		error_set(e, EINVAL, "The bitmaps extension is %" PRIu32 " bytes long, not %d", len,
			  EXT_BITMAPS_LEN);
		if (trusted && header_pass(h, HEADER_FAULT_BITMAPS, e) < 0)
			return -1;
		return add_unknown(h, EXT_BITMAPS, data, len, e);
	}
	h->nb_bitmaps = be32_get(data);
	h->bitmap_dir_size = be64_get(data + 8);
	h->bitmap_dir_offset = be64_get(data + 16);
	if (check_bitmaps(h, be32_get(data + 4), trusted ? e : &ignored) < 0) {
		if (trusted && header_pass(h, HEADER_FAULT_BITMAPS, e) < 0)
			return -1;
		h->nb_bitmaps = 0;
		h->bitmap_dir_size = h->bitmap_dir_offset = 0;
		return add_unknown(h, EXT_BITMAPS, data, len, e);
	}
	h->has_bitmaps = true;
	return 0;
}

static int decode_one(struct header *h, uint32_t type, const uint8_t *data, uint32_t len,
		      struct qimg_error *e)
{
	switch (type) {
	case EXT_BACKING_FORMAT:
		return get_string(&h->backing_format, "backing file format", data, len, e);
	case EXT_DATA_FILE:
		return get_string(&h->data_file, "data file name", data, len, e);
	case EXT_CRYPT:
		return get_crypt(h, data, len, e);
	case EXT_BITMAPS:
		/* Version 2 has no autoclear bits that could vouch for it. */
		if (h->version < 3)
			break;
		return get_bitmaps(h, data, len, e);
	default:
		break;
	}
	return add_unknown(h, type, data, len, e);
}

int extension_decode(struct header *h, const uint8_t *buf, uint32_t from, uint32_t to,
		     struct qimg_error *e)
{
	uint32_t at = from, type, len;

	/* A full area needs no end mark. */
	while (to - at >= EXT_HEAD) {
		type = be32_get(buf + at);
		len = be32_get(buf + at + 4);
		at += EXT_HEAD;
		if (type == EXT_END)
			break;
		if (len > to - at)
			return error_set(e, EINVAL,
					 "Header extension 0x%" PRIx32 " of %" PRIu32
					 " bytes is longer than the %" PRIu32 " bytes left for it",
					 type, len, to - at);
		if (decode_one(h, type, buf + at, len, e) < 0)
			return -1;
		/* The padding of the last one may be missing where the area ends. */
		at += (uint32_t)min_u64(round_up(len, 8), to - at);
	}
	if ((h->autoclear & AUTOCLEAR_BITMAPS) && !h->has_bitmaps && !h->fault[HEADER_FAULT_BITMAPS]) {
		error_set(e, EINVAL, "Autoclear feature bit 0 (bitmaps) is set, but the header "
			  "has no bitmaps extension");
		if (header_pass(h, HEADER_FAULT_BITMAPS, e) < 0)
			return -1;
	}
	if (h->crypt_method == CRYPT_LUKS && !h->has_crypt)
		return error_set(e, EINVAL,
				 "Encryption method 2 (LUKS) is set, but the header has no "
				 "encryption header extension");
	return 0;
}

/* ---- writing ---- */

static uint64_t need_one(uint64_t len)
{
	return EXT_HEAD + round_up(len, 8);
}

uint64_t extension_need(const struct header *h)
{
	uint64_t n = EXT_HEAD;
	size_t i;

	if (h->backing_format)
		n += need_one(strlen(h->backing_format));
	if (h->data_file)
		n += need_one(strlen(h->data_file));
	if (h->has_crypt)
		n += need_one(EXT_CRYPT_LEN);
	if (h->has_bitmaps)
		n += need_one(EXT_BITMAPS_LEN);
	for (i = 0; i < h->ext_count; i++)
		n += need_one(h->ext[i].len);
	return n;
}

static uint8_t *put_one(uint8_t *p, uint32_t type, const void *data, size_t len)
{
	be32_put(p, type);
	be32_put(p + 4, (uint32_t)len);
	memcpy(p + EXT_HEAD, data, len);
	return p + need_one(len);
}

static uint8_t *put_kept(uint8_t *p, const struct header *h, bool feature_names)
{
	const struct header_extension *x;
	size_t i;

	for (i = 0; i < h->ext_count; i++) {
		x = &h->ext[i];
		if ((x->type == EXT_FEATURE_NAMES) == feature_names)
			p = put_one(p, x->type, x->data, x->len);
	}
	return p;
}

static void put_bitmaps(const struct header *h, uint8_t *data)
{
	be32_put(data, h->nb_bitmaps);
	be32_put(data + 4, 0);
	be64_put(data + 8, h->bitmap_dir_size);
	be64_put(data + 16, h->bitmap_dir_offset);
}

uint8_t *extension_update_bitmaps(const struct header *h, uint8_t *buf, uint32_t from, uint32_t to, size_t *len)
{
	uint32_t at = from, size;

	for (*len = 0; to - at >= EXT_HEAD && be32_get(buf + at) != EXT_END; at += size) {
		size = (uint32_t)min_u64(EXT_HEAD + round_up(be32_get(buf + at + 4), 8), to - at);
		if (be32_get(buf + at) != EXT_BITMAPS || size < EXT_HEAD + EXT_BITMAPS_LEN)
			continue;
		if (h->has_bitmaps) {
			put_bitmaps(h, buf + at + EXT_HEAD);
			*len = EXT_BITMAPS_LEN;
			return buf + at + EXT_HEAD;
		}
		/* An end in its place: eight bytes, which lie in one sector. */
		if (to - at - size >= EXT_HEAD && be32_get(buf + at + size) == EXT_END) {
			memset(buf + at, 0, EXT_HEAD);
			*len = EXT_HEAD;
			return buf + at;
		}
	}
	return buf;
}

/* The order is the reference's: some scripts look for an extension where it always was. */
void extension_encode(const struct header *h, uint8_t *buf)
{
	uint8_t data[EXT_BITMAPS_LEN];
	uint8_t *p = buf;

	if (h->backing_format)
		p = put_one(p, EXT_BACKING_FORMAT, h->backing_format, strlen(h->backing_format));
	if (h->data_file)
		p = put_one(p, EXT_DATA_FILE, h->data_file, strlen(h->data_file));
	if (h->has_crypt) {
		be64_put(data, h->crypt_offset);
		be64_put(data + 8, h->crypt_length);
		p = put_one(p, EXT_CRYPT, data, EXT_CRYPT_LEN);
	}
	p = put_kept(p, h, true);
	if (h->has_bitmaps) {
		put_bitmaps(h, data);
		p = put_one(p, EXT_BITMAPS, data, EXT_BITMAPS_LEN);
	}
	put_kept(p, h, false);
}

/* ---- the feature name table ---- */

enum { KIND_INCOMPATIBLE, KIND_COMPATIBLE, KIND_AUTOCLEAR };

/* The names are those of the reference, which show up in its messages. */
static const struct {
	uint8_t kind, bit;
	const char *name;
} feature_names[] = {
	{ KIND_INCOMPATIBLE, 0, "dirty bit" },
	{ KIND_INCOMPATIBLE, 1, "corrupt bit" },
	{ KIND_INCOMPATIBLE, 2, "external data file" },
	{ KIND_INCOMPATIBLE, 3, "compression type" },
	{ KIND_INCOMPATIBLE, 4, "extended L2 entries" },
	{ KIND_COMPATIBLE, 0, "lazy refcounts" },
	{ KIND_AUTOCLEAR, 0, "bitmaps" },
	{ KIND_AUTOCLEAR, 1, "raw external data" },
};

int header_add_feature_names(struct header *h, struct qimg_error *e)
{
	uint8_t table[ARRAY_SIZE(feature_names) * FEATURE_ENTRY] = { 0 };
	uint8_t *p = table;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(feature_names); i++, p += FEATURE_ENTRY) {
		p[0] = feature_names[i].kind;
		p[1] = feature_names[i].bit;
		memcpy(p + 2, feature_names[i].name, strlen(feature_names[i].name));
	}
	return add_unknown(h, EXT_FEATURE_NAMES, table, sizeof(table), e);
}

/* Appends ", NAME"; the name comes from the image and goes to a terminal. */
static size_t append_name(char *list, size_t used, size_t room, const uint8_t *name)
{
	size_t i;

	if (used + FEATURE_NAME_LEN + 3 > room)
		return used;
	if (used) {
		list[used++] = ',';
		list[used++] = ' ';
	}
	for (i = 0; i < FEATURE_NAME_LEN && name[i]; i++)
		list[used++] = name[i] < 0x20 || name[i] >= 0x7f ? '?' : (char)name[i];
	list[used] = '\0';
	return used;
}

int extension_unsupported(const uint8_t *buf, uint32_t from, uint32_t to, uint64_t bits,
			  struct qimg_error *e)
{
	uint32_t at = from, type, len, i;
	char list[512] = "";
	size_t used = 0;

	while (to - at >= EXT_HEAD) {
		type = be32_get(buf + at);
		len = be32_get(buf + at + 4);
		at += EXT_HEAD;
		if (type == EXT_END || len > to - at)
			break;
		for (i = 0; type == EXT_FEATURE_NAMES && i + FEATURE_ENTRY <= len;
		     i += FEATURE_ENTRY) {
			const uint8_t *p = buf + at + i;
			size_t before = used;

			if (p[0] != KIND_INCOMPATIBLE || p[1] > 63 ||
			    !(bits & (UINT64_C(1) << p[1])))
				continue;
			used = append_name(list, used, sizeof(list), p + 2);
			if (used > before)
				bits &= ~(UINT64_C(1) << p[1]);
		}
		at += (uint32_t)min_u64(round_up(len, 8), to - at);
	}
	if (!bits)
		return error_set(e, ENOTSUP, "Unsupported qcow2 feature(s): %s", list);
	return error_set(e, ENOTSUP,
			 "Unsupported qcow2 feature(s): %s%sUnknown incompatible feature: %" PRIx64,
			 list, used ? ", " : "", bits);
}
