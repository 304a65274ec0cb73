// SPDX-License-Identifier: BSD-2-Clause
/* lib/ops/recording: the forms, what is refused and with which words, hostile files. */
#include "qimg.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "scratch.h"
#include "tap.h"

static struct qimg_error e;

static struct qimg_recording *load(const char *text, size_t n)
{
	struct qimg_recording *r = NULL;
	FILE *f = fopen("rec", "w");

	fwrite(text, 1, n, f);
	fclose(f);
	e.msg[0] = 0;
	return qimg_recording_load(&r, "rec", &e) ? NULL : r;
}

/* The requests as "OFFSET LENGTH X", in one line each. */
static const char *told(const struct qimg_recording *r)
{
	static char text[1024];
	size_t n = 0;

	text[0] = 0;
	for (uint64_t i = 0; r && i < qimg_recording_info(r)->requests && n < 900; i++) {
		struct qimg_recorded q;

		qimg_recording_get(r, i, &q);
		n += (size_t)sprintf(text + n, "%" PRIu64 " %" PRIu64 " %c;", q.off, q.len, "-rw"[q.op]);
	}
	return r ? text : e.msg;
}

static void reads_as(const char *text, const char *form, const char *want, const char *what)
{
	struct qimg_recording *r = load(text, strlen(text));

	is_str(told(r), want, "%s", what);
	if (r)
		is_str(qimg_recording_info(r)->form, form, "and is known for what it is");
	qimg_recording_free(r);
}

static void refused_bytes(const char *text, size_t n, const char *words)
{
	struct qimg_recording *r = load(text, n);

	ok(!r && strstr(e.msg, words) && strstr(e.msg, "'rec'"), "refused: %s", words);
	diag("%s", r ? "it was taken" : e.msg);
	qimg_recording_free(r);
}

static void refused(const char *text, const char *words)
{
	refused_bytes(text, strlen(text), words);
}

static void test_lists(void)
{
	reads_as("0 4096 r\n8192 512 w\n0x1000\t0x10 r\n", "list", "0 4096 r;8192 512 w;4096 16 r;",
		 "a list");
	reads_as("# offset length\r\n\r\n  7 1  \r\n8 2", "list", "7 1 -;8 2 -;", "CRLF, blanks, no end of line");
	refused("0 4096\n4096\n", "Line 2 ");
	refused("0 4096\n0 512 r\n", "Line 2 ");
	refused("0 4096 r\n0 512\n", "of none");
	refused("0 4096 r 1\n", "an offset and a length");
	refused("0 4096 x\n", "neither r nor w");
	refused("0 4k\n", "no length: '4k'");
	refused("0 512\n-1 4096\n", "no offset: '-1'");
	refused("0 512\n18446744073709551616 4096\n", "no offset");
	refused("0 512\n0x 4096\n", "no offset");
	refused("18446744073709551615 4096\n", "beyond any disk");
	refused("9223372036854775807 1\n", "beyond any disk");
	refused("0 0\n", "0 bytes");
	refused("0 67108865\n", "67108864");
	refused("0 18446744073709551615\n", "67108864");
	reads_as("9223372036854775806 1\n0 67108864\n", "list", "9223372036854775806 1 -;0 67108864 -;",
		 "the largest there is");
}

static void test_fio(void)
{
	reads_as("fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\n"
		 "/dev/sda wait 12 0\n/dev/sda write 8192 512\n/dev/sda sync 0 0\n/dev/sda trim 0 4096\n"
		 "/dev/sda datasync 0 0\n/dev/sda close\n", "fio-2", "0 4096 r;8192 512 w;", "an iolog, version 2");
	reads_as("fio version 3 iolog\n0 /dev/sda add\n1 /dev/sda open\n2 /dev/sda read 0 4096\n"
		 "30000000 /dev/sda write 8192 512\n40000000 /dev/sda close\n", "fio-3", "0 4096 r;8192 512 w;",
		 "an iolog, version 3");
	refused("fio version 1 iolog\n", "not '1'");
	refused("fio version 2 iolog\na read 0 4096\nb read 0 4096\n", "Line 3 of 'rec': This request is for 'b'");
	refused("fio version 2 iolog\na read 0\n", "behind 'read'");
	refused("fio version 2 iolog\na jump 0 1\n", "'jump'");
	refused("fio version 2 iolog\na\n", "Line 2 ");
	refused("fio version 3 iolog\nx a read 0 512\n", "no time: 'x'");
	refused("fio version 3 iolog\n7\n", "Line 2 ");
	refused("fio version 2 iolog\na add\na open\na close\n", "no requests");
}

#define LINE(n, event, rest) "  8,0    1 " #n "     0.00000" #n "  697  " event "   " rest "\n"

