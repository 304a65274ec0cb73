// SPDX-License-Identifier: BSD-2-Clause
/* lib/image/footprint.c: what the file system of a folder can do, on those that can be mounted here. */
#include "qimg.h"

#include <errno.h>

#include "scratch.h"
#include "tap.h"

static void test_in(const char *folder, const char *name, bool reserves, bool hints, bool direct,
		    const char *zeroes)
{
	struct qimg_abilities x;
	struct qimg_error e;

	if (!ok(!qimg_abilities(folder, &x, &e), "%s: looked at", name)) {
		diag("%s", e.msg);
		return;
	}
	is_str(x.file_system, name, "its name");
	is_str(qimg_file_system(folder), name, "the same for the folder");
	ok(x.reserves == reserves, "%s: reserves space: %d", name, reserves);
	ok(x.extent_size_hints == hints, "%s: takes extent size hints: %d", name, hints);
	ok(x.direct == direct, "%s: has direct I/O: %d", name, direct);
	is_str(x.zeroes, zeroes, "%s: how it zeroes", name);
	ok(sh("rmdir %s/lost+found; test -z \"$(ls -A %s)\"", folder, folder), "nothing is left there");
}

int main(void)
{
	struct qimg_abilities x;
	struct qimg_error e;

	scratch_enter();
	if (scratch_mount("ext4", "e", 32))
		test_in("e", "ext4", true, false, true, "FALLOC_FL_ZERO_RANGE");
	else
		skip("no ext4");
	if (scratch_mount("ext2", "o", 32))	/* without extents there is nothing to reserve */
		test_in("o", "ext4", false, false, true, "writing zeros");
	else
		skip("no ext2");
	if (scratch_mount("xfs", "x", 320))
		test_in("x", "xfs", true, true, true, "FALLOC_FL_ZERO_RANGE");
	else
		skip("no xfs");
	if (scratch_mount("tmpfs", "t", 1))
		test_in("t", "tmpfs", true, false, false, "FALLOC_FL_PUNCH_HOLE");
	else
		skip("no tmpfs");
	if (scratch_mount("vfat", "v", 32))
		test_in("v", "vfat", false, false, true, "writing zeros");
	else
		skip("no vfat");
	ok(qimg_abilities("absent", &x, &e) == -1 && e.code == ENOENT && strstr(e.msg, "'absent'"),
	   "a folder that is not there");
	ok(!qimg_file_system("absent"), "has no file system");
	return done_testing();
}
