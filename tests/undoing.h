/* SPDX-License-Identifier: BSD-2-Clause */
/* Taking a repair back, for tests. */
#ifndef UNDOING_H
#define UNDOING_H

#include "disk.h"

/*
 * Takes the repair of `path` back with that backup, so that the file is the original again; it may be that
 * already, and the backup not be needed yet. fail: the undo is cut off at its first try, after so many changes
 * (-1: it is not). NULL: that is so, else what is not.
 */
const char *undoing_judge(const char *path, const char *backup, const struct disk_state *original, int fail);

#endif
