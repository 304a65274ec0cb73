/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Building the trees that queries answer (struct qimg_value of the public header).
 *
 * The adding calls hand the new member to the container. They take e and do nothing, returning -1,
 * when memory is short; `v` NULL as a member to add means the same, so that calls can be nested.
 */
#ifndef BASE_VALUE_H
#define BASE_VALUE_H

#include "qimg.h"

struct qimg_value *value_object(struct qimg_error *e);
struct qimg_value *value_list(struct qimg_error *e);

int value_set(struct qimg_value *obj, const char *key, struct qimg_value *v, struct qimg_error *e);
int value_set_bool(struct qimg_value *obj, const char *key, bool b, struct qimg_error *e);
int value_set_int(struct qimg_value *obj, const char *key, int64_t n, struct qimg_error *e);
int value_set_string(struct qimg_value *obj, const char *key, const char *s, struct qimg_error *e);
/* Frees v too when it fails. */
int value_append(struct qimg_value *list, struct qimg_value *v, struct qimg_error *e);
int value_append_string(struct qimg_value *list, const char *s, struct qimg_error *e);

#endif
