/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A scratch directory for one unit test program, and file systems mounted in it. All of it is taken
 * back when the program ends by itself.
 *
 *	scratch_enter();				the current directory is empty now
 *	if (scratch_mount("xfs", "mnt", 300))		300 MiB of XFS at mnt/; false: not possible here
 */
#ifndef TESTS_UNIT_SCRATCH_H
#define TESTS_UNIT_SCRATCH_H

#include <ftw.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

static char scratch_path[256];
static char scratch_undo[16][320];
static unsigned scratch_undos;
static pid_t scratch_owner;

/* Runs a command quietly; true when it ended with 0. */
__attribute__((unused, format(printf, 1, 2))) static bool sh(const char *fmt, ...)
{
	char line[2048], whole[2200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	snprintf(whole, sizeof(whole), "{ %s; } >/dev/null 2>&1", line);
	return system(whole) == 0;	/* NOLINT(cert-env33-c): a test sets its scene */
}

static int scratch_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void scratch_leave(void)
{
	if (getpid() != scratch_owner || chdir("/"))
		return;
	while (scratch_undos)
		sh("%s", scratch_undo[--scratch_undos]);
	nftw(scratch_path, scratch_remove, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

__attribute__((unused)) static void scratch_enter(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(scratch_path, sizeof(scratch_path), "%s/qimg-unit-XXXXXX", tmp ? tmp : "/var/tmp");
	if (!mkdtemp(scratch_path) || chmod(scratch_path, 0755) || chdir(scratch_path)) {
		printf("Bail out! no scratch directory at %s\n", scratch_path);
		exit(1);
	}
	scratch_owner = getpid();
	atexit(scratch_leave);
}

/* A command that undoes something at the end. */
__attribute__((unused, format(printf, 1, 2))) static void scratch_later(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(scratch_undo[scratch_undos++], sizeof(scratch_undo[0]), fmt, ap);
	va_end(ap);
}

/* Mounts a new file system (ext4, xfs, btrfs, tmpfs) of that many MiB at the new directory dir. */
__attribute__((unused)) static bool scratch_mount(const char *fs, const char *dir, unsigned mib)
{
	if (geteuid() || !sh("mkdir -p %s", dir))
		return false;
	if (!strcmp(fs, "tmpfs")) {
		if (!sh("mount -t tmpfs -o size=%um none %s", mib, dir))
			return false;
	} else if (!sh("truncate -s %uM %s.img && PATH=$PATH:/usr/sbin:/sbin mkfs.%s -q %s.img && "
		       "mount -o loop %s.img %s", mib, dir, fs, dir, dir, dir)) {
		return false;
	}
	scratch_later("umount -l %s/%s", scratch_path, dir);
	return true;
}

/* A block device of that many bytes over the file `name`; dev gets its path. */
__attribute__((unused)) static bool scratch_loop(const char *name, unsigned long long bytes, char dev[64])
{
	char line[512];
	FILE *p;
	bool got;

	if (geteuid() || !sh("truncate -s %llu %s", bytes, name))
		return false;
	snprintf(line, sizeof(line), "PATH=$PATH:/usr/sbin:/sbin losetup -f --show %s 2>/dev/null", name);
	p = popen(line, "r");	/* NOLINT(cert-env33-c): a test sets its scene */
	got = p && fgets(dev, 64, p);
	if (p)
		pclose(p);
	if (!got)
		return false;
	dev[strcspn(dev, "\n")] = '\0';
	scratch_later("PATH=$PATH:/usr/sbin:/sbin losetup -d %s", dev);
	return true;
}

#endif
