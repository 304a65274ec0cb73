// SPDX-License-Identifier: BSD-2-Clause
/* The elements of a chart as SVG. */
#include "plot_svg.h"

#include <stdint.h>
#include <string.h>

#include "plot_axis.h"
#include "utf8.h"

void svg_number(FILE *f, double v)
{
	char buf[AXIS_LABEL];

	fputs(axis_number(v, 2, buf), f);
}

void svg_attr(FILE *f, const char *name, double v)
{
	fprintf(f, " %s=\"", name);
	svg_number(f, v);
	fputc('"', f);
}

/* Bytes of the UTF-8 character at p that XML may hold, or 0. */
static size_t character(const unsigned char *p)
{
	size_t n = utf8_length((const char *)p);

	/* U+FFFE, U+FFFF, and most of what controls something. */
	if ((n == 3 && p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe) || (n == 1 && *p < 0x20 && *p != '\t'))
		return 0;
	return n;
}

void svg_text(FILE *f, const char *s, size_t most)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t count = 0;

	while (*p) {
		size_t n = character(p);

		if (++count == most && p[n ? n : 1]) {
			fputs("\xe2\x80\xa6", f);
			return;
		}
		if (!n)
			fputs("\xef\xbf\xbd", f);
		else if (*p == '&')
			fputs("&amp;", f);
		else if (*p == '<')
			fputs("&lt;", f);
		else if (*p == '>')
			fputs("&gt;", f);
		else if (*p == '"')
			fputs("&quot;", f);
		else
			fwrite(p, 1, n, f);
		p += n ? n : 1;
	}
}

void svg_title(FILE *f, const char *s)
{
	fputs("<title>", f);
	svg_text(f, s, SIZE_MAX);
	fputs("</title>", f);
}

/* How many of its characters fit into the width. */
static size_t fitting(const char *s, double size, double width)
{
	size_t count = 0, n = strlen(s);
	double all = axis_text_width(s, size);

	for (size_t i = 0; i < n; i++)
		count += (s[i] & 0xc0) != 0x80;
	if (all <= width || !count)
		return SIZE_MAX;
	n = (size_t)(width / all * (double)count);
	return n ? n : 1;
}

void svg_label(FILE *f, double x, double y, double size, double width, const char *more,
	       const char *s)
{
	size_t most = fitting(s, size, width);

	fputs("<text", f);
	svg_attr(f, "x", x);
	svg_attr(f, "y", y);
	fprintf(f, "%s>", more);
	if (most != SIZE_MAX)
		svg_title(f, s);
	svg_text(f, s, most);
	fputs("</text>\n", f);
}

void svg_line(FILE *f, const char *class, double x1, double y1, double x2, double y2)
{
	fprintf(f, "<line class=\"%s\"", class);
	svg_attr(f, "x1", x1);
	svg_attr(f, "y1", y1);
	svg_attr(f, "x2", x2);
	svg_attr(f, "y2", y2);
	fputs("/>\n", f);
}
