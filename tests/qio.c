// SPDX-License-Identifier: BSD-2-Clause
/*
 * Scripted image I/O for tests, over the public library alone. The command words, their options and
 * their result lines are those of qemu-io, so that one test can be run with either; what is
 * not needed for that is left out. Three commands are additions: `extents` prints the map of the chain
 * in full, `info` what the library says about the image, `counters` what its caches have done.
 *
 * A command that fails prints why and the next one runs; the exit status is then 1.
 */
#include "qimg.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_COMMANDS = 4096, MAX_WORDS = 32, PIECE = 1 << 20 };

static struct qimg_image *img;
static bool quiet; /* -q of the program */

static void __attribute__((format(printf, 1, 2))) complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

/* qemu-io tells most of what is wrong with a command on its standard output. */
static void __attribute__((format(printf, 1, 2))) answer(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static void on_warning(void *ctx, const char *msg)
{
	(void)ctx;
	complain("qio: warning: %s", msg);
}

static bool get_size(const char *text, uint64_t *v)
{
	struct qimg_error e;

	if (qimg_parse_size(text, v, &e) < 0) {
		answer("%s", e.msg);
		return false;
	}
	return true;
}

static bool get_pattern(const char *text, int *pattern)
{
	char *end;
	long v = strtol(text, &end, 0);

	if (*text == 0 || *end || v < 0 || v > 255) {
		answer("%s is not a valid pattern byte", text);
		return false;
	}
	*pattern = v;
	return true;
}

/* "64 KiB", "1.500 KiB": exact where it is a whole number. */
static const char *size_text(uint64_t v)
{
	static const char *const unit[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	static char text[4][40];
	static unsigned turn;
	char *t = text[turn++ % 4];
	unsigned u = 0;

	while (u < 6 && v >> (10 * (u + 1)))
		u++;
	if (v & ((UINT64_C(1) << (10 * u)) - 1))
		snprintf(t, sizeof(text[0]), "%.3f %s", (double)v / (UINT64_C(1) << (10 * u)),
			 unit[u]);
	else
		snprintf(t, sizeof(text[0]), "%" PRIu64 " %s", v >> (10 * u), unit[u]);
	return t;
}

static void report(const char *verb, uint64_t off, uint64_t len)
{
	printf("%s %" PRIu64 "/%" PRIu64 " bytes at offset %" PRIu64 "\n", verb, len, len, off);
	printf("%s, 1 ops\n", size_text(len));
}

static void dump(uint64_t off, const uint8_t *buf, size_t len)
{
	for (size_t at = 0; at < len; at += 16) {
		size_t n = len - at < 16 ? len - at : 16;

		printf("%08" PRIx64 ":  ", off + at);
		for (size_t i = 0; i < n; i++)
			printf("%02x ", buf[at + i]);
		putchar(' ');
		for (size_t i = 0; i < n; i++)
			putchar(isalnum(buf[at + i]) ? buf[at + i] : '.');
		putchar('\n');
	}
}

/* ---- commands: argv[0] is the word itself; all return false when they failed ---- */

static bool do_read(int argc, char **argv)
{
	uint64_t off, len, skip = 0, check = UINT64_MAX;
	bool verbose = false, silent = quiet, good = true;
	int pattern = -1, c;
	struct qimg_error e;
	uint8_t *buf;

	while ((c = getopt(argc, argv, "aCqvP:s:l:")) != -1) {
		if (c == 'P' && !get_pattern(optarg, &pattern))
			return false;
		if ((c == 's' && !get_size(optarg, &skip)) ||
		    (c == 'l' && !get_size(optarg, &check)))
			return false;
		if (c == '?')
			return false;
		verbose |= c == 'v';
		silent |= c == 'q';
	}
	if (argc - optind != 2) {
		complain("read [-qv] [-P pattern [-s off] [-l len]] off len");
		return false;
	}
	if (!get_size(argv[optind], &off) || !get_size(argv[optind + 1], &len))
		return false;
	if (skip > len || (check != UINT64_MAX && check > len - skip)) {
		answer("pattern verification range exceeds end of read data");
		return false;
	}
	if (check == UINT64_MAX)
		check = len - skip;
	buf = malloc(PIECE);
	if (!buf) {
		complain("read failed: Out of memory");
		return false;
	}
	for (uint64_t at = 0, n; at < len; at += n) {
		n = len - at < PIECE ? len - at : PIECE;
		memset(buf, 0xab, n);
		if (qimg_read(img, off + at, buf, n, &e) < 0) {
			complain("read failed: %s", e.msg);
			free(buf);
			return false;
		}
		for (size_t i = 0; pattern >= 0 && good && i < n; i++)
			good = at + i < skip || at + i - skip >= check || buf[i] == pattern;
		if (verbose)
			dump(off + at, buf, n);
	}
	free(buf);
	if (!good)
		printf("Pattern verification failed at offset %" PRIu64 ", %" PRIu64 " bytes\n",
		       off + skip, check);
	if (!silent)
		report("read", off, len);
	return good;
}

/* The file's content over and over, as qemu-io's -s has it. */
static bool fill_from(const char *path, uint8_t *buf, uint64_t len)
{
	FILE *f = fopen(path, "rb");
	size_t have;

	if (!f) {
		answer("%s: %s", path, strerror(errno));
		return false;
	}
	have = fread(buf, 1, len, f);
	fclose(f);
	if (have == 0) {
		answer("%s: file is empty or cannot be read", path);
		return false;
	}
	for (uint64_t i = have; i < len; i++)
		buf[i] = buf[i - have];
	return true;
}

static bool do_write(int argc, char **argv)
{
	bool zero = false, unmap = false, compress = false, fua = false, silent = quiet,
	     good = false;
	const char *source = NULL;
	uint64_t off, len;
	int pattern = -1, c;
	struct qimg_error e;
	uint8_t *buf = NULL;

	while ((c = getopt(argc, argv, "CfqzucP:s:")) != -1) {
		if (c == '?' || (c == 'P' && !get_pattern(optarg, &pattern)))
			return false;
		if (c == 's')
			source = optarg;
		zero |= c == 'z';
		unmap |= c == 'u';
		compress |= c == 'c';
		fua |= c == 'f';
		silent |= c == 'q';
	}
	if (argc - optind != 2) {
		complain("write [-cfquz] [-P pattern | -s source_file] off len");
		return false;
	}
	if (zero + (pattern >= 0) + (source != NULL) > 1) {
		answer("Only one of -z, -P, and -s can be specified at the same time");
		return false;
	}
	if ((unmap && !zero) || (zero && compress)) {
		answer(unmap ? "-u requires -z to be specified"
			     : "-c and -z cannot be specified at once");
		return false;
	}
	if (!get_size(argv[optind], &off) || !get_size(argv[optind + 1], &len))
		return false;
	if (zero) {
		good = qimg_zero(img, off, len, unmap ? QIMG_ZERO_UNMAP : 0, &e) == 0;
	} else {
		buf = len < SIZE_MAX ? malloc(len + 1) : NULL;
		if (!buf) {
			complain("write failed: Out of memory");
			return false;
		}
		memset(buf, pattern >= 0 ? pattern : 0xcd, len);
		if (source && !fill_from(source, buf, len)) {
			free(buf);
			return false;
		}
		good = (compress ? qimg_write_compressed(img, off, buf, len, &e)
				 : qimg_write(img, off, buf, len, &e)) == 0;
	}
	if (good && fua)
		good = qimg_flush(img, &e) == 0;
	free(buf);
	if (!good)
		complain("write failed: %s", e.msg);
	else if (!silent)
		report("wrote", off, len);
	return good;
}

static bool do_discard(int argc, char **argv)
{
	bool silent = quiet;
	uint64_t off, len;
	struct qimg_error e;
	int c;

	while ((c = getopt(argc, argv, "Cq")) != -1) {
		if (c == '?')
			return false;
		silent |= c == 'q';
	}
	if (argc - optind != 2) {
		complain("discard [-q] off len");
		return false;
	}
	if (!get_size(argv[optind], &off) || !get_size(argv[optind + 1], &len))
		return false;
	if (qimg_discard(img, off, len, &e) < 0) {
		complain("discard failed: %s", e.msg);
		return false;
	}
	if (!silent)
		report("discard", off, len);
	return true;
}

static bool do_zero(int argc, char **argv)
{
	uint64_t off, len;
	struct qimg_error e;

	if (argc != 3) {
		complain("zero off len");
		return false;
	}
	if (!get_size(argv[1], &off) || !get_size(argv[2], &len))
		return false;
	if (qimg_zero(img, off, len, 0, &e) < 0) {
		complain("zero failed: %s", e.msg);
		return false;
	}
	if (!quiet)
		report("wrote", off, len);
	return true;
}

static bool do_flush(int argc, char **argv)
{
	struct qimg_error e;

	(void)argc, (void)argv;
	if (qimg_flush(img, &e) < 0) {
		complain("flush failed: %s", e.msg);
		return false;
	}
	return true;
}

/* Allocated by the top image itself; not what its backing files have. */
static bool top_has(const struct qimg_extent *x)
{
	return x->present && x->depth == 0;
}

/* Asks for runs until the answer to `top_has` changes or the end is reached. */
static bool same_run(uint64_t off, uint64_t end, uint64_t *len, bool *has)
{
	struct qimg_extent x;
	struct qimg_error e;

	*len = 0;
	while (off + *len < end) {
		if (qimg_map(img, off + *len, end - off - *len, &x, &e) < 0) {
			complain("map failed: %s", e.msg);
			return false;
		}
		if (*len && top_has(&x) != *has)
			break;
		*has = top_has(&x);
		*len += x.len;
	}
	return true;
}

static bool do_map(int argc, char **argv)
{
	uint64_t size = qimg_size(img), len;
	bool has = false;

	(void)argc, (void)argv;
	for (uint64_t off = 0; off < size; off += len) {
		if (!same_run(off, size, &len, &has))
			return false;
		printf("%s (0x%" PRIx64 ") bytes %s allocated at offset %s (0x%" PRIx64 ")\n",
		       size_text(len), len, has ? "   " : "not", size_text(off), off);
	}
	return true;
}

static bool do_alloc(int argc, char **argv)
{
	uint64_t off, count = 512, sum = 0, len;
	bool has = false;

	if (argc < 2 || argc > 3) {
		complain("alloc offset [count]");
		return false;
	}
	if (!get_size(argv[1], &off) || (argc == 3 && !get_size(argv[2], &count)))
		return false;
	if (off > qimg_size(img) || count > qimg_size(img) - off) {
		answer("alloc: the range ends behind the image");
		return false;
	}
	for (uint64_t at = off; at < off + count; at += len) {
		if (!same_run(at, off + count, &len, &has))
			return false;
		sum += has ? len : 0;
	}
	printf("%" PRIu64 "/%" PRIu64 " bytes allocated at offset %s\n", sum, count,
	       size_text(off));
	return true;
}

static bool do_extents(int argc, char **argv)
{
	static const char *const kind[] = { "hole", "zero", "data", "packed" };
	uint64_t off = 0, end = qimg_size(img), len = 0;
	struct qimg_extent x;
	struct qimg_error e;

	if (argc == 3) {
		if (!get_size(argv[1], &off) || !get_size(argv[2], &len))
			return false;
		end = off + len;
	} else if (argc != 1) {
		complain("extents [off len]");
		return false;
	}
	for (; off < end; off += x.len) {
		if (qimg_map(img, off, end - off, &x, &e) < 0) {
			complain("map failed: %s", e.msg);
			return false;
		}
		printf("%" PRIu64 " %" PRIu64 " %s depth=%u present=%d", x.start, x.len,
		       kind[x.kind], x.depth, x.present);
		if (x.host_valid)
			printf(" host=%" PRIu64 " path=%s", x.host, x.path);
		putchar('\n');
	}
	return true;
}

static bool do_info(int argc, char **argv)
{
	struct qimg_value *v;
	struct qimg_error e;
	char *text;
	bool done;

	(void)argc, (void)argv;
	if (qimg_info(img, &v, &e) < 0) {
		complain("info failed: %s", e.msg);
		return false;
	}
	text = qimg_value_json(v);
	done = text != NULL;
	puts(done ? text : "Out of memory");
	qimg_value_free(v);
	free(text);
	return done;
}

/* A line for each cache of each image of the chain. */
static bool do_counters(int argc, char **argv)
{
	static const char *const names[] = { "l2", "refcount" };

	(void)argc, (void)argv;
	for (struct qimg_image *i = img; i; i = qimg_backing(i)) {
		for (enum qimg_cache c = QIMG_CACHE_L2; c <= QIMG_CACHE_REFCOUNT; c++) {
			struct qimg_cache_stats s;

			if (!qimg_cache_stats(i, c, &s))
				continue;
			printf("%s %s lookups=%" PRIu64 " hits=%" PRIu64 " misses=%" PRIu64
			       " loads=%" PRIu64 " evictions=%" PRIu64 " expired=%" PRIu64
			       " writebacks=%" PRIu64 " second=%" PRIu64 " compact=%" PRIu64
			       " ram=%" PRIu64 " file=%" PRIu64 "\n", qimg_name(i), names[c],
			       s.lookups, s.hits, s.misses, s.loads, s.evictions, s.expired,
			       s.writebacks, s.second_hits, s.compact_hits, s.ram_bytes, s.file_bytes);
		}
	}
	return true;
}

static bool do_length(int argc, char **argv)
{
	(void)argc, (void)argv;
	puts(size_text(qimg_size(img)));
	return true;
}

static bool do_truncate(int argc, char **argv)
{
	const char *mode = "off";
	struct qimg_error e;
	uint64_t size;
	int c;

	while ((c = getopt(argc, argv, "m:")) != -1) {
		if (c == '?')
			return false;
		mode = optarg;
	}
	if (argc - optind != 1) {
		complain("truncate [-m prealloc_mode] off");
		return false;
	}
	if (!get_size(argv[optind], &size))
		return false;
	if (qimg_resize(img, size, mode, &e) < 0) {
		complain("truncate failed: %s", e.msg);
		return false;
	}
	return true;
}

static bool do_sleep(int argc, char **argv)
{
	uint64_t ms;

	if (argc != 2 || !get_size(argv[1], &ms))
		return false;
	usleep(ms * 1000);
	return true;
}

static bool do_abort(int argc, char **argv)
{
	(void)argc, (void)argv;
	fflush(NULL);
	abort();
}

static bool do_sigraise(int argc, char **argv)
{
	uint64_t n;

	if (argc != 2 || !get_size(argv[1], &n))
		return false;
	fflush(NULL);
	raise(n);
	return true;
}

static const struct command {
	const char *name;
	bool (*run)(int argc, char **argv);
} commands[] = {
	{ "read", do_read },	   { "write", do_write },	{ "zero", do_zero },
	{ "aio_read", do_read },   { "aio_write", do_write },	{ "aio_flush", do_flush },
	{ "discard", do_discard }, { "flush", do_flush },	{ "map", do_map },
	{ "alloc", do_alloc },	   { "extents", do_extents },	{ "info", do_info },
	{ "counters", do_counters },
	{ "length", do_length },   { "truncate", do_truncate }, { "sleep", do_sleep },
	{ "abort", do_abort },	   { "sigraise", do_sigraise },
};

/* False when the command failed; *quit when there is to be no next one. */
static bool run_line(char *line, bool *quit)
{
	char *argv[MAX_WORDS + 1], *save = NULL;
	int argc = 0;
	bool good;

	for (char *w = strtok_r(line, " \t\n", &save); w && argc < MAX_WORDS;
	     w = strtok_r(NULL, " \t\n", &save))
		argv[argc++] = w;
	argv[argc] = NULL;
	if (argc == 0 || argv[0][0] == '#')
		return true;
	if (!strcmp(argv[0], "quit") || !strcmp(argv[0], "q")) {
		*quit = true;
		return true;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[0], commands[i].name))
			continue;
		optind = 0;
		good = commands[i].run(argc, argv);
		fflush(stdout);
		return good;
	}
	complain("command \"%s\" not found", argv[0]);
	return false;
}

