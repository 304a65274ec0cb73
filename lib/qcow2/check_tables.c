// SPDX-License-Identifier: BSD-2-Clause
/*
 * Checking an image: L1 and L2 tables.
 *
 * All L1 tables are read first. Snapshots share most L2 tables with each other and with the active disk: each is
 * read once, in the order of the file, and what it refers to counts as often as the table does.
 */
#include "qcow2/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/entry.h"
#include "qcow2/qcow2.h"
#include "qcow2/repair.h"
#include "qcow2/repair_apart.h"
#include "qcow2/repair_entries.h"
#include "qcow2/table.h"

#define L1_PIECE 65536			/* entries that are read at once */

/* ---- L1 tables ---- */

static int by_place(const void *a, const void *b)
{
	const struct check_table *x = a, *y = b;

	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	if (x->view != y->view)
		return x->view < y->view ? -1 : 1;
	return x->l1_index < y->l1_index ? -1 : x->l1_index > y->l1_index;
}

/* Sorts them, and makes one of those that are the same. */
static void merge_tables(struct check *c)
{
	size_t n = 0;

	if (!c->tables)
		return;
	qsort(c->table, c->tables, sizeof(*c->table), by_place);
	for (size_t i = 1; i < c->tables; i++) {
		if (c->table[i].off == c->table[n].off)
			c->table[n].times += c->table[i].times;
		else
			c->table[++n] = c->table[i];
	}
	c->tables = n + 1;
}

static int add_table(struct check *c, const struct check_table *t, uint64_t memory, struct qimg_error *e)
{
	void *list = c->table;
	size_t room = c->table_room ? c->table_room * 2 : 64;

	if (c->tables == c->table_room && room * sizeof(*t) > memory)
		merge_tables(c);
	if (c->tables * 2 > c->table_room && room * sizeof(*t) > memory)
		return error_set(e, ENOMEM, "%" PRIu64 " bytes of memory are too little for the L2 tables of '%s'; "
				 "give more with --memory", memory, c->q->img->name);
	if (c->tables == c->table_room) {
		if (mem_grow(&list, c->table_room, room, sizeof(*t), e) < 0)
			return -1;
		c->table = list;
		c->table_room = room;
	}
	c->table[c->tables++] = *t;
	return 0;
}

static uint64_t table_guest(const struct check *c, uint32_t l1_index)
{
	return (uint64_t)l1_index << (c->q->l2_bits + c->q->cluster_bits);
}

/*
 * Broken entries are told when they are read for the first time; of a repair, when it is known what becomes of
 * them.
 */
static bool is_told(struct check *c)
{
	if (check_fixes(c) && c->step == CHECK_COUNT)
		c->broken = true;
	return check_fixes(c) ? c->step == CHECK_TELL : c->first;
}

static void tell_l1(struct check *c, uint32_t view, uint32_t index, uint64_t l1e, const char *why)
{
	struct qimg_finding f = {
		.fault = QIMG_FAULT_L1_ENTRY, .has_host = entry_l1_table(l1e), .host = entry_l1_table(l1e),
		.host_len = c->q->cluster_size, .has_guest = true, .guest = table_guest(c, index),
		.guest_len = table_span(c->q), .snapshot = c->view[view].name,
	};
	struct repair_fate fate = { .does = NULL };
	char does[200];

	if (!is_told(c))
		return;
	if (c->step == CHECK_TELL)
		repair_l1_fate(c, l1e, &fate);
	check_tell(c, &f, "L1 entry %" PRIu32 " (0x%016" PRIx64 ")%s%s%s: %s%s", index, l1e,
		   f.snapshot ? " of snapshot '" : "", f.snapshot ? f.snapshot : "", f.snapshot ? "'" : "", why,
		   repair_fate_text(c, &fate, does, sizeof(does)));
}

