// What the measuring programs have in common: clock, cores, how often, and the lines that `cargo xtask bench peers` reads.
//
// A program is called with the rows that are wanted. It prints `first` once a message has gone to the last task and
// back, and `row NAME VALUE` for each row that it can measure: nanoseconds, messages per microsecond for a rate, KiB
// for memory. Rows that it does not print are not offered. Rows insn-* it only marks: their instructions are counted from
// outside.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

// Rounds of a batch are as many as take so long.
#define BATCH_NS 8e6
#define BATCHES 7
#define PILOT 20
#define WINDOW 64
// Calls of each kind whose instructions are counted.
#define STEPPED 31
#define LONGEST (1 << 24)

static const struct { const char *row; int bytes; } half_rows[] = {
    {"half-0", 0}, {"half-8", 8}, {"half-64", 64}, {"half-1k", 1 << 10}, {"half-64k", 1 << 16}, {"half-1m", 1 << 20},
    {"half-16m", 1 << 24},
};
#define HALF_ROWS ((int)(sizeof half_rows / sizeof half_rows[0]))

static int words;
static char **word;

static int wanted(const char *row) {
    for (int i = 1; i < words; i++)
        if (!strcmp(word[i], row)) return 1;
    return 0;
}

// No launcher that was killed leaves a task behind, and no task outlives the deadline.
static void begin(int argc, char **argv) {
    words = argc, word = argv;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(120);
}

// Binds task `rank` to its core of PEERS_CORES, which is like 0,1.
static void stay(int rank) {
    int cores[64], n = 0;
    const char *list = getenv("PEERS_CORES");
    while (list && *list && n < 64) {
        char *end;
        cores[n++] = (int)strtol(list, &end, 10);
        list = *end == ',' ? end + 1 : NULL;
    }
    if (!n) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores[rank % n], &set);
    if (sched_setaffinity(0, sizeof set, &set)) perror("sched_setaffinity");
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void first(void) {
    puts("first");
    fflush(stdout);
}

static void tell(const char *row, double value) {
    printf("row %s %.3f\n", row, value);
    fflush(stdout);
}

static int by_size(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

// Nanoseconds of one round: the median of batches. `batch` does so many rounds and returns the nanoseconds of one;
// `agree` makes task 0's number everyone's.
static double measure(double (*batch)(int rounds, int bytes), int bytes, int (*agree)(int)) {
    double each[BATCHES];
    batch(PILOT, bytes);
    double rounds = BATCH_NS / batch(PILOT, bytes);
    int n = agree(rounds < 3 ? 3 : rounds > 1e6 ? 1000000 : (int)rounds);
    for (int i = 0; i < BATCHES; i++) each[i] = batch(n, bytes);
    qsort(each, BATCHES, sizeof each[0], by_size);
    return each[BATCHES / 2];
}

// KiB of this process, with its share of what it shares.
__attribute__((unused)) static double memory_kib(void) {
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %lf", &kib) == 1) break;
    if (file) fclose(file);
    return kib;
}

// What is marked for who steps through this program: xtask/src/bench/peers/steps.rs has the same numbers.
enum mark { IS_ANYONE_THERE, BEGIN, END, NOT_THIS, NOTHING, SEND, PROGRESS, EMPTY, PUT, OVER };

// Steps are counted from one call of this to the next. Who steps may have it return another number than it was given.
__attribute__((noinline, noclone, used)) int peers_mark(int mark) {
    __asm__ volatile("" : "+r"(mark) : : "memory");
    return mark;
}

// Of `call` the instructions are counted.
#define MARKED(call) (peers_mark(BEGIN), call, peers_mark(END))

__attribute__((unused)) static int are_steps_wanted(void) {
    return wanted("insn-send") || wanted("insn-progress") || wanted("insn-empty") || wanted("insn-put");
}

__attribute__((unused)) static void await_stepper(void) {
    while (peers_mark(IS_ANYONE_THERE) == IS_ANYONE_THERE) usleep(1000);
}

// A message that is on its way has come by then.
__attribute__((unused)) static void pause_for_a_message(void) {
    usleep(1000);
}
