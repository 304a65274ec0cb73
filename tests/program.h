/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A random program: what a guest may do to an image (write, zero, discard, compress, grow, flush, read,
 * close and open again; several of these at once), through the public interface, with small caches, from a seed. Keeps
 * book of what the guest must read and checks it on the way.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "qimg.h"

#include "guest.h"
#include "setting.h"

struct program {
	const struct setting *s;
	uint64_t seed;
	char dir[256];			/* holds image.qcow2, data.raw, backing.raw */
	char path[300];			/* of the image */
	struct setting_content content;	/* at the start */
	struct guest guest;
	const size_t *clock;		/* guest.h: events so far */
	struct qimg_image *img;		/* NULL: closed */
	uint64_t stamp;			/* of the next write */
	unsigned ran;			/* operations so far */
	char last[80];			/* what the last of them was */
	unsigned since_open;		/* operations */
	bool engines;			/* open it with any I/O engine, not the plain one alone */
};

/* Makes dir with a new image of that kind in it. */
void program_prepare(struct program *p, const struct setting *s, const char *base, uint64_t seed,
		     const size_t *clock);
/* Removes all files, unless keep; the image must be closed. */
void program_free(struct program *p, bool keep);

/*
 * All return false when a call failed that must not, or when the guest read something else than it
 * wrote; *e then tells.
 */
bool program_open(struct program *p, struct qimg_error *e);
bool program_step(struct program *p, struct qimg_error *e);
bool program_close(struct program *p, struct qimg_error *e);
/*
 * After a call that failed because the host did: finds out what the guest has now, which must be
 * something it may have (else e->code is EILSEQ), opens the image again where it was closed. False as
 * above.
 */
bool program_recover(struct program *p, struct qimg_error *e);
/* Reads all of the image and compares. */
bool program_read_all(struct program *p, struct qimg_error *e);

#endif
