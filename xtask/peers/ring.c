// The limit: a bare ring between two processes over a memfd, with no protocol at all. A cache line holds a message of up
// to 40 bytes and its own mark; longer ones are copied once, out of the sender's memory, which both have mapped. Who sends
// a stream looks at how many were taken only when it takes the ring for full; who takes tells it once in a while.
#include "common.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SLOTS 128
#define SHORT 40

struct line {
    _Atomic uint64_t mark;
    uint64_t head, data[SHORT / 8], pad;
} __attribute__((aligned(64)));

struct side {
    struct line ring[SLOTS];
    // Of barriers, sums, puts, rounds and messages taken; each in a line of its own.
    struct line count, sum, cell, counter, rounds, freed;
    char bulk[LONGEST] __attribute__((aligned(4096)));
};

static struct side *own, *peer;
static int rank;
static uint64_t sent, taken, met, turn;
static char *in;

#if defined(__x86_64__)
#define relax() __builtin_ia32_pause()
#else
#define relax() __asm__ volatile("yield")
#endif

static void await(_Atomic uint64_t *mark, uint64_t value) {
    while (atomic_load_explicit(mark, memory_order_acquire) != value) relax();
}

// Into the peer's ring. Who sends has had an answer to what was in the place before.
static void push(int bytes) {
    struct line *line = &peer->ring[sent % SLOTS];
    line->head = bytes;
    if (bytes <= SHORT)
        for (int i = 0; i < bytes; i += 8) line->data[i / 8] = sent;
    atomic_store_explicit(&line->mark, ++sent, memory_order_release);
}

static uint64_t pop(void) {
    struct line *line = &own->ring[taken % SLOTS];
    await(&line->mark, ++taken);
    uint64_t bytes = line->head;
    if (bytes > SHORT)
        memcpy(in, peer->bulk, bytes);
    else
        for (uint64_t i = 0; i < bytes; i += 8) ((volatile uint64_t *)in)[i / 8] = line->data[i / 8];
    return bytes;
}

// The messages of a stream that were taken, in steps of a quarter of the ring.
#define TOLD (SLOTS / 4)

static double stream(int rounds, int bytes) {
    static uint64_t streamed, known;
    double start = now();
    for (int i = 0; i < rounds; i++, streamed++) {
        if (rank == 0) {
            while (streamed - known >= SLOTS) known = atomic_load_explicit(&peer->freed.mark, memory_order_acquire);
            push(bytes);
        } else {
            pop();
            if (streamed % TOLD == TOLD - 1) atomic_store_explicit(&own->freed.mark, streamed + 1, memory_order_release);
        }
    }
    // The last messages are in, and the ring is empty.
    if (rank == 0) pop();
    else push(4), atomic_store_explicit(&own->freed.mark, streamed, memory_order_release);
    return (now() - start) / rounds;
}

static void meet(void) {
    atomic_store_explicit(&own->count.mark, ++met, memory_order_release);
    while (atomic_load_explicit(&peer->count.mark, memory_order_acquire) < met) relax();
}

static int agree(int n) {
    own->rounds.head = n;
    meet();
    n = rank == 0 ? n : (int)peer->rounds.head;
    meet();
    return n;
}

static double half(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) push(bytes), pop();
        else pop(), push(bytes);
    }
    return (now() - start) / rounds / 2;
}

static double rate(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++) {
        for (int m = 0; m < WINDOW; m++) {
            if (rank == 0) push(bytes);
            else pop();
        }
        if (rank == 0) pop();
        else push(4);
    }
    return (now() - start) / rounds;
}

static double barrier(int rounds, int bytes) {
    (void)bytes;
    double start = now();
    for (int i = 0; i < rounds; i++) meet();
    return (now() - start) / rounds;
}

