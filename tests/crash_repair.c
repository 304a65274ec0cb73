// SPDX-License-Identifier: BSD-2-Clause
/*
 * The power-failure test of repairs. Damaged images (tests/bad) are repaired while all that reaches the disk is
 * recorded; then the disk is rebuilt as a power failure may have left it (disk.h, points.h), and each time
 *
 * - what the guest, or a snapshot, could read before the repair reads the same, or cannot be read and reads the
 *   same when the repair was run again;
 * - no refcount is too low, and COPIED is set on nothing that is shared, where that was not so before, unless
 *   the image is marked corrupt;
 * - the repair can be run again, and ends as the one that was not interrupted: the same verdict, and the guest
 *   reads the same;
 * - with a backup, taking the repair back makes the image what it was, byte by byte, also when that is cut off and
 *   done again.
 *
 * The same holds when calls to the host fail, one by one; the repair then says that it has failed (unless it was a
 * read, which it may do without). That the test can fail is a test, too: with syncs left out, with the steps of the
 * repair in another order, and with spoilt writes damage has to show up.
 *
 *	crash_repair [--image NAME | --all] [--seed N] [--points N] [--verbose] [--keep]
 *
 * N points for each image and each kind of repair; CRASH_REPAIR_POINTS=N does the same. With an image: all of what
 * goes wrong is told. SRCDIR is where tests/bad is.
 */
#include "qimg.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.h"
#include "points.h"
#include "qcheck.h"
#include "reading.h"
#include "setting.h"
#include "undoing.h"
#include "unit/tap.h"

enum { DEFAULT_POINTS = 20, REPORTS = 3 };

enum mutation { MUTATE_NOTHING, MUTATE_SYNCS, MUTATE_ORDER, MUTATE_WRITES };

static const struct repair {
	const char *name;
	unsigned flags;
	bool backup;
} repairs[] = {
	{ "-r all", QIMG_CHECK_FIX_ALL, false },
	{ "-r leaks", QIMG_CHECK_FIX_LEAKS, false },
	{ "-r all --backup", QIMG_CHECK_FIX_ALL, true },
};

/* At least one of each kind of damage, and of each way to mend it. */
static const char *const images[] = {
	/* refcounts and COPIED */
	"refcount-low-data", "refcount-low-table", "refcount-low-block", "refcount-low-shared-l2",
	"refcount-low-width-1", "refcount-most-width-2", "refcount-low-width-64",
	"refcount-low-of-300", "leaks-and-errors", "leak-run", "leak-beyond-end", "corrupt-low",
	"dirty-stale", "dirty-all-zero", "copied-all-wrong", "copied-wrong-l2",
	"copied-wrong-extended", "copied-nothing-l1", "data-file-copied", "data-file-leak",
	/* refcount structures that are written anew */
	"counts-zero-v2", "block-lost-v2",
	"every-refcount-zero", "block-zero", "block-noise", "table-zero", "table-noise",
	"table-data", "table-entry-unaligned", "table-entry-end", "table-entry-far",
	"table-entry-reserved", "table-entry-missing", "overlap-table-data", "overlap-table-long",
	"overlap-block-twice", "overlap-block-data", "overlap-block-only", "overlap-block-l2",
	"overlap-block-header",
	/* entries */
	"l1-unaligned", "l1-end", "l1-far", "l1-reserved-high", "l1-reserved-unused",
	"l2-unaligned", "l2-unaligned-zero", "l2-unaligned-extended", "l2-end", "l2-end-counted",
	"l2-reserved-low", "l2-zero-version-2", "l2-zero-extended", "shared-l2-end",
	"snapshot-l1-entry-unaligned", "snapshot-l2-end", "subclusters-both", "subclusters-nowhere",
	"subclusters-packed", "packed-end", "packed-far", "packed-more-sectors", "packed-in-data",
	"packed-twice", "data-file-elsewhere", "data-file-packed", "shorter-l2", "shorter-half",
	/* what is used twice */
	"data-twice", "data-twice-leak", "data-twice-marked", "data-many", "l2-twice",
	"overlap-data-table", "overlap-data-block", "overlap-data-l1", "overlap-data-l2",
	"overlap-data-own-l2", "overlap-data-extended-l2", "overlap-data-snapshot-table",
	"overlap-data-snapshot-l1", "overlap-data-bitmap-directory", "overlap-data-bitmap-data",
	"overlap-data-packed", "overlap-data-header", "overlap-l2-data", "overlap-l2-l1",
	"overlap-l2-table", "overlap-l2-block", "overlap-l1-data",
	/* snapshots and bitmaps */
	"snapshot-truncated", "snapshot-name-long", "snapshot-id-long", "snapshot-count",
	"snapshot-extra-missing", "snapshot-extra-much", "snapshot-id-twice", "snapshot-l1-small",
	"snapshot-l1-huge", "snapshot-l1-unaligned", "snapshot-l1-end", "snapshot-size",
	"overlap-snapshot-l1-active", "overlap-snapshot-l1-twice", "overlap-snapshot-l1-data",
	"overlap-snapshot-table-data", "bitmap-type", "bitmap-flags", "bitmap-table-long",
	"bitmap-table-short", "bitmap-table-end", "bitmap-name-long", "bitmap-name-twice",
	"bitmap-entry-unaligned", "bitmap-entry-ones", "directory-count-more",
	"directory-size-less", "directory-end", "overlap-directory-data",
	"overlap-bitmap-table-data", "overlap-bitmap-tables", "overlap-bitmap-data-l2",
	"overlap-bitmap-data-data", "autoclear-bitmaps", "autoclear-no-extension",
	/* tables that were lost */
	"lost-l2", "lost-l2-extended", "lost-l2-few", "lost-snapshot",
};

