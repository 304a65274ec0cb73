// SPDX-License-Identifier: BSD-2-Clause
/*
 * Recordings of requests: three kinds of text files, read in one pass, so that they may come from a pipe.
 *
 * blkparse tells several events about each request. When a better kind of them comes up, what was kept
 * of another one is dropped.
 */
#include "qimg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/lines.h"

#define SECTOR 512
#define CHUNK_BITS 16
#define CHUNK (UINT64_C(1) << CHUNK_BITS)	/* requests */
#define CHUNKS (QIMG_RECORDED_MOST / CHUNK)

enum { WORDS = 12, KNOWN = 64 };

struct kept {
	uint64_t off;
	uint32_t len, op;
};

struct qimg_recording {
	char *path;
	struct qimg_recording_info info;
	struct kept *chunk[CHUNKS];
};

struct parser;
typedef int (*parse_fn)(struct parser *p, char **word, unsigned words, struct qimg_error *e);

struct parser {
	struct qimg_recording *r;
	struct lines *lines;
	parse_fn parse;			/* NULL: the form is not known yet */
	char target[KNOWN];		/* what requests are for, cut; "": there was none */
	char event;			/* BLKPARSE: the kind that counts; 0: there was none */
};

static int bad(struct parser *p, struct qimg_error *e, const char *what, const char *word)
{
	return error_set(e, EINVAL, "Line %" PRIu64 " of '%s': %s '%.*s'", lines_number(p->lines),
			 p->r->path, what, KNOWN, word);
}

static int bad_line(struct parser *p, struct qimg_error *e, const char *what)
{
	return error_set(e, EINVAL, "Line %" PRIu64 " of '%s': %s", lines_number(p->lines), p->r->path, what);
}

/* A whole word that is a number, decimal or 0x hex. */
static bool number(const char *s, uint64_t *v)
{
	unsigned base = 10;

	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
		base = 16;
		s += 2;
	}
	*v = 0;
	do {
		unsigned digit = *s >= '0' && *s <= '9' ? (unsigned)(*s - '0') :
				 *s >= 'a' && *s <= 'f' ? (unsigned)(*s - 'a') + 10 :
				 *s >= 'A' && *s <= 'F' ? (unsigned)(*s - 'A') + 10 : 16;

		if (digit >= base || !mul_u64(*v, base, v) || !add_u64(*v, digit, v))
			return false;
	} while (*++s);
	return true;
}

static void drop_all(struct qimg_recording *r)
{
	const char *form = r->info.form;

	for (uint64_t i = 0; i < CHUNKS; i++) {
		free(r->chunk[i]);
		r->chunk[i] = NULL;
	}
	r->info = (struct qimg_recording_info){ .form = form };
}

static int add(struct parser *p, uint64_t off, uint64_t len, unsigned op, struct qimg_error *e)
{
	struct qimg_recording *r = p->r;
	struct qimg_recording_info *info = &r->info;
	uint64_t i = info->requests, end;

	if (!len)
		return bad_line(p, e, "A request of 0 bytes is none");
	if (len > QIMG_RECORDED_LONGEST)
		return error_set(e, EINVAL, "Line %" PRIu64 " of '%s': A request of %" PRIu64
				 " bytes is longer than %" PRIu64 ", the most that one may have",
				 lines_number(p->lines), r->path, len, QIMG_RECORDED_LONGEST);
	if (!add_u64(off, len, &end) || end > INT64_MAX)
		return error_set(e, EINVAL, "Line %" PRIu64 " of '%s': Offset 0x%" PRIx64
				 " is beyond any disk", lines_number(p->lines), r->path, off);
	if (i == QIMG_RECORDED_MOST)
		return error_set(e, EFBIG, "Line %" PRIu64 " of '%s': There are more than %" PRIu64
				 " requests, the most that a recording may have", lines_number(p->lines),
				 r->path, QIMG_RECORDED_MOST);
	if (!r->chunk[i / CHUNK])
		r->chunk[i / CHUNK] = mem_alloc(CHUNK * sizeof(struct kept), e);
	if (!r->chunk[i / CHUNK])
		return -1;
	r->chunk[i / CHUNK][i % CHUNK] = (struct kept){ off, (uint32_t)len, op };
	info->requests++;
	info->reads += op == QIMG_RECORDED_READ;
	info->writes += op == QIMG_RECORDED_WRITE;
	info->bytes += len;
	info->longest = max_u64(info->longest, len);
	if (end > info->end) {
		info->end = end;
		info->end_line = lines_number(p->lines);
	}
	return 0;
}

