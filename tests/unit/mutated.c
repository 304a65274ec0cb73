// SPDX-License-Identifier: BSD-2-Clause
/*
 * Images with bytes changed at random, mostly in their metadata: opening, reading and writing them
 * ends with success or with an error that says something, never with a crash or a hang. With
 * sanitizers this is worth most. Checking them, too; it changes nothing, and what it calls sound can be
 * read in full and has the refcounts that the tests' own reader wants. (An entry may send a write
 * anywhere: the file may become very long, but is sparse then.)
 *
 *	mutated [ROUNDS [SEED]]
 */
#include "qimg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/image.h"
#include "io/file.h"
#include "../qcheck.h"
#include "../setting.h"
#include "tap.h"

enum { WRITES = 10, MAX_LENGTH = 1 << 20 };

static char dir[200], path[300];
static unsigned opened, refused, read_errors, write_errors, sound, corrupt, leaking;
static unsigned repaired, interrupted, left;

static uint64_t be(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

/* Somewhere in the header, in the L1 or refcount table, in what these point at, or anywhere. */
static uint64_t choose_place(const uint8_t *file, uint64_t len, uint64_t *seed)
{
	uint64_t l1 = be(file + 40, 8), rt = be(file + 48, 8), at = 0;
	unsigned dice = random_below(seed, 100), cluster = 1u << file[23];

	if (dice < 20)
		return random_below(seed, 120);
	if (dice < 40)
		at = l1 + random_below(seed, 32);
	else if (dice < 50)
		at = rt + random_below(seed, 16);
	else if (dice < 80 && l1 + 8 <= len)
		at = (be(file + l1, 8) & UINT64_C(0xfffffffffffe00)) + random_below(seed, cluster);
	else if (dice < 90 && rt + 8 <= len)
		at = be(file + rt, 8) + random_below(seed, cluster);
	else
		at = random_below(seed, len);
	return at < len ? at : random_below(seed, len);
}

static void take(void *ctx, const struct qimg_finding *f)
{
	unsigned *odd = ctx;

	*odd += !f->text || !*f->text || (unsigned)f->fault >= QIMG_FAULTS || (f->has_host && f->host_len > INT64_MAX);
}

static bool reads_in_full(void)
{
	static uint8_t buf[1 << 16];
	struct qimg_image *img = NULL;
	struct qimg_error e;
	uint64_t size;
	bool good = true;

	/* Marks and missing backing files are none of the check's business. */
	if (qimg_open(&img, path, "qcow2", NULL, QIMG_OPEN_CHECK | QIMG_OPEN_NO_BACKING, &e) < 0)
		return false;
	size = qimg_size(img);
	for (uint64_t off = 0; good && off < size && off < MAX_LENGTH; off += sizeof(buf))
		good = !qimg_read(img, off, buf, size - off < sizeof(buf) ? size - off : sizeof(buf), &e);
	qimg_close(img, &e);
	return good;
}

static uint64_t entry_faults(const struct qimg_check_result *r)
{
	uint64_t n = 0;

	for (unsigned i = QIMG_FAULT_HEADER; i < QIMG_FAULTS; i++)
		n += r->found[i];
	return n;
}

/* Checks what there is in `path`: the len bytes of `file`. Returns what is wrong with that, or NULL. */
static const char *check(const struct setting *s, const uint8_t *file, uint64_t len, uint64_t memory)
{
	unsigned odd = 0;
	struct qimg_check c = { .flags = QIMG_CHECK_DEEP, .memory = memory, .finding = take, .ctx = &odd,
				.max_findings = 50 };
	struct qcheck_buf bytes = { file, len }, none = { NULL, 0 };
	struct qimg_check_result r;
	struct qimg_image *img = NULL;
	static struct qcheck q;
	struct qimg_error e;
	const char *wrong = NULL;

	e.msg[0] = 0;
	if (qimg_open(&img, path, "qcow2", NULL, QIMG_OPEN_CHECK | QIMG_OPEN_NO_BACKING, &e) < 0)
		return e.msg[0] ? NULL : "refused for checking without saying why";
	if (qimg_check_run(img, &c, &r, &e) < 0)
		wrong = e.msg[0] && e.code ? NULL : "not checked without saying why";
	else if (odd)
		wrong = "an odd finding";
	else if (!r.corruptions && !r.errors && !img->encrypted && !reads_in_full())
		wrong = "sound, but it does not read";
	sound += !r.corruptions && !r.errors && !r.leaks;
	leaking += !r.corruptions && r.leaks;
	corrupt += r.corruptions > 0;
	qimg_close(img, &e);
	if (wrong || s->external)
		return wrong;
	if (qcheck_open(&q, bytes, none)) {
		qcheck_refs(&q);
		/* What an entry that is not valid refers to is a matter of opinion. */
		if (!entry_faults(&r) && !q.count[QCHECK_LOW] != !r.found[QIMG_FAULT_REFCOUNT])
			wrong = "refcounts that are too low: the other reader disagrees";
		else if (!r.corruptions && (q.count[QCHECK_LOW] || q.count[QCHECK_COPIED]))
			wrong = "sound, but not for the other reader";
		if (wrong)
			diag("%s (here %u low, there %u)", q.text, (unsigned)r.found[QIMG_FAULT_REFCOUNT],
			     q.count[QCHECK_LOW]);
	}
	qcheck_close(&q);
	return wrong;
}

/* ---- repair ---- */

enum { PIECE = 2048, PIECES = MAX_LENGTH / PIECE };

/* What the guest reads, piece by piece; and whether it can. */
struct content {
	uint8_t data[PIECES][PIECE];
	bool reads[PIECES];
	unsigned pieces;
};

/*
 * What an entry reads as that gets back the place it has lost: behind the end of the file that was zeros. When
 * refcounts could not be trusted at first, all that was told of it is that it lies there.
 */
static bool restored[PIECES], lost[PIECES];

static void take_restored(void *ctx, const struct qimg_finding *f)
{
	uint64_t end = f->guest + f->guest_len;

	(void)ctx;
	if (!f->has_guest || f->snapshot || !f->fixed)
		return;
	for (uint64_t i = f->guest / PIECE; i < PIECES && i * PIECE < end; i++) {
		restored[i] |= strstr(f->text, "gets back") != NULL;
		lost[i] |= strstr(f->text, "beyond the end") || strstr(f->text, "may be lost");
	}
}

static void read_content(struct content *c)
{
	struct qimg_image *img = NULL;
	struct qimg_error e;
	uint64_t size;

	c->pieces = 0;
	if (qimg_open(&img, path, "qcow2", NULL, QIMG_OPEN_CHECK | QIMG_OPEN_NO_BACKING, &e) < 0)
		return;
	size = qimg_size(img);
	for (uint64_t off = 0; off < size && off < MAX_LENGTH; off += PIECE) {
		uint64_t len = size - off < PIECE ? size - off : PIECE;

		memset(c->data[c->pieces], 0, PIECE);
		c->reads[c->pieces] = !qimg_read(img, off, c->data[c->pieces], len, &e);
		c->pieces++;
	}
	qimg_close(img, &e);
}

static const char *compare(const struct content *before, const struct content *after)
{
	if (before->pieces != after->pieces)
		return "the repaired image is of another size";
	for (unsigned i = 0; i < before->pieces; i++) {
		if (!before->reads[i] || restored[i])
			continue;
		if (!after->reads[i])
			return "the repaired image does not read where the damaged one did";
		if (memcmp(before->data[i], after->data[i], PIECE))
			return "the repaired image reads otherwise than the damaged one";
	}
	return NULL;
}

static unsigned until_cut;	/* changes that still reach the disk; 0: there is no end of them */

static int cut(void *ctx, struct file *f, enum file_op op, uint64_t off, const void *buf, uint64_t len)
{
	(void)ctx, (void)f, (void)off, (void)buf, (void)len;
	if (op == FILE_OP_READ || !until_cut)
		return 0;
	return until_cut == 1 ? EIO : (until_cut--, 0);
}

/* Mends it. false: it could not be done. */
static bool repair(unsigned flags, struct qimg_check_result *r)
{
	struct qimg_check c = { .flags = flags, .finding = take_restored, .max_findings = 10000 };
	struct qimg_image *img = NULL;
	struct qimg_error e;
	bool good;

	if (qimg_open(&img, path, "qcow2", NULL,
		      QIMG_OPEN_CHECK | QIMG_OPEN_NO_BACKING | (flags ? QIMG_OPEN_WRITE : 0), &e) < 0)
		return false;
	good = qimg_check_run(img, &c, r, &e) == 0;
	if (good && (r->found[QIMG_FAULT_OVERLAP] || r->found[QIMG_FAULT_REFCOUNT_ENTRY] ||
		     r->found[QIMG_FAULT_HEADER]))
		for (unsigned i = 0; i < PIECES; i++)
			restored[i] |= lost[i];
	return qimg_close(img, &e) == 0 && good;
}

/* Faults that -r all mends: refcounts and COPIED bits, where nothing else is wrong. */
static bool all_can_be_mended(const struct qimg_check_result *r)
{
	return !entry_faults(r) && !r->found[QIMG_FAULT_OVERLAP] && r->corruptions_fixed == r->corruptions;
}

static const char *check_repair(uint64_t *seed)
{
	static struct content before, after;
	unsigned flags = random_chance(seed, 70) ? QIMG_CHECK_FIX_ALL : QIMG_CHECK_FIX_LEAKS;
	struct qimg_check_result r, again;
	bool cut_short = false;
	const char *wrong;

	read_content(&before);
	memset(restored, 0, sizeof(restored));
	memset(lost, 0, sizeof(lost));
	if (random_chance(seed, 50)) {
		until_cut = 1 + random_below(seed, 8);
		repair(flags, &r);
		cut_short = until_cut == 1;
		interrupted += cut_short;
		until_cut = 0;
		read_content(&after);
		wrong = compare(&before, &after);
		if (wrong)
			return wrong;
	}
	if (!repair(flags, &r))
		return NULL;
	repaired += r.leaks_fixed || r.corruptions_fixed;
	read_content(&after);
	wrong = compare(&before, &after);
	if (wrong || !repair(0, &again))
		return wrong ? wrong : "the repaired image cannot be checked";
	/* What pointed behind the end may point at what an interrupted repair has left there. */
	if (again.corruptions > r.corruptions - r.corruptions_fixed && !(cut_short && entry_faults(&r)))
		return "more is wrong after the repair than should be left";
	if (all_can_be_mended(&r) && again.leaks > r.leaks - r.leaks_fixed)
		return "more leaks than should be left";
	left += again.corruptions > 0;
	return NULL;
}

/* Whether `path` still has these bytes. */
static bool unchanged(int fd, const uint8_t *file, uint64_t len)
{
	uint8_t *now = malloc(len + 1);
	bool same = now && pread(fd, now, len + 1, 0) == (ssize_t)len && !memcmp(now, file, len);

	free(now);
	return same;
}

/* Opens what there is in `path`, uses it in all ways, closes it. Returns what is wrong, or NULL. */
static const char *use(uint64_t *seed)
{
	static uint8_t buf[1 << 16];
	struct qimg_extent x;
	struct qimg_image *img = NULL;
	struct qimg_error e;
	unsigned flags = random_chance(seed, 70) ? QIMG_OPEN_WRITE | QIMG_OPEN_UNMAP : 0;
	uint64_t size;

	e.msg[0] = 0;
	if (qimg_open(&img, path, "qcow2", NULL, flags, &e) < 0) {
		refused++;
		return e.msg[0] && e.code ? NULL : "refused without saying why";
	}
	opened++;
	size = qimg_size(img);
	for (uint64_t off = 0; off < size && off < MAX_LENGTH; off += sizeof(buf)) {
		size_t n = size - off < sizeof(buf) ? size - off : sizeof(buf);

		read_errors += qimg_read(img, off, buf, n, &e) < 0;
	}
	for (uint64_t off = 0, n = 0; off < size && n < 1000; off += x.len, n++) {
		if (qimg_map(img, off, size - off, &x, &e) < 0)
			break;
		if (x.len == 0 || x.len > size - off || x.start != off)
			return "map answers nonsense";
	}
	for (unsigned i = 0; flags && i < WRITES && size; i++) {
		uint64_t off = random_below(seed, size < MAX_LENGTH ? size : MAX_LENGTH);
		uint64_t len = 1 + random_below(seed, sizeof(buf) - 1);
		unsigned dice = random_below(seed, 10);

		if (len > size - off)
			len = size - off;
		stamp_fill(buf, off, len, i + 1);
		if (dice < 5)
			write_errors += qimg_write(img, off, buf, len, &e) < 0;
		else if (dice < 7)
			write_errors +=
				qimg_zero(img, off, len, dice == 5 ? QIMG_ZERO_UNMAP : 0, &e) < 0;
		else if (dice < 9)
			write_errors += qimg_discard(img, off, len, &e) < 0;
		else
			write_errors += qimg_flush(img, &e) < 0;
	}
	write_errors += qimg_close(img, &e) < 0;
	return NULL;
}

/* Writes the image anew with some bytes changed, sometimes cut short. */
static uint64_t mutate(int fd, const uint8_t *file, uint8_t *copy, uint64_t len, uint64_t *seed)
{
	unsigned changes = 1 + random_below(seed, 3);

	memcpy(copy, file, len);
	while (changes--) {
		uint64_t at = choose_place(file, len, seed);

		if (random_chance(seed, 50))
			copy[at] ^= 1u << random_below(seed, 8);
		else
			copy[at] = random_chance(seed, 30) ? 0xff : random_next(seed);
	}
	if (random_chance(seed, 5))
		len = random_below(seed, len);
	if (ftruncate(fd, 0) || pwrite(fd, copy, len, 0) != (ssize_t)len)
		abort();
	return len;
}

static void test_setting(const struct setting *s, unsigned rounds, uint64_t *seed)
{
	struct setting_content content;
	const char *wrong = NULL;
	uint8_t *file, *copy;
	uint64_t len, now;
	struct stat st;
	unsigned i;
	int fd;

	setting_build(s, dir, seed, &content);
	fd = open(path, O_RDWR);
	if (fd < 0 || fstat(fd, &st))
		abort();
	len = st.st_size;
	file = malloc(len);
	copy = malloc(len);
	if (!file || !copy || pread(fd, file, len, 0) != st.st_size)
		abort();
	for (i = 0; i < rounds && !wrong; i++) {
		uint64_t before = *seed;

		now = mutate(fd, file, copy, len, seed);
		wrong = check(s, copy, now, random_chance(seed, 50) ? 1 : 0);
		if (!wrong && !unchanged(fd, copy, now))
			wrong = "checking changed it";
		if (!wrong && random_chance(seed, 50))
			wrong = check_repair(seed);
		if (!wrong)
			wrong = use(seed);
		if (wrong)
			diag("%s, state 0x%" PRIx64 ": %s", s->name, before, wrong);
	}
	ok(!wrong, "%s: %u mutations", s->name, i);
	close(fd);
	free(file);
	free(copy);
	setting_free(&content);
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "image.qcow2", "data.raw", "backing.raw" };
	unsigned rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	const char *tmp = getenv("TMPDIR");
	struct file_hook hook = { cut, NULL };

	snprintf(dir, sizeof(dir), "%s/qimg-mutated-XXXXXX",
		 tmp			    ? tmp
		 : access("/dev/shm", W_OK) ? "/tmp"
					    : "/dev/shm");
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	snprintf(path, sizeof(path), "%s/image.qcow2", dir);
	file_set_hook(&hook);
	for (const struct setting *s = settings; s->name; s++)
		test_setting(s, rounds, &seed);
	diag("checked: %u sound, %u with leaks, %u corrupt", sound, leaking, corrupt);
	diag("repair: %u mended, %u interrupted, %u with faults left", repaired, interrupted, left);
	ok(repaired > 100 && interrupted > 20 && left > 20, "repairs are seen");
	ok(sound > 20 && leaking > 20 && corrupt > 200, "checks find all kinds");
	diag("%u opened (%u reads and %u writes failed), %u refused", opened, read_errors,
	     write_errors, refused);
	ok(opened && refused && read_errors && write_errors, "all of that happens");
	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
	return done_testing();
}