struct damage {
	unsigned content, counts, verdict, again, silent, undo;
};

struct run {
	const char *name;
	const struct repair *repair;
	uint64_t seed;
	struct disk disk;
	struct disk_state original;	/* of the image */
	struct disk_state left;		/* by calls that failed */
	struct reading before, after;	/* what is read of the original, and when it is repaired */
	struct qimg_check_result verdict;	/* of the repaired one */
	struct qcheck old;		/* of the original */
	bool old_counts;
	struct damage damage;
	unsigned points, told;
	unsigned calls;			/* of the repair, reads and all */
	size_t event;			/* the point that is being judged */
	const char *how;
};

static bool verbose, keep;
static char *dir;
static char work[300], after[300];	/* files: what is repaired, what a failure has left */
static char backup[300], backup_after[300], backup_again[300];	/* and their backups */

static void tell(struct run *r, unsigned *damage, const char *what, const char *detail)
{
	++*damage;
	if (r->told++ < REPORTS || verbose)
		diag("%s, %s: %s, event %zu of %zu, %s: %s", r->name, r->repair->name, what, r->event,
		     r->disk.events, r->how, detail);
}

/* ---- repairing and checking ---- */

static bool check(const char *path, unsigned flags, const char *save, struct qimg_check_result *res,
		  struct qimg_error *e)
{
	struct qimg_check c = { .flags = flags, .backup = save };
	struct qimg_image *img = NULL;
	struct qimg_error closing;
	bool good;

	if (qimg_open(&img, path, "qcow2", NULL,
		      QIMG_OPEN_CHECK | QIMG_OPEN_NO_BACKING | (flags ? QIMG_OPEN_WRITE : 0), e) < 0)
		return false;
	good = qimg_check_run(img, &c, res, e) == 0;
	if (qimg_close(img, &closing) < 0 && good) {
		*e = closing;
		good = false;
	}
	return good;
}

/*
 * What a check finds, and the other does not; or NULL. When a read had failed there may be less: what nobody can
 * read is written anew.
 */
static const char *differs(const struct qimg_check_result *a, const struct qimg_check_result *b, bool unread)
{
	static char text[100];

	for (unsigned i = 0; i < QIMG_FAULTS; i++) {
		if (a->found[i] == b->found[i] || (unread && a->found[i] < b->found[i]))
			continue;
		snprintf(text, sizeof(text), "%s: %" PRIu64 ", without a failure %" PRIu64, qimg_fault_name(i),
			 a->found[i], b->found[i]);
		return text;
	}
	return NULL;
}

/* ---- judging ---- */

static void judge_counts(struct run *r, struct qcheck_buf bytes)
{
	struct qcheck_buf none = { NULL, 0 };
	struct qcheck q;
	char text[100];

	if (!r->old_counts)
		return;
	if (!qcheck_open_damaged(&q, bytes, none)) {
		tell(r, &r->damage.counts, "the header", "is none any more");
		qcheck_close(&q);
		return;
	}
	if (!q.corrupt)
		qcheck_refs(&q);
	for (uint64_t c = 0; c < q.clusters && !q.corrupt; c++) {
		unsigned more = qcheck_marks(&q, c);

		/* What was marked before and is not any more has to be right. */
		if (!r->old.corrupt)
			more &= ~qcheck_marks(&r->old, c);
		/* Where an entry pointed behind the end there may be a hole now. */
		if (!more || (r->old.count[QCHECK_ENTRY] && c >= r->old.clusters))
			continue;
		snprintf(text, sizeof(text), "the cluster at 0x%" PRIx64 " %s", c * q.cluster,
			 more & QCHECK_IS_LOW ? "has a refcount that is too low" : "is shared, with COPIED");
		tell(r, &r->damage.counts, "refcounts", text);
		break;
	}
	qcheck_close(&q);
}

