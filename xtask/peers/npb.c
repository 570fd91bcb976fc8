// The NAS benchmarks over MPI, for every implementation: called with a benchmark, as in npb-is, and a class. The benchmarks are in
// the library of the package `npb` beside this; it prints what the jobs print. Here is the machine that it calls.
#include "common.h"

#include <mpi.h>
#include <stdint.h>

// Returns 0 if the results are the official ones.
int npb_run(const char *benchmark, const char *class);

// That of all tasks, and those that were made.
static MPI_Comm groups[16];
static int made, rank, size;

int npb_task(void) { return rank; }

int npb_tasks(void) { return size; }

int npb_group(int first, int place) {
    if (++made == sizeof groups / sizeof groups[0]) {
        fprintf(stderr, "more groups than there is room for\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Comm_split(MPI_COMM_WORLD, first, place, &groups[made]);
    return made;
}

void npb_barrier(int group) { MPI_Barrier(groups[group]); }

void npb_sum_reals(int group, double *values, int count) {
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, groups[group]);
}

void npb_sum_indices(int group, uint32_t *values, int count) {
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_UINT32_T, MPI_SUM, groups[group]);
}

void npb_all_gather(int group, const double *mine, double *all, int count) {
    MPI_Allgather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, groups[group]);
}

void npb_all_to_all(int group, const double *send, double *received, int count) {
    MPI_Alltoall(send, count, MPI_DOUBLE, received, count, MPI_DOUBLE, groups[group]);
}

void npb_all_to_all_counts(int group, const int *send, int *received) {
    MPI_Alltoall(send, 1, MPI_INT, received, 1, MPI_INT, groups[group]);
}

void npb_all_to_all_indices(int group, const uint32_t *send, const int *going, const int *going_at, uint32_t *received,
                            const int *coming, const int *coming_at) {
    MPI_Alltoallv(send, going, going_at, MPI_UINT32_T, received, coming, coming_at, MPI_UINT32_T, groups[group]);
}

void npb_exchange(int partner, const double *send, int sent, double *received, int room) {
    MPI_Sendrecv(send, sent, MPI_DOUBLE, partner, 1, received, room, MPI_DOUBLE, partner, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    groups[0] = MPI_COMM_WORLD;
    stay(rank);
    if (size < 2 || argc != 3) {
        fprintf(stderr, size < 2 ? "the tasks do not find each other: each takes itself for alone\n"
                                 : "a benchmark and a class are wanted, as in npb-is A\n");
        return 2;
    }
    int result = npb_run(argv[1], argv[2]);
    MPI_Finalize();
    return result;
}
