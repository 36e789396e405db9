/* Helpers of the programs beside this file. Times are whole seconds. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double start;

/* Prints a result, the name of its error, and the time. */
static void at(const char *what, long result) {
    printf("%s %ld%s%s %.0f\n", what, result, result < 0 ? " " : "", result < 0 ? strerrorname_np(errno) : "",
           now() - start);
    fflush(stdout);
}

/* Sleeps, also through signals. */
static void pass(unsigned seconds) {
    struct timespec left = {seconds, 0};
    while (nanosleep(&left, &left) < 0) {
    }
}