/* What is in the file `after`: the repair is run again. */
static void judge_file(struct run *r, struct qcheck_buf bytes)
{
	struct qimg_check_result res;
	struct reading now, mended;
	struct qimg_error e;
	char text[300], later[300];
	enum reading_change change;
	const char *other;

	r->points++;
	reading_take(&now, after, &r->after, false);
	change = reading_compare(&r->before, &now, text, sizeof(text));
	if (change == READING_OTHER)
		tell(r, &r->damage.content, "content", text);
	judge_counts(r, bytes);
	unlink(backup_again);
	if (!check(after, r->repair->flags, r->repair->backup ? backup_again : NULL, &res, &e)) {
		tell(r, &r->damage.again, "the repair cannot be run again", e.msg);
		reading_free(&now);
		return;
	}
	reading_take(&mended, after, &r->after, false);
	if (reading_compare(&r->before, &mended, later, sizeof(later)) != READING_SAME)
		tell(r, &r->damage.content, "content, the repair run again", later);
	else if (reading_compare(&r->after, &mended, later, sizeof(later)) != READING_SAME)
		tell(r, &r->damage.again, "the repair run again ends with other content", later);
	if (!check(after, 0, NULL, &res, &e)) {
		tell(r, &r->damage.verdict, "no check after the repair was run again", e.msg);
	} else {
		other = differs(&res, &r->verdict, r->disk.fail_reads);
		if (other)
			tell(r, &r->damage.verdict, "the repair run again leaves something else", other);
	}
	reading_free(&now);
	reading_free(&mended);
}

/* What is in the files `after` and `backup_after`: the image becomes what it was. */
static void judge_undo(struct run *r)
{
	int fail = random_chance(&r->seed, 30) ? (int)random_below(&r->seed, 8) : -1;
	const char *wrong = undoing_judge(after, backup_after, &r->original, fail);

	if (wrong)
		tell(r, &r->damage.undo, "undo", wrong);
}

static void judge_point(void *ctx, size_t event, enum disk_survival how, unsigned n)
{
	struct run *r = ctx;
	struct qcheck_buf bytes;

	(void)n;
	disk_advance(&r->disk, event);
	disk_crash(&r->disk, how, &r->seed);
	r->event = event;
	r->how = points_how[how];
	bytes = (struct qcheck_buf){ r->disk.state[0].p, r->disk.state[0].len };
	if (r->repair->backup) {
		if (!points_put(dir, "after", &r->disk.state[0]) ||
		    !points_put(dir, "backup-after", &r->disk.state[1]))
			abort();
		judge_undo(r);
	}
	if (!points_put(dir, "after", &r->disk.state[0]))
		abort();
	judge_file(r, bytes);
	disk_restore(&r->disk);
}

/* ---- mutations ---- */

static void reverse(struct disk_event *a, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		struct disk_event t = a[i];

		a[i] = a[n - 1 - i];
		a[n - 1 - i] = t;
	}
}

/* What is between two syncs keeps its order: of these pieces the last comes first. */
static void turn_round(struct disk *d)
{
	size_t start = 0, end = d->events;

	while (end && d->event[end - 1].op != FILE_OP_SYNC)
		end--;
	reverse(d->event, end);
	/* Now each piece begins with its sync. */
	for (size_t i = 1; i <= end; i++) {
		if (i < end && d->event[i].op != FILE_OP_SYNC)
			continue;
		reverse(d->event + start, i - start);
		start = i;
	}
}

static void mutate(struct run *r, enum mutation mutation)
{
	if (mutation == MUTATE_ORDER)
		turn_round(&r->disk);
	for (size_t i = 0; i < r->disk.events; i++) {
		struct disk_event *ev = &r->disk.event[i];

		if (mutation == MUTATE_SYNCS && ev->op == FILE_OP_SYNC)
			ev->dropped = true;
		for (uint64_t k = 0; mutation == MUTATE_WRITES && ev->op == FILE_OP_WRITE && k < ev->len; k += 64)
			ev->bytes[k + random_below(&r->seed, ev->len - k < 64 ? ev->len - k : 64)] ^= 1;
	}
}

