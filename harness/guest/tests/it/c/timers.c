/* POSIX timers and alarms whose signals wait, and timer files that are closed, copied and set again. */
#include "common.h"
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

static void handle(int number, siginfo_t *information, void *context) {
    (void)number, (void)context;
    at("handler, overrun", information->si_code == SI_TIMER ? information->si_overrun : 0);
}

static int calls;

static void count(union sigval value) {
    (void)value;
    calls++;
}

static long ticks(int file) {
    uint64_t number = 0;
    return read(file, &number, sizeof number) == sizeof number ? (long)number : -1;
}

static void timers(const struct itimerspec *ten) {
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    siginfo_t information;
    sigset_t blocked;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, ten, NULL);
    pass(55);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    at("counted", timer_getoverrun(timer));
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    pass(30);
    at("waited", sigwaitinfo(&blocked, &information) - SIGUSR1);
    at("counted", information.si_overrun);
    at("waited", sigwaitinfo(&blocked, &information) - SIGUSR1);
    at("counted", information.si_overrun);
    timer_delete(timer);

    struct itimerval often = {{10, 0}, {10, 0}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    pass(35);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
    pass(10);
    setitimer(ITIMER_REAL, &never, NULL);

    event.sigev_notify = SIGEV_THREAD;
    event.sigev_notify_function = count;
    timer_create(CLOCK_REALTIME, &event, &timer);
    timer_settime(timer, 0, ten, NULL);
    pass(55);
    timer_delete(timer);
    at("calls", calls);
}

static void files(const struct itimerspec *ten) {
    struct itimerspec left, once = {{0, 0}, {1, 0}};
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(0), closed = timerfd_create(CLOCK_MONOTONIC, 0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, closed, &event);
    timerfd_settime(closed, 0, ten, NULL);
    at("open", epoll_wait(epoll, &event, 1, 15000));
    close(closed);
    at("closed", epoll_wait(epoll, &event, 1, 15000));

    int file = timerfd_create(CLOCK_MONOTONIC, 0), copy = dup(file);
    epoll_ctl(epoll, EPOLL_CTL_ADD, file, &event);
    timerfd_settime(file, 0, ten, NULL);
    close(file);
    at("a copy is open", epoll_wait(epoll, &event, 1, 15000));
    at("read", ticks(copy));
    timerfd_gettime(copy, &left);
    at("interval", left.it_interval.tv_sec);
    at("left", left.it_value.tv_sec);
    timerfd_settime(copy, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &once, &left);
    at("long ago", ticks(copy));
    timerfd_gettime(copy, &left);
    at("interval", left.it_interval.tv_sec);
    at("left", left.it_value.tv_sec + left.it_value.tv_nsec);
    at("unknown flag", timerfd_settime(copy, 8, &once, NULL));
    once.it_value.tv_sec = 3600;
    for (int i = 0; i < 3000; i++) {
        int file = timerfd_create(CLOCK_MONOTONIC, 0);
        timerfd_settime(file, 0, &once, NULL);
        close(file);
    }
    for (int i = 0; i < 3000; i++) {
        timer_t timer;
        timer_create(CLOCK_MONOTONIC, NULL, &timer);
        timer_settime(timer, 0, &once, NULL);
        timer_delete(timer);
    }
    once.it_value = (struct timespec){0, 1};
    timerfd_settime(copy, 0, &once, NULL);
    at("a nanosecond", ticks(copy));
    once.it_interval = once.it_value;
    timerfd_settime(copy, 0, &once, NULL);
    pass(1);
    at("each nanosecond", ticks(copy) >= 1000000000);
}

int main(void) {
    const struct itimerspec ten = {{10, 0}, {10, 0}};
    start = now();
    timers(&ten);
    files(&ten);
}