/* A recording is of one disk: offsets on others mean something else. */
static int same_target(struct parser *p, const char *target, struct qimg_error *e)
{
	if (!*p->target)
		memccpy(p->target, target, 0, KNOWN - 1);
	if (!strncmp(p->target, target, KNOWN - 1))
		return 0;
	return error_set(e, EINVAL, "Line %" PRIu64 " of '%s': This request is for '%.*s', those before it "
			 "are for '%s': a recording must be of one of them", lines_number(p->lines),
			 p->r->path, KNOWN, target, p->target);
}

/* ---- lists ---- */

static int parse_list(struct parser *p, char **word, unsigned words, struct qimg_error *e)
{
	const struct qimg_recording_info *info = &p->r->info;
	unsigned op = QIMG_RECORDED_EITHER;
	uint64_t off, len;

	if (words < 2 || words > 3)
		return bad_line(p, e, "A line is an offset and a length, and r or w behind them");
	if (!number(word[0], &off))
		return bad(p, e, "This is no offset:", word[0]);
	if (!number(word[1], &len))
		return bad(p, e, "This is no length:", word[1]);
	if (words == 3 && !strcmp(word[2], "r"))
		op = QIMG_RECORDED_READ;
	else if (words == 3 && !strcmp(word[2], "w"))
		op = QIMG_RECORDED_WRITE;
	else if (words == 3)
		return bad(p, e, "This is neither r nor w:", word[2]);
	if (info->requests && (op == QIMG_RECORDED_EITHER) != (!info->reads && !info->writes))
		return bad_line(p, e, "Of all requests or of none r or w must be said");
	return add(p, off, len, op, e);
}

/* ---- fio ---- */

static int parse_fio(struct parser *p, char **word, unsigned words, struct qimg_error *e)
{
	static const char *const others[] = { "add", "open", "close", "wait", "sync", "datasync", "trim" };
	uint64_t off, len;
	bool write;

	if (words < 2)
		return bad_line(p, e, "A line is a file and what is done to it");
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!strcmp(word[1], others[i]))
			return 0;
	write = !strcmp(word[1], "write");
	if (!write && strcmp(word[1], "read"))
		return bad(p, e, "No iolog has this:", word[1]);
	if (words != 4 || !number(word[2], &off) || !number(word[3], &len))
		return bad(p, e, "An offset and a length are wanted behind", word[1]);
	if (same_target(p, word[0], e) < 0)
		return -1;
	return add(p, off, len, write ? QIMG_RECORDED_WRITE : QIMG_RECORDED_READ, e);
}

static int parse_fio3(struct parser *p, char **word, unsigned words, struct qimg_error *e)
{
	uint64_t when;

	if (!number(word[0], &when))
		return bad(p, e, "This is no time:", word[0]);
	return parse_fio(p, word + 1, words - 1, e);
}

/* ---- blkparse ---- */

enum { EVENT_WORDS = 6 };		/* up to what has happened */

/* "8,0": a device, which each line about an event begins with. */
static bool is_device(const char *s)
{
	const char *comma = strchr(s, ',');
	size_t major = strspn(s, "0123456789");

	return comma && major && s + major == comma && comma[1] && comma[1 + strspn(comma + 1, "0123456789")] == 0;
}

/* DEVICE CPU NUMBER TIME PID EVENT RWBS SECTOR + SECTORS [PROCESS] */
static int parse_blkparse(struct parser *p, char **word, unsigned words, struct qimg_error *e)
{
	static const char order[] = "CDQ";	/* the better kind behind */
	const char *kind;
	uint64_t sector, sectors, off, len;
	bool write;

	if (!is_device(word[0]))		/* the sums at the end */
		return 0;
	if (words < EVENT_WORDS)
		return bad_line(p, e, "This line of blkparse is cut off");
	kind = word[5][1] ? NULL : strchr(order, word[5][0]);
	if (!kind || (p->event && kind < strchr(order, p->event)))
		return 0;
	if (words < 7)
		return bad_line(p, e, "This line of blkparse is cut off");
	write = strchr(word[6], 'W');
	if (strchr(word[6], 'D') || !(write || strchr(word[6], 'R')) || words == 7 || word[7][0] == '[')
		return 0;
	if (words < 10 || strcmp(word[8], "+") || !number(word[7], &sector) || !number(word[9], &sectors))
		return bad(p, e, "A sector, + and a number of sectors are wanted behind", word[6]);
	if (!sectors)
		return 0;
	if (!mul_u64(sector, SECTOR, &off))
		return bad(p, e, "No disk has this sector:", word[7]);
	if (!mul_u64(sectors, SECTOR, &len))
		return bad(p, e, "No request has so many sectors:", word[9]);
	if (p->event != *kind) {
		drop_all(p->r);
		p->target[0] = 0;
		p->event = *kind;
	}
	if (same_target(p, word[0], e) < 0)
		return -1;
	return add(p, off, len, write ? QIMG_RECORDED_WRITE : QIMG_RECORDED_READ, e);
}

