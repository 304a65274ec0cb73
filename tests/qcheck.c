// SPDX-License-Identifier: BSD-2-Clause
/* See qcheck.h. Written for being evidently right on small images, not for speed on large ones. */
#include "qcheck.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* What a host cluster is used for; L2 tables and guest data may be shared between views. */
enum use {
	USE_NONE,
	USE_HEADER,
	USE_RT,
	USE_RB,
	USE_L1,
	USE_SNAPSHOTS,
	USE_L2,
	USE_DATA,
	USE_PACKED,
	USE_BITMAP
};

static const char *const use_name[] = { "nothing",	  "header",   "refcount table",
					"refcount block", "L1 table", "snapshot table",
					"L2 table",	  "data",     "compressed data",
					"bitmap" };

static void __attribute__((format(printf, 3, 4)))
fault(struct qcheck *q, enum qcheck_fault f, const char *fmt, ...)
{
	va_list ap;
	int n;

	q->count[f]++;
	/* Harmless findings must not crowd out the others. */
	if ((f >= QCHECK_LEAK && q->count[f] > 2) || q->text_len > sizeof(q->text) - 256)
		return;
	va_start(ap, fmt);
	n = vsnprintf(q->text + q->text_len, 255, fmt, ap);
	va_end(ap);
	q->text_len += n < 254 ? n : 254;
	q->text[q->text_len++] = '\n';
	q->text[q->text_len] = 0;
}

