// SPDX-License-Identifier: BSD-2-Clause
/* Messages, sizes, progress, and the care for stdout. */
#include "ui.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "qimg.h"
#include "utf8.h"

static const char *program = "qimg";

const char *ui_program(void)
{
	return program;
}

/* ---- messages ---------------------------------------------------------------- */

__attribute__((format(printf, 2, 0)))
static void message(const char *prefix, const char *fmt, va_list ap)
{
	/* What was printed before the error is to be seen before it. */
	fflush(stdout);
	ui_status_end();
	if (prefix)
		fprintf(stderr, "%s: %s", program, prefix);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void ui_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message("", fmt, ap);
	va_end(ap);
}

void ui_warning(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message("warning: ", fmt, ap);
	va_end(ap);
}

void ui_more(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	message(NULL, fmt, ap);
	va_end(ap);
}

static void library_warning(void *ctx, const char *msg)
{
	(void)ctx;
	ui_warning("%s", msg);
}

/* ---- start and end ---------------------------------------------------------------- */

static volatile sig_atomic_t caught_signal, progress_asked;

static void ask_progress(int sig)
{
	(void)sig;
	progress_asked = 1;
}

/*
 * An image must never become file descriptor 0, 1 or 2: a message printed there would end up in the
 * disk. A closed stdout gets a file that cannot be written, so that ui_end notices what was lost.
 */
static void guard_descriptors(void)
{
	int fd;

	for (fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
		    open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR) < 0)
			abort();
}

void ui_start(const char *argv0)
{
	struct sigaction ask = { .sa_handler = ask_progress, .sa_flags = SA_RESTART };
	const char *slash;

	guard_descriptors();
	if (argv0 && *argv0) {
		slash = strrchr(argv0, '/');
		program = slash ? slash + 1 : argv0;
	}
	qimg_set_warning_handler(library_warning, NULL);
	/* From the start: who asks too early is answered later, instead of ending the process. */
	sigaction(SIGUSR1, &ask, NULL);
	/* A limit on the size of files is an error to report (EFBIG), and to clean up after. */
	signal(SIGXFSZ, SIG_IGN);
}

int ui_flush(void)
{
	static bool failed;

	if (failed)
		return -1;
	errno = 0;
	if (!ferror(stdout) && !fflush(stdout))
		return 0;
	failed = true;
	ui_error("Could not write to standard output%s%s", errno ? ": " : "",
		 errno ? strerror(errno) : "");
	return -1;
}

int ui_end(int status)
{
	if (ui_flush() && !status)
		status = 1;
	if (status && caught_signal) {
		signal(caught_signal, SIG_DFL);
		raise(caught_signal);
	}
	return status;
}

FILE *ui_descriptor(int fd)
{
	return fd == STDOUT_FILENO ? stdout : fdopen(fd, "w");
}

FILE *ui_output(const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		ui_error("Could not write to '%s': %s", path, strerror(errno));
	return f;
}

int ui_output_end(FILE *f, const char *path)
{
	int code = ferror(f) ? EIO : 0;

	errno = 0;
	if (fclose(f))
		code = errno ? errno : EIO;
	if (code)
		ui_error("Could not write to '%s': %s", path, strerror(code));
	return code ? -1 : 0;
}

static void catch_signal(int sig)
{
	caught_signal = sig;
}

const volatile sig_atomic_t *ui_cancel_flag(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = catch_signal, .sa_flags = SA_RESTART }, old;
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		/* nohup and background jobs of a shell ignore some: that stays. */
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_IGN)
			continue;
		sigaction(signals[i], &sa, NULL);
	}
	return &caught_signal;
}

/* ---- text ---------------------------------------------------------------- */

char *ui_size(uint64_t bytes, char *buf, size_t len)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t i = 0;

	/* Dividing at 1000, not 1024, keeps three digits: 1000 KiB is 0.977 MiB. */
	while (value >= 1000 && i + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		i++;
	}
	snprintf(buf, len, "%.3g %s", value, units[i]);
	return buf;
}

char *ui_shell_word(const char *word)
{
	char *quoted = malloc(4 * strlen(word) + 3), *to = quoted;

	if (!quoted)
		return NULL;
	if (*word &&
	    !word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
			       "_-./:,=+@%")]) {
		strcpy(quoted, word);
		return quoted;
	}
	*to++ = '\'';
	for (; *word; word++) {
		if (*word == '\'') {
			memcpy(to, "'\\''", 4);
			to += 4;
		} else {
			*to++ = *word;
		}
	}
	memcpy(to, "'", 2);
	return quoted;
}

enum { WORD_MAX = 40 };

