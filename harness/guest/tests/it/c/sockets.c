/* Timeouts of sockets: inherited, shared, kept in pieces, and interrupted. */
#include "common.h"
#include <netinet/in.h>
#include <sys/un.h>

static void set(int file, int option, long seconds) {
    const struct timeval time = {seconds, 0};
    if (setsockopt(file, SOL_SOCKET, option, &time, sizeof time)) perror("setsockopt");
}

static void get(const char *what, int file, int option) {
    struct timeval time;
    socklen_t length = sizeof time;
    at(what, getsockopt(file, SOL_SOCKET, option, &time, &length));
    printf("%ld %ld %d\n", time.tv_sec, time.tv_usec, length);
}

static void *send_pieces(void *file) {
    for (int i = 0; i < 4; i++) {
        pass(10);
        if (write(*(int *)file, "ab", 2) != 2) perror("write");
    }
    return NULL;
}

static pthread_t receiver;

static void *interrupt_twice(void *number) {
    for (int i = 0; i < 2; i++) {
        pass(10);
        pthread_kill(receiver, *(int *)number);
    }
    return NULL;
}

static void handle(int number) { (void)number; }

static int listener(struct sockaddr_in *address, int backlog) {
    socklen_t length = sizeof *address;
    int file = socket(AF_INET, SOCK_STREAM, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bind(file, (void *)address, length);
    getsockname(file, (void *)address, &length);
    listen(file, backlog);
    return file;
}

static int copy_by_message(int file) {
    int pair[2], copy;
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &file, sizeof file);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    if (sendmsg(pair[0], &message, 0) != 1 || recvmsg(pair[1], &message, 0) != 1) perror("message");
    memcpy(&copy, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof copy);
    return copy;
}

int main(void) {
    char bytes[64];
    pthread_t thread;
    struct sockaddr_in address;
    start = now();
    receiver = pthread_self();

    int tcp = listener(&address, 5), client = socket(AF_INET, SOCK_STREAM, 0);
    set(tcp, SO_RCVTIMEO, 35);
    connect(client, (void *)&address, sizeof address);
    int server = accept(tcp, NULL, NULL);
    get("accepted", server, SO_RCVTIMEO);
    at("inherited", recv(server, bytes, 9, 0));
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0plumbline"};
    int local = socket(AF_UNIX, SOCK_STREAM, 0), peer = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(local, (void *)&name, sizeof name);
    listen(local, 5);
    set(local, SO_RCVTIMEO, 35);
    connect(peer, (void *)&name, sizeof name);
    get("local ones are not", accept(local, NULL, NULL), SO_RCVTIMEO);

    pthread_create(&thread, NULL, send_pieces, &client);
    at("in pieces", recv(server, bytes, 20, MSG_WAITALL));
    pthread_join(thread, NULL);
    at("the rest", recv(server, bytes, 20, MSG_DONTWAIT));
    int pair[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    set(pair[0], SO_RCVTIMEO, 15);
    struct iovec vector = {bytes, 9};
    struct mmsghdr messages[9] = {0};
    for (int i = 0; i < 9; i++) messages[i].msg_hdr = (struct msghdr){.msg_iov = &vector, .msg_iovlen = 1};
    pthread_create(&thread, NULL, send_pieces, &pair[1]);
    at("each of several messages has a limit of its own", recvmmsg(pair[0], messages, 9, 0, NULL));
    pthread_join(thread, NULL);

    int copy = dup(server);
    set(copy, SO_RCVTIMEO, 20);
    at("set by a copy", recv(server, bytes, 9, 0));
    if (fork() == 0) {
        set(server, SO_RCVTIMEO, 5);
        _exit(0);
    }
    wait(NULL);
    at("set by a child", recv(copy, bytes, 9, 0));
    at("of a passed copy", recv(copy_by_message(server), bytes, 9, 0));

    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    set(server, SO_RCVTIMEO, 35);
    for (int flag = 0; flag <= MSG_WAITALL; flag += MSG_WAITALL) {
        int handled = SIGUSR1, ignored = SIGURG;
        pthread_create(&thread, NULL, interrupt_twice, &handled);
        at("a handler", recv(server, bytes, 9, flag));
        pthread_join(thread, NULL);
        pthread_create(&thread, NULL, interrupt_twice, &ignored);
        at("ignored", recv(server, bytes, 9, flag));
        pthread_join(thread, NULL);
    }
    if (fork() == 0) {
        pass(10);
        kill(getppid(), SIGSTOP);
        pass(10);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    at("stopped and continued", recv(server, bytes, 9, 0));
    wait(NULL);

    listener(&address, 0);
    connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&address, sizeof address);
    int late = socket(AF_INET, SOCK_STREAM, 0);
    set(late, SO_SNDTIMEO, 20);
    at("connect", connect(late, (void *)&address, sizeof address));
    set(server, SO_RCVTIMEO, 0);
    get("none", server, SO_RCVTIMEO);
}