static void test_blkparse(void)
{
	reads_as(LINE(1, "Q", "R 8 + 8 [fio]") LINE(2, "G", "R 8 + 8 [fio]") LINE(3, "I", "R 8 + 8 [fio]")
		 LINE(4, "D", "R 8 + 8 [fio]") LINE(5, "C", "R 8 + 8 [0]") LINE(6, "Q", "WS 0 + 1 [a b c d e f]")
		 LINE(7, "m", "N cfq workload") LINE(8, "Q", "FWS [jbd2]") LINE(9, "Q", "D 0 + 64 [x]")
		 LINE(10, "Q", "FN 0 + 0 [x]") LINE(11, "Q", "WFS 0 + 0 [x]") LINE(12, "P", "N [x]")
		 "CPU0 (sda):\n Reads Queued:           1,        4KiB\t Writes Queued:           1,\n\n"
		 "Throughput (R/W): 0KiB/s / 0KiB/s\nEvents (sda): 9 entries\n",
		 "blkparse", "4096 4096 r;0 512 w;", "blkparse: what was queued, once");
	reads_as(LINE(1, "C", "R 8 + 8 [0]") LINE(2, "D", "R 16 + 8 [x]") LINE(3, "Q", "R 24 + 8 [x]")
		 LINE(4, "C", "R 16 + 8 [0]"), "blkparse", "12288 4096 r;", "a better kind of event drops others");
	reads_as(LINE(1, "C", "R 8 + 8 [0]") LINE(2, "C", "RA 16 + 8 [0]"), "blkparse", "4096 4096 r;8192 4096 r;",
		 "what has completed alone");
	refused(LINE(1, "Q", "R 8 + 8 [x]") "  8,1    1 2  0.000000002  697  Q   R 8 + 8 [x]\n", "'8,1'");
	reads_as(LINE(1, "Q", "R 8 + 8 [x]") "  8,1    1 2  0.000000002  697  C   R 8 + 8 [x]\n", "blkparse",
		 "4096 4096 r;", "another device's events that do not count");
	refused(LINE(1, "Q", "R 8 - 8 [x]"), "behind 'R'");
	refused(LINE(1, "Q", "R 8 + x [x]"), "behind 'R'");
	refused(LINE(1, "Q", "R 8 +"), "behind 'R'");
	refused(LINE(1, "Q", "R 36028797018963968 + 8 [x]"), "sector: '36028797018963968'");
	refused(LINE(1, "Q", "R 8 + 36028797018963968 [x]"), "so many sectors");
	refused("  8,0    1 1\n", "neither an offset, a blank and a length");
	refused("0,4096\n", "neither an offset, a blank and a length");
	refused(LINE(1, "Q", "R 8 + 8 [x]") "  8,0    1 1\n", "cut off");
	refused("  8,0    1 1     0.000000001  697  Q\n", "cut off");
	refused(LINE(1, "m", "N x"), "no requests");
}

static void test_hostile(void)
{
	static char big[200000];
	static const char names[][16] = { "no", "." };
	struct qimg_recording *r = NULL;
	FILE *f;
	size_t n;

	refused("", "no requests");
	refused("\n\n# x\n", "no requests");
	refused("hello\n", "neither");
	refused("fio version 2\n", "neither");
	refused("8, 4 5\n", "neither");
	refused_bytes("0 51\0002\n", 7, "byte of 0");
	refused_bytes("0 512\n\0", 7, "Line 2 ");
	memset(big, ' ', sizeof(big));
	refused_bytes(big, sizeof(big), "longer than 4095");
	memcpy(big + 4090, "0 512", 5);
	refused_bytes(big, 4096, "longer than");
	r = load(big, 4095);
	ok(r, "a line of 4095 bytes");
	qimg_recording_free(r);
	big[4095] = '\r';
	big[4096] = '\n';
	r = load(big, 4097);
	ok(r, "with CRLF behind it");
	qimg_recording_free(r);
	for (unsigned i = 0; i < 2; i++)
		ok(qimg_recording_load(&r, names[i], &e) == -1 && strstr(e.msg, names[i]), "refused: '%s'", names[i]);
	diag("%s", e.msg);

	/* Lines on all sides of the ends of the buffer, and more requests than a chunk has. */
	f = fopen("rec", "w");
	for (unsigned i = 0; i < 70000; i++)
		fprintf(f, "%u %u%*s\n", i * 3, i + 1, (int)(i % 13), "");
	fclose(f);
	ok(!qimg_recording_load(&r, "rec", &e), "70000 requests");
	n = 0;
	for (unsigned i = 0; i < 70000; i++) {
		struct qimg_recorded q;

		qimg_recording_get(r, i, &q);
		n += q.off != i * 3 || q.len != i + 1;
	}
	is_u64(n, 0, "each is as it was written");
	is_u64(qimg_recording_info(r)->longest, 70000, "the longest is known");
	is_u64(qimg_recording_info(r)->bytes, UINT64_C(70000) * 70001 / 2, "and the sum of all");
	is_u64(qimg_recording_info(r)->end, 279997, "and where they end");
	ok(!qimg_recording_fits(r, 279997, &e), "they fit on a disk that ends there");
	ok(qimg_recording_fits(r, 279996, &e) == -1 && strstr(e.msg, "Line 70000 "), "and on no smaller one");
	diag("%s", e.msg);
	qimg_recording_free(r);
}

static void test_pipe(void)
{
	struct qimg_recording *r = NULL;

	if (mkfifo("fifo", 0600) || !sh("(sleep 0.1; echo 0 512; sleep 0.1; echo 512 512) >fifo & true")) {
		skip("no pipe here");
		return;
	}
	is_str(qimg_recording_load(&r, "fifo", &e) ? e.msg : told(r), "0 512 -;512 512 -;", "from a pipe");
	qimg_recording_free(r);
}

int main(void)
{
	scratch_enter();
	test_lists();
	test_fio();
	test_blkparse();
	test_hostile();
	test_pipe();
	return done_testing();
}