/* How many letters must be added, left out, replaced or exchanged with their neighbour. */
static size_t distance(const char *a, const char *b)
{
	size_t table[WORD_MAX + 1][WORD_MAX + 1], n = strlen(a), m = strlen(b), i, j, best;

	if (n > WORD_MAX || m > WORD_MAX)
		return WORD_MAX;
	for (i = 0; i <= n; i++) {
		for (j = 0; j <= m; j++) {
			if (!i || !j) {
				table[i][j] = i + j;
				continue;
			}
			best = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (best > table[i - 1][j] + 1)
				best = table[i - 1][j] + 1;
			if (best > table[i][j - 1] + 1)
				best = table[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    best > table[i - 2][j - 2] + 1)
				best = table[i - 2][j - 2] + 1;
			table[i][j] = best;
		}
	}
	return table[n][m];
}

const char *ui_nearest(const char *word, const char *const *list)
{
	size_t best = WORD_MAX, d, len = strlen(word);
	const char *found = NULL;

	for (; *list; list++) {
		/* The beginning of a name is as good as one wrong letter. */
		d = len >= 2 && !strncmp(word, *list, len) ? 1 : distance(word, *list);
		if (d < best) {
			best = d;
			found = *list;
		}
	}
	return best <= 1 + len / 4 ? found : NULL;
}

void ui_text(FILE *f, const char *text)
{
	size_t n;

	for (; *text; text += n ? n : 1) {
		unsigned char c = (unsigned char)*text;

		n = utf8_length(text);
		/* Two bytes with 0xc2 in front are 0x80 to 0xbf, of which the first half controls terminals, too. */
		if (!n || c < ' ' || c == 0x7f || (n == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0))
			for (size_t i = 0; i < (n ? n : 1); i++)
				fprintf(f, "\\x%02x", (unsigned char)text[i]);
		else
			fwrite(text, 1, n, f);
	}
}

void ui_json_string(const char *text)
{
	size_t n;

	putchar('"');
	for (; *text; text += n ? n : 1) {
		unsigned char c = (unsigned char)*text;

		n = utf8_length(text);
		if (!n)
			fputs("\xef\xbf\xbd", stdout);
		else if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < ' ' || c == 0x7f)
			printf("\\u%04x", c);
		else
			fwrite(text, 1, n, stdout);
	}
	putchar('"');
}

int ui_json(const struct qimg_value *v)
{
	char *text = qimg_value_json(v);

	if (!text) {
		ui_error("Out of memory");
		return -1;
	}
	puts(text);
	free(text);
	return 0;
}

/* ---- progress ---------------------------------------------------------------- */

static struct {
	bool show;
	double percent, shown;
} progress;

static void print_progress(char end)
{
	printf("    (%.2f/100%%)%c", progress.percent, end);
	fflush(stdout);
	progress.shown = progress.percent;
}

void ui_progress_start(bool show)
{
	progress.show = show;
	progress.percent = 0;
	if (show)
		print_progress('\r');
}

void ui_progress_report(void *ctx, uint64_t done, uint64_t total)
{
	(void)ctx;
	progress.percent = total ? 100.0 * (double)done / (double)total : 0;
	if (progress.show) {
		/* A line for each per cent, not for each request. */
		if (progress.percent - progress.shown >= 1)
			print_progress('\r');
	} else if (progress_asked) {
		progress_asked = 0;
		print_progress('\n');
	}
}

void ui_progress_end(bool success)
{
	if (!progress.show)
		return;
	if (success)
		progress.percent = 100;
	print_progress('\r');
	putchar('\n');
	fflush(stdout);
}

void ui_progress_phase(void *ctx, const char *phase)
{
	(void)ctx;
	if (!progress.show || strcmp(phase, "verify"))
		return;
	ui_progress_end(true);
	printf("Reading the target again\n");
	ui_progress_start(true);
}

void ui_progress_note(void *ctx, const char *text)
{
	(void)ctx;
	if (progress.show)
		printf("\n%s\n", text);
}

/* ---- a line that is replaced ---------------------------------------------------------------- */

static struct timespec status_said;
static bool status_shown;

static bool status_due(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (status_said.tv_sec && now.tv_sec - status_said.tv_sec < 2 &&
	    (now.tv_sec - status_said.tv_sec) * 1000 + (now.tv_nsec - status_said.tv_nsec) / 1000000 < 200)
		return false;
	status_said = now;
	return true;
}

void ui_status(const char *fmt, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO) || !status_due())
		return;
	fputs("\r\033[K", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
	status_shown = true;
}

void ui_status_end(void)
{
	if (!status_shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	status_shown = false;
}
