// SPDX-License-Identifier: BSD-2-Clause
/* Printing what a check has found. */
#include "findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

#define OF_A_KIND 3			/* examples in a group */

struct finding {
	struct qimg_finding f;
	char *text, *snapshot;		/* copies of f's */
};

/* What each kind means to whoever owns the image. */
static const char *const meaning[QIMG_FAULTS] = {
	[QIMG_FAULT_LEAK] = "space of the file that nothing uses and that is not given away again; no harm to data",
	[QIMG_FAULT_REFCOUNT] = "clusters in use that count as free, or as used less often: a write may hit them",
	[QIMG_FAULT_OVERLAP] = "two things are stored in one place: at least one of them is damaged",
	[QIMG_FAULT_COPIED] = "the mark that allows writing in place is wrong: a write may change a snapshot",
	[QIMG_FAULT_HEADER] = "a table that the header refers to is not in the file",
	[QIMG_FAULT_L1_ENTRY] = "a whole table of the disk cannot be found: that range does not read",
	[QIMG_FAULT_L2_ENTRY] = "a cluster of the disk cannot be found: that range does not read",
	[QIMG_FAULT_SUBCLUSTERS] = "the parts of a cluster contradict each other: that range does not read",
	[QIMG_FAULT_PACKED] = "a compressed cluster that is not there, or not all of it",
	[QIMG_FAULT_DATA_FILE] = "data is expected at another place of the data file than the disk's",
	[QIMG_FAULT_REFCOUNT_ENTRY] = "refcounts of a part of the file are lost; they can be counted again",
	[QIMG_FAULT_SNAPSHOT_TABLE] = "the list of snapshots is damaged",
	[QIMG_FAULT_SNAPSHOT_L1] = "a snapshot cannot be read",
	[QIMG_FAULT_BITMAP_DIRECTORY] = "the list of dirty bitmaps is damaged: the next backup has to be a full one",
	[QIMG_FAULT_BITMAP_ENTRY] = "a dirty bitmap is damaged: the next backup has to be a full one",
	[QIMG_FAULT_CRYPT_HEADER] = "the encryption header is not where it should be",
	[QIMG_FAULT_INFLATE] = "compressed data that does not inflate: that range does not read",
	[QIMG_FAULT_DATA] = "the host cannot read data: that range does not read",
	[QIMG_FAULT_ORPHAN] = "a table that looks sound and nobody refers to: a lost range of the disk may be in it",
	[QIMG_FAULT_UNREAD] = "the host cannot read metadata: the check is not complete",
};

/* What a repair does about it; NULL: nothing can be done. */
static const char *const remedy[QIMG_FAULTS] = {
	[QIMG_FAULT_LEAK] = "-r leaks or -r all frees it",
	[QIMG_FAULT_REFCOUNT] = "-r all counts anew",
	[QIMG_FAULT_OVERLAP] = "-r all moves one of them to a copy; each range reads as it does now",
	[QIMG_FAULT_COPIED] = "-r all sets the mark as the refcount says",
	[QIMG_FAULT_HEADER] = "-r all writes anew what can be counted or read; a lost L1 table stays lost",
	[QIMG_FAULT_L1_ENTRY] = "-r all mends the entry where it is clear what it was, else removes it",
	[QIMG_FAULT_L2_ENTRY] = "-r all mends the entry where it is clear what it was, else removes it",
	[QIMG_FAULT_SUBCLUSTERS] = "-r all keeps the data, and else what reads as zeros",
	[QIMG_FAULT_PACKED] = "-r all keeps it if it still inflates, else removes it",
	[QIMG_FAULT_DATA_FILE] = "-r all makes it the disk's offset",
	[QIMG_FAULT_REFCOUNT_ENTRY] = "-r all writes all refcounts anew",
	[QIMG_FAULT_SNAPSHOT_TABLE] = "-r all writes the list anew, with what of it can be read",
	[QIMG_FAULT_SNAPSHOT_L1] = "-r all keeps what of the snapshot can be read, else removes it",
	[QIMG_FAULT_BITMAP_DIRECTORY] = "-r all writes the list anew, with what of it can be read",
	[QIMG_FAULT_BITMAP_ENTRY] = "-r all lets the range count as changed",
	[QIMG_FAULT_ORPHAN] = "--drop-orphans frees it, --backup=FILE saves it first",
};

static bool of_clusters(enum qimg_fault fault)
{
	return fault == QIMG_FAULT_LEAK || fault == QIMG_FAULT_REFCOUNT;
}

/* In the words that scripts know. A run of clusters takes a line each. */
static void print_lines(struct findings *l, const struct qimg_finding *f)
{
	uint64_t bytes = f->clusters ? f->host_len / f->clusters : 0;
	const char *what = f->fixed ? l->dry ? "Would repair cluster" : "Repairing cluster" :
			   f->fault == QIMG_FAULT_LEAK ? "Leaked cluster" : "ERROR cluster";

	if (!of_clusters(f->fault)) {
		if (l->shown++ < l->most) {
			fputs(f->fixed ? l->dry ? "Would repair " : "Repairing " : "ERROR ", stderr);
			ui_text(stderr, f->text);
			fputc('\n', stderr);
		}
		return;
	}
	for (uint64_t i = 0; i < f->clusters && l->shown < l->most; i++, l->shown++)
		fprintf(stderr, "%s %" PRIu64 " refcount=%" PRIu64 " reference=%" PRIu64 "\n", what,
			f->host / bytes + i, f->refcount, f->references);
}

