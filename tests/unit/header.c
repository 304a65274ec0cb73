// SPDX-License-Identifier: BSD-2-Clause
/*
 * lib/qcow2/header and extension: what is decoded, what is refused and with which words, what is kept
 * when a header is written again, and that no mutation of a header gets past the checks.
 */
#include <errno.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mem.h"
#include "io/file.h"
#include "qcow2/header.h"
#include "tap.h"
#include "scratch.h"

#define CLUSTER 4096
#define FILE_LEN (5 * CLUSTER)

static struct qimg_error e;
static struct file *file;
static uint8_t image[FILE_LEN];

static void put(unsigned off, unsigned width, uint64_t v)
{
	if (width == 1)
		image[off] = (uint8_t)v;
	else if (width == 4)
		be32_put(image + off, (uint32_t)v);
	else
		be64_put(image + off, v);
}

/* A sound version 3 header of 4 KiB clusters: size 8M, table at 1, block at 2, L1 at 3. */
static void start(void)
{
	memset(image, 0, sizeof(image));
	put(0, 4, 0x514649fb);
	put(4, 4, 3);
	put(20, 4, 12);
	put(24, 8, 8 << 20);
	put(36, 4, 4);
	put(40, 8, 3 * CLUSTER);
	put(48, 8, CLUSTER);
	put(56, 4, 1);
	put(96, 4, 4);
	put(100, 4, 112);
}

static int load(struct header *h)
{
	memset(h, 0, sizeof(*h));
	if (file_write(file, 0, image, sizeof(image), &e) < 0)
		return -2;
	memset(&e, 0, sizeof(e));
	return header_read(file, h, &e);
}

/* Adds an extension at *at. */
static void extension(unsigned *at, uint32_t type, const void *data, uint32_t len)
{
	put(*at, 4, type);
	put(*at + 4, 4, len);
	memcpy(image + *at + 8, data, len);
	*at += 8 + (uint32_t)round_up(len, 8);
}

/* The fields of `image` as they are now must be refused, the message containing `text`. */
static void refused(const char *what, const char *text)
{
	struct header h;
	int ret = load(&h);

	ok(ret == -1 && strstr(e.msg, text), "%s is refused", what);
	if (ret == 0)
		header_free(&h);
	else if (!strstr(e.msg, text))
		diag("message: %s", e.msg);
}

static void accepted(const char *what)
{
	struct header h;
	int ret = load(&h);

	if (!ok(ret == 0, "%s is accepted", what))
		diag("message: %s", e.msg);
	if (ret == 0)
		header_free(&h);
}

