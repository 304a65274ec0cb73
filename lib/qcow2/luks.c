// SPDX-License-Identifier: BSD-2-Clause
/*
 * The partition header of LUKS version 1, as far as info shows it: 592 bytes at the place that the
 * encryption header extension names. All offsets in there are in sectors of 512 bytes.
 */
#include "qcow2/luks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/value.h"
#include "io/file.h"
#include "qcow2/qcow2.h"

enum {
	LUKS_VERSION = 6,
	LUKS_CIPHER_NAME = 8,
	LUKS_CIPHER_MODE = 40,
	LUKS_HASH = 72,
	LUKS_PAYLOAD_OFFSET = 104,
	LUKS_KEY_BYTES = 108,
	LUKS_MASTER_ITERS = 164,
	LUKS_UUID = 168,
	LUKS_SLOTS = 208,
	LUKS_HEADER_LEN = 592,
	LUKS_STRING = 32,
	LUKS_UUID_LEN = 40,
	LUKS_SLOT_COUNT = 8,
	LUKS_SLOT_LEN = 48,
	SLOT_ACTIVE = 0,
	SLOT_ITERS = 4,
	SLOT_KEY_OFFSET = 40,
	SLOT_STRIPES = 44,
};

#define SLOT_ENABLED 0x00ac71f3u

/* A fixed-length field need not end with a zero byte. */
static void get_string(char *s, const uint8_t *p, size_t len)
{
	memcpy(s, p, len);
	s[len] = '\0';
}

static int add_slots(const uint8_t *b, struct qimg_value *encrypt, struct qimg_error *e)
{
	struct qimg_value *list = value_list(e), *slot;
	const uint8_t *p = b + LUKS_SLOTS;
	bool active;
	int i;

	if (!list)
		return -1;
	for (i = 0; i < LUKS_SLOT_COUNT; i++, p += LUKS_SLOT_LEN) {
		active = be32_get(p + SLOT_ACTIVE) == SLOT_ENABLED;
		slot = value_object(e);
		if (!slot || value_set_bool(slot, "active", active, e) < 0 ||
		    (active && value_set_int(slot, "iters", be32_get(p + SLOT_ITERS), e) < 0) ||
		    value_set_int(slot, "key-offset", (int64_t)be32_get(p + SLOT_KEY_OFFSET) * 512,
				  e) < 0 ||
		    (active && value_set_int(slot, "stripes", be32_get(p + SLOT_STRIPES), e) < 0)) {
			qimg_value_free(slot);
			qimg_value_free(list);
			return -1;
		}
		if (value_append(list, slot, e) < 0) {
			qimg_value_free(list);
			return -1;
		}
	}
	return value_set(encrypt, "slots", list, e);
}

/* "xts-plain64", "cbc-essiv:sha256": mode, way of making IVs, and the hash for that. */
static void split_mode(char *mode, const char **ivgen, const char **ivgen_hash)
{
	char *p = strchr(mode, '-');

	*ivgen = *ivgen_hash = NULL;
	if (!p)
		return;
	*p++ = '\0';
	*ivgen = p;
	p = strchr(p, ':');
	if (!p)
		return;
	*p++ = '\0';
	*ivgen_hash = p;
}

int luks_info(struct qcow2 *q, struct qimg_value *encrypt, struct qimg_error *e)
{
	uint8_t b[LUKS_HEADER_LEN];
	char cipher[LUKS_STRING + 1], mode[LUKS_STRING + 1], hash[LUKS_STRING + 1];
	char uuid[LUKS_UUID_LEN + 1], name[LUKS_STRING + 32];
	const char *ivgen, *ivgen_hash;
	uint64_t bits;

	if (q->h.crypt_length < LUKS_HEADER_LEN)
		return error_set(e, EINVAL,
				 "The LUKS header of %" PRIu64 " bytes is shorter than %d",
				 q->h.crypt_length, LUKS_HEADER_LEN);
	if (file_read(q->file, q->h.crypt_offset, b, sizeof(b), e) < 0)
		return -1;
	if (memcmp(b, "LUKS\xba\xbe", LUKS_VERSION) || be16_get(b + LUKS_VERSION) != 1)
		return error_set(e, EINVAL,
				 "There is no LUKS header of version 1 at offset 0x%" PRIx64,
				 q->h.crypt_offset);
	get_string(cipher, b + LUKS_CIPHER_NAME, LUKS_STRING);
	get_string(mode, b + LUKS_CIPHER_MODE, LUKS_STRING);
	get_string(hash, b + LUKS_HASH, LUKS_STRING);
	get_string(uuid, b + LUKS_UUID, LUKS_UUID_LEN);
	split_mode(mode, &ivgen, &ivgen_hash);
	/* XTS takes two keys, and its ciphers are called after one. */
	bits = (uint64_t)be32_get(b + LUKS_KEY_BYTES) * 8;
	if (!strcmp(mode, "xts"))
		bits /= 2;
	snprintf(name, sizeof(name), "%s-%" PRIu64, cipher, bits);

	if ((ivgen && value_set_string(encrypt, "ivgen-alg", ivgen, e) < 0) ||
	    value_set_string(encrypt, "hash-alg", hash, e) < 0 ||
	    value_set_string(encrypt, "cipher-alg", name, e) < 0 ||
	    value_set_string(encrypt, "uuid", uuid, e) < 0 ||
	    (ivgen_hash && value_set_string(encrypt, "ivgen-hash-alg", ivgen_hash, e) < 0) ||
	    value_set_string(encrypt, "format", "luks", e) < 0 ||
	    value_set_string(encrypt, "cipher-mode", mode, e) < 0 || add_slots(b, encrypt, e) < 0)
		return -1;
	if (value_set_int(encrypt, "payload-offset",
			  (int64_t)be32_get(b + LUKS_PAYLOAD_OFFSET) * 512, e) < 0)
		return -1;
	return value_set_int(encrypt, "master-key-iters", be32_get(b + LUKS_MASTER_ITERS), e);
}