/* ---- one image ---- */

static struct disk_state copy(struct qcheck_buf b)
{
	return (struct disk_state){ (uint8_t *)b.p, b.len, b.len };
}

/* The original again, about to be changed under the eyes of the recorder. */
static void begin(struct run *r)
{
	if (!points_put(dir, "work", &r->original))
		abort();
	unlink(backup);
	disk_record(&r->disk, work, NULL);
	disk_await(&r->disk, backup);
}

/*
 * What lies behind the end of the file reads as zeros. Where an entry gets back a place that it had lost, what was
 * there before the damage is as good.
 */
static void forgive(struct run *r, unsigned view)
{
	const struct reading_view *old = &r->before.view[view], *now = NULL;
	static const uint8_t zeros[1 << 21];
	struct qcheck_buf sound;
	char file[300];

	snprintf(file, sizeof(file), "%s%s%s.raw", r->name, *old->id ? "." : "", old->id);
	for (unsigned i = 0; i < r->after.views; i++)
		if (!strcmp(r->after.view[i].id, old->id))
			now = &r->after.view[i];
	if (!now || !now->there || !old->there || !points_get(dir, file, &sound))
		return;
	for (uint64_t off = 0, i = 0; off < old->size; off += r->before.piece, i++) {
		uint64_t len = old->size - off < r->before.piece ? old->size - off : r->before.piece;

		if (off + len > READING_MOST || off + len > now->size || off + len > sound.len)
			break;
		if (old->reads[i] && now->reads[i] && !memcmp(old->data + off, zeros, len) &&
		    !memcmp(now->data + off, sound.p + off, len) && memcmp(now->data + off, zeros, len))
			old->reads[i] = false;
	}
	free((void *)sound.p);
}

/* Reads the image and repairs it. false: it cannot be opened at all, which is not for this test. */
static bool prepare(struct run *r, const char *name, const struct repair *repair, uint64_t seed)
{
	struct qcheck_buf bytes, none = { NULL, 0 };
	struct qimg_check_result ignored;
	struct qimg_error e;
	struct reading first;
	char file[200], text[300];
	bool good;

	memset(r, 0, sizeof(*r));
	r->name = name;
	r->repair = repair;
	r->seed = seed;
	r->how = "without a failure";
	snprintf(file, sizeof(file), "%s.qcow2", name);
	if (!points_get(dir, file, &bytes))
		abort();
	r->original = copy(bytes);
	r->old_counts = qcheck_open_damaged(&r->old, bytes, none) && !r->old.external;
	if (r->old_counts)
		qcheck_refs(&r->old);
	begin(r);
	reading_take(&first, work, NULL, true);
	if (!first.opens || !check(work, 0, NULL, &ignored, &e)) {
		reading_free(&first);
		disk_stop(&r->disk);
		return false;
	}
	r->disk.fail_after = 1000000;
	r->disk.fail_reads = true;
	good = check(work, repair->flags, repair->backup ? backup : NULL, &ignored, &e);
	r->calls = 1000000 - r->disk.fail_after;
	r->disk.fail_reads = false;
	disk_stop(&r->disk);
	r->event = r->disk.events;
	if (!good)
		tell(r, &r->damage.again, "the repair", e.msg);
	if (!check(work, 0, NULL, &r->verdict, &e))
		tell(r, &r->damage.verdict, "no check after the repair", e.msg);
	reading_take(&r->after, work, &first, true);
	/* With all views that can be read at any time. */
	if (!points_put(dir, "work", &r->original))
		abort();
	reading_take(&r->before, work, &r->after, false);
	for (unsigned i = 0; i < r->before.views; i++)
		forgive(r, i);
	if (reading_compare(&r->before, &r->after, text, sizeof(text)) != READING_SAME)
		tell(r, &r->damage.content, "content", text);
	reading_free(&first);
	return true;
}

static void clean_up(struct run *r)
{
	disk_free(&r->disk);
	free(r->original.p);
	reading_free(&r->before);
	reading_free(&r->after);
	qcheck_close(&r->old);
}