static void test_fields(void)
{
	static const struct {
		const char *what;
		unsigned off, width;
		uint64_t value;
		const char *text;	/* NULL: accepted */
	} cases[] = {
		{ "a wrong magic", 0, 4, 0x514649fa, "not in qcow2 format" },
		{ "version 0", 4, 4, 0, "version 0" },
		{ "version 1", 4, 4, 1, "version 1" },
		{ "version 4", 4, 4, 4, "version 4" },
		{ "cluster_bits 8", 20, 4, 8, "2^8 bytes" },
		{ "cluster_bits 22", 20, 4, 22, "2^22 bytes" },
		{ "cluster_bits 63", 20, 4, 63, "2^63 bytes" },
		{ "cluster_bits 2^32-1", 20, 4, 0xffffffff, "2^4294967295 bytes" },
		{ "size 2^63-1", 24, 8, INT64_MAX, "9223372036854775807" },
		{ "size 2^64-1", 24, 8, UINT64_MAX, "18446744073709551615" },
		{ "a size of one L2 table more", 24, 8, (8 << 20) + 1, "takes 5 entries" },
		{ "size 0", 24, 8, 0, NULL },
		{ "a size that is no multiple of 512", 24, 8, (8 << 20) - 5, NULL },
		{ "encryption method 3", 32, 4, 3, "method 3" },
		{ "encryption method 2^32-1", 32, 4, 0xffffffff, "method 4294967295" },
		{ "LUKS without its extension", 32, 4, 2, "no encryption header extension" },
		{ "AES", 32, 4, 1, NULL },
		{ "l1_size 0", 36, 4, 0, "L1 table size 0 is too small" },
		{ "l1_size 3", 36, 4, 3, "L1 table size 3 is too small" },
		{ "l1_size 2^31-1", 36, 4, 0x7fffffff, "more than 4194304 entries" },
		{ "l1_size 4M + 1", 36, 4, 4194305, "more than 4194304 entries" },
		{ "l1_size 4M", 36, 4, 4194304, NULL },
		{ "an unaligned L1 offset", 40, 8, 3 * CLUSTER + 8, "0x3008 is not aligned" },
		{ "L1 offset 0", 40, 8, 0, "lies in the header" },
		{ "L1 offset 2^63", 40, 8, UINT64_C(1) << 63, "0x8000000000000000" },
		{ "an unaligned refcount table", 48, 8, CLUSTER + 512, "0x1200 is not aligned" },
		{ "refcount table offset 0", 48, 8, 0, "lies in the header" },
		{ "refcount table offset 2^64-4096", 48, 8, -UINT64_C(4096), "largest possible" },
		{ "a refcount table of 2^31-1 clusters", 56, 4, 0x7fffffff, "more than 2048" },
		{ "a refcount table of 2049 clusters", 56, 4, 2049, "more than 2048" },
		{ "65537 snapshots", 60, 4, 65537, "more than 65536" },
		{ "2^31-1 snapshots", 60, 4, 0x7fffffff, "more than 65536" },
		{ "a snapshot with a table at 0", 60, 4, 1, "Snapshot table offset 0" },
		{ "a snapshot table that is not used", 64, 8, 77, NULL },
		{ "incompatible bit 63", 72, 8, UINT64_C(1) << 63, "feature: 8000000000000000" },
		{ "incompatible bit 5", 72, 8, 0x20, "Unknown incompatible feature: 20" },
		{ "the dirty and the corrupt bit", 72, 8, 3, NULL },
		{ "the data file bit", 72, 8, 4, NULL },
		{ "the compression bit for type 0", 72, 8, 8, "Compression type 0" },
		{ "extended L2 with clusters of 4K", 72, 8, 16, "at least 16384" },
		{ "unknown compatible bits", 80, 8, UINT64_MAX, NULL },
		{ "unknown autoclear bits", 88, 8, ~UINT64_C(3), NULL },
		{ "the bitmaps bit without bitmaps", 88, 8, 1, "no bitmaps extension" },
		{ "the raw data bit without a data file", 88, 8, 2, "bit 1 (raw external data)" },
		{ "refcount_order 6", 96, 4, 6, NULL },
		{ "refcount_order 0", 96, 4, 0, NULL },
		{ "refcount_order 7", 96, 4, 7, "order 7 is more than 6" },
		{ "refcount_order 2^32-1", 96, 4, 0xffffffff, "is more than 6" },
		{ "header_length 96", 100, 4, 96, "Header length 96" },
		{ "header_length 0", 100, 4, 0, "Header length 0" },
		{ "header_length 108", 100, 4, 108, "Header length 108" },
		{ "header_length 4104", 100, 4, 4104, "Header length 4104" },
		{ "header_length 104", 100, 4, 104, NULL },
		{ "header_length 4096", 100, 4, 4096, NULL },
		{ "compression type 1 without its bit", 104, 1, 1, "Compression type 1 does not go" },
		{ "non-zero padding", 105, 1, 7, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		start();
		put(cases[i].off, cases[i].width, cases[i].value);
		if (cases[i].text)
			refused(cases[i].what, cases[i].text);
		else
			accepted(cases[i].what);
	}
	start();
	put(72, 8, 8);
	put(104, 1, 1);
	accepted("zstd");
	put(104, 1, 2);
	refused("compression type 2", "type 2 is unknown");
	put(104, 1, 1);
	put(100, 4, 104);
	refused("the compression bit in a header of 104 bytes", "no such field");
}

static void test_backing(void)
{
	struct header h;

	start();
	memcpy(image + 200, "base.raw", 8);
	put(8, 8, 200);
	put(16, 4, 8);
	ok(load(&h) == 0 && h.backing_name && !strcmp(h.backing_name, "base.raw"),
	   "a backing name behind the extensions is read");
	header_free(&h);
	memset(image + 208, 0, 8);
	put(16, 4, 12);
	ok(load(&h) == 0 && h.backing_name && !strcmp(h.backing_name, "base.raw"),
	   "zero bytes at its end do not belong to it");
	header_free(&h);
	put(16, 4, 0);
	ok(load(&h) == 0 && !h.backing_name, "an empty name is none");
	header_free(&h);
	put(16, 4, 8);
	image[202] = 0;
	refused("a backing name with a zero byte", "zero byte");
	put(16, 4, 1024);
	refused("a backing name of 1024 bytes", "1024 bytes is longer than 1023");
	put(16, 4, 0xffffffff);
	refused("a backing name of 2^32-1 bytes", "is longer than 1023");
	put(16, 4, 8);
	put(8, 8, CLUSTER - 4);
	refused("a backing name across the end of the cluster", "end of the first cluster");
	put(8, 8, 2 * CLUSTER);
	refused("a backing name outside the first cluster", "end of the first cluster");
	put(8, 8, -UINT64_C(4));
	refused("a backing name at 2^64-4", "end of the first cluster");
	put(8, 8, 104);
	refused("a backing name in the header", "header's end 0x70");
	memset(image + CLUSTER - 1023, 'x', 1023);
	put(8, 8, CLUSTER - 1023);
	put(16, 4, 1023);
	accepted("a backing name of 1023 bytes at the end of the cluster");
}

static void test_extensions(void)
{
	static const char names[48] = "\0\x3cwobbly-widgets";
	uint8_t bitmaps[24] = { 0 }, crypt[16] = { 0 };
	struct header h;
	unsigned at = 112;

	start();
	extension(&at, 0xe2792aca, "raw", 3);
	extension(&at, 0x44415441, "data\0\0", 6);
	extension(&at, 0x12345678, "unknown", 7);
	ok(load(&h) == 0 && !strcmp(h.backing_format, "raw") && !strcmp(h.data_file, "data") &&
		   h.ext_count == 1 && h.ext[0].len == 7,
	   "known and unknown extensions are read");
	header_free(&h);
	extension(&at, 0xe2792aca, "raw", 3);
	refused("a second backing format", "two extensions");

	start();
	at = 112;
	extension(&at, 0x6803f857, names, 48);
	put(72, 8, UINT64_C(1) << 60);
	refused("an unknown feature with a name", "Unsupported qcow2 feature(s): wobbly-widgets");
	ok(!strcmp(e.msg, "Unsupported qcow2 feature(s): wobbly-widgets"), "and nothing else is said");
	put(72, 8, UINT64_C(1) << 60 | 0x40);
	refused("with one that has none",
		"feature(s): wobbly-widgets, Unknown incompatible feature: 40");
	image[122] = '\x1b';
	refused("control characters in a name", "feature(s): ?obbly-widgets, Unknown");

	start();
	put(112, 4, 0x12345678);
	put(116, 4, 0x7fffff00);
	refused("an extension longer than the cluster", "0x12345678 of 2147483392 bytes");
	put(116, 4, CLUSTER - 120 + 1);
	refused("an extension one byte too long", "longer than the 3976 bytes left");
	put(116, 4, CLUSTER - 120);
	accepted("an extension up to the end, without an end mark");
	put(8, 8, 1024);
	put(16, 4, 4);
	refused("an extension reaching into the backing name", "longer than the 904 bytes left");

	start();
	at = 112;
	put(32, 4, 2);
	be64_put(crypt, CLUSTER);
	extension(&at, 0x0537be77, crypt, 16);
	ok(load(&h) == 0 && h.has_crypt && h.crypt_offset == CLUSTER, "a LUKS extension is read");
	header_free(&h);
	put(32, 4, 0);
	refused("a LUKS extension without encryption", "encryption method 0 does not use");
	put(32, 4, 2);
	put(120, 8, CLUSTER + 1);
	refused("an unaligned LUKS header", "0x1001 is not aligned");
	put(116, 4, 15);
	refused("a LUKS extension of 15 bytes", "15 bytes long, not 16");

	start();
	at = 112;
	be32_put(bitmaps, 2);
	be64_put(bitmaps + 8, 80);
	be64_put(bitmaps + 16, 4 * CLUSTER);
	extension(&at, 0x23852875, bitmaps, 24);
	put(88, 8, 1);
	ok(load(&h) == 0 && h.has_bitmaps && h.nb_bitmaps == 2 && h.bitmap_dir_size == 80,
	   "a bitmaps extension is read");
	header_free(&h);
	put(120, 4, 0);
	refused("0 bitmaps", "allowed are 1 to 65535");
	put(120, 4, 65536);
	refused("65536 bitmaps", "allowed are 1 to 65535");
	put(120, 4, 4);
	refused("a directory too short for its bitmaps", "size 80 for 4 bitmaps");
	put(120, 4, 2);
	put(128, 8, UINT64_C(1) << 40);
	refused("a directory of 1 TiB", "size 1099511627776 for 2 bitmaps");
	put(128, 8, 80);
	put(124, 4, 1);
	refused("a reserved field that is set", "reserved field");
	put(88, 8, 0);
	ok(load(&h) == 0 && !h.has_bitmaps && h.ext_count == 1,
	   "without the autoclear bit a senseless one is kept, not judged");
	header_free(&h);
	put(88, 8, 1);
	put(124, 4, 0);
	put(136, 8, 4 * CLUSTER + 512);
	refused("an unaligned directory", "0x4200 is not aligned");
}

static void test_tables(void)
{
	static const struct {
		const char *what;
		unsigned off, width;
		uint64_t value;
		const char *text;
	} cases[] = {
		{ "an L1 table behind the end", 40, 8, UINT64_C(1) << 40, "0x10000000000" },
		{ "an L1 table across the end", 36, 4, 1025, "1025 entries does not lie" },
		{ "a refcount table of 0 clusters", 56, 4, 0, "0 clusters" },
		{ "a refcount table behind the end", 48, 8, 16 * CLUSTER, "0x10000 with 1" },
		{ "a refcount table across the end", 56, 4, 5, "5 clusters" },
	};
	struct header h;
	int ret;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		start();
		put(cases[i].off, cases[i].width, cases[i].value);
		ret = load(&h);
		ok(ret == 0 && header_check_tables(file, &h, &e) == -1 && strstr(e.msg, cases[i].text),
		   "%s is read, but not good for use", cases[i].what);
		if (ret == 0)
			header_free(&h);
	}
	start();
	put(60, 4, 2);
	put(64, 8, 4 * CLUSTER);
	ok(load(&h) == 0 && header_check_tables(file, &h, &e) == 0, "a snapshot table in the file");
	header_free(&h);
	put(60, 4, 200);
	ok(load(&h) == 0 && header_check_tables(file, &h, &e) == -1 && strstr(e.msg, "200 snapshots"),
	   "more snapshots than there is room for");
	header_free(&h);
}

