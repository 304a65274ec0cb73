/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TAP for the unit tests: one main() a program, whose last statement is
 * `return done_testing();`.
 *
 *	ok(error_set(&e, EIO, "x") == -1, "error_set returns -1 for code %d", EIO);
 *	is_u64(be64(p), 0x1234, "be64 reads big-endian");
 *
 * Each check prints its line at once and returns whether it held, so that a
 * test can go on from there (`if (!ok(...)) return done_testing();`). A test
 * that crashes on the way prints no plan, and tests/run counts that as a
 * failure.
 */
#ifndef TESTS_UNIT_TAP_H
#define TESTS_UNIT_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned tap_ran, tap_failed, tap_planned;

/* plan: say beforehand how many checks will run; done_testing() compares. */
#define plan(n) tap_plan(n)

/* ok: cond must hold; the rest is a printf format that names the check. */
#define ok(cond, ...) tap_ok((cond) ? true : false, __FILE__, __LINE__, #cond, __VA_ARGS__)

/* is_u64, is_i64, is_str, is_mem: got must be what is wanted, and both are
 * printed if it is not. Strings may be NULL. */
#define is_u64(got, want, ...) tap_u64(got, want, __FILE__, __LINE__, #got, __VA_ARGS__)
#define is_i64(got, want, ...) tap_i64(got, want, __FILE__, __LINE__, #got, __VA_ARGS__)
#define is_str(got, want, ...) tap_str(got, want, __FILE__, __LINE__, #got, __VA_ARGS__)
#define is_mem(got, want, n, ...) tap_mem(got, want, n, __FILE__, __LINE__, #got, __VA_ARGS__)

/* skip: counts as one check that could not be made; the rest says why. */
#define skip(...) tap_skip(__VA_ARGS__)

/* skip_all: the whole program cannot run here; exits. */
#define skip_all(...) tap_skip_all(__VA_ARGS__)

/* diag: a line for whoever reads the output of a failed check. */
#define diag(...) tap_diag(__VA_ARGS__)

/* Sanitizers keep memory that the program has given back: what is resident tells nothing then. */
#if defined(__has_feature)
#define TAP_SANITIZER(name) __has_feature(name)
#else
#define TAP_SANITIZER(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
	TAP_SANITIZER(address_sanitizer) || TAP_SANITIZER(thread_sanitizer)
#define tap_memory_tells false
#else
#define tap_memory_tells true
#endif

/* The caches of the library are as large as they are asked to be, and have no second level unasked. */
#if defined(QIMG_TWO_SLICES) || defined(QIMG_SECOND_LEVEL)
#define tap_plain_caches false
#else
#define tap_plain_caches true
#endif

#define TAP_UNUSED __attribute__((unused))
#define TAP_PRINTF(a, b) __attribute__((format(printf, a, b)))

TAP_UNUSED TAP_PRINTF(1, 2) static void tap_diag(const char *fmt, ...)
{
	va_list ap;

	printf("# ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

TAP_UNUSED static void tap_plan(unsigned n)
{
	tap_planned = n;
	printf("1..%u\n", n);
	fflush(stdout);
}

TAP_UNUSED TAP_PRINTF(5, 0) static bool tap_report(bool held, const char *file, int line,
						   const char *expr, const char *fmt, va_list ap)
{
	printf("%sok %u - ", held ? "" : "not ", ++tap_ran);
	vprintf(fmt, ap);
	printf("\n");
	if (!held) {
		tap_failed++;
		printf("# at %s:%d: %s\n", file, line, expr);
	}
	fflush(stdout);
	return held;
}

TAP_UNUSED TAP_PRINTF(5, 6) static bool tap_ok(bool held, const char *file, int line,
					       const char *expr, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tap_report(held, file, line, expr, fmt, ap);
	va_end(ap);
	return held;
}

TAP_UNUSED TAP_PRINTF(6, 7) static bool tap_u64(uint64_t got, uint64_t want, const char *file,
						int line, const char *expr, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!tap_report(got == want, file, line, expr, fmt, ap))
		tap_diag("got %" PRIu64 " (0x%" PRIx64 "), want %" PRIu64 " (0x%" PRIx64 ")", got,
			 got, want, want);
	va_end(ap);
	return got == want;
}

TAP_UNUSED TAP_PRINTF(6, 7) static bool tap_i64(int64_t got, int64_t want, const char *file,
						int line, const char *expr, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!tap_report(got == want, file, line, expr, fmt, ap))
		tap_diag("got %" PRId64 ", want %" PRId64, got, want);
	va_end(ap);
	return got == want;
}

TAP_UNUSED TAP_PRINTF(6, 7) static bool tap_str(const char *got, const char *want,
						const char *file, int line, const char *expr,
						const char *fmt, ...)
{
	bool held = got && want ? strcmp(got, want) == 0 : got == want;
	va_list ap;

	va_start(ap, fmt);
	if (!tap_report(held, file, line, expr, fmt, ap)) {
		tap_diag("got  '%s'", got ? got : "(NULL)");
		tap_diag("want '%s'", want ? want : "(NULL)");
	}
	va_end(ap);
	return held;
}

TAP_UNUSED TAP_PRINTF(7, 8) static bool tap_mem(const void *got, const void *want, size_t n,
						const char *file, int line, const char *expr,
						const char *fmt, ...)
{
	const uint8_t *a = got, *b = want;
	size_t i;
	va_list ap;

	for (i = 0; i < n && a[i] == b[i]; i++)
		;
	va_start(ap, fmt);
	if (!tap_report(i == n, file, line, expr, fmt, ap))
		tap_diag("differ at byte %zu of %zu: got 0x%02x, want 0x%02x", i, n, a[i], b[i]);
	va_end(ap);
	return i == n;
}

TAP_UNUSED TAP_PRINTF(1, 2) static void tap_skip(const char *fmt, ...)
{
	va_list ap;

	printf("ok %u # SKIP ", ++tap_ran);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

TAP_UNUSED TAP_PRINTF(1, 2) static void tap_skip_all(const char *fmt, ...)
{
	va_list ap;

	printf("1..0 # SKIP ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	exit(0);
}

/* done_testing: prints the plan where plan() did not; the program's status. */
TAP_UNUSED static int done_testing(void)
{
	if (!tap_planned)
		printf("1..%u\n", tap_ran);
	fflush(stdout);
	return tap_failed || !tap_ran || (tap_planned && tap_planned != tap_ran);
}

#endif
