/* Sleeps for no time until a tenth of a second has passed. */
#include "common.h"

int main(void) {
    struct timespec past = {0, 0};
    start = now();
    while (now() < start + 0.1) {
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &past, NULL);
    }
    printf("over %d\n", now() < start + 0.2);
}
