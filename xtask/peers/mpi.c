// The rows over MPI, for every implementation.
#include "common.h"

#include <mpi.h>
#include <stdint.h>

static int rank, size, other;
static char *out, *in;

static int agree(int n) {
    MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return n;
}

static double half(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
        }
    }
    return (now() - start) / rounds / 2;
}

// Begins message m of a window, from task 0 to the other.
static inline void post(int m, int bytes, MPI_Request *request) {
    if (rank == 0)
        MPI_Isend(out + m * bytes, bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, request);
    else
        MPI_Irecv(in + m * bytes, bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, request);
}

// The other's answer to all before.
static inline void answer(void) {
    if (rank == 0)
        MPI_Recv(in, 4, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(out, 4, MPI_BYTE, other, 3, MPI_COMM_WORLD);
}

// A round is a window of messages and the answer to it.
static double rate(int rounds, int bytes) {
    MPI_Request requests[WINDOW];
    double start = now();
    for (int i = 0; i < rounds; i++) {
        for (int m = 0; m < WINDOW; m++) post(m, bytes, &requests[m]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        answer();
    }
    return (now() - start) / rounds;
}

// A window's requests are used again as they end. Nobody answers but to the last message.
static double stream(int rounds, int bytes) {
    MPI_Request requests[WINDOW];
    for (int m = 0; m < WINDOW; m++) requests[m] = MPI_REQUEST_NULL;
    double start = now();
    for (int i = 0; i < rounds; i++) {
        int m = i % WINDOW;
        MPI_Wait(&requests[m], MPI_STATUS_IGNORE);
        post(m, bytes, &requests[m]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    answer();
    return (now() - start) / rounds;
}

static double barrier(int rounds, int bytes) {
    (void)bytes;
    double start = now();
    for (int i = 0; i < rounds; i++) MPI_Barrier(MPI_COMM_WORLD);
    return (now() - start) / rounds;
}

static double allreduce(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++)
        MPI_Allreduce(out, in, bytes / 8, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return (now() - start) / rounds;
}

// Each is the root in its turn, so that nobody runs ahead.
static double broadcast(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++) MPI_Bcast(in, bytes, MPI_BYTE, i % size, MPI_COMM_WORLD);
    return (now() - start) / rounds;
}

static double alltoall(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++)
        MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
    return (now() - start) / rounds;
}

static MPI_Win window;
static volatile uint64_t *mine;
static uint64_t turn;

// A put that the other sees, which puts back.
static double put(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++) {
        uint64_t value = ++turn;
        for (int side = 0; side < 2; side++) {
            if (side == rank) {
                MPI_Put(&value, bytes, MPI_BYTE, other, 0, bytes, MPI_BYTE, window);
                MPI_Win_flush(other, window);
            } else {
                int flag;
                for (unsigned spin = 1; *mine != value; spin++) {
                    MPI_Win_sync(window);
                    // Where puts are messages, they want progress.
                    if (spin % 64 == 0)
                        MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
                }
            }
        }
    }
    return (now() - start) / rounds / 2;
}

static double fetch_add(int rounds, int bytes) {
    (void)bytes;
    uint64_t one = 1, before;
    double start = now();
    for (int i = 0; rank == 0 && i < rounds; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, other, 1, MPI_SUM, window);
        MPI_Win_flush(other, window);
    }
    double each = (now() - start) / rounds;
    MPI_Barrier(MPI_COMM_WORLD);
    return each;
}