static void test_rewrite(void)
{
	static uint8_t before[FILE_LEN], after[FILE_LEN];
	uint8_t bitmaps[24] = { 0, 0, 0, 1 };
	unsigned at = 128;
	struct header h;

	/* A longer header, and extensions in the order in which they are written. */
	start();
	put(100, 4, 128);
	memset(image + 105, 0xa5, 23);
	put(80, 8, 0xf0);
	put(88, 8, 0x81);
	extension(&at, 0xe2792aca, "qcow2", 5);
	extension(&at, 0x44415441, "d", 1);
	extension(&at, 0x6803f857, "any name table", 14);
	be64_put(bitmaps + 8, 32);
	be64_put(bitmaps + 16, 4 * CLUSTER);
	extension(&at, 0x23852875, bitmaps, 24);
	extension(&at, 0x11111111, "one", 3);
	extension(&at, 0x22222222, "", 0);
	extension(&at, 0x33333333, "three hundred", 13);
	at += 8;
	memcpy(image + at, "name", 4);
	put(8, 8, at);
	put(16, 4, 4);
	memcpy(before, image, sizeof(before));
	if (!ok(load(&h) == 0, "a header with all there is"))
		return;
	is_u64(header_need(&h), at + 4, "header_need is what is written");
	memset(image, 0xee, CLUSTER);
	file_write(file, 0, image, CLUSTER, &e);
	ok(header_write(file, &h, &e) == 0, "header_write");
	ok(file_read(file, 0, after, sizeof(after), &e) == 0, "read back");
	is_mem(after, before, sizeof(after), "writing a header again changes no byte");

	h.l1_size = 7;
	h.l1_offset = 4 * CLUSTER;
	h.rt_offset = 2 * CLUSTER;
	h.rt_clusters = 2;
	h.size = 1234;
	h.autoclear = 0;
	ok(!header_store_l1(file, &h, &e) && !header_store_rt(file, &h, &e) &&
		   !header_store_size(file, &h, &e) && !header_store_features(file, &h, &e),
	   "fields are stored one by one");
	file_read(file, 0, after, sizeof(after), &e);
	be32_put(before + 36, 7);
	be64_put(before + 40, 4 * CLUSTER);
	be64_put(before + 48, 2 * CLUSTER);
	be32_put(before + 56, 2);
	be64_put(before + 24, 1234);
	be64_put(before + 88, 0);
	is_mem(after, before, sizeof(after), "and nothing besides them");
	free(h.backing_name);
	h.backing_name = mem_zalloc(4000, &e);
	memset(h.backing_name, 'x', 3999);
	ok(header_write(file, &h, &e) == -1 && e.code == ENOSPC, "what does not fit is not written");
	header_free(&h);
}

