// SPDX-License-Identifier: BSD-2-Clause
/* lib/image/name: what names stored in images are taken for, and where they lead. */
#include <errno.h>

#include "image/image.h"
#include "tap.h"

static struct qimg_error e;

static void leads(const char *base, const char *stored, const char *want)
{
	char *got = name_resolve(base, stored, false, &e);

	is_str(got, want, "'%s' in '%s'", stored, base);
	free(got);
}

static void refused(const char *stored)
{
	char *got = name_resolve("d/top.qcow2", stored, false, &e);

	ok(!got && e.code == EPERM && strstr(e.msg, stored) && strstr(e.msg, "d/top.qcow2"),
	   "'%s' is refused, naming both", stored);
	free(got);
	got = name_resolve("d/top.qcow2", stored, true, &e);
	is_str(got, stored, "'%s' is left alone when references are allowed", stored);
	free(got);
}

int main(void)
{
	static const char *const references[] = {
		"json:{\"driver\":\"raw\"}", "json: {}", "nbd:localhost:10809", "nbd:unix:/run/nbd.sock",
		"nbd:unix:/run/x:exportname=y", "nbd://host/export", "nbd+unix:///x?socket=/y",
		"http://host/x.qcow2", "https://host/x", "ssh://user@host/x", "rbd:pool/image", "fd:3",
		"blkdebug:rules.cfg:x.qcow2", "host_device:/dev/sda", "null-co://", "fat:rw:/etc",
		"iscsi://target/1", "gluster+tcp://h/v/i", "a.b-c+d_e://x",
	};

	leads("top.qcow2", "base.qcow2", "base.qcow2");
	leads("d/top.qcow2", "base.qcow2", "d/base.qcow2");
	leads("/a/b/top.qcow2", "../base.qcow2", "/a/b/../base.qcow2");
	leads("/top.qcow2", "base.qcow2", "/base.qcow2");
	leads("d/top.qcow2", "/abs/base.qcow2", "/abs/base.qcow2");
	leads("d/top.qcow2", "a:b.qcow2", "d/a:b.qcow2");
	leads("d/top.qcow2", "a,b c.qcow2", "d/a,b c.qcow2");
	leads("top.qcow2", "a:b.qcow2", "a:b.qcow2");
	leads("d/top.qcow2", "x/nbd:1:2", "d/x/nbd:1:2");
	leads("d/top.qcow2", "nbd:base.qcow2", "d/nbd:base.qcow2");
	leads("d/top.qcow2", "json:base.qcow2", "d/json:base.qcow2");
	leads("d/top.qcow2", "fd:base", "d/fd:base");
	leads("d/top.qcow2", "rbd:x.qcow2", "d/rbd:x.qcow2");
	leads("d/top.qcow2", "C:\\images\\base.vhd", "d/C:\\images\\base.vhd");
	leads("d/top.qcow2", "://x", "d/://x");
	leads("d/top.qcow2", "a b://x", "d/a b://x");
	leads("d/top.qcow2", "file:base.qcow2", "d/base.qcow2");
	leads("d/top.qcow2", "file:/abs/base.qcow2", "/abs/base.qcow2");
	leads("top.qcow2", "file:json:{}", "./json:{}");
	leads("top.qcow2", "file:file:x", "./file:x");
	leads("a:b/top.qcow2", "base", "a:b/base");
	for (size_t i = 0; i < sizeof(references) / sizeof(*references); i++)
		refused(references[i]);
	leads("d/top.qcow2", "", NULL);
	leads("d/top.qcow2", "file:", NULL);
	return done_testing();
}