static void keep(struct findings *l, const struct qimg_finding *f)
{
	struct finding *one, *list = l->list;

	if (l->count == l->room) {
		size_t room = l->room ? l->room * 2 : 64;

		list = realloc(l->list, room * sizeof(*list));
		if (list) {
			l->list = list;
			l->room = room;
		}
	}
	if (!list) {
		l->no_memory = true;
		return;
	}
	one = &l->list[l->count];
	one->f = *f;
	one->text = strdup(f->text);
	one->snapshot = f->snapshot ? strdup(f->snapshot) : NULL;
	if (!one->text || (f->snapshot && !one->snapshot)) {
		free(one->text);
		free(one->snapshot);
		l->no_memory = true;
		return;
	}
	one->f.text = one->text;
	one->f.snapshot = one->snapshot;
	l->count++;
}

void findings_take(void *ctx, const struct qimg_finding *f)
{
	struct findings *l = ctx;

	if (l->form != FINDINGS_GROUPS)
		print_lines(l, f);
	if (l->form == FINDINGS_GROUPS || (l->form == FINDINGS_KEPT && l->count < l->most))
		keep(l, f);
}

static uint64_t total(const struct qimg_check_result *r)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < QIMG_FAULTS; i++)
		n += r->found[i];
	return n;
}

static void print_place(const struct qimg_finding *f)
{
	if (f->has_host)
		printf("    host 0x%" PRIx64 "+0x%" PRIx64, f->host, f->host_len);
	else
		printf("   ");
	if (f->has_guest)
		printf("  guest 0x%" PRIx64 "+0x%" PRIx64, f->guest, f->guest_len);
	if (f->snapshot) {
		printf("  snapshot '");
		ui_text(stdout, f->snapshot);
		putchar('\'');
	}
	printf("\n      ");
	ui_text(stdout, f->text);
	putchar('\n');
}

static void print_group(const struct findings *l, enum qimg_fault fault, uint64_t count)
{
	uint64_t told = 0, covered = 0;

	printf("%s: %" PRIu64 "\n  %s\n  repair: %s\n", qimg_fault_name(fault), count, meaning[fault],
	       remedy[fault] ? remedy[fault] : "cannot be mended");
	for (size_t i = 0; i < l->count; i++) {
		const struct qimg_finding *f = &l->list[i].f;

		if (f->fault != fault)
			continue;
		if (told++ == OF_A_KIND)
			break;
		print_place(f);
		covered += of_clusters(fault) ? f->clusters : 1;
	}
	if (covered < count)
		printf("    and %" PRIu64 " more\n", count - covered);
}

void findings_print(struct findings *l, const struct qimg_check_result *r)
{
	uint64_t all = total(r);

	if (l->form != FINDINGS_GROUPS) {
		if (all > l->shown || l->shown > l->most)
			fprintf(stderr, "%" PRIu64 " more findings are not shown, see --max-findings\n",
				all - (l->shown < l->most ? l->shown : l->most));
		return;
	}
	for (unsigned i = 0; i < QIMG_FAULTS; i++)
		if (r->found[i])
			print_group(l, i, r->found[i]);
}

static void print_json_finding(const struct qimg_finding *f, bool last)
{
	printf("        {\n            \"kind\": \"%s\",\n", qimg_fault_name(f->fault));
	printf("            \"severity\": \"%s\",\n",
	       f->fault == QIMG_FAULT_LEAK || f->fault == QIMG_FAULT_ORPHAN ? "leak" :
	       f->fault == QIMG_FAULT_UNREAD ? "error" : "corruption");
	printf("            \"fixed\": %s,\n", f->fixed ? "true" : "false");
	if (f->has_host)
		printf("            \"host-offset\": %" PRIu64 ",\n            \"host-length\": %" PRIu64 ",\n",
		       f->host, f->host_len);
	if (f->has_guest)
		printf("            \"guest-offset\": %" PRIu64 ",\n            \"guest-length\": %" PRIu64 ",\n",
		       f->guest, f->guest_len);
	if (f->snapshot) {
		printf("            \"snapshot\": ");
		ui_json_string(f->snapshot);
		printf(",\n");
	}
	if (of_clusters(f->fault))
		printf("            \"clusters\": %" PRIu64 ",\n            \"refcount\": %" PRIu64
		       ",\n            \"references\": %" PRIu64 ",\n", f->clusters, f->refcount, f->references);
	printf("            \"detail\": ");
	ui_json_string(f->text);
	printf("\n        }%s\n", last ? "" : ",");
}

void findings_json(const struct findings *l, const struct qimg_check_result *r)
{
	printf("    \"found\": {");
	for (unsigned i = 0; i < QIMG_FAULTS; i++)
		printf("%s\n        \"%s\": %" PRIu64, i ? "," : "", qimg_fault_name(i), r->found[i]);
	printf("\n    },\n    \"findings\": [%s", l->count ? "\n" : "");
	for (size_t i = 0; i < l->count; i++)
		print_json_finding(&l->list[i].f, i + 1 == l->count);
	printf("%s]", l->count ? "    " : "");
}

void findings_free(struct findings *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->list[i].text);
		free(l->list[i].snapshot);
	}
	free(l->list);
	l->list = NULL;
	l->count = l->room = 0;
}
