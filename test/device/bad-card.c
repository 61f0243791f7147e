/*
 * Loaded into QEMU by LD_PRELOAD, it makes the disk a bad card. The file that BAD_CARD names has eight 64-bit numbers, which may
 * change at any time: the microseconds that each write takes, and each flush, one at a time; the bytes of the disk from which,
 * and up to which, every write fails, and the same for reads; and it counts here how many writes and flushes there were. Of all
 * files that QEMU has, the disk is the one of DISK_BYTES. QEMU's own throttling does not slow flushes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct card {
	uint64_t write_us, flush_us;
	struct { uint64_t from, to; } unwritable, unreadable;
	uint64_t writes, flushes;
};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static volatile struct card *card;
static off_t disk_bytes;

__attribute__((constructor)) static void begin(void)
{
	int file = open(getenv("BAD_CARD"), O_RDWR);
	void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *card, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (map == MAP_FAILED)
		abort();
	card = map;
	disk_bytes = atoll(getenv("DISK_BYTES"));
}

static int is_disk(int file)
{
	struct stat stat;
	return fstat(file, &stat) == 0 && stat.st_size == disk_bytes;
}

static void take_time(uint64_t us, volatile uint64_t *count)
{
	pthread_mutex_lock(&one_at_a_time);
	if (us)
		usleep(us);
	++*count;
	pthread_mutex_unlock(&one_at_a_time);
}

static size_t length(const struct iovec *parts, int count)
{
	size_t bytes = 0;
	while (count-- > 0)
		bytes += parts++->iov_len;
	return bytes;
}

#define ORIGINAL(name, type, ...)                              \
	static type (*original)(__VA_ARGS__);                  \
	if (!original)                                         \
		original = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)
#define REFUSE_IN(area, at, bytes)                                                              \
	if ((uint64_t)(at) < card->area.to && (uint64_t)(at) + (bytes) > card->area.from) {     \
		errno = EIO;                                                                    \
		return -1;                                                                      \
	}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at)
{
	ORIGINAL(pwrite64, ssize_t, int, const void *, size_t, off64_t);
	if (is_disk(file)) {
		REFUSE_IN(unwritable, at, count)
		take_time(card->write_us, &card->writes);
	}
	return original(file, bytes, count, at);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at)
{
	ORIGINAL(pwritev64, ssize_t, int, const struct iovec *, int, off64_t);
	if (is_disk(file)) {
		REFUSE_IN(unwritable, at, length(parts, count))
		take_time(card->write_us, &card->writes);
	}
	return original(file, parts, count, at);
}

ssize_t pread64(int file, void *bytes, size_t count, off64_t at)
{
	ORIGINAL(pread64, ssize_t, int, void *, size_t, off64_t);
	if (is_disk(file))
		REFUSE_IN(unreadable, at, count)
	return original(file, bytes, count, at);
}

ssize_t preadv64(int file, const struct iovec *parts, int count, off64_t at)
{
	ORIGINAL(preadv64, ssize_t, int, const struct iovec *, int, off64_t);
	if (is_disk(file))
		REFUSE_IN(unreadable, at, length(parts, count))
	return original(file, parts, count, at);
}

int fdatasync(int file)
{
	ORIGINAL(fdatasync, int, int);
	if (is_disk(file))
		take_time(card->flush_us, &card->flushes);
	return original(file);
}
