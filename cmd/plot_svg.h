/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing SVG: numbers, texts and lines. Whether the stream took it all is its owner's to notice. */
#ifndef CMD_PLOT_SVG_H
#define CMD_PLOT_SVG_H

#include <stddef.h>
#include <stdio.h>

void svg_number(FILE *f, double v);
/* ` name="12.34"` */
void svg_attr(FILE *f, const char *name, double v);
/*
 * Text with what XML asks for: what is no UTF-8 or may not be in a document becomes U+FFFD. At most `most`
 * characters, the last of them an ellipsis where there are more.
 */
void svg_text(FILE *f, const char *s, size_t most);
void svg_title(FILE *f, const char *s);
/*
 * A text element at x, y, in letters of that size. What the width has no room for is cut, and the whole
 * becomes its title. more: further attributes, with a blank in front.
 */
void svg_label(FILE *f, double x, double y, double size, double width, const char *more, const char *s);
void svg_line(FILE *f, const char *class, double x1, double y1, double x2, double y2);

#endif