/* The original again, and the next repair of it is recorded. */
static bool repair_failing(struct run *r, unsigned after_calls, bool reads, struct qimg_error *e)
{
	struct disk *d = &r->disk;
	struct qimg_check_result ignored;
	bool good;

	disk_free(d);
	begin(r);
	d->fail_after = after_calls;
	d->fail_reads = reads;
	d->fail_count = random_chance(&r->seed, 70) ? 1 : 1000000;
	d->fail_code = random_chance(&r->seed, 50) ? EIO : ENOSPC;
	good = check(work, r->repair->flags, r->repair->backup ? backup : NULL, &ignored, e);
	d->fail_count = 0;
	disk_stop(d);
	return good;
}

static void test_call(struct run *r, unsigned after_calls, bool reads)
{
	struct qcheck_buf bytes;
	struct qimg_error e;
	bool said = !repair_failing(r, after_calls, reads, &e);

	r->event = after_calls;
	if (!said && r->disk.failed && (r->disk.failed_op == FILE_OP_WRITE || r->disk.failed_op == FILE_OP_SYNC))
		tell(r, &r->damage.silent, "failing calls", "the repair says that all is well");
	if (said && !*e.msg)
		tell(r, &r->damage.silent, "failing calls", "the repair does not say why");
	if (!points_get(dir, "work", &bytes))
		abort();
	r->left = copy(bytes);
	if (!points_put(dir, "after", &r->left))
		abort();
	if (r->repair->backup && (rename(backup, backup_after) == 0 || unlink(backup_after) == 0 || errno == ENOENT))
		judge_undo(r);
	if (!points_put(dir, "after", &r->left))
		abort();
	judge_file(r, bytes);
	free(r->left.p);
}

/* Each change of the repair fails, or a choice of them; and some calls of any kind. */
static void test_failing(struct run *r, unsigned most)
{
	size_t events = r->disk.events, n = events < most ? events : most;

	r->how = "a failing call";
	for (size_t i = 0; i < n; i++)
		test_call(r, n == events ? i : random_below(&r->seed, events), false);
	r->how = "a failing call, maybe a read";
	for (size_t i = 0; i < most / 2; i++)
		test_call(r, random_below(&r->seed, r->calls), true);
}

static void add(struct damage *sum, const struct damage *d)
{
	sum->content += d->content;
	sum->counts += d->counts;
	sum->verdict += d->verdict;
	sum->again += d->again;
	sum->silent += d->silent;
	sum->undo += d->undo;
}

static void test_image(const char *name, const struct repair *repair, unsigned points, uint64_t seed,
		       enum mutation mutation, struct damage *sum, unsigned *judged)
{
	struct run r;

	if (prepare(&r, name, repair, seed)) {
		r.told = mutation ? REPORTS : 0;
		mutate(&r, mutation);
		points_spread(&r.disk, points, &r.seed, judge_point, &r);
		if (!mutation)
			test_failing(&r, points / 4);
	}
	if (verbose)
		diag("%s, %s: %zu events, %u points", name, repair->name, r.disk.events, r.points);
	add(sum, &r.damage);
	*judged += r.points;
	clean_up(&r);
}

static bool undamaged(const struct damage *d)
{
	return !(d->content | d->counts | d->verdict | d->again | d->silent | d->undo);
}

static unsigned test_all(const char *const *names, unsigned count, const struct repair *repair, unsigned points,
			 uint64_t seed)
{
	struct damage sum = { 0 };
	unsigned judged = 0;

	for (unsigned i = 0; i < count; i++)
		test_image(names[i], repair, points, seed + i, MUTATE_NOTHING, &sum, &judged);
	ok(judged > count * points / 2, "%s: %u images, %u failures", repair->name, count, judged);
	ok(undamaged(&sum),
	   "%s: content %u, refcounts %u, verdicts %u, not to be repeated %u, silent %u, not taken back %u",
	   repair->name, sum.content, sum.counts, sum.verdict, sum.again, sum.silent, sum.undo);
	return judged;
}