// Two places, so that a sum of before is never overwritten while it is read.
static double allreduce(int rounds, int bytes) {
    (void)bytes;
    static uint64_t at;
    volatile uint64_t sum;
    double start = now();
    for (int i = 0; i < rounds; i++) {
        at++;
        own->sum.data[at % 2] = at;
        atomic_store_explicit(&own->sum.mark, at, memory_order_release);
        while (atomic_load_explicit(&peer->sum.mark, memory_order_acquire) < at) relax();
        sum = at + peer->sum.data[at % 2];
    }
    (void)sum;
    return (now() - start) / rounds;
}

static double put(int rounds, int bytes) {
    (void)bytes;
    double start = now();
    for (int i = 0; i < rounds; i++) {
        turn++;
        if (rank == 1) await(&own->cell.mark, turn);
        atomic_store_explicit(&peer->cell.mark, turn, memory_order_release);
        if (rank == 0) await(&own->cell.mark, turn);
    }
    return (now() - start) / rounds / 2;
}

static double fetch_add(int rounds, int bytes) {
    (void)bytes;
    double start = now();
    for (int i = 0; rank == 0 && i < rounds; i++) atomic_fetch_add(&peer->counter.mark, 1);
    double each = (now() - start) / rounds;
    meet();
    return each;
}

// Takes a message if there is one.
static __attribute__((noinline)) int poll(void) {
    if (atomic_load_explicit(&own->ring[taken % SLOTS].mark, memory_order_acquire) != taken + 1) return 0;
    pop();
    return 1;
}

static __attribute__((noinline)) void send(int bytes) {
    push(bytes);
}

static __attribute__((noinline)) void put_word(uint64_t word) {
    atomic_store_explicit(&peer->cell.mark, word, memory_order_release);
}

static void steps(void) {
    int came;
    if (rank == 0) await_stepper();
    for (int i = 0; i < STEPPED; i++) {
        if (rank == 1) {
            pop(), push(8);
            continue;
        }
        MARKED(send(8)), peers_mark(SEND);
        pause_for_a_message();
        MARKED(came = poll()), peers_mark(came ? PROGRESS : NOT_THIS);
        if (!came) pop();
        MARKED(came = poll()), peers_mark(came ? NOT_THIS : EMPTY);
        MARKED(put_word(i)), peers_mark(PUT);
        MARKED((void)0), peers_mark(NOTHING);
    }
    if (rank == 0) peers_mark(OVER);
}

static void row(const char *name, double value) {
    if (rank == 0) tell(name, value);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    int file = memfd_create("ring", 0);
    if (file < 0 || ftruncate(file, 2 * sizeof(struct side))) return perror("memfd"), 1;
    struct side *sides = mmap(NULL, 2 * sizeof *sides, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (sides == MAP_FAILED) return perror("mmap"), 1;
    pid_t child = fork();
    if (child < 0) return perror("fork"), 1;
    rank = child == 0;
    if (rank == 1) begin(argc, argv);
    stay(rank);
    own = &sides[rank], peer = &sides[!rank];
    in = aligned_alloc(4096, LONGEST);
    memset(in, 0, LONGEST), memset(own->bulk, rank + 1, LONGEST);
    half(1, 8);
    if (rank == 0) first();
    for (int i = 0; i < HALF_ROWS; i++)
        if (wanted(half_rows[i].row)) row(half_rows[i].row, measure(half, half_rows[i].bytes, agree));
    if (wanted("rate-8")) row("rate-8", WINDOW * 1e3 / measure(rate, 8, agree));
    if (wanted("stream-8")) row("stream-8", 1e3 / measure(stream, 8, agree));
    if (wanted("barrier")) row("barrier", measure(barrier, 0, agree));
    if (wanted("allreduce-8")) row("allreduce-8", measure(allreduce, 8, agree));
    if (wanted("put-8")) row("put-8", measure(put, 8, agree));
    if (wanted("fetch-add")) row("fetch-add", measure(fetch_add, 8, agree));
    if (are_steps_wanted()) steps();
    if (rank == 0) waitpid(child, NULL, 0);
    return 0;
}
