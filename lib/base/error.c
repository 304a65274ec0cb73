// SPDX-License-Identifier: BSD-2-Clause
/*
 * Messages of failed calls, and the one handler for warnings.
 *
 * A message never overflows: what does not fit is cut, at the end of a UTF-8 character, so that the
 * text can still be printed and put into JSON. Nothing here allocates: running out of memory must be
 * reportable.
 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void (*warning_handler)(void *ctx, const char *msg);
static void *warning_ctx;

/* Takes an incomplete UTF-8 character off the end of a text that was cut. */
static void trim_cut(char *text)
{
	size_t n = strlen(text), back = 0;
	unsigned char c;

	while (back < 3 && back < n && ((unsigned char)text[n - 1 - back] & 0xc0) == 0x80)
		back++;
	if (back >= n)
		return;
	c = (unsigned char)text[n - 1 - back];
	if ((c >= 0xf0 && back < 3) || (c >= 0xe0 && back < 2) || (c >= 0xc0 && back < 1))
		text[n - 1 - back] = '\0';
}

static void format_text(char *text, size_t size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

static void format_text(char *text, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(text, size, fmt, ap);

	if (n < 0)
		text[0] = '\0';
	else if ((size_t)n >= size)
		trim_cut(text);
}

static void append_text(char *text, size_t size, const char *more)
{
	size_t n = strlen(text), m = strlen(more);

	if (m < size - n) {
		memcpy(text + n, more, m + 1);
		return;
	}
	memcpy(text + n, more, size - n - 1);
	text[size - 1] = '\0';
	trim_cut(text);
}

int error_set(struct qimg_error *e, int code, const char *fmt, ...)
{
	va_list ap;

	e->code = code;
	va_start(ap, fmt);
	format_text(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	return -1;
}

int error_errno(struct qimg_error *e, int code, const char *fmt, ...)
{
	char reason[128];
	va_list ap;

	e->code = code;
	va_start(ap, fmt);
	format_text(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	/* The GNU strerror_r, which may answer a constant string instead of filling the buffer. */
	append_text(e->msg, sizeof(e->msg), ": ");
	append_text(e->msg, sizeof(e->msg), strerror_r(code, reason, sizeof(reason)));
	return -1;
}

int error_prefix(struct qimg_error *e, const char *fmt, ...)
{
	char old[sizeof(e->msg)];
	va_list ap;

	memcpy(old, e->msg, sizeof(old));
	/* An argument may be the message itself: it is still whole while the text is made. */
	{
		char text[sizeof(e->msg)];

		va_start(ap, fmt);
		format_text(text, sizeof(text), fmt, ap);
		va_end(ap);
		memcpy(e->msg, text, sizeof(text));
	}
	append_text(e->msg, sizeof(e->msg), ": ");
	append_text(e->msg, sizeof(e->msg), old);
	return -1;
}

int error_nomem(struct qimg_error *e)
{
	return error_set(e, ENOMEM, "Out of memory");
}

void qimg_set_warning_handler(void (*handler)(void *ctx, const char *msg), void *ctx)
{
	warning_handler = handler;
	warning_ctx = ctx;
}

void warn(const char *fmt, ...)
{
	char text[1020];
	va_list ap;

	if (!warning_handler)
		return;
	va_start(ap, fmt);
	format_text(text, sizeof(text), fmt, ap);
	va_end(ap);
	warning_handler(warning_ctx, text);
}
