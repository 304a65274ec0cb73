// SPDX-License-Identifier: BSD-2-Clause
/* Checking an image, whatever its format. */
#include "image/image.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "image/driver.h"

int qimg_check_run(struct qimg_image *img, const struct qimg_check *c, struct qimg_check_result *r,
		   struct qimg_error *e)
{
	memset(r, 0, sizeof(*r));
	if (!img->driver->check)
		return error_set(e, ENOTSUP, "This image format does not support checks");
	return img->driver->check(img, c, r, e);
}
