// SPDX-License-Identifier: BSD-2-Clause
/*
 * L1 and L2 entries and refcounts as bits.
 *
 * Reading tolerates reserved bits that are set, as other readers do; what could make data come from
 * the wrong place is an error.
 */
#include "qcow2/entry.h"

#include <errno.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "base/error.h"
#include "qcow2/qcow2.h"

#define OFFSET_MASK UINT64_C(0x00fffffffffffe00)
#define COPIED (UINT64_C(1) << 63)
#define PACKED (UINT64_C(1) << 62)
#define ZERO UINT64_C(1)

/* The bit at which the sector count of a compressed cluster's descriptor starts. */
static unsigned packed_shift(const struct qcow2 *q)
{
	return 62 - (q->cluster_bits - 8);
}

static int bad(const struct qcow2 *q, uint64_t guest, struct entry *en, enum entry_fault fault,
	       const char *what, uint64_t raw, struct qimg_error *e)
{
	en->fault = fault;
	return error_set(e, EIO, "L2 entry 0x%016" PRIx64 " of '%s' at guest offset 0x%" PRIx64 ": %s",
			 raw, q->img->name, guest, what);
}

static int get_packed(const struct qcow2 *q, uint64_t raw, uint64_t guest, struct entry *en,
		      struct qimg_error *e)
{
	unsigned shift = packed_shift(q);

	if (q->external)
		return bad(q, guest, en, ENTRY_BAD_PACKED,
			   "compressed cluster in an image with a data file", raw, e);
	en->kind = ENTRY_PACKED;
	en->copied = raw & COPIED;	/* which is wrong */
	en->host = raw & ((UINT64_C(1) << shift) - 1);
	en->packed = (uint32_t)((((raw & ~COPIED & ~PACKED) >> shift) + 1) * 512 -
				(en->host & 511));
	if (en->host >> 56)
		return bad(q, guest, en, ENTRY_BAD_PACKED,
			   "compressed cluster beyond the last valid host offset", raw, e);
	return 0;
}

int entry_get(const struct qcow2 *q, const uint8_t *p, uint64_t guest, struct entry *en,
	      struct qimg_error *e)
{
	uint64_t raw = be64_get(p);
	bool host;

	memset(en, 0, sizeof(*en));
	if (raw & PACKED)
		return get_packed(q, raw, guest, en, e);

	en->copied = raw & COPIED;
	en->host = raw & OFFSET_MASK;
	/* Offset 0 is a place only in a data file, where COPIED tells it from "unallocated". */
	host = en->host || (q->external && en->copied);
	if (!is_aligned(en->host, q->cluster_size))
		return bad(q, guest, en, ENTRY_UNALIGNED,
			   "host offset is not aligned to a cluster", raw, e);
	if (q->external && host && en->host != round_down(guest, q->cluster_size))
		return bad(q, guest, en, ENTRY_NOT_GUEST,
			   "offset in the data file differs from the guest offset", raw, e);

	if (q->extended) {
		uint64_t bitmap = be64_get(p + 8);

		en->alloc = (uint32_t)bitmap;
		en->zero = (uint32_t)(bitmap >> 32);
		if (en->alloc & en->zero)
			return bad(q, guest, en, ENTRY_BAD_SUBCLUSTERS,
				   "subclusters both allocated and zero", raw, e);
		if (en->alloc && !host)
			return bad(q, guest, en, ENTRY_BAD_SUBCLUSTERS,
				   "allocated subclusters without a host cluster", raw, e);
		en->kind = host ? ENTRY_DATA : ENTRY_HOLE;
	} else if (raw & ZERO) {
		if (q->h.version < 3)
			return bad(q, guest, en, ENTRY_BAD_VERSION,
				   "zero cluster in an image of version 2", raw, e);
		en->kind = host ? ENTRY_ZERO_HOST : ENTRY_ZERO;
	} else {
		en->kind = host ? ENTRY_DATA : ENTRY_HOLE;
	}
	return 0;
}

uint64_t entry_reserved(const struct qcow2 *q, const uint8_t *p)
{
	uint64_t raw = be64_get(p), known = OFFSET_MASK | COPIED | PACKED;

	if (raw & PACKED)
		return q->extended ? be64_get(p + 8) : 0;
	return raw & ~(q->extended ? known : known | ZERO);
}

uint64_t entry_l1_reserved(uint64_t l1e)
{
	return l1e & ~(OFFSET_MASK | COPIED);
}

void entry_put(const struct qcow2 *q, uint8_t *p, const struct entry *en)
{
	uint64_t raw = 0, bitmap = 0;

	switch (en->kind) {
	case ENTRY_PACKED:
		raw = PACKED | en->host |
			(uint64_t)(div_up(en->packed + (en->host & 511), 512) - 1) << packed_shift(q);
		break;
	case ENTRY_ZERO:
		raw = ZERO;
		break;
	case ENTRY_ZERO_HOST:
		raw = ZERO | en->host | (en->copied ? COPIED : 0);
		break;
	case ENTRY_DATA:
		raw = en->host | (en->copied ? COPIED : 0);
		break;
	case ENTRY_HOLE:
		break;
	}
	be64_put(p, raw);
	if (q->extended) {
		if (en->kind != ENTRY_PACKED)
			bitmap = (uint64_t)en->zero << 32 | en->alloc;
		be64_put(p + 8, bitmap);
	}
}

