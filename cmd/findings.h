/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `qimg check` has found: the lines that the reference prints, a summary that groups and explains, or
 * JSON.
 */
#ifndef CMD_FINDINGS_H
#define CMD_FINDINGS_H

#include "qimg.h"

enum findings_form {
	FINDINGS_LINES,			/* a line each on stderr, as they come */
	FINDINGS_GROUPS,		/* the first of each kind, and what it means */
	FINDINGS_KEPT,			/* lines, and kept for JSON */
};

struct finding;

struct findings {
	enum findings_form form;
	uint64_t most;			/* that are shown */
	bool dry;			/* what is mended would be, and is not */
	uint64_t shown;
	struct finding *list;		/* of a form that keeps them */
	size_t count, room;
	bool no_memory;			/* some could not be kept */
};

/* To be used as the `finding` call of struct qimg_check; ctx is the struct findings. */
void findings_take(void *ctx, const struct qimg_finding *f);
/* Behind the last one. GROUPS: prints them; else: says how many were not shown. */
void findings_print(struct findings *l, const struct qimg_check_result *r);
/* The members "found" and "findings" of the JSON object, without a comma behind them. */
void findings_json(const struct findings *l, const struct qimg_check_result *r);
void findings_free(struct findings *l);

#endif
