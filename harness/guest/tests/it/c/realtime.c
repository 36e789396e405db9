/* Waits for a time of day that was computed from a reading: absolute ones, and the time that is left. */
#include "common.h"
#include <semaphore.h>
#include <sys/timerfd.h>

static struct timespec read_clock(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time;
}

static long left(const struct timespec *deadline) {
    struct timespec time = read_clock();
    return (deadline->tv_sec - time.tv_sec) * 1000000000 + deadline->tv_nsec - time.tv_nsec;
}

static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int file;
static timer_t timer;
static sigset_t blocked;

static void by_semaphore(struct timespec *deadline) { sem_timedwait(&semaphore, deadline); }

static void by_condition(struct timespec *deadline) { pthread_cond_timedwait(&condition, &mutex, deadline); }

static void by_sleep(struct timespec *deadline) { clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, deadline, NULL); }

static void by_file(struct timespec *deadline) {
    uint64_t ticks;
    timerfd_settime(file, TFD_TIMER_ABSTIME, &(struct itimerspec){{0, 0}, *deadline}, NULL);
    if (read(file, &ticks, sizeof ticks) != sizeof ticks) {
        exit(1);
    }
}

static void by_timer(struct timespec *deadline) {
    timer_settime(timer, TIMER_ABSTIME, &(struct itimerspec){{0, 0}, *deadline}, NULL);
    sigwaitinfo(&blocked, NULL);
}

static void by_rest(struct timespec *deadline) {
    long nanoseconds = left(deadline);
    if (nanoseconds > 0) {
        nanosleep(&(struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000}, NULL);
    }
}

/* Waits until the clock shows a deadline, which is computed after some readings. */
static void until(const char *what, void (*wait)(struct timespec *), int readings) {
    struct timespec deadline;
    for (int i = 0; i < readings; i++) {
        deadline = read_clock();
    }
    deadline.tv_sec += 5;
    int waits = 0;
    do {
        wait(&deadline);
        waits++;
    } while (left(&deadline) > 0);
    printf("%s %s %.3f\n", what, waits == 1 ? "once" : waits <= 500 ? "again" : "too often", now() - start);
}

int main(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    start = now();
    sem_init(&semaphore, 0, 0);
    pthread_mutex_lock(&mutex);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    timer_create(CLOCK_REALTIME, &event, &timer);
    file = timerfd_create(CLOCK_REALTIME, 0);
    for (int readings = 20; readings <= 300; readings += 280) {
        until("semaphore", by_semaphore, readings);
        until("condition", by_condition, readings);
        until("sleep", by_sleep, readings);
        until("file", by_file, readings);
        until("timer", by_timer, readings);
        until("rest", by_rest, readings);
    }
    /* A deadline that was read just now is over. */
    struct timespec deadline = read_clock();
    by_semaphore(&deadline);
    by_sleep(&deadline);
    by_file(&deadline);
    by_timer(&deadline);
    printf("over %.3f\n", now() - start);
}