static uint64_t be(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

/* The number at a file offset; what lies beyond the end reads as zeros. */
static uint64_t num(const struct qcheck *q, uint64_t off, unsigned bytes)
{
	if (off > q->file.len || bytes > q->file.len - off)
		return 0;
	return be(q->file.p + off, bytes);
}

/* A file may end inside its last cluster, never before it. */
static bool inside(const struct qcheck *q, uint64_t off, uint64_t len)
{
	uint64_t end = (q->file.len + q->cluster - 1) / q->cluster * q->cluster;

	return off < end && len <= end - off;
}

static bool snapshots_open(struct qcheck *q, unsigned count)
{
	uint64_t at = q->snapshots_offset;

	if (count >= QCHECK_MAX_VIEWS) {
		fault(q, QCHECK_HEADER, "%u snapshots are more than this test reads", count);
		return false;
	}
	for (unsigned i = 0; i < count; i++) {
		struct qcheck_view *v = &q->view[q->views];
		unsigned id = num(q, at + 12, 2), name = num(q, at + 14, 2),
			 extra = num(q, at + 36, 4);

		if (!inside(q, at, 40) || extra > 1024 || !inside(q, at, 40 + extra + id + name)) {
			fault(q, QCHECK_HEADER, "snapshot table entry %u is outside the file", i);
			return false;
		}
		v->l1_offset = num(q, at, 8);
		v->l1_size = num(q, at + 8, 4);
		v->size = extra >= 16 ? num(q, at + 48, 8) : q->view[0].size;
		snprintf(v->name, sizeof(v->name), "%.*s", name < 60 ? (int)name : 60,
			 (const char *)q->file.p + at + 40 + extra + id);
		q->views++;
		at += (40 + extra + id + name + 7) / 8 * 8;
	}
	q->snapshots_len = at - q->snapshots_offset;
	return true;
}

/* Of the header extensions only that for bitmaps holds references. */
static void extensions_open(struct qcheck *q, uint64_t at)
{
	while (at + 8 <= q->cluster && num(q, at, 4)) {
		if (num(q, at, 4) == 0x23852875) {
			q->bitmaps_size = num(q, at + 16, 8);
			q->bitmaps_offset = num(q, at + 24, 8);
		}
		at += 8 + (num(q, at + 4, 4) + 7) / 8 * 8;
	}
	q->bitmaps_valid = q->autoclear & 1;
	if (q->bitmaps_valid && !q->bitmaps_offset)
		fault(q, QCHECK_HEADER, "autoclear bit 0 without the bitmaps extension");
	if (q->bitmaps_offset && (q->bitmaps_offset % q->cluster || q->bitmaps_size > q->cluster ||
				  !inside(q, q->bitmaps_offset, q->cluster)))
		fault(q, QCHECK_HEADER, "bitmap directory at 0x%" PRIx64, q->bitmaps_offset);
}

/* Leaves out what lies where it cannot be. */
static void forget_damaged(struct qcheck *q)
{
	if (q->rt_offset % q->cluster || !inside(q, q->rt_offset, q->rt_clusters * q->cluster))
		q->rt_clusters = 0;
	if (q->bitmaps_offset % q->cluster || q->bitmaps_size > q->cluster ||
	    !inside(q, q->bitmaps_offset, q->cluster) || !q->bitmaps_valid)
		q->bitmaps_offset = q->bitmaps_size = 0;
	for (unsigned i = 0; i < q->views; i++)
		if (q->view[i].l1_offset % q->cluster || !q->view[i].l1_offset ||
		    !inside(q, q->view[i].l1_offset, q->view[i].l1_size * UINT64_C(8)))
			q->view[i].l1_size = 0;
}

bool qcheck_open_damaged(struct qcheck *q, struct qcheck_buf file, struct qcheck_buf data)
{
	unsigned snapshots;

	qcheck_open(q, file, data);
	if (!q->cluster || q->refcount_order > 6)
		return false;
	snapshots = num(q, 60, 4);
	if (q->views == 1 && snapshots)
		snapshots_open(q, snapshots < QCHECK_MAX_VIEWS ? snapshots : QCHECK_MAX_VIEWS - 1);
	forget_damaged(q);
	return true;
}

bool qcheck_open(struct qcheck *q, struct qcheck_buf file, struct qcheck_buf data)
{
	uint64_t backing_off;
	unsigned backing_len, header_len;

	memset(q, 0, sizeof(*q));
	q->file = file;
	q->data = data;
	q->version = num(q, 4, 4);
	q->cluster_bits = num(q, 20, 4);
	if (num(q, 0, 4) != 0x514649fb || (q->version != 2 && q->version != 3) ||
	    q->cluster_bits < 9 || q->cluster_bits > 21) {
		fault(q, QCHECK_HEADER, "no qcow2 header");
		return false;
	}
	q->cluster = UINT64_C(1) << q->cluster_bits;
	q->refcount_order = 4;
	header_len = 72;
	if (q->version == 3) {
		q->incompatible = num(q, 72, 8);
		q->compatible = num(q, 80, 8);
		q->autoclear = num(q, 88, 8);
		q->refcount_order = num(q, 96, 4);
		header_len = num(q, 100, 4);
	}
	q->dirty = q->incompatible & 1;
	q->corrupt = q->incompatible & 2;
	q->external = q->incompatible & 4;
	q->extended = q->incompatible & 16;
	q->zstd = (q->incompatible & 8) && header_len > 104 && num(q, 104, 1) == 1;
	q->view[0].size = num(q, 24, 8);
	q->view[0].l1_size = num(q, 36, 4);
	q->view[0].l1_offset = num(q, 40, 8);
	strcpy(q->view[0].name, "active");
	q->views = 1;
	q->rt_offset = num(q, 48, 8);
	q->rt_clusters = num(q, 56, 4);
	q->snapshots_offset = num(q, 64, 8);
	backing_off = num(q, 8, 8);
	backing_len = num(q, 16, 4);
	if (backing_off && backing_len < sizeof(q->backing) && inside(q, backing_off, backing_len))
		memcpy(q->backing, q->file.p + backing_off, backing_len);

	if ((q->incompatible & ~UINT64_C(31)) || (q->incompatible & 2) || q->refcount_order > 6 ||
	    (q->version == 3 && (header_len < 104 || header_len % 8 || header_len > q->cluster)))
		fault(q, QCHECK_HEADER, "header: features 0x%" PRIx64 " order %u length %u",
		      q->incompatible, q->refcount_order, header_len);
	if (num(q, 32, 4) || (q->external && !q->data.p))
		fault(q, QCHECK_HEADER, "encryption or a missing data file: not for this test");
	extensions_open(q, header_len);
	if (q->rt_clusters == 0 || q->rt_offset % q->cluster || q->rt_offset == 0 ||
	    !inside(q, q->rt_offset, q->rt_clusters * q->cluster))
		fault(q, QCHECK_HEADER, "refcount table of %u clusters at 0x%" PRIx64,
		      q->rt_clusters, q->rt_offset);
	if (q->count[QCHECK_HEADER] || !snapshots_open(q, num(q, 60, 4)))
		return false;
	for (unsigned i = 0; i < q->views; i++) {
		const struct qcheck_view *v = &q->view[i];
		uint64_t per_l2 = q->cluster / (q->extended ? 16 : 8) * q->cluster;

		if ((v->l1_size && (v->l1_offset % q->cluster || v->l1_offset == 0 ||
				    !inside(q, v->l1_offset, v->l1_size * UINT64_C(8)))) ||
		    v->size > v->l1_size * per_l2)
			fault(q, QCHECK_HEADER,
			      "L1 of '%s': %u entries at 0x%" PRIx64 " for size %" PRIu64, v->name,
			      v->l1_size, v->l1_offset, v->size);
	}
	q->scratch_len = q->cluster;
	q->scratch = malloc(q->cluster);
	if (!q->scratch)
		abort();
	return q->count[QCHECK_HEADER] == 0;
}

void qcheck_close(struct qcheck *q)
{
	free(q->refs);
	free(q->use);
	free(q->seen);
	free(q->marks);
	free(q->scratch);
	q->refs = NULL;
	q->use = q->seen = q->marks = q->scratch = NULL;
}

unsigned qcheck_corruptions(const struct qcheck *q)
{
	unsigned sum = 0;

	for (unsigned f = 0; f < QCHECK_LEAK; f++)
		sum += q->count[f];
	return sum;
}

/* ---- entries ---- */

enum { ENTRY_BAD, ENTRY_NONE, ENTRY_ZERO, ENTRY_STANDARD, ENTRY_COMPRESSED };

struct l2_entry {
	int kind;
	bool copied;
	uint64_t host; /* 0 and kind NONE or ZERO: no host cluster */
	bool has_host;
	uint64_t len; /* COMPRESSED: bytes of the sectors it covers, from host on */
	uint64_t bitmap;
};

/* Counts its faults only when `tell`: the walk comes after the count and must not repeat it. */
static void l2_decode(struct qcheck *q, uint64_t at, uint64_t guest, struct l2_entry *n, bool tell)
{
	uint64_t e = num(q, at, 8), bad = 0;

	memset(n, 0, sizeof(*n));
	n->bitmap = q->extended ? num(q, at + 8, 8) : 0;
	n->copied = e >> 63;
	if (e >> 62 & 1) {
		unsigned x = 62 - (q->cluster_bits - 8);

		n->kind = ENTRY_COMPRESSED;
		n->has_host = true;
		n->host = e & ((UINT64_C(1) << (x < 56 ? x : 56)) - 1);
		n->len = ((e >> x & ((UINT64_C(1) << (62 - x)) - 1)) + 1) * 512 - n->host % 512;
		if (x > 56)
			bad = e >> 56 & ((UINT64_C(1) << (x - 56)) - 1);
		bad |= n->copied | n->bitmap | q->external;
		/* The last sector may be cut off by the end of the file. */
		if (!inside(q, n->host, 1) || !inside(q, n->host / 512 * 512, n->len / 512 * 512))
			bad = 1;
	} else {
		n->host = e & UINT64_C(0x00fffffffffffe00);
		n->has_host = n->host || (q->external && n->copied);
		bad = e & UINT64_C(0x3f000000000001fe);
		if (q->version == 2 || q->extended)
			bad |= e & 1;
		if (q->extended) {
			uint64_t alloc = n->bitmap & 0xffffffff, zero = n->bitmap >> 32;

			bad |= alloc & zero;
			bad |= alloc && !n->has_host;
			n->kind = n->bitmap ? ENTRY_STANDARD : ENTRY_NONE;
		} else {
			n->kind = e & 1 ? ENTRY_ZERO : n->has_host ? ENTRY_STANDARD : ENTRY_NONE;
		}
		if (n->has_host && n->host % q->cluster)
			bad = 1;
		if (n->has_host && !q->external &&
		    (n->host == 0 || !inside(q, n->host, q->cluster)))
			bad = 1;
		if (n->has_host && q->external && n->host != guest)
			bad = 1;
		if (!n->has_host && n->copied && !q->external)
			bad = 1;
	}
	if (bad) {
		n->kind = ENTRY_BAD;
		n->has_host = false;
		if (tell)
			fault(q, QCHECK_ENTRY,
			      "L2 entry 0x%" PRIx64 " 0x%" PRIx64 " of guest 0x%" PRIx64
			      " is not valid (file of 0x%" PRIx64 ")",
			      e, n->bitmap, guest, q->file.len);
	}
}

/* The L2 table of an L1 index; 0: none. Bad entries count as none, after telling. */
static uint64_t l2_table(struct qcheck *q, const struct qcheck_view *v, uint64_t index, bool tell,
			 bool *copied)
{
	uint64_t e = index < v->l1_size ? num(q, v->l1_offset + 8 * index, 8) : 0;
	uint64_t table = e & UINT64_C(0x00fffffffffffe00);

	*copied = e >> 63;
	if ((e & UINT64_C(0x7f000000000001ff)) || table % q->cluster || (!table && e) ||
	    (table && !inside(q, table, q->cluster))) {
		if (tell)
			fault(q, QCHECK_ENTRY,
			      "L1 entry %" PRIu64 " of '%s' is 0x%" PRIx64 " (file of 0x%" PRIx64
			      ")",
			      index, v->name, e, q->file.len);
		return 0;
	}
	return table;
}

/* ---- counting references ---- */

static void refer(struct qcheck *q, uint64_t off, uint64_t len, enum use use, unsigned view)
{
	if (len == 0)
		return;
	for (uint64_t c = off / q->cluster; c <= (off + len - 1) / q->cluster; c++) {
		bool shared = use == USE_L2 || use == USE_DATA || use == USE_PACKED;

		q->refs[c]++;
		if ((q->use[c] != USE_NONE && (q->use[c] != use || !shared)) ||
		    (q->seen[c] == view + 1 && use != USE_PACKED))
			fault(q, QCHECK_TWICE, "cluster 0x%" PRIx64 " is used for %s and %s%s",
			      c * q->cluster, use_name[q->use[c]], use_name[use],
			      q->use[c] == use && shared ? " in one view" : "");
		q->use[c] = use;
		q->seen[c] = view + 1;
	}
}

static uint64_t refcount_block(const struct qcheck *q, uint64_t index)
{
	return index < q->rt_clusters * q->cluster / 8 ? num(q, q->rt_offset + 8 * index, 8) : 0;
}

static uint64_t refcount(const struct qcheck *q, uint64_t cluster)
{
	unsigned bits = 1u << q->refcount_order;
	uint64_t per_block = q->cluster * 8 / bits;
	uint64_t block = refcount_block(q, cluster / per_block), at = cluster % per_block;

	if (block == 0 || block % q->cluster || !inside(q, block, q->cluster))
		return 0;
	if (bits >= 8)
		return num(q, block + at * (bits / 8), bits / 8);
	return num(q, block + at * bits / 8, 1) >> (at * bits % 8) & ((1u << bits) - 1);
}

static void refer_refcounts(struct qcheck *q)
{
	uint64_t entries = q->rt_clusters * q->cluster / 8;

	refer(q, q->rt_offset, q->rt_clusters * q->cluster, USE_RT, 0);
	for (uint64_t i = 0; i < entries; i++) {
		uint64_t block = refcount_block(q, i);

		if (block == 0)
			continue;
		if (block % q->cluster || !inside(q, block, q->cluster))
			fault(q, QCHECK_ENTRY,
			      "refcount table entry %" PRIu64 " is 0x%" PRIx64
			      " (file of 0x%" PRIx64 ")",
			      i, block, q->file.len);
		else
			refer(q, block, q->cluster, USE_RB, 0);
	}
}

static void refer_bitmaps(struct qcheck *q)
{
	uint64_t at = q->bitmaps_offset;

	refer(q, at, q->bitmaps_size, USE_BITMAP, 0);
	for (uint64_t end = at + q->bitmaps_size; at && at < end;) {
		uint64_t table = num(q, at, 8), entries = num(q, at + 8, 4);

		if (table % q->cluster || !inside(q, table, entries * 8)) {
			fault(q, QCHECK_ENTRY, "bitmap table at 0x%" PRIx64, table);
			break;
		}
		refer(q, table, entries * 8, USE_BITMAP, 0);
		for (uint64_t i = 0; i < entries; i++) {
			uint64_t data = num(q, table + 8 * i, 8) & UINT64_C(0x00fffffffffffe00);

			if (data % q->cluster || (data && !inside(q, data, q->cluster)))
				fault(q, QCHECK_ENTRY, "bitmap data at 0x%" PRIx64, data);
			else if (data)
				refer(q, data, q->cluster, USE_BITMAP, 0);
		}
		at += (24 + num(q, at + 18, 2) + num(q, at + 20, 4) + 7) / 8 * 8;
	}
}

static void refer_view(struct qcheck *q, unsigned view)
{
	const struct qcheck_view *v = &q->view[view];
	unsigned entry = q->extended ? 16 : 8;
	uint64_t per_l2 = q->cluster / entry;
	struct l2_entry n;
	bool copied;

	refer(q, v->l1_offset, v->l1_size * UINT64_C(8), USE_L1, view);
	for (uint64_t i = 0; i < v->l1_size; i++) {
		uint64_t table = l2_table(q, v, i, true, &copied);

		if (table == 0)
			continue;
		refer(q, table, q->cluster, USE_L2, view);
		for (uint64_t j = 0; j < per_l2; j++) {
			l2_decode(q, table + j * entry, (i * per_l2 + j) * q->cluster, &n, true);
			if (n.kind == ENTRY_COMPRESSED)
				refer(q, n.host / 512 * 512, n.host % 512 + n.len, USE_PACKED,
				      view);
			else if (n.has_host && !q->external)
				refer(q, n.host, q->cluster, USE_DATA, view);
		}
	}
}

static void compare_copied(struct qcheck *q, uint64_t host, bool copied, const char *what)
{
	uint64_t c = host / q->cluster;

	if (copied && q->refs[c] != 1) {
		q->marks[c] |= QCHECK_IS_COPIED;
		fault(q, QCHECK_COPIED, "%s 0x%" PRIx64 " has COPIED and %u references", what, host,
		      q->refs[c]);
	}
	if (!copied && !q->dirty && refcount(q, c) == 1)
		fault(q, QCHECK_UNMARKED, "%s 0x%" PRIx64 " has refcount 1 and no COPIED", what,
		      host);
}

static void check_copied(struct qcheck *q)
{
	const struct qcheck_view *v = &q->view[0];
	unsigned entry = q->extended ? 16 : 8;
	uint64_t per_l2 = q->cluster / entry;
	struct l2_entry n;
	bool copied;

	for (uint64_t i = 0; i < v->l1_size; i++) {
		uint64_t table = l2_table(q, v, i, false, &copied);

		if (table == 0)
			continue;
		compare_copied(q, table, copied, "L2 table");
		for (uint64_t j = 0; j < per_l2; j++) {
			l2_decode(q, table + j * entry, (i * per_l2 + j) * q->cluster, &n, false);
			if (n.kind == ENTRY_COMPRESSED || n.kind == ENTRY_BAD || !n.has_host)
				continue;
			if (!q->external)
				compare_copied(q, n.host, n.copied, "data cluster");
			else if (!n.copied)
				fault(q, QCHECK_UNMARKED,
				      "data file cluster 0x%" PRIx64 " without COPIED", n.host);
		}
	}
}

/* The refcounts of a block for what lies behind the end of the file; 64 bits at a time. */
static void check_beyond(struct qcheck *q, uint64_t index, uint64_t per_block)
{
	uint64_t block = refcount_block(q, index), c = index * per_block;
	unsigned per_word = 64 >> q->refcount_order;

	for (uint64_t word = 0; word < q->cluster / 8; word++, c += per_word) {
		if (c + per_word <= q->clusters || num(q, block + word * 8, 8) == 0)
			continue;
		for (unsigned i = 0; i < per_word; i++)
			if (c + i >= q->clusters && refcount(q, c + i))
				fault(q, QCHECK_LEAK,
				      "cluster 0x%" PRIx64 " beyond the end has refcount %" PRIu64,
				      (c + i) * q->cluster, refcount(q, c + i));
	}
}

void qcheck_refs(struct qcheck *q)
{
	uint64_t per_block = q->cluster * 8 >> q->refcount_order;
	uint64_t entries = q->rt_clusters * q->cluster / 8;

	q->clusters = (q->file.len + q->cluster - 1) / q->cluster;
	q->refs = calloc(q->clusters + 1, sizeof(*q->refs));
	q->use = calloc(q->clusters + 1, 1);
	q->seen = calloc(q->clusters + 1, 1);
	q->marks = calloc(q->clusters + 1, 1);
	if (!q->refs || !q->use || !q->seen || !q->marks)
		abort();
	refer(q, 0, q->cluster, USE_HEADER, 0);
	refer_refcounts(q);
	if (q->snapshots_len)
		refer(q, q->snapshots_offset, q->snapshots_len, USE_SNAPSHOTS, 0);
	refer_bitmaps(q);
	for (unsigned i = 0; i < q->views; i++)
		refer_view(q, i);
	check_copied(q);
	if (q->dirty)
		return; /* refcounts may be anything, the rest was checked */
	for (uint64_t c = 0; c < q->clusters; c++) {
		uint64_t have = refcount(q, c);

		if (have < q->refs[c]) {
			q->marks[c] |= QCHECK_IS_LOW;
			fault(q, QCHECK_LOW,
			      "cluster 0x%" PRIx64 " (%s) has refcount %" PRIu64
			      " and %u references",
			      c * q->cluster, use_name[q->use[c]], have, q->refs[c]);
		} else if (have > q->refs[c]) {
			fault(q, QCHECK_LEAK,
			      "cluster 0x%" PRIx64 " (%s) has refcount %" PRIu64
			      " and %u references",
			      c * q->cluster, use_name[q->use[c]], have, q->refs[c]);
		}
	}
	/* Beyond the end of the file nothing can be referenced. */
	for (uint64_t i = q->clusters / per_block; i < entries; i++)
		if (refcount_block(q, i))
			check_beyond(q, i, per_block);
}

unsigned qcheck_marks(const struct qcheck *q, uint64_t cluster)
{
	return q->marks && cluster < q->clusters ? q->marks[cluster] : 0;
}

/* ---- content ---- */

static const uint8_t *inflate_cluster(struct qcheck *q, const struct l2_entry *n)
{
	const uint8_t *src = q->file.p + n->host;
	uint64_t have = q->file.len > n->host ? q->file.len - n->host : 0;
	bool good = false;

	if (have > n->len)
		have = n->len;
	if (q->zstd) {
		ZSTD_DStream *s = ZSTD_createDStream();
		ZSTD_inBuffer in = { src, have, 0 };
		ZSTD_outBuffer out = { q->scratch, q->cluster, 0 };

		while (s && out.pos < out.size && in.pos < in.size) {
			size_t before = in.pos + out.pos;

			if (ZSTD_isError(ZSTD_decompressStream(s, &out, &in)) ||
			    in.pos + out.pos == before)
				break;
		}
		good = out.pos == out.size;
		ZSTD_freeDStream(s);
	} else {
		z_stream z = { .next_in = (uint8_t *)src,
			       .avail_in = have,
			       .next_out = q->scratch,
			       .avail_out = q->cluster };

		if (inflateInit2(&z, -15) == Z_OK) {
			inflate(&z, Z_FINISH);
			good = z.avail_out == 0;
			inflateEnd(&z);
		}
	}
	return good ? q->scratch : NULL;
}

static void run_data(struct qcheck *q, uint64_t host, uint64_t guest, uint64_t len, qcheck_run *fn,
		     void *ctx)
{
	const struct qcheck_buf *b = q->external ? &q->data : &q->file;
	uint64_t have = b->len > host ? b->len - host : 0;

	if (have >= len) {
		fn(ctx, guest, len, QCHECK_DATA, b->p + host);
		return;
	}
	memset(q->scratch, 0, len);
	if (have)
		memcpy(q->scratch, b->p + host, have);
	fn(ctx, guest, len, QCHECK_DATA, q->scratch);
}

static void walk_cluster(struct qcheck *q, const struct l2_entry *n, uint64_t guest, uint64_t len,
			 qcheck_run *fn, void *ctx)
{
	uint64_t sub = q->cluster / 32;
	const uint8_t *bytes;

	if (n->kind == ENTRY_COMPRESSED) {
		bytes = inflate_cluster(q, n);
		if (!bytes)
			fault(q, QCHECK_STREAM,
			      "guest 0x%" PRIx64 ": compressed data at 0x%" PRIx64
			      " does not inflate",
			      guest, n->host);
		fn(ctx, guest, len, QCHECK_DATA, bytes);
	} else if (n->kind == ENTRY_BAD) {
		fn(ctx, guest, len, QCHECK_DATA, NULL);
	} else if (n->kind == ENTRY_ZERO || n->kind == ENTRY_NONE) {
		fn(ctx, guest, len, n->kind == ENTRY_ZERO ? QCHECK_ZERO : QCHECK_HOLE, NULL);
	} else if (!q->extended) {
		run_data(q, n->host, guest, len, fn, ctx);
	} else {
		for (unsigned i = 0; i < 32 && i * sub < len; i++) {
			uint64_t piece = len - i * sub < sub ? len - i * sub : sub;

			if (n->bitmap >> i & 1)
				run_data(q, n->host + i * sub, guest + i * sub, piece, fn, ctx);
			else
				fn(ctx, guest + i * sub, piece,
				   n->bitmap >> (32 + i) & 1 ? QCHECK_ZERO : QCHECK_HOLE, NULL);
		}
	}
}

void qcheck_walk(struct qcheck *q, unsigned view, qcheck_run *fn, void *ctx)
{
	const struct qcheck_view *v = &q->view[view];
	unsigned entry = q->extended ? 16 : 8;
	uint64_t per_l2 = q->cluster / entry;
	struct l2_entry n;
	bool copied;

	for (uint64_t guest = 0; guest < v->size; guest += q->cluster) {
		uint64_t i = guest / q->cluster, len = v->size - guest;
		uint64_t table = l2_table(q, v, i / per_l2, false, &copied);

		if (len > q->cluster)
			len = q->cluster;
		if (table == 0) {
			fn(ctx, guest, len, QCHECK_HOLE, NULL);
			continue;
		}
		l2_decode(q, table + i % per_l2 * entry, guest, &n, false);
		walk_cluster(q, &n, guest, len, fn, ctx);
	}
}
