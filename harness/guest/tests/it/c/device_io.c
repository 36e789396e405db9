/* Asynchronous reads of a file, each with a time that a device does not keep. */
#include "common.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>

enum { SIZE = 1 << 20 };

int main(int count, char **arguments) {
    const struct timespec short_time = {0, 1000000};
    const int file = open(arguments[count - 1], O_CREAT | O_RDWR | O_DIRECT, 0600);
    struct iocb reads[4], *list[4];
    struct io_event events[4];
    aio_context_t context = 0;
    void *block;
    int done = 0;
    if (file < 0 || posix_memalign(&block, 4096, SIZE)) return printf("no direct file\n"), 0;
    memset(block, 1, SIZE);
    for (int i = 0; i < 4; i++)
        if (pwrite(file, block, SIZE, i * SIZE) != SIZE) perror("pwrite");
    fsync(file);
    start = now();
    syscall(SYS_io_setup, 4, &context);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 4; i++) {
            reads[i] = (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = file, .aio_offset = i * SIZE,
                                     .aio_buf = (uintptr_t)block, .aio_nbytes = SIZE};
            list[i] = &reads[i];
        }
        if (syscall(SYS_io_submit, context, 4, list) != 4) perror("io_submit");
        done += syscall(SYS_io_getevents, context, 4, 4, events, &short_time);
    }
    at("done", done);
    printf("%.3f\n", now() - start);
    syscall(SYS_io_destroy, context);
}