/* ---- all ---- */

/* By the first line, which is a whole one. *used: it is no request. */
static int find_form(struct parser *p, char **word, unsigned words, bool *used, struct qimg_error *e)
{
	uint64_t n;

	*used = words == 4 && !strcmp(word[0], "fio") && !strcmp(word[1], "version") &&
		!strcmp(word[3], "iolog");
	if (*used && !strcmp(word[2], "2")) {
		p->r->info.form = "fio-2";
		p->parse = parse_fio;
	} else if (*used && !strcmp(word[2], "3")) {
		p->r->info.form = "fio-3";
		p->parse = parse_fio3;
	} else if (*used) {
		return bad(p, e, "Iologs of fio are understood in versions 2 and 3, not", word[2]);
	} else if (is_device(word[0]) && words >= EVENT_WORDS) {
		p->r->info.form = "blkparse";
		p->parse = parse_blkparse;
	} else if (number(word[0], &n)) {
		p->r->info.form = "list";
		p->parse = parse_list;
	} else {
		return bad_line(p, e, "This is neither an offset, a blank and a length, nor an iolog of fio, nor what "
				"blkparse prints");
	}
	return 0;
}

static int parse_line(struct parser *p, char *text, struct qimg_error *e)
{
	char *word[WORDS], *rest = text;
	unsigned words = 0;
	bool used = false;

	while (words < WORDS && (word[words] = strtok_r(rest, " \t", &rest)))
		words++;
	if (!words || (word[0][0] == '#' && (!p->parse || p->parse == parse_list)))
		return 0;
	if (!p->parse && find_form(p, word, words, &used, e) < 0)
		return -1;
	return used ? 0 : p->parse(p, word, words, e);
}

static int parse_all(struct parser *p, struct qimg_error *e)
{
	char *text;
	int ret;

	while ((ret = lines_next(p->lines, &text, e)) > 0)
		if (parse_line(p, text, e) < 0)
			return -1;
	if (!ret && !p->r->info.requests)
		return error_set(e, EINVAL, "'%s' has no requests", p->r->path);
	return ret;
}

int qimg_recording_load(struct qimg_recording **out, const char *path, struct qimg_error *e)
{
	struct qimg_recording *r = mem_zalloc(sizeof(*r), e);
	struct parser p = { .r = r };
	int ret = -1;

	if (!r)
		return -1;
	r->path = mem_strdup(path, e);
	if (r->path && !lines_open(&p.lines, path, e)) {
		ret = parse_all(&p, e);
		lines_close(p.lines);
	}
	if (ret < 0) {
		qimg_recording_free(r);
		return -1;
	}
	*out = r;
	return 0;
}

void qimg_recording_free(struct qimg_recording *r)
{
	if (!r)
		return;
	drop_all(r);
	free(r->path);
	free(r);
}

const struct qimg_recording_info *qimg_recording_info(const struct qimg_recording *r)
{
	return &r->info;
}

void qimg_recording_get(const struct qimg_recording *r, uint64_t i, struct qimg_recorded *q)
{
	const struct kept *k = &r->chunk[i / CHUNK][i % CHUNK];

	q->off = k->off;
	q->len = k->len;
	q->op = k->op;
}

int qimg_recording_fits(const struct qimg_recording *r, uint64_t size, struct qimg_error *e)
{
	if (r->info.end <= size)
		return 0;
	return error_set(e, EINVAL, "Line %" PRIu64 " of '%s': This request reaches to 0x%" PRIx64
			 ", beyond the end of a disk of 0x%" PRIx64 " bytes", r->info.end_line, r->path,
			 r->info.end, size);
}
