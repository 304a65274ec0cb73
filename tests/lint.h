/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Put in front of each file that `make lint-tidy` reads (but error.c): clang's analyzer does not see
 * into error.c, and would follow every failed call as if it had returned 0.
 */
#ifndef LINT_H
#define LINT_H

#include "base/error.h"

#define error_set(...) (error_set(__VA_ARGS__), -1)
#define error_errno(...) (error_errno(__VA_ARGS__), -1)
#define error_prefix(...) (error_prefix(__VA_ARGS__), -1)
#define error_nomem(e) (error_nomem(e), -1)

#endif