static int usage(struct qimg_opts *opts)
{
	qimg_opts_free(opts);
	fputs("Usage: qio [-f FMT] [-rUnq] [-t CACHE] [-d DISCARD] [--image-opts] [-o OPTS] [-c CMD]... FILE\n"
	      "Runs I/O commands, as those of qemu-io, on an image; from standard input without -c.\n",
	      stderr);
	return 1;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "image-opts", no_argument, NULL, 'I' },
					       { "cmd", required_argument, NULL, 'c' },
					       { "format", required_argument, NULL, 'f' },
					       { "read-only", no_argument, NULL, 'r' },
					       { "nocache", no_argument, NULL, 'n' },
					       { "cache", required_argument, NULL, 't' },
					       { "discard", required_argument, NULL, 'd' },
					       { "force-share", no_argument, NULL, 'U' },
					       { NULL, 0, NULL, 0 } };
	unsigned flags = QIMG_OPEN_WRITE | QIMG_OPEN_UNMAP, cache_flags = 0;
	static char *cmd[MAX_COMMANDS];
	const char *format = NULL, *name = NULL;
	bool image_opts = false, quit = false, failed = false;
	struct qimg_opts *opts = qimg_opts_new();
	size_t cmds = 0, room = 0;
	struct qimg_error e;
	char *line = NULL;
	int c;

	if (!opts)
		return 1;
	qimg_set_warning_handler(on_warning, NULL);
	while ((c = getopt_long(argc, argv, "f:rUnt:d:o:c:qk", longs, NULL)) != -1) {
		if (c == '?')
			return usage(opts);
		if (c == 'f')
			format = optarg;
		else if (c == 'r')
			flags &= ~(unsigned)QIMG_OPEN_WRITE;
		else if (c == 'U')
			flags |= QIMG_OPEN_SHARE;
		else if (c == 'q')
			quiet = true;
		else if (c == 'I')
			image_opts = true;
		else if ((c == 'n' || c == 't') &&
			 qimg_cache_flags(c == 'n' ? "none" : optarg, &cache_flags)) {
			complain("qio: invalid cache mode: %s", optarg);
			qimg_opts_free(opts);
			return 1;
		} else if (c == 'd' && (!strcmp(optarg, "ignore") || !strcmp(optarg, "off"))) {
			flags &= ~(unsigned)QIMG_OPEN_UNMAP;
		} else if (c == 'd' && strcmp(optarg, "unmap") && strcmp(optarg, "on")) {
			complain("qio: invalid discard option: %s", optarg);
			qimg_opts_free(opts);
			return 1;
		} else if (c == 'o' && qimg_opts_parse(opts, optarg, &e) < 0) {
			complain("qio: %s", e.msg);
			qimg_opts_free(opts);
			return 1;
		} else if (c == 'c') {
			if (cmds == MAX_COMMANDS)
				return usage(opts);
			cmd[cmds++] = optarg;
		}
	}
	if (argc - optind != 1)
		return usage(opts);
	name = argv[optind];
	if (image_opts && qimg_opts_parse(opts, name, &e) < 0) {
		complain("qio: %s", e.msg);
		qimg_opts_free(opts);
		return 1;
	}
	c = qimg_open(&img, image_opts ? NULL : name, format, opts, flags | cache_flags, &e);
	qimg_opts_free(opts);
	if (c < 0) {
		complain("qio: can't open device %s: %s", name, e.msg);
		return 1;
	}
	for (size_t i = 0; i < cmds && !quit; i++)
		failed |= !run_line(cmd[i], &quit);
	while (cmds == 0 && !quit && getline(&line, &room, stdin) > 0)
		failed |= !run_line(line, &quit);
	free(line);
	if (qimg_close(img, &e) < 0) {
		complain("qio: %s", e.msg);
		failed = true;
	}
	return failed;
}
