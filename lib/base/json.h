/* SPDX-License-Identifier: BSD-2-Clause */
/* Options given as a JSON object, as in the file name 'json:{"driver": "qcow2", ...}'. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

struct qimg_opts;
struct qimg_error;

/*
 * Adds the members of the object `text` (without "json:") to o. Nested objects and lists are flattened
 * ("file.filename", "children.0.driver"); booleans become "on" and "off", numbers decimal text, and
 * null the empty string, so that "backing": null reads as backing="". A key given twice, a fraction, or
 * text that is very long or deeply nested is an error, ENOTSUP when there is no JSON parser.
 */
int json_to_opts(struct qimg_opts *o, const char *text, struct qimg_error *e);

#endif
