// SPDX-License-Identifier: BSD-2-Clause
/* Removing a file by name, when what it was made for has failed. */
#include "io/file.h"

#include <unistd.h>

void file_remove(const char *path)
{
	unlink(path);
}