static void test_mutations(const char *const *names, unsigned count, unsigned points, uint64_t seed)
{
	struct damage syncs = { 0 }, order = { 0 }, writes = { 0 }, saved = { 0 };
	unsigned judged = 0;

	for (unsigned i = 0; i < count; i++) {
		test_image(names[i], &repairs[0], points, seed + i, MUTATE_SYNCS, &syncs, &judged);
		test_image(names[i], &repairs[0], points, seed + i, MUTATE_ORDER, &order, &judged);
		test_image(names[i], &repairs[0], points, seed + i, MUTATE_WRITES, &writes, &judged);
		if (i % 4 == 0)
			test_image(names[i], &repairs[2], 2 * points, seed + i, MUTATE_SYNCS, &saved, &judged);
	}
	diag("%u failures of repairs that are wrong", judged);
	ok(!undamaged(&syncs), "without syncs damage is found: content %u, refcounts %u, verdicts %u", syncs.content,
	   syncs.counts, syncs.verdict);
	ok(!undamaged(&order), "so it is with steps in another order: content %u, refcounts %u, verdicts %u",
	   order.content, order.counts, order.verdict);
	ok(writes.content && !undamaged(&writes), "and with spoilt writes: content %u, refcounts %u, verdicts %u",
	   writes.content, writes.counts, writes.verdict);
	ok(saved.undo > 5, "without syncs repairs cannot be taken back (%u of them)", saved.undo);
}

/* ---- the images ---- */

static void remove_base(void)
{
	char line[300];

	snprintf(line, sizeof(line), "rm -rf '%s'", dir);
	if (!keep && system(line))	/* NOLINT(cert-env33-c): a test */
		perror(dir);
}

/* All that there are. */
static const char *const *list_images(unsigned *count)
{
	static const char *list[1000];
	const char *src = getenv("SRCDIR");
	char line[1000];
	FILE *p;

	snprintf(line, sizeof(line), "python3 '%s/tests/bad/make' LIST", src ? src : ".");
	p = popen(line, "r");	/* NOLINT(cert-env33-c): a test */
	for (*count = 0; p && *count < 1000 && fgets(line, sizeof(line), p); ++*count) {
		line[strcspn(line, " \n")] = 0;
		list[*count] = strdup(line);
	}
	if (p)
		pclose(p);
	return list;
}

static bool make_images(const char *const *names, unsigned count)
{
	const char *src = getenv("SRCDIR");
	static char line[16384];
	size_t n = snprintf(line, sizeof(line), "python3 '%s/tests/bad/make'", src ? src : ".");

	for (unsigned i = 0; i < count && n < sizeof(line); i++)
		n += snprintf(line + n, sizeof(line) - n, " %s", names[i]);
	if (n < sizeof(line))
		n += snprintf(line + n, sizeof(line) - n, " '%s'", dir);
	return n < sizeof(line) && system(line) == 0;	/* NOLINT(cert-env33-c): a test */
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "seed", required_argument, NULL, 's' },
					       { "points", required_argument, NULL, 'p' },
					       { "image", required_argument, NULL, 'i' },
					       { "all", no_argument, NULL, 'a' },
					       { "keep", no_argument, NULL, 'k' },
					       { "verbose", no_argument, NULL, 'v' },
					       { NULL, 0, NULL, 0 } };
	const char *from_env = getenv("CRASH_REPAIR_POINTS"), *only = NULL;
	unsigned points = from_env ? strtoul(from_env, NULL, 0) : DEFAULT_POINTS, total = 0;
	unsigned count = sizeof(images) / sizeof(images[0]);
	const char *const *names = images;
	uint64_t seed = 1;
	bool all = false;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (c == 'p')
			points = strtoul(optarg, NULL, 0);
		else if (c == 'i')
			only = optarg;
		else if (c == 'a')
			all = true;
		else if (c == 'k')
			keep = true;
		else if (c == 'v')
			verbose = true;
		else
			return 2;
	}
	if (system("command -v python3 >/dev/null"))	/* NOLINT(cert-env33-c): a test */
		skip_all("python3 makes the images");
	if (only) {
		names = &only;
		count = 1;
	} else if (all) {
		names = list_images(&count);
	}
	dir = points_scratch("qimg-crash-repair");
	if (!dir)
		return 1;
	atexit(remove_base);
	/* Each check takes and gives back the same few MiB. */
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	snprintf(work, sizeof(work), "%s/work", dir);
	snprintf(after, sizeof(after), "%s/after", dir);
	snprintf(backup, sizeof(backup), "%s/backup", dir);
	snprintf(backup_again, sizeof(backup_again), "%s/backup-again", dir);
	snprintf(backup_after, sizeof(backup_after), "%s/backup-after", dir);
	if (!ok(make_images(names, count), "there are images"))
		return done_testing();
	for (unsigned i = 0; i < sizeof(repairs) / sizeof(repairs[0]); i++)
		total += test_all(names, count, &repairs[i], repairs[i].backup ? points / 2 : points, seed);
	if (!only)
		test_mutations(names, count, points / 4, seed);
	diag("%u points of failure", total);
	return done_testing();
}