static int gather_entry(struct check *c, uint32_t view, uint32_t index, uint64_t l1e, uint64_t memory,
			struct qimg_error *e)
{
	struct check_table t = { entry_l1_table(l1e), c->view[view].times, view, index };

	if (c->step == CHECK_CLAIM)
		return repair_l1_claim(c, l1e, e);
	if (entry_l1_reserved(l1e))
		tell_l1(c, view, index, l1e, "reserved bits are set");
	if (!t.off && l1e & L1_COPIED)
		tell_l1(c, view, index, l1e, "COPIED without an L2 table: its offset may be lost");
	if (!t.off)
		return 0;
	if (!is_aligned(t.off, c->q->cluster_size))
		tell_l1(c, view, index, l1e, "the L2 table is not aligned to a cluster");
	else if (!check_inside(c, t.off, c->q->cluster_size))
		tell_l1(c, view, index, l1e, "the L2 table lies beyond the end of the file");
	else if (c->step == CHECK_COUNT)
		return add_table(c, &t, memory, e);
	return 0;
}

static int gather_view(struct check *c, uint32_t view, uint64_t *l1, uint64_t memory, struct qimg_error *e)
{
	const struct check_view *v = &c->view[view];
	struct qimg_finding f = { .fault = QIMG_FAULT_UNREAD, .has_host = true, .snapshot = v->name };
	uint32_t n;

	for (uint32_t first = 0; first < v->l1_size && !check_stopped(c); first += n) {
		n = (uint32_t)min_u64(v->l1_size - first, L1_PIECE);
		f.host = v->l1_offset + (uint64_t)first * 8;
		f.host_len = (uint64_t)n * 8;
		if (file_read(c->q->file, f.host, l1, (size_t)n * 8, e) < 0) {
			if (c->step == CHECK_COUNT)
				check_tell(c, &f, "an L1 table cannot be read: %s", e->msg);
			continue;
		}
		for (uint32_t i = 0; i < n; i++)
			if (l1[i] && gather_entry(c, view, first + i, be64_get(&l1[i]), memory, e) < 0)
				return -1;
	}
	return 0;
}

