// The rows over UCX: active messages, and tagged ones where they are long; two processes that exchange their addresses
// by memory.
#include "common.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>

#define PING 1
// From here on messages are tagged, so that they are received where they belong.
#define LONG 4096

static struct shared {
    _Atomic int ready[2];
    size_t length[2];
    char address[2][8192];
    uint64_t target[2];
    size_t key_length[2];
    char key[2][8192];
    _Atomic int rounds, met[2];
} *shared;

static int rank;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h peer;
static unsigned long came, counted, met;
static char *out, *in;

static void check(ucs_status_t status, const char *what) {
    if (status == UCS_OK) return;
    fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
    exit(1);
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param) {
    (void)arg, (void)header, (void)header_length, (void)param;
    memcpy(in, data, length);
    came++;
    return UCS_OK;
}

static void finish(void *request, const char *what) {
    if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), what);
    if (!request) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
    ucp_request_free(request);
}

static void give(int bytes) {
    static const ucp_request_param_t plain;
    if (bytes >= LONG)
        finish(ucp_tag_send_nbx(peer, out, bytes, 1, &plain), "ucp_tag_send_nbx");
    else
        finish(ucp_am_send_nbx(peer, PING, NULL, 0, out, bytes, &plain), "ucp_am_send_nbx");
}

static void take(int bytes) {
    static const ucp_request_param_t plain;
    if (bytes >= LONG)
        finish(ucp_tag_recv_nbx(worker, in, bytes, 1, ~0ull, &plain), "ucp_tag_recv_nbx");
    else
        for (counted++; came < counted;) ucp_worker_progress(worker);
}

static double half(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) give(bytes), take(bytes);
        else take(bytes), give(bytes);
    }
    return (now() - start) / rounds / 2;
}

static double rate(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++) {
        for (int m = 0; m < WINDOW; m++) {
            if (rank == 0) give(bytes);
            else take(bytes);
        }
        if (rank == 0) take(4);
        else give(4);
    }
    return (now() - start) / rounds;
}

// Nobody answers but to the last message.
static double stream(int rounds, int bytes) {
    double start = now();
    for (int i = 0; rank == 0 && i < rounds; i++) give(bytes);
    if (rank == 0) {
        take(4);
    } else {
        for (counted += rounds; came < counted;) ucp_worker_progress(worker);
        give(4);
    }
    return (now() - start) / rounds;
}

static void meet(void) {
    atomic_store(&shared->met[rank], ++met);
    while ((unsigned long)atomic_load(&shared->met[!rank]) < met) ucp_worker_progress(worker), sched_yield();
}

static int agree(int n) {
    if (rank == 0) atomic_store(&shared->rounds, n);
    meet();
    n = atomic_load(&shared->rounds);
    meet();
    return n;
}

static volatile uint64_t *cells;
static ucp_rkey_h key;
static uint64_t target, turn;

static double put(int rounds, int bytes) {
    static const ucp_request_param_t plain;
    double start = now();
    for (int i = 0; i < rounds; i++) {
        uint64_t value = ++turn;
        for (int side = 0; side < 2; side++) {
            if (side == rank)
                finish(ucp_put_nbx(peer, &value, bytes, target, key, &plain), "ucp_put_nbx");
            else
                while (*cells != value) ucp_worker_progress(worker);
        }
    }
    return (now() - start) / rounds / 2;
}

static double fetch_add(int rounds, int bytes) {
    uint64_t one = 1, before;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_REPLY_BUFFER | UCP_OP_ATTR_FIELD_DATATYPE,
        .reply_buffer = &before,
        .datatype = ucp_dt_make_contig(bytes),
    };
    double start = now();
    for (int i = 0; rank == 0 && i < rounds; i++)
        finish(ucp_atomic_op_nbx(peer, UCP_ATOMIC_OP_ADD, &one, 1, target + 64, key, &param), "ucp_atomic_op_nbx");
    double each = (now() - start) / rounds;
    meet();
    return each;
}

