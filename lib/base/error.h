/* SPDX-License-Identifier: BSD-2-Clause */
/* Filling in struct qimg_error. Inside the library the pointer is never NULL. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "qimg.h"

/* Sets code and message, cutting the message where it does not fit. Returns -1, always. */
int error_set(struct qimg_error *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Same, followed by ": " and the text of the errno value `code`. Returns -1. */
int error_errno(struct qimg_error *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Puts context in front of the message: "CONTEXT: MESSAGE". Returns -1. */
int error_prefix(struct qimg_error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* "Out of memory". Returns -1. */
int error_nomem(struct qimg_error *e);

/* Hands a warning to the handler set by qimg_set_warning_handler. */
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