static void steps(void) {
    MPI_Request incoming, outgoing;
    uint64_t word = 0;
    int came;
    MPI_Irecv(in, 8, MPI_BYTE, other, 4, MPI_COMM_WORLD, &incoming);
    if (rank == 0) await_stepper();
    for (int i = 0; i < STEPPED; i++) {
        if (rank == 1) {
            MPI_Wait(&incoming, MPI_STATUS_IGNORE);
            MPI_Irecv(in, 8, MPI_BYTE, other, 4, MPI_COMM_WORLD, &incoming);
            MPI_Send(out, 8, MPI_BYTE, other, 4, MPI_COMM_WORLD);
            continue;
        }
        MARKED(MPI_Isend(out, 8, MPI_BYTE, other, 4, MPI_COMM_WORLD, &outgoing)), peers_mark(SEND);
        MPI_Wait(&outgoing, MPI_STATUS_IGNORE);
        pause_for_a_message();
        MARKED(MPI_Test(&incoming, &came, MPI_STATUS_IGNORE)), peers_mark(came ? PROGRESS : NOT_THIS);
        if (!came) MPI_Wait(&incoming, MPI_STATUS_IGNORE);
        MPI_Irecv(in, 8, MPI_BYTE, other, 4, MPI_COMM_WORLD, &incoming);
        for (int turn = 0; turn < 10; turn++) MPI_Test(&incoming, &came, MPI_STATUS_IGNORE);
        MARKED(MPI_Test(&incoming, &came, MPI_STATUS_IGNORE)), peers_mark(came ? NOT_THIS : EMPTY);
        MARKED(MPI_Put(&word, 8, MPI_BYTE, other, 0, 8, MPI_BYTE, window)), peers_mark(PUT);
        MPI_Win_flush(other, window);
        MARKED((void)0), peers_mark(NOTHING);
    }
    if (rank == 0) peers_mark(OVER);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Cancel(&incoming);
    MPI_Wait(&incoming, MPI_STATUS_IGNORE);
}

static void row(const char *name, double value) {
    if (rank == 0) tell(name, value);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    stay(rank);
    if (size < 2) {
        fprintf(stderr, "the tasks do not find each other: each takes itself for alone\n");
        return 1;
    }
    other = rank == 0 ? size - 1 : 0;
    long longest = size == 2 ? LONGEST : 1 << 16, room = (long)size << 16 > longest ? (long)size << 16 : longest;
    out = aligned_alloc(4096, room), in = aligned_alloc(4096, room);
    memset(out, 1, room), memset(in, 0, room);
    if (rank == 0 || rank == size - 1) half(1, 4);
    if (rank == 0) first();
    for (int i = 0; i < HALF_ROWS; i++)
        if (wanted(half_rows[i].row) && size == 2)
            row(half_rows[i].row, measure(half, half_rows[i].bytes, agree));
    if (wanted("rate-8") && size == 2) row("rate-8", WINDOW * 1e3 / measure(rate, 8, agree));
    if (wanted("stream-8") && size == 2) row("stream-8", 1e3 / measure(stream, 8, agree));
    if (wanted("barrier")) row("barrier", measure(barrier, 0, agree));
    if (wanted("allreduce-8")) row("allreduce-8", measure(allreduce, 8, agree));
    if (wanted("broadcast-8")) row("broadcast-8", measure(broadcast, 8, agree));
    if (wanted("alltoall-8")) row("alltoall-8", measure(alltoall, 8, agree));
    // These may take long where tasks share cores.
    if (wanted("allreduce-64k")) row("allreduce-64k", measure(allreduce, 1 << 16, agree));
    if (wanted("broadcast-64k")) row("broadcast-64k", measure(broadcast, 1 << 16, agree));
    if (wanted("alltoall-64k")) row("alltoall-64k", measure(alltoall, 1 << 16, agree));
    if (size == 2 && (wanted("put-8") || wanted("fetch-add") || are_steps_wanted())) {
        void *base;
        MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
        memset(base, 0, 4096);
        mine = base;
        MPI_Win_lock_all(0, window);
        MPI_Barrier(MPI_COMM_WORLD);
        if (wanted("put-8")) row("put-8", measure(put, 8, agree));
        if (wanted("fetch-add")) row("fetch-add", measure(fetch_add, 8, agree));
        if (are_steps_wanted()) steps();
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
    }
    if (wanted("memory")) {
        double own, all = 0;
        // Without what is the program's own.
        free(out), free(in);
        MPI_Barrier(MPI_COMM_WORLD);
        own = memory_kib();
        MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        row("memory", all / size);
    }
    MPI_Finalize();
    return 0;
}
