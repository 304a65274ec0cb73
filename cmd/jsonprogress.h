/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress for programs: a JSON object a line, on a descriptor. Each has "phase", "done" and "total" (bytes),
 * "rate" (bytes in a second) and "eta" (seconds, or null); within a phase "done" never gets less. A line
 * with "phase": "note" has a "text". The last line has "phase": "end", "result": "ok" or "failed",
 * and with the latter "error".
 */
#ifndef CMD_JSONPROGRESS_H
#define CMD_JSONPROGRESS_H

#include "qimg.h"

/* spec: "json" (on stdout) or "json:FD". -1 after a message. Fills the calls of p in. */
int jsonprogress_open(const char *spec, struct qimg_progress *p);
/* error: NULL when all went well. */
void jsonprogress_end(const char *error);

#endif
