/* The durable writes of a PATCH of one setting and nothing else, COUNT times: the journal made (temporary file, fsync,
 * rename, fsync of the folder), the file replaced in the same way, the journal removed (fsync of the folder).
 *
 *   fsyncs STATE_FOLDER SETTING_FOLDER COUNT
 *
 * Prints the microseconds of each: the median. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void syncFolder(const char *folder) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY);
  if (fd < 0 || fsync(fd) || close(fd)) exit(1);
}

static void replace(const char *folder, int bytes) {
  static const char filler[4096];
  char temporary[4096], path[4096];
  snprintf(temporary, sizeof temporary, "%s/.bench.temporary", folder);
  snprintf(path, sizeof path, "%s/bench", folder);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd < 0 || write(fd, filler, bytes) != bytes || fsync(fd) || close(fd) || rename(temporary, path)) exit(1);
  syncFolder(folder);
}

static int ascending(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }

int main(int count, char **args) {
  if (count != 4) return 2;
  int rounds = atoi(args[3]);
  double *us = malloc(rounds * sizeof *us);
  char journal[4096];
  snprintf(journal, sizeof journal, "%s/bench", args[1]);
  for (int n = 0; n < rounds; n++) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    replace(args[1], 400);
    replace(args[2], 100);
    if (unlink(journal)) return 1;
    syncFolder(args[1]);
    clock_gettime(CLOCK_MONOTONIC, &to);
    us[n] = (to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3;
  }
  qsort(us, rounds, sizeof *us, ascending);
  printf("%.1f\n", us[rounds / 2]);
  return 0;
}