const char *entry_odd_copied(const struct qcow2 *q, const struct entry *en)
{
	if (en->kind == ENTRY_PACKED)
		return en->copied ? "a compressed cluster has the COPIED bit" : NULL;
	if (q->external)
		return en->host && !en->copied ? "the COPIED bit is missing, though nothing else can refer to a "
						 "cluster of the data file" : NULL;
	return NULL;
}

void entry_set_copied(uint8_t *p, bool copied)
{
	be64_put(p, copied ? be64_get(p) | COPIED : be64_get(p) & ~COPIED);
}

void entry_clear_reserved(const struct qcow2 *q, uint8_t *p)
{
	if (!(be64_get(p) & PACKED))
		be64_put(p, be64_get(p) & ~entry_reserved(q, p));
	else if (q->extended)
		be64_put(p + 8, 0);
}

void entry_clear_zero(uint8_t *p)
{
	be64_put(p, be64_get(p) & ~ZERO);
}

void entry_set_host(const struct qcow2 *q, uint8_t *p, uint64_t host)
{
	uint64_t raw = be64_get(p), mask = raw & PACKED ? (UINT64_C(1) << packed_shift(q)) - 1 : OFFSET_MASK;

	be64_put(p, (raw & ~mask) | host);
}

void entry_mend_subclusters(const struct qcow2 *q, uint8_t *p)
{
	uint64_t raw = be64_get(p), bitmap = be64_get(p + 8);
	uint32_t alloc = (uint32_t)bitmap, zero = (uint32_t)(bitmap >> 32);

	if (!(raw & OFFSET_MASK) && !(q->external && raw & COPIED))
		alloc = 0;
	be64_put(p + 8, (uint64_t)(zero & ~alloc) << 32 | alloc);
}

void entry_remove(const struct qcow2 *q, uint8_t *p, bool zeros)
{
	uint64_t raw = be64_get(p), bitmap;
	bool packed = raw & PACKED;

	if (!q->extended) {
		zeros |= !packed && raw & ZERO;
		be64_put(p, zeros && q->h.version >= 3 ? ZERO : 0);
		return;
	}
	bitmap = packed ? UINT32_MAX : be64_get(p + 8);
	be64_put(p, 0);
	be64_put(p + 8, ((packed ? 0 : bitmap >> 32) | (zeros ? bitmap & UINT32_MAX : 0)) << 32);
}

bool entry_has_data(const struct qcow2 *q, const uint8_t *p)
{
	uint64_t raw = be64_get(p);

	if (raw & PACKED)
		return true;
	return q->extended ? (uint32_t)be64_get(p + 8) : q->h.version < 3 || !(raw & ZERO);
}

uint64_t entry_l1_set_table(uint64_t l1e, uint64_t off)
{
	return (l1e & ~OFFSET_MASK) | off;
}

bool entry_next_near(const struct qcow2 *q, uint64_t host, bool packed, unsigned *bit, uint64_t *near)
{
	unsigned end = packed ? packed_shift(q) : 56;

	if (!packed && *bit < 9)
		*bit = 9;
	if (*bit >= end)
		return false;
	*near = host ^ UINT64_C(1) << (*bit)++;
	return true;
}

bool entry_can_pack(const struct qcow2 *q, uint64_t host, uint32_t packed)
{
	unsigned shift = packed_shift(q);
	uint64_t sectors = div_up(packed + (host & 511), 512);

	return packed && host < UINT64_C(1) << shift && !(host >> 56) &&
		sectors <= UINT64_C(1) << (62 - shift);
}

uint64_t entry_l1_table(uint64_t l1e)
{
	return l1e & OFFSET_MASK;
}

int entry_l1_check(const struct qcow2 *q, uint32_t index, uint64_t l1e, struct qimg_error *e)
{
	if (!is_aligned(entry_l1_table(l1e), q->cluster_size))
		return error_set(e, EIO,
				 "L1 entry %" PRIu32 " of '%s' (0x%016" PRIx64
				 ") is not aligned to a cluster",
				 index, q->img->name, l1e);
	return 0;
}

uint64_t entry_refcount_get(const uint8_t *block, unsigned order, size_t index)
{
	switch (order) {
	case 0: case 1: case 2: {
		unsigned bits = 1U << order, per_byte = 8 / bits;
		unsigned shift = (unsigned)(index % per_byte) * bits;

		return (block[index / per_byte] >> shift) & ((1U << bits) - 1);
	}
	case 3:
		return block[index];
	case 4:
		return be16_get(block + 2 * index);
	case 5:
		return be32_get(block + 4 * index);
	default:
		return be64_get(block + 8 * index);
	}
}

void entry_refcount_put(uint8_t *block, unsigned order, size_t index, uint64_t v)
{
	switch (order) {
	case 0: case 1: case 2: {
		unsigned bits = 1U << order, per_byte = 8 / bits;
		unsigned shift = (unsigned)(index % per_byte) * bits;
		uint8_t *p = block + index / per_byte;

		*p = (uint8_t)((*p & ~(((1U << bits) - 1) << shift)) | (unsigned)v << shift);
		break;
	}
	case 3:
		block[index] = (uint8_t)v;
		break;
	case 4:
		be16_put(block + 2 * index, (uint16_t)v);
		break;
	case 5:
		be32_put(block + 4 * index, (uint32_t)v);
		break;
	default:
		be64_put(block + 8 * index, v);
		break;
	}
}
