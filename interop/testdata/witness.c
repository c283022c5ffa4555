// Begins a job under a lock, and looks for processes of the job before.
//
// Usage: witness FILE MARK COMMAND [ARG...]
// Its first instruction reads CLOCK_BOOTTIME. It prints that time, the number of processes alive that carry another
// mark of the same name, and whether one of them has FILE open: the job before has it locked, whatever its processes
// do. Then it executes the command with its mark, and with FILE locked. MARK is NAME:NUMBER.
//
// Usage: witness eat FILE
// It allocates memory until the kernel kills it, and writes the time into FILE before each page.
//
// Usage: witness work FILE
// It prints "ready" and writes the time into FILE again and again.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define VARIABLE "INTEROP_WITNESS"

static int64_t since_boot(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static ssize_t read_file(const char *pid, const char *name, char *text, size_t size)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%.20s/%s", pid, name);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0, got;
	if (file < 0)
		return 0;
	while (n < (ssize_t)size - 1 && (got = read(file, text + n, size - 1 - n)) > 0)
		n += got;
	close(file);
	text[n] = 0;
	return n;
}

// is_of returns 1 if the process carries a mark of the name and has not ended.
static int is_of(const char *pid, const char *name)
{
	static char text[1 << 17];
	size_t length = strlen(name);
	ssize_t n = read_file(pid, "environ", text, sizeof text);
	for (char *s = text; s < text + n; s += strlen(s) + 1) {
		if (strncmp(s, VARIABLE "=", sizeof VARIABLE) || strncmp(s + sizeof VARIABLE, name, length))
			continue;
		read_file(pid, "stat", text, sizeof text);
		char *state = strrchr(text, ')');
		return state && state[2] != 'Z' && state[2] != 'X';
	}
	return 0;
}

static volatile int64_t *shared(const char *name)
{
	int file = open(name, O_RDWR | O_CREAT, 0600);
	if (ftruncate(file, 4096))
		exit(1);
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

static void eat(const char *name)
{
	volatile int64_t *at = shared(name);
	for (;;) {
		char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*at = since_boot();
		*page = 1;
	}
}

static void work(const char *name)
{
	volatile int64_t *at = shared(name);
	puts("ready");
	fflush(stdout);
	for (;;) {
		*at = since_boot();
		usleep(200);
	}
}

int main(int argc, char **argv)
{
	int64_t began = since_boot();
	if (argc == 3 && !strcmp(argv[1], "eat"))
		eat(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "work"))
		work(argv[2]);
	if (argc < 4)
		return 2;
	int file = open(argv[1], O_RDWR | O_CREAT, 0666); // the job inherits it
	int locked = flock(file, LOCK_EX | LOCK_NB) == 0;
	char name[128];
	snprintf(name, sizeof name, "%.100s", argv[2]);
	char *number = strrchr(name, ':');
	if (!number)
		return 2;
	number[1] = 0;
	int alive = 0;
	DIR *processes = opendir("/proc");
	for (struct dirent *d; (d = readdir(processes));)
		if (isdigit((unsigned char)d->d_name[0]))
			alive += is_of(d->d_name, name);
	closedir(processes);
	printf("began %lld %d %d\n", (long long)began, alive, !locked);
	fflush(stdout);
	setenv(VARIABLE, argv[2], 1);
	execvp(argv[3], argv + 3);
	return 127;
}
