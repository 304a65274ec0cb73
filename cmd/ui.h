/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What reaches the user: messages, sizes, progress, and the care for stdout that scripts rely on.
 *
 * Results go to stdout, everything else to stderr with the name of the program in front.
 */
#ifndef CMD_UI_H
#define CMD_UI_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct qimg_value;

/* First call of the program. Makes descriptors 0 to 2 safe and takes the library's warnings. */
void ui_start(const char *argv0);
/*
 * Last call: writes out what is left of stdout. Returns the exit status: `status`, or 1 with a
 * message when something printed did not arrive. A signal that ui_cancel_flag caught ends the
 * process here if the command failed.
 */
int ui_end(int status);
/* Writes out what was printed so far. 0, or -1 after a message (of which there is one at most). */
int ui_flush(void);

const char *ui_program(void);	/* the name the program was started under, without folder */

/* A descriptor that was handed over open, to print to. NULL: it is not open for writing. */
FILE *ui_descriptor(int fd);

/* A file to print to, replaced if it is there. NULL after a message. */
FILE *ui_output(const char *path);
/* Ends it. 0, or -1 after a message when something printed did not arrive. */
int ui_output_end(FILE *f, const char *path);

/* "PROGRAM: MESSAGE" on stderr, after what was printed on stdout before. */
void ui_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void ui_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A further line of the message before, without the name in front. */
void ui_more(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "1.5 KiB": three significant digits; the unit changes at 1000. Returns buf. */
char *ui_size(uint64_t bytes, char *buf, size_t len);
enum { UI_SIZE_LEN = 32 };

/* A word as a POSIX shell reads it back: quoted where that is needed. The caller frees it. */
char *ui_shell_word(const char *word);
/* The word of a list ended by NULL that comes next to `word`, or NULL when none is near. */
const char *ui_nearest(const char *word, const char *const *list);

/* Prints what an image says: bytes that control terminals, and what is no text, as \xNN. */
void ui_text(FILE *f, const char *text);
/* Prints a string as JSON has it, in quotes; what is no UTF-8 becomes U+FFFD. */
void ui_json_string(const char *text);
/* Prints a value as one JSON document. 0, or -1 after a message. */
int ui_json(const struct qimg_value *v);

/*
 * Progress of a long operation; to be used as the report call of struct qimg_progress. With `show`
 * lines "    (12.34/100%)" and a carriage return are printed; without it, one such line each time
 * that SIGUSR1 arrives.
 */
void ui_progress_start(bool show);
void ui_progress_report(void *ctx, uint64_t done, uint64_t total);
void ui_progress_end(bool success);
/* The same for the other calls of struct qimg_progress: shown when the lines are. */
void ui_progress_phase(void *ctx, const char *phase);
void ui_progress_note(void *ctx, const char *text);

/*
 * A line on the terminal that the next one replaces, for what takes long: nothing where stderr is none, and not
 * more often than a few times a second. ui_status_end wipes it, and so do messages.
 */
void ui_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void ui_status_end(void);

/* From now on SIGINT, SIGTERM and SIGHUP set the flag instead of ending the process. */
const volatile sig_atomic_t *ui_cancel_flag(void);

#endif
