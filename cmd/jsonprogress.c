// SPDX-License-Identifier: BSD-2-Clause
/* Progress as JSON lines. Who reads them may go away: that is no reason to stop. */
#include "jsonprogress.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ui.h"

#define INTERVAL 0.1	/* seconds between two lines of a phase at least */

static struct {
	FILE *file;
	char phase[32];
	double began, said;	/* of the phase, of the last line */
	uint64_t done, total;
} out;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void put(const char *line, size_t len)
{
	if (fwrite(line, 1, len, out.file) != len || fflush(out.file))
		clearerr(out.file);
}

/* A string as JSON has it, cut to the room there is. */
static void quote(const char *text, char *buf, size_t room)
{
	size_t n = 0;

	buf[n++] = '"';
	for (; *text && n + 8 < room; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			n += (size_t)sprintf(buf + n, "\\%c", c);
		else if (c < ' ')
			n += (size_t)sprintf(buf + n, "\\u%04x", c);
		else
			buf[n++] = (char)c;
	}
	buf[n++] = '"';
	buf[n] = 0;
}

/* The figures of a line, without its end. */
static int figures(char *line, size_t room, const char *phase)
{
	double passed = now() - out.began, rate = passed > 0 ? (double)out.done / passed : 0;
	char eta[32] = "null";

	if (out.done && rate > 0)
		snprintf(eta, sizeof(eta), "%.1f", (double)(out.total - out.done) / rate);
	return snprintf(line, room, "{\"phase\": \"%s\", \"done\": %" PRIu64 ", \"total\": %" PRIu64
			", \"rate\": %.0f, \"eta\": %s", phase, out.done, out.total, rate, eta);
}

static void say(void)
{
	char line[320];
	int n = figures(line, sizeof(line) - 2, out.phase);

	memcpy(line + n, "}\n", 2);
	put(line, (size_t)n + 2);
	out.said = now();
}

static void report(void *ctx, uint64_t done, uint64_t total)
{
	(void)ctx;
	out.done = done;
	out.total = total;
	if (!done || done == total || now() - out.said >= INTERVAL)
		say();
}

static void phase(void *ctx, const char *name)
{
	(void)ctx;
	snprintf(out.phase, sizeof(out.phase), "%s", name);
	if (!strcmp(name, "sync"))
		say();		/* nothing is counted there */
	else
		out.began = now();
}

static void note(void *ctx, const char *text)
{
	char line[1200], quoted[1100];
	int n;

	(void)ctx;
	quote(text, quoted, sizeof(quoted));
	n = snprintf(line, sizeof(line), "{\"phase\": \"note\", \"text\": %s}\n", quoted);
	put(line, (size_t)n);
}

int jsonprogress_open(const char *spec, struct qimg_progress *p)
{
	char *end;
	long fd = 1;

	if (strncmp(spec, "json", 4) || (spec[4] && spec[4] != ':')) {
		ui_error("'%s' is no form of progress: it can be json or json:FD", spec);
		return -1;
	}
	if (spec[4]) {
		fd = strtol(spec + 5, &end, 10);
		if (!isdigit((unsigned char)spec[5]) || *end || fd > INT32_MAX)
			fd = -1;
	}
	out.file = ui_descriptor((int)fd);
	if (!out.file) {
		ui_error("'%s' is not the number of a descriptor to write to", spec + 5);
		return -1;
	}
	signal(SIGPIPE, SIG_IGN);
	out.began = now();
	p->report = report;
	p->phase = phase;
	p->note = note;
	return 0;
}

void jsonprogress_end(const char *error)
{
	char line[1600], quoted[1100];
	int n;

	if (!out.file)
		return;
	n = figures(line, sizeof(line), "end");
	if (error) {
		quote(error, quoted, sizeof(quoted));
		n += snprintf(line + n, sizeof(line) - (size_t)n, ", \"result\": \"failed\", \"error\": %s}\n",
			      quoted);
	} else {
		n += snprintf(line + n, sizeof(line) - (size_t)n, ", \"result\": \"ok\"}\n");
	}
	put(line, (size_t)n);
	out.file = NULL;
}