// Memory of UCX's own, which the other side can map.
static void open_window(void) {
    ucp_mem_h memory;
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = 4096,
        .flags = UCP_MEM_MAP_ALLOCATE,
    };
    check(ucp_mem_map(context, &params, &memory), "ucp_mem_map");
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    check(ucp_mem_query(memory, &attr), "ucp_mem_query");
    cells = attr.address;
    memset(attr.address, 0, 4096);
    void *packed;
    check(ucp_rkey_pack(context, memory, &packed, &shared->key_length[rank]), "ucp_rkey_pack");
    if (shared->key_length[rank] > sizeof shared->key[rank]) fprintf(stderr, "a key that is too long\n"), exit(1);
    memcpy(shared->key[rank], packed, shared->key_length[rank]);
    ucp_rkey_buffer_release(packed);
    shared->target[rank] = (uintptr_t)attr.address;
    meet();
    check(ucp_ep_rkey_unpack(peer, shared->key[!rank], &key), "ucp_ep_rkey_unpack");
    target = shared->target[!rank];
}

static void steps(void) {
    static const ucp_request_param_t plain;
    uint64_t word = 0;
    void *request;
    if (rank == 0) await_stepper();
    for (int i = 0; i < STEPPED; i++) {
        if (rank == 1) {
            take(8), give(8);
            continue;
        }
        MARKED(request = ucp_am_send_nbx(peer, PING, NULL, 0, out, 8, &plain)), peers_mark(SEND);
        finish(request, "ucp_am_send_nbx");
        pause_for_a_message();
        unsigned long before = came;
        MARKED(ucp_worker_progress(worker)), peers_mark(came == before + 1 ? PROGRESS : NOT_THIS);
        take(8);
        for (int turn = 0; turn < 10; turn++) ucp_worker_progress(worker);
        MARKED(ucp_worker_progress(worker)), peers_mark(EMPTY);
        MARKED(request = ucp_put_nbx(peer, &word, sizeof word, target, key, &plain)), peers_mark(PUT);
        finish(request, "ucp_put_nbx");
        MARKED((void)0), peers_mark(NOTHING);
    }
    if (rank == 0) peers_mark(OVER);
    meet();
}

static void connect_both(void) {
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_AM | UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO64,
    };
    check(ucp_init(&params, NULL, &context), "ucp_init");
    ucp_worker_params_t mode = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    check(ucp_worker_create(context, &mode, &worker), "ucp_worker_create");
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = PING,
        .cb = on_message,
    };
    check(ucp_worker_set_am_recv_handler(worker, &handler), "ucp_worker_set_am_recv_handler");
    ucp_address_t *address;
    check(ucp_worker_get_address(worker, &address, &shared->length[rank]), "ucp_worker_get_address");
    if (shared->length[rank] > sizeof shared->address[rank]) fprintf(stderr, "an address that is too long\n"), exit(1);
    memcpy(shared->address[rank], address, shared->length[rank]);
    ucp_worker_release_address(worker, address);
    meet();
    ucp_ep_params_t to = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
        .address = (ucp_address_t *)shared->address[!rank],
    };
    check(ucp_ep_create(worker, &to, &peer), "ucp_ep_create");
}

static void row(const char *name, double value) {
    if (rank == 0) tell(name, value);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return perror("mmap"), 1;
    pid_t child = fork();
    if (child < 0) return perror("fork"), 1;
    rank = child == 0;
    if (rank == 1) begin(argc, argv);
    stay(rank);
    out = aligned_alloc(4096, LONGEST), in = aligned_alloc(4096, LONGEST);
    memset(out, 1, LONGEST), memset(in, 0, LONGEST);
    connect_both();
    half(1, 4);
    if (rank == 0) first();
    for (int i = 0; i < HALF_ROWS; i++)
        if (wanted(half_rows[i].row)) row(half_rows[i].row, measure(half, half_rows[i].bytes, agree));
    if (wanted("rate-8")) row("rate-8", WINDOW * 1e3 / measure(rate, 8, agree));
    if (wanted("stream-8")) row("stream-8", 1e3 / measure(stream, 8, agree));
    if (wanted("put-8") || wanted("fetch-add") || are_steps_wanted()) {
        open_window();
        if (are_steps_wanted()) steps();
        if (wanted("put-8")) row("put-8", measure(put, 8, agree));
        if (wanted("fetch-add")) row("fetch-add", measure(fetch_add, 8, agree));
    }
    meet();
    if (wanted("memory")) {
        // Without what is the program's own.
        free(out), free(in);
        double own = memory_kib();
        shared->target[rank] = (uint64_t)own;
        meet();
        row("memory", (shared->target[0] + shared->target[1]) / 2.0);
    }
    meet();
    if (rank == 0) waitpid(child, NULL, 0);
    return 0;
}
