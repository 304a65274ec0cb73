// SPDX-License-Identifier: BSD-2-Clause
/* The version, which configure knows. */
#include "qimg.h"

#include "config.h"

const char *qimg_version(void)
{
	return QIMG_VERSION;
}
