/* All kinds of waits, each of ten seconds, beside a thread that wakes every four seconds. */
#include "common.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <termios.h>

static const struct timespec ten = {10, 0};
static uint32_t word = 1;
static char bytes[64];
static struct iovec vector = {bytes, 1};
static struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
static sigset_t signals;
static pthread_t waiter;

static void *tick(void *nothing) {
    for (;;) pass(4);
    return nothing;
}

static struct timespec after(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (struct timespec){time.tv_sec + 10, time.tv_nsec};
}

static void polls(void) {
    const int file = epoll_create1(0);
    struct epoll_event event;
    struct timeval time = {10, 0};
    sigset_t none;
    sigemptyset(&none);
    at("epoll_wait", epoll_wait(file, &event, 1, 10000));
    at("epoll_pwait", epoll_pwait(file, &event, 1, 10000, &none));
    at("epoll_pwait2", epoll_pwait2(file, &event, 1, &ten, &none));
    at("poll", poll(NULL, 0, 10000));
    at("ppoll", ppoll(NULL, 0, &ten, &none));
    at("select", select(0, NULL, NULL, NULL, &time));
    at("pselect", pselect(0, NULL, NULL, NULL, &ten, &none));
}

struct futex_vector {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static void sleeps(void) {
    struct timespec until = after(CLOCK_MONOTONIC);
    at("nanosleep", nanosleep(&ten, NULL));
    until = after(CLOCK_BOOTTIME);
    at("clock_nanosleep", clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL));
    at("futex", syscall(SYS_futex, &word, FUTEX_WAIT, 1, &ten, NULL, 0));
    until = after(CLOCK_REALTIME);
    at("bitset", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 1, &until, NULL, -1));
    until = after(CLOCK_MONOTONIC);
    struct futex_vector waits = {1, (uintptr_t)&word, 2, 0};
    at("futex_waitv", syscall(449, &waits, 1, 0, &until, CLOCK_MONOTONIC));
    at("sigtimedwait", sigtimedwait(&signals, NULL, &ten));
}

static void queues(void) {
    char name[32];
    struct mq_attr shape = {.mq_maxmsg = 1, .mq_msgsize = 8};
    struct sembuf take = {0, -1, 0};
    const int semaphore = semget(IPC_PRIVATE, 1, 0600);
    snprintf(name, sizeof name, "/plumbline-%d", getpid());
    const mqd_t queue = mq_open(name, O_CREAT | O_RDWR, 0600, &shape);
    mq_unlink(name);
    struct timespec until = after(CLOCK_REALTIME);
    at("mq_timedreceive", mq_timedreceive(queue, bytes, 8, NULL, &until));
    mq_send(queue, "", 1, 0);
    until = after(CLOCK_REALTIME);
    at("mq_timedsend", mq_timedsend(queue, "", 1, 0, &until));
    at("semtimedop", semtimedop(semaphore, &take, 1, &ten));
    semctl(semaphore, 0, IPC_RMID);
    aio_context_t context = 0;
    struct io_event event;
    syscall(SYS_io_setup, 1, &context);
    at("io_getevents", syscall(SYS_io_getevents, context, 1, 1, &event, &ten));
    at("io_pgetevents", syscall(SYS_io_pgetevents, context, 1, 1, &event, &ten, NULL));
}

static void limit(int file, int option) {
    const struct timeval time = {10, 0};
    if (setsockopt(file, SOL_SOCKET, option, &time, sizeof time)) perror("setsockopt");
}