static int by_l1(const void *a, const void *b)
{
	const struct check_view *x = *(struct check_view *const *)a, *y = *(struct check_view *const *)b;

	if (x->l1_offset != y->l1_offset)
		return x->l1_offset < y->l1_offset ? -1 : 1;
	if (x->l1_size != y->l1_size)
		return x->l1_size < y->l1_size ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Snapshots with the very same L1 table, which only damage brings about: the first stands for all. */
static int join_views(struct check *c, struct qimg_error *e)
{
	struct check_view **order = mem_array(c->views, sizeof(*order), e), *first;

	if (!order)
		return -1;
	for (uint32_t i = 0; i < c->views; i++) {
		order[i] = &c->view[i];
		order[i]->times = 1;
	}
	qsort(order, c->views, sizeof(*order), by_l1);
	first = order[0];
	for (uint32_t i = 1; i < c->views; i++) {
		if (order[i]->l1_offset == first->l1_offset && order[i]->l1_size == first->l1_size &&
		    !order[i]->unusable) {
			first->times++;
			order[i]->times = 0;
		} else {
			first = order[i];
		}
	}
	free(order);
	return 0;
}

static int gather(struct check *c, uint64_t memory, struct qimg_error *e)
{
	uint64_t *l1 = mem_array(L1_PIECE, sizeof(*l1), e);
	int ret = l1 ? 0 : -1;

	for (uint32_t i = 0; ret == 0 && i < c->views; i++)
		if (!c->view[i].unusable && c->view[i].times)
			ret = gather_view(c, i, l1, memory, e);
	free(l1);
	return ret;
}

int check_gather(struct check *c, uint64_t memory, struct qimg_error *e)
{
	int ret = join_views(c, e) < 0 ? -1 : gather(c, memory, e);

	merge_tables(c);
	return ret;
}

/* ---- one L2 table ---- */

struct scan {
	struct check *c;
	const struct check_table *t;
	uint64_t guest;			/* of the first entry */
	uint64_t first, n;		/* a run of data clusters that are alike, to be counted */
	bool copied;
	uint64_t next;			/* host offset where the disk would go on without a gap; 0: nowhere */
};

static bool is_active(const struct scan *s)
{
	return !s->t->view;
}

static int end_run(struct scan *s, struct qimg_error *e)
{
	struct check *c = s->c;
	uint64_t at = s->first, end = s->first + s->n, which;

	if (!s->n)
		return 0;
	s->n = 0;
	for (; refmap_any(c->map, REFMAP_METADATA, at, end - at, &which); at = which + 1)
		if (check_mark_shared(c, which, repair_can_copy(c), e) < 0)
			return -1;
	if (check_add(c, s->first, end - s->first, s->t->times, e) < 0)
		return -1;
	return is_active(s) ? check_mark(c, s->copied ? REFMAP_COPIED : REFMAP_UNCOPIED, s->first,
					 end - s->first, e) : 0;
}

static int add_data(struct scan *s, uint64_t host, uint32_t n, bool copied, struct qimg_error *e)
{
	uint64_t cluster = host >> s->c->q->cluster_bits;

	if (s->n && cluster == s->first + s->n && copied == s->copied) {
		s->n += n;
		return 0;
	}
	if (end_run(s, e) < 0)
		return -1;
	s->first = cluster;
	s->n = n;
	s->copied = copied;
	return 0;
}

static struct qimg_finding place(const struct scan *s, enum qimg_fault fault, uint64_t host, uint64_t len,
				 uint64_t guest)
{
	return (struct qimg_finding){
		.fault = fault, .has_host = true, .host = host, .host_len = len, .has_guest = true,
		.guest = guest, .guest_len = s->c->q->cluster_size, .snapshot = s->c->view[s->t->view].name,
	};
}

static void tell_entry(struct scan *s, enum qimg_fault fault, const struct entry *en, uint64_t guest,
		       const uint8_t *p, const char *why)
{
	struct qimg_finding f = place(s, fault, en->host, en->packed ? en->packed : s->c->q->cluster_size, guest);
	struct repair_fate fate = { .does = NULL };
	char does[200];

	f.has_host = en->host;
	if (!is_told(s->c))
		return;
	if (s->c->step == CHECK_TELL)
		repair_l2_fate(s->c, p, guest, &fate);
	check_tell(s->c, &f, "L2 entry 0x%016" PRIx64 " at guest offset 0x%" PRIx64 ": %s%s", be64_get(p), guest, why,
		   repair_fate_text(s->c, &fate, does, sizeof(does)));
}

/* What entry_get found. */
static int tell_fault(struct scan *s, const struct entry *en, uint64_t guest, const uint8_t *p,
		      struct qimg_error *e)
{
	static const struct {
		enum qimg_fault fault;
		const char *why;
	} of[] = {
		[ENTRY_UNALIGNED] = { QIMG_FAULT_L2_ENTRY, "the host offset is not aligned to a cluster" },
		[ENTRY_BAD_VERSION] = { QIMG_FAULT_L2_ENTRY, "a zero cluster in an image of version 2" },
		[ENTRY_BAD_PACKED] = { QIMG_FAULT_PACKED, "no compressed cluster can be there" },
		[ENTRY_NOT_GUEST] = { QIMG_FAULT_DATA_FILE, "the offset in the data file is not the guest's" },
		[ENTRY_BAD_SUBCLUSTERS] = { QIMG_FAULT_SUBCLUSTERS, "subclusters are both allocated and zero, or "
					    "allocated without a host cluster" },
	};

	tell_entry(s, of[en->fault].fault, en, guest, p, of[en->fault].why);
	/* The cluster is not given up for other bits than those of its place. */
	if (s->c->q->external || (en->fault != ENTRY_BAD_VERSION && en->fault != ENTRY_BAD_SUBCLUSTERS) || !en->host ||
	    !check_inside(s->c, en->host, 1))
		return 0;
	return check_add(s->c, en->host >> s->c->q->cluster_bits, 1, s->t->times, e);
}

static int count_packed(struct scan *s, const struct entry *en, uint64_t guest, const uint8_t *p,
			struct qimg_error *e)
{
	struct check *c = s->c;
	unsigned bits = c->q->cluster_bits;
	uint64_t first = en->host >> bits, n = ((en->host + en->packed - 1) >> bits) - first + 1, which;

	if (is_active(s) && c->first) {
		c->r->allocated++;
		c->r->compressed++;
		c->r->fragmented++;
	}
	if (!check_inside(c, first << bits, n << bits)) {
		tell_entry(s, QIMG_FAULT_PACKED, en, guest, p, "the compressed cluster reaches beyond the end "
			   "of the file");
		n = check_inside(c, en->host, 1) ? c->clusters - first : 0;
	}
	for (uint64_t at = first; refmap_any(c->map, REFMAP_METADATA, at, first + n - at, &which); at = which + 1)
		if (check_mark_shared(c, which, repair_can_copy(c), e) < 0)
			return -1;
	return check_add(c, first, n, s->t->times, e);
}

static void count_plain(struct scan *s, uint64_t host, uint64_t n)
{
	if (!is_active(s) || !s->c->first)
		return;
	s->c->r->allocated += n;
	s->c->r->fragmented += s->next && host != s->next;
	s->next = host + (n << s->c->q->cluster_bits);
}

/* An entry that is not plain. */
static int count_entry(struct scan *s, const uint8_t *p, uint64_t guest, struct qimg_error *e)
{
	struct check *c = s->c;
	uint64_t reserved = entry_reserved(c->q, p);
	struct qimg_error ignored;
	struct entry en;
	int ret = entry_get(c->q, p, guest, &en, &ignored);

	if (c->step == CHECK_CLAIM)
		return repair_l2_claim(c, p, guest, e);
	if (reserved)
		tell_entry(s, c->q->extended && en.kind == ENTRY_PACKED ? QIMG_FAULT_SUBCLUSTERS : QIMG_FAULT_L2_ENTRY,
			   &en, guest, p, "reserved bits are set");
	if (ret < 0)
		return tell_fault(s, &en, guest, p, e);
	if (is_active(s) && entry_odd_copied(c->q, &en))
		c->odd_copied = true;
	if (en.copied && !en.host && !c->q->external && en.kind != ENTRY_PACKED)
		tell_entry(s, QIMG_FAULT_L2_ENTRY, &en, guest, p, "COPIED without a cluster: its offset may be lost");
	if (en.kind == ENTRY_PACKED)
		return count_packed(s, &en, guest, p, e);
	if (en.kind != ENTRY_DATA && en.kind != ENTRY_ZERO_HOST)
		return 0;
	count_plain(s, en.host, 1);
	if (c->q->external)
		return 0;
	if (!check_inside(c, en.host, c->q->cluster_size)) {
		tell_entry(s, QIMG_FAULT_L2_ENTRY, &en, guest, p, "the cluster lies beyond the end of the file");
		return 0;
	}
	return add_data(s, en.host, 1, en.copied, e);
}

/* How many entries from p on, at most `most`, go on where the plain entry `raw` ends, before host offset `end`. */
static uint32_t follow(const uint8_t *p, uint64_t raw, uint32_t size, uint32_t most, uint64_t end)
{
	uint64_t stop = (raw & (UINT64_C(1) << 63)) | end;
	uint32_t n = 0;

	while (n < most && be64_get(p + (size_t)n * sizeof(raw)) == raw + size && raw + size < stop) {
		raw += size;
		n++;
	}
	return n;
}

static int count_table(struct scan *s, const uint8_t *data, struct qimg_error *e)
{
	const struct qcow2 *q = s->c->q;
	uint32_t count = UINT32_C(1) << q->l2_bits, n;
	uint64_t end = s->c->clusters << q->cluster_bits, host;
	bool plain = !q->extended && !q->external, copied;

	for (uint32_t i = 0; i < count; i += n) {
		const uint8_t *p = data + (size_t)i * q->entry_size;
		uint64_t raw = be64_get(p);

		n = 1;
		if (plain && !raw)
			continue;
		if (plain && entry_is_plain(raw, q->cluster_size, &host, &copied) && host < end) {
			n += follow(p + sizeof(raw), raw, q->cluster_size, count - i - 1, end);
			count_plain(s, host, n);
			if (add_data(s, host, n, copied, e) < 0)
				return -1;
		} else if (count_entry(s, p, s->guest + ((uint64_t)i << q->cluster_bits), e) < 0) {
			return -1;
		}
	}
	return end_run(s, e);
}

/* ---- explaining ---- */

static int by_cluster(const void *key, const void *elem)
{
	uint64_t cluster = *(const uint64_t *)key;
	const struct check_low *l = elem;

	return cluster < l->cluster ? -1 : cluster > l->cluster;
}

static void explain_low(struct scan *s, uint64_t cluster, uint64_t guest)
{
	struct check *c = s->c;
	struct check_low *l = bsearch(&cluster, c->low, c->lows, sizeof(*l), by_cluster);

	if (!l || (l->has_guest && (l->view < s->t->view || (l->view == s->t->view && l->guest <= guest))))
		return;
	l->has_guest = true;
	l->guest = guest;
	l->view = s->t->view;
}

/* As the reference words it. */
static void explain_copied(struct scan *s, const struct entry *en, uint64_t guest, uint64_t raw)
{
	struct check *c = s->c;
	uint64_t cluster = en->host >> c->q->cluster_bits, stored = 0;
	struct qimg_finding f = place(s, QIMG_FAULT_COPIED, en->host, c->q->cluster_size, guest);
	struct qimg_error ignored;

	if (!refmap_is(c->map, en->copied ? REFMAP_WRONG_COPIED : REFMAP_WRONG_UNCOPIED, cluster))
		return;
	if (c->told[QIMG_FAULT_COPIED] < c->how->max_findings)
		check_stored(c, cluster, &stored, &ignored);
	f.fixed = repair_mends_count(c, cluster);
	check_tell(c, &f, "OFLAG_COPIED data cluster: l2_entry=%" PRIx64 " refcount=%" PRIu64, raw, stored);
}

/* COPIED where no refcount is needed to see that it is wrong: not a matter of the window. */
static void explain_odd_copied(struct scan *s, const struct entry *en, uint64_t guest, uint64_t raw)
{
	struct qimg_finding f = place(s, QIMG_FAULT_COPIED, en->host, en->host ? s->c->q->cluster_size : 0, guest);
	const char *why = s->c->from ? NULL : entry_odd_copied(s->c->q, en);

	f.has_host = en->host && !s->c->q->external;
	f.fixed = repair_mends(s->c);
	if (why)
		check_tell(s->c, &f, "L2 entry 0x%016" PRIx64 " at guest offset 0x%" PRIx64 ": %s", raw, guest, why);
}

static void explain_entry(struct scan *s, const uint8_t *p, uint64_t guest)
{
	struct check *c = s->c;
	unsigned bits = c->q->cluster_bits;
	struct qimg_error ignored;
	struct entry en;
	uint64_t first, n;

	if (entry_get(c->q, p, guest, &en, &ignored) < 0)
		return;
	if (is_active(s))
		explain_odd_copied(s, &en, guest, be64_get(p));
	if ((!en.host && en.kind != ENTRY_PACKED) || c->q->external)
		return;
	first = en.host >> bits;
	n = en.kind == ENTRY_PACKED ? ((en.host + en.packed - 1) >> bits) - first + 1 : 1;
	for (uint64_t k = first; k < first + n; k++) {
		struct qimg_finding f = place(s, QIMG_FAULT_OVERLAP, k << bits, c->q->cluster_size, guest);

		if (refmap_is(c->map, REFMAP_LOW, k))
			explain_low(s, k, guest);
		f.fixed = repair_mends(c);
		if (refmap_is(c->map, REFMAP_OVERLAP, k) && refmap_is(c->map, REFMAP_METADATA, k))
			check_tell(c, &f, "the data of guest offset 0x%" PRIx64 " lies where metadata is, in the "
				   "cluster at 0x%" PRIx64 "%s", guest, k << bits,
				   repair_can_copy(c) ? "" : "; without its key it cannot be copied");
	}
	if (is_active(s) && en.kind != ENTRY_PACKED)
		explain_copied(s, &en, guest, be64_get(p));
}

static void explain_table(struct scan *s, const uint8_t *data)
{
	const struct qcow2 *q = s->c->q;
	uint64_t guest = s->guest;

	for (uint32_t i = 0; i < UINT32_C(1) << q->l2_bits; i++, guest += q->cluster_size) {
		const uint8_t *p = data + (size_t)i * q->entry_size;

		if (be64_get(p))
			explain_entry(s, p, guest);
	}
}

/* Whether the active L1 table's COPIED bits go with the refcounts of L2 tables. */
static void explain_l1(struct check *c)
{
	const struct qcow2 *q = c->q;

	for (uint32_t i = 0; i < q->l1_size; i++) {
		uint64_t off = entry_l1_table(q->l1[i]), cluster = off >> q->cluster_bits, stored = 0;
		bool copied = q->l1[i] & L1_COPIED;
		struct qimg_finding f = {
			.fault = QIMG_FAULT_COPIED, .has_host = true, .host = off, .host_len = q->cluster_size,
			.has_guest = true, .guest = table_guest(c, i), .guest_len = table_span(q),
		};
		struct qimg_error ignored;

		if (!off || !is_aligned(off, q->cluster_size) ||
		    !refmap_is(c->map, copied ? REFMAP_WRONG_COPIED : REFMAP_WRONG_UNCOPIED, cluster))
			continue;
		if (c->told[QIMG_FAULT_COPIED] < c->how->max_findings)
			check_stored(c, cluster, &stored, &ignored);
		f.fixed = repair_mends_count(c, cluster);
		check_tell(c, &f, "OFLAG_COPIED L2 cluster: l1_index=%" PRIu32 " l1_entry=%" PRIx64
			   " refcount=%" PRIu64, i, q->l1[i], stored);
	}
}

/* ---- all of them ---- */

static int do_table(struct check *c, const struct check_table *t, const uint8_t *data, struct qimg_error *e)
{
	struct scan s = { .c = c, .t = t, .guest = table_guest(c, t->l1_index) };

	if (c->step == CHECK_EXPLAIN) {
		explain_table(&s, data);
		return 0;
	}
	if (c->step == CHECK_PLAN)
		return repair_plan_table(c, t, data, e);
	if (c->first && c->how->flags & QIMG_CHECK_DEEP && check_deep(c, t, data, e) < 0)
		return -1;
	return count_table(&s, data, e);
}

/* Reads the tables from i on that lie one behind the other. *n: how many. 0, or 1: the one cannot be read. */
static int read_tables(struct check *c, size_t i, size_t *n, struct qimg_error *e)
{
	const struct check_table *t = &c->table[i];
	uint32_t size = c->q->cluster_size;
	size_t most = max_u64(CHECK_PIECE / size, 1);
	struct qimg_finding f = {
		.fault = QIMG_FAULT_UNREAD, .has_host = true, .host = t->off, .host_len = size, .has_guest = true,
		.guest = table_guest(c, t->l1_index), .guest_len = table_span(c->q),
		.snapshot = c->view[t->view].name,
	};

	for (*n = 1; *n < most && i + *n < c->tables && t[*n].off == t->off + *n * size; )
		++*n;
	if (file_read(c->q->file, t->off, c->buf, *n * size, e) == 0)
		return 0;
	for (*n = 1; file_read(c->q->file, t->off, c->buf, size, e) == 0; )
		return 0;
	if (c->first)
		check_tell(c, &f, "the L2 table at 0x%" PRIx64 " cannot be read: %s", t->off, e->msg);
	return 1;
}

/* The host reads some tables from i on while the first is looked at. *ahead: one behind those it was told of. */
static void read_ahead(struct check *c, size_t i, size_t *ahead)
{
	uint32_t size = c->q->cluster_size;
	size_t end = min_u64(c->tables, i + max_u64(CHECK_AHEAD / size, 2)), n;

	/* Not one by one. */
	if (*ahead > i && end - *ahead < (end - i) / 2 && end < c->tables)
		return;
	for (*ahead = max_u64(*ahead, i); *ahead < end; *ahead += n) {
		const struct check_table *t = &c->table[*ahead];

		for (n = 1; *ahead + n < end && t[n].off == t->off + n * size; )
			n++;
		file_will_read(c->q->file, t->off, n * size);
	}
}

static int read_all(struct check *c, struct qimg_error *e)
{
	uint32_t size = c->q->cluster_size;
	size_t n = 0, ahead = 0;

	for (size_t i = 0; i < c->tables && !check_stopped(c); i += n) {
		read_ahead(c, i, &ahead);
		/* Zeros say nothing. */
		n = 1;
		if (check_is_hole(c, c->table[i].off, size) || read_tables(c, i, &n, e))
			continue;
		for (size_t k = 0; k < n; k++)
			if (do_table(c, &c->table[i + k], c->buf + k * size, e) < 0)
				return -1;
		if (c->step == CHECK_COUNT)
			check_progress(c, (uint64_t)n * size);
	}
	return 0;
}

/* Two entries that have one table need not agree about COPIED. */
static int mark_copied_tables(struct check *c, struct qimg_error *e)
{
	const struct qcow2 *q = c->q;

	for (uint32_t i = 0; !c->view[0].unusable && i < q->l1_size; i++) {
		uint64_t off = entry_l1_table(q->l1[i]);

		if (!off || !is_aligned(off, q->cluster_size) || !check_inside(c, off, q->cluster_size))
			continue;
		if (check_mark(c, q->l1[i] & L1_COPIED ? REFMAP_COPIED : REFMAP_UNCOPIED, off >> q->cluster_bits, 1,
			       e) < 0)
			return -1;
	}
	return 0;
}

int check_tables(struct check *c, struct qimg_error *e)
{
	for (size_t i = 0; i < c->tables; i++)
		if (check_use_table(c, c->table[i].off, c->table[i].times, e) < 0)
			return -1;
	if (c->step == CHECK_COUNT && mark_copied_tables(c, e) < 0)
		return -1;
	if (read_all(c, e) < 0)
		return -1;
	if (c->step == CHECK_EXPLAIN)
		explain_l1(c);
	return 0;
}

int check_broken(struct check *c, struct qimg_error *e)
{
	int ret = 0;

	for (c->step = CHECK_CLAIM; ret == 0 && c->step <= CHECK_TELL; c->step++)
		ret = gather(c, 0, e) < 0 || read_all(c, e) < 0 ? -1 : 0;
	c->step = CHECK_COUNT;
	return ret;
}

int check_plan(struct check *c, struct qimg_error *e)
{
	c->step = CHECK_PLAN;
	return repair_plan_begin(c, e) < 0 ? -1 : read_all(c, e);
}