static void test_version_2(void)
{
	struct header h;
	unsigned at = 72;

	start();
	put(4, 4, 2);
	memset(image + 72, 0, 40);
	extension(&at, 0xe2792aca, "raw", 3);
	ok(load(&h) == 0 && h.header_length == 72 && h.refcount_order == 4 && !h.incompatible &&
		   h.backing_format && !strcmp(h.backing_format, "raw"),
	   "version 2: no features, 16 bits, extensions from byte 72 on");
	ok(header_store_features(file, &h, &e) == 0, "storing features of version 2");
	ok(file_read(file, 72, image, 4, &e) == 0 && be32_get(image) == 0xe2792aca,
	   "leaves the extensions alone");
	header_free(&h);
	ok(header_probe((const uint8_t *)"QFI\xfb\0\0\0\2", 8) &&
		   !header_probe((const uint8_t *)"QFI\xfb\0\0\0\1", 8) &&
		   !header_probe((const uint8_t *)"QFI\xfb\0\0\0", 7),
	   "probing");
}

/* What struct header promises, whatever the bytes were. */
static bool trustworthy(const struct header *h)
{
	uint64_t cluster = UINT64_C(1) << h->cluster_bits;

	return h->cluster_bits >= 9 && h->cluster_bits <= 21 && h->refcount_order <= 6 &&
	       (uint64_t)h->l1_size * 8 <= HEADER_MAX_L1_BYTES && is_aligned(h->l1_offset, cluster) &&
	       h->l1_size >= header_l1_need(h->size, h->cluster_bits,
					    h->incompatible & INCOMPAT_EXTENDED_L2) &&
	       is_aligned(h->rt_offset, cluster) && h->rt_clusters * cluster <= HEADER_MAX_RT_BYTES &&
	       h->nb_snapshots <= HEADER_MAX_SNAPSHOTS && h->header_length <= cluster &&
	       (!h->backing_name || strlen(h->backing_name) <= HEADER_MAX_NAME) &&
	       header_need(h) <= cluster + 1024 && !(h->incompatible & ~(uint64_t)INCOMPAT_KNOWN);
}