static int listener(struct sockaddr_in *address) {
    socklen_t length = sizeof *address;
    const int file = socket(AF_INET, SOCK_STREAM, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bind(file, (void *)address, length);
    getsockname(file, (void *)address, &length);
    listen(file, 0);
    limit(file, SO_RCVTIMEO);
    return file;
}

/* Opens a terminal whose reads end after ten seconds without a byte. */
static int terminal(void) {
    struct termios settings;
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (unlockpt(master)) perror("unlockpt");
    const int file = open(ptsname(master), O_RDWR | O_NOCTTY);
    tcgetattr(file, &settings);
    cfmakeraw(&settings);
    settings.c_cc[VMIN] = 0;
    settings.c_cc[VTIME] = 100;
    tcsetattr(file, TCSANOW, &settings);
    return file;
}

static void receives(void) {
    int pair[2];
    struct sockaddr_in address;
    struct mmsghdr messages[2] = {{message, 0}, {message, 0}};
    struct timespec hour = {3600, 0};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    limit(pair[0], SO_RCVTIMEO);
    at("read", read(pair[0], bytes, 1));
    at("readv", readv(pair[0], &vector, 1));
    at("preadv2", preadv2(pair[0], &vector, 1, -1, 0));
    at("recv", recv(pair[0], bytes, 1, 0));
    at("recv all", recv(pair[0], bytes, 1, MSG_WAITALL));
    at("recvmsg", recvmsg(pair[0], &message, 0));
    at("recvmmsg", recvmmsg(pair[0], messages, 2, 0, NULL));
    at("recvmmsg, later", recvmmsg(pair[0], messages, 2, 0, &hour));
    at("accept", accept(listener(&address), NULL, NULL));
    at("terminal", read(terminal(), bytes, 1));
}

/* Fills a socket. Its next call that sends has no room for a single byte. */
static int fill(int file) {
    for (int size = sizeof bytes; size > 0; size /= 2)
        while (send(file, bytes, size, MSG_DONTWAIT) > 0) {
        }
    return file;
}

static void sends(void) {
    int pair[2], pipes[2];
    struct sockaddr_in address;
    struct mmsghdr messages = {message, 0};
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0plumbline"};
    const int late = socket(AF_INET, SOCK_STREAM, 0);
    listener(&address);
    connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&address, sizeof address);
    limit(late, SO_SNDTIMEO);
    at("connect", connect(late, (void *)&address, sizeof address));
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    const int full = fill(pair[0]);
    limit(full, SO_SNDTIMEO);
    at("write", write(full, bytes, 1));
    at("writev", writev(full, &vector, 1));
    at("pwritev2", pwritev2(full, &vector, 1, -1, 0));
    at("send", send(full, bytes, 1, 0));
    at("sendmsg", sendmsg(full, &message, 0));
    at("sendmmsg", sendmmsg(full, &messages, 1, 0));
    const int file = open("/proc/self/exe", O_RDONLY);
    at("sendfile", sendfile(full, file, NULL, 1));
    pipe(pipes);
    write(pipes[1], bytes, 1);
    at("splice", splice(pipes[0], NULL, full, NULL, 1, 0));
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    limit(pair[0], SO_SNDTIMEO);
    at("send, datagram", send(fill(pair[0]), bytes, 1, 0));
    const int local = socket(AF_UNIX, SOCK_STREAM, 0), one = socket(AF_UNIX, SOCK_STREAM, 0);
    const int other = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(local, (void *)&name, sizeof name);
    listen(local, 0);
    connect(one, (void *)&name, sizeof name);
    limit(other, SO_SNDTIMEO);
    at("connect, local", connect(other, (void *)&name, sizeof name));
}

static int pipes[2], events, watched, semaphore, messages;
static char folder[] = "/tmp/plumbline-XXXXXX";

static void *wake(void *what) {
    struct sembuf give = {0, 1, 0};
    pass(10);
    switch ((intptr_t)what) {
    case 0: return (void *)write(pipes[1], "x", 1);
    case 1: return (void *)(intptr_t)eventfd_write(events, 1);
    case 2: return (void *)(intptr_t)semop(semaphore, &give, 1);
    case 3: return (void *)(intptr_t)msgsnd(messages, &(long[]){1, 1}, 8, 0);
    case 4: return (void *)(intptr_t)pthread_kill(waiter, SIGUSR1);
    case 5: return (void *)(intptr_t)open(folder, O_WRONLY | O_CLOEXEC);
    case 6: word = 2; return (void *)syscall(SYS_futex, &word, FUTEX_WAKE, 1);
    default: return (void *)(intptr_t)chmod(folder, 0600);
    }
}

