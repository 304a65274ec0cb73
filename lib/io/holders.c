// SPDX-License-Identifier: BSD-2-Clause
/*
 * Who has a file open: /proc/PID/fd is searched for the same device and inode, since /proc/locks names
 * no process for open file description locks. Only what this user may see is found, and processes come
 * and go meanwhile: the answer is a help for people and nothing to decide by.
 */
#include "io/holders.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define SHOWN 4

static DIR *open_dir_at(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

/* How many descriptors of the process are on the file. */
static unsigned process_has(int proc, const char *pid, struct file_id id)
{
	char name[32];
	struct dirent *entry;
	struct stat st;
	unsigned found = 0;
	DIR *fds;

	snprintf(name, sizeof(name), "%.20s/fd", pid);
	fds = open_dir_at(proc, name);
	if (!fds)
		return 0;
	while ((entry = readdir(fds))) {
		if (entry->d_name[0] == '.' || fstatat(dirfd(fds), entry->d_name, &st, 0))
			continue;
		found += file_id_same(id, S_ISBLK(st.st_mode) ? (struct file_id){ 0, st.st_rdev } :
				      (struct file_id){ st.st_dev, st.st_ino });
	}
	closedir(fds);
	return found;
}

/* The name that the process gave itself can hold anything, and goes to a terminal. */
static void command_name(int proc, const char *pid, char *name, size_t size)
{
	char path[32];
	ssize_t n = -1;
	size_t i;
	int fd;

	snprintf(path, sizeof(path), "%.20s/comm", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, name, size - 1);
		close(fd);
	}
	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	for (i = 0; name[i]; i++) {
		if (name[i] < 0x20 || name[i] > 0x7e)
			name[i] = '?';
	}
	if (!*name)
		snprintf(name, size, "a process");
}

unsigned holders_describe(struct file_id id, char *text, size_t size)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	unsigned count = 0;
	size_t used = 0;
	char name[64], self[24];
	int n;

	snprintf(self, sizeof(self), "%ld", (long)getpid());
	*text = '\0';
	if (!proc)
		return 0;
	while ((entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
		    !strcmp(entry->d_name, self) ||
		    !process_has(dirfd(proc), entry->d_name, id))
			continue;
		if (count++ >= SHOWN)
			continue;
		command_name(dirfd(proc), entry->d_name, name, sizeof(name));
		n = snprintf(text + used, size - used, "%s%s (pid %.20s)", used ? ", " : "", name,
			     entry->d_name);
		used = n > 0 && (size_t)n < size - used ? used + (size_t)n : used;
		text[used] = '\0';
	}
	if (count > SHOWN && used < size)
		snprintf(text + used, size - used, " and %u more", count - SHOWN);
	if (!count && process_has(dirfd(proc), self, id) > 1) {
		snprintf(text, size, "this command itself");
		count = 1;
	}
	closedir(proc);
	return count;
}