static void test_mutations(void)
{
	static const uint8_t values[] = { 0, 1, 2, 9, 12, 21, 0x7f, 0x80, 0xff };
	unsigned good = 0, bad = 0, seed = 1;
	unsigned at;
	struct header h;

	for (unsigned round = 0; round < 6000; round++) {
		start();
		at = 112;
		extension(&at, 0xe2792aca, "raw", 3);
		extension(&at, 0x6803f857, image, 96);
		extension(&at, 0x23852875, image, 24);
		for (unsigned n = 0; n < 1 + round % 3; n++) {
			seed = seed * 1103515245 + 12345;
			image[(seed >> 8) % (round & 1 ? 112 : 300)] =
				values[(seed >> 20) % sizeof(values)];
		}
		if (load(&h) < 0)
			continue;
		good++;
		bad += !trustworthy(&h);
		header_free(&h);
	}
	is_u64(bad, 0, "whatever is accepted can be trusted");
	ok(good > 500 && good < 5500, "mutations are accepted and refused (%u of 6000)", good);
}

static void test_short_files(void)
{
	static const unsigned lens[] = { 0, 1, 71, 72, 103, 104, 111, 112, 4095 };
	struct header h;
	unsigned wrong = 0;

	start();
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		file_truncate(file, 0, &e);
		file_write(file, 0, image, lens[i], &e);
		if (header_read(file, &h, &e) == 0) {
			wrong += lens[i] < 104 || header_check_tables(file, &h, &e) == 0;
			header_free(&h);
		}
	}
	is_u64(wrong, 0, "a file that ends in the first cluster is never good for use");
}

int main(void)
{
	scratch_enter();
	if (file_open(&file, "image", FILE_WRITE | FILE_CREATE, &e) < 0) {
		ok(false, "%s", e.msg);
		return done_testing();
	}
	test_fields();
	test_backing();
	test_extensions();
	test_tables();
	test_rewrite();
	test_version_2();
	test_mutations();
	test_short_files();
	file_close(file);
	return done_testing();
}