static pthread_t waker;

/* Lets an event come after ten seconds. */
static void later(intptr_t what) { pthread_create(&waker, NULL, wake, (void *)what); }

static void ended(const char *what, long result) {
    at(what, result);
    pthread_join(waker, NULL);
}

static void endless(void) {
    const int file = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.fd = 0}};
    struct pollfd poll_in = {0, POLLIN, 0};
    struct sembuf take = {0, -1, 0};
    struct iocb look = {.aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = POLLIN}, *looks = &look;
    struct io_event seen;
    aio_context_t context = 0;
    eventfd_t count;
    fd_set set;
    pipe(pipes);
    poll_in.fd = look.aio_fildes = pipes[0];
    epoll_ctl(file, EPOLL_CTL_ADD, pipes[0], &event);
    events = eventfd(0, 0);
    semaphore = semget(IPC_PRIVATE, 1, 0600);
    messages = msgget(IPC_PRIVATE, 0600);
    FD_ZERO(&set);
    FD_SET(pipes[0], &set);
    later(0), ended("endless epoll_wait", epoll_wait(file, &event, 1, -1)), read(pipes[0], bytes, 1);
    later(0), ended("endless poll", poll(&poll_in, 1, -1)), read(pipes[0], bytes, 1);
    later(0), ended("endless select", select(pipes[0] + 1, &set, NULL, NULL, NULL)), read(pipes[0], bytes, 1);
    later(0), ended("pipe", read(pipes[0], bytes, 1));
    later(1), ended("eventfd", eventfd_read(events, &count));
    later(2), ended("semop", semop(semaphore, &take, 1));
    later(3), ended("msgrcv", msgrcv(messages, bytes, 8, 0, 0));
    later(4), ended("sigwaitinfo", sigwaitinfo(&signals, NULL));
    later(6), ended("endless futex", syscall(SYS_futex, &word, FUTEX_WAIT, 1, NULL));
    syscall(SYS_io_setup, 1, &context);
    syscall(SYS_io_submit, context, 1, &looks);
    later(0), ended("endless io_getevents", syscall(SYS_io_getevents, context, 1, 1, &seen, NULL));
    semctl(semaphore, 0, IPC_RMID);
    msgctl(messages, IPC_RMID, NULL);
}

/* Starts a child that holds a lock, and ends after ten seconds. */
static void hold(int file) {
    int ready[2];
    pipe(ready);
    if (fork() == 0) {
        struct flock lock = {.l_type = F_WRLCK};
        fcntl(file, F_SETLK, &lock);
        flock(open(folder, O_RDWR | O_CLOEXEC), LOCK_EX);
        write(ready[1], "x", 1);
        pass(10);
        _exit(0);
    }
    read(ready[0], bytes, 1);
}

static void files(void) {
    struct flock lock = {.l_type = F_WRLCK};
    watched = inotify_init();
    close(mkstemp(folder));
    inotify_add_watch(watched, folder, IN_ATTRIB);
    later(7), ended("inotify", read(watched, bytes, sizeof bytes) > 0);
    const int file = open(folder, O_RDWR);
    hold(file);
    at("fcntl", fcntl(file, F_SETLKW, &lock));
    wait(NULL);
    hold(file);
    at("flock", flock(file, LOCK_EX));
    wait(NULL);
    flock(file, LOCK_UN);
    hold(file);
    at("wait", wait(NULL) > 0);
    unlink(folder);
    mkfifo(folder, 0600);
    later(5), ended("open", open(folder, O_RDONLY) > 0);
    unlink(folder);
}

int main(void) {
    pthread_t ticker;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    waiter = pthread_self();
    start = now();
    pthread_create(&ticker, NULL, tick, NULL);
    polls();
    sleeps();
    queues();
    receives();
    sends();
    endless();
    files();
}
