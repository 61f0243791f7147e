/* The durable write of a PATCH of one setting that is one file, and nothing else, COUNT times: temporary file, fsync,
 * rename, fsync of the folder. Such a change needs no journal (hal/transaction/).
 *
 *   fsyncs FOLDER COUNT
 *
 * Prints the median, in microseconds. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void replace(const char *folder) {
  static const char filler[100];
  char temporary[4096], path[4096];
  snprintf(temporary, sizeof temporary, "%s/.bench.temporary", folder);
  snprintf(path, sizeof path, "%s/bench", folder);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd < 0 || write(fd, filler, sizeof filler) != sizeof filler || fsync(fd) || close(fd)) exit(1);
  if (rename(temporary, path) || (fd = open(folder, O_RDONLY | O_DIRECTORY)) < 0 || fsync(fd) || close(fd)) exit(1);
}

static int ascending(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }

int main(int count, char **args) {
  if (count != 3) return 2;
  int rounds = atoi(args[2]);
  double *us = malloc(rounds * sizeof *us);
  for (int n = 0; n < rounds; n++) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    replace(args[1]);
    clock_gettime(CLOCK_MONOTONIC, &to);
    us[n] = (to.tv_sec - from.tv_sec) * 1e6 + (to.tv_nsec - from.tv_nsec) / 1e3;
  }
  qsort(us, rounds, sizeof *us, ascending);
  printf("%.1f\n", us[rounds / 2]);
  return 0;
}
