/* A pidfd that is readable belongs to a child that can be waited for. */
#include "common.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

int main(void) {
    int missed = 0;
    start = now();
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (i % 4 < 2) pause();
            _exit(3);
        }
        struct pollfd ended = {syscall(SYS_pidfd_open, child, 0), POLLIN, 0};
        if (i % 4 < 2) kill(child, SIGKILL);
        if (poll(&ended, 1, 5000) != 1) at("poll", ended.revents);
        siginfo_t information = {0};
        if (i % 2 == 0) {
            missed += waitid(P_PIDFD, ended.fd, &information, WEXITED | WNOHANG) != 0 || information.si_pid != child;
        } else {
            missed += waitpid(child, NULL, WNOHANG) != child;
        }
        close(ended.fd);
    }
    at("missed", missed);
    pid_t child = fork();
    if (child == 0) {
        pass(30);
        _exit(7);
    }
    struct pollfd ended = {syscall(SYS_pidfd_open, child, 0), POLLIN, 0};
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, ended.fd, &event);
    at("poll", poll(&ended, 1, 10000));
    at("epoll", epoll_wait(epoll, &event, 1, 10000));
    at("epoll", epoll_wait(epoll, &event, 1, 20000));
    siginfo_t information;
    at("waitid", waitid(P_PIDFD, ended.fd, &information, WEXITED));
    at("status", information.si_status);
}
