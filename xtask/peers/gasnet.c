// The rows over GASNet-EX: active messages, whose 8 bytes are two arguments of a short one, which are medium ones below
// LONG and from there on long ones, put where they belong; and its collectives. Its processes are those of GASNET_PSHM_NODES.
#include "common.h"

#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_tools.h>
#include <stdint.h>

#define LONG 4096
// Where the words of puts and atomics lie in a segment; what long messages bring is behind them.
#define PUT_AT 0
#define ADD_AT 64
#define DATA_AT 4096

enum { PING = GEX_AM_INDEX_BASE, PONG, PING_EMPTY, PING_MEDIUM, PONG_MEDIUM, PING_LONG, PONG_LONG, TICK, ONE_OF_MANY };

static gex_Client_t client;
static gex_EP_t endpoint;
static gex_TM_t team;
static gex_Segment_t segment;
static gex_AD_t atomics;
static gex_Rank_t rank, size, other;
static volatile unsigned long pings, pongs;
static char *mine, *theirs, *out, *in;
static size_t longest;
static uint64_t turn;

static void check(int status, const char *what) {
    if (status == GASNET_OK) return;
    fprintf(stderr, "%s: %s\n", what, gasnet_ErrorDesc(status));
    gasnet_exit(1);
}

static void on_ping(gex_Token_t token, gex_AM_Arg_t low, gex_AM_Arg_t high) {
    pings++;
    gex_AM_ReplyShort2(token, PONG, 0, low, high);
}

static void on_pong(gex_Token_t token, gex_AM_Arg_t low, gex_AM_Arg_t high) {
    ((volatile gex_AM_Arg_t *)in)[0] = low, ((volatile gex_AM_Arg_t *)in)[1] = high;
    pongs++;
}

static void on_ping_empty(gex_Token_t token) {
    pings++;
    gex_AM_ReplyShort2(token, PONG, 0, 0, 0);
}

static void on_ping_medium(gex_Token_t token, void *data, size_t bytes) {
    memcpy(in, data, bytes);
    pings++;
    gex_AM_ReplyMedium0(token, PONG_MEDIUM, out, bytes, GEX_EVENT_NOW, 0);
}

static void on_pong_medium(gex_Token_t token, void *data, size_t bytes) {
    memcpy(in, data, bytes);
    pongs++;
}

static void on_ping_long(gex_Token_t token, void *data, size_t bytes) {
    pings++;
    gex_AM_ReplyLong0(token, PONG_LONG, out, bytes, theirs + DATA_AT, GEX_EVENT_NOW, 0);
}

static void on_pong_long(gex_Token_t token, void *data, size_t bytes) {
    pongs++;
}

static void on_tick(gex_Token_t token, gex_AM_Arg_t low, gex_AM_Arg_t high) {
    if (++pings % WINDOW == 0) gex_AM_ReplyShort2(token, PONG, 0, low, high);
}

static void on_one_of_many(gex_Token_t token, gex_AM_Arg_t low, gex_AM_Arg_t high) {
    pings++;
}

static gex_AM_Entry_t handlers[] = {
    {PING, (gex_AM_Fn_t)on_ping, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 2, NULL, NULL},
    {PONG, (gex_AM_Fn_t)on_pong, GEX_FLAG_AM_REQREP | GEX_FLAG_AM_SHORT, 2, NULL, NULL},
    {PING_EMPTY, (gex_AM_Fn_t)on_ping_empty, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL, NULL},
    {PING_MEDIUM, (gex_AM_Fn_t)on_ping_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL, NULL},
    {PONG_MEDIUM, (gex_AM_Fn_t)on_pong_medium, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 0, NULL, NULL},
    {PING_LONG, (gex_AM_Fn_t)on_ping_long, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0, NULL, NULL},
    {PONG_LONG, (gex_AM_Fn_t)on_pong_long, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_LONG, 0, NULL, NULL},
    {TICK, (gex_AM_Fn_t)on_tick, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 2, NULL, NULL},
    {ONE_OF_MANY, (gex_AM_Fn_t)on_one_of_many, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 2, NULL, NULL},
};

static void finish(gex_Event_t event) {
    gex_Event_Wait(event);
}

static void meet(void) {
    finish(gex_Coll_BarrierNB(team, 0));
}

static int agree(int n) {
    int all = n;
    finish(gex_Coll_BroadcastNB(team, 0, &all, &n, sizeof all, 0));
    return all;
}

static void ask(int bytes) {
    if (bytes == 0) gex_AM_RequestShort0(team, other, PING_EMPTY, 0);
    else if (bytes <= 8) gex_AM_RequestShort2(team, other, PING, 0, 1, 2);
    else if (bytes < LONG) gex_AM_RequestMedium0(team, other, PING_MEDIUM, out, bytes, GEX_EVENT_NOW, 0);
    else gex_AM_RequestLong0(team, other, PING_LONG, out, bytes, theirs + DATA_AT, GEX_EVENT_NOW, 0);
}

// Handlers answer: of a round trip the one side waits for its own messages, the other for all.
static double half(int rounds, int bytes) {
    double start = now();
    if (rank == 0) {
        for (int i = 0; i < rounds; i++) {
            unsigned long before = pongs;
            ask(bytes);
            GASNET_BLOCKUNTIL(pongs != before);
        }
    } else {
        static unsigned long all;
        all += rounds;
        GASNET_BLOCKUNTIL(pings == all);
        pings = all = 0;
    }
    return (now() - start) / rounds / 2;
}

static double rate(int rounds, int bytes) {
    double start = now();
    if (rank == 0) {
        for (int i = 0; i < rounds; i++) {
            unsigned long before = pongs;
            for (int m = 0; m < WINDOW; m++) gex_AM_RequestShort2(team, other, TICK, 0, m, m);
            GASNET_BLOCKUNTIL(pongs != before);
        }
    } else {
        GASNET_BLOCKUNTIL(pings == (unsigned long)rounds * WINDOW);
        pings = 0;
    }
    return (now() - start) / rounds;
}

// Nobody answers but to the last message.
static double stream(int rounds, int bytes) {
    double start = now();
    if (rank == 0) {
        unsigned long before = pongs;
        for (int i = 0; i < rounds; i++) gex_AM_RequestShort2(team, other, ONE_OF_MANY, 0, i, i);
        GASNET_BLOCKUNTIL(pongs != before);
    } else {
        GASNET_BLOCKUNTIL(pings == (unsigned long)rounds);
        pings = 0;
        gex_AM_RequestShort2(team, other, PONG, 0, 0, 0);
    }
    return (now() - start) / rounds;
}

static double barrier(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++) meet();
    return (now() - start) / rounds;
}

static double allreduce(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++)
        finish(gex_Coll_ReduceToAllNB(team, in, out, GEX_DT_U64, 8, bytes / 8, GEX_OP_ADD, NULL, NULL, 0));
    return (now() - start) / rounds;
}

// Each is the root in its turn, so that nobody runs ahead.
static double broadcast(int rounds, int bytes) {
    double start = now();
    for (int i = 0; i < rounds; i++) finish(gex_Coll_BroadcastNB(team, i % size, in, out, bytes, 0));
    return (now() - start) / rounds;
}

// A put that the other sees, which puts back.
static double put(int rounds, int bytes) {
    volatile uint64_t *cell = (volatile uint64_t *)(mine + PUT_AT);
    double start = now();
    for (int i = 0; i < rounds; i++) {
        uint64_t value = ++turn;
        for (unsigned side = 0; side < 2; side++) {
            if (side == rank) gex_RMA_PutBlocking(team, other, theirs + PUT_AT, &value, bytes, 0);
            else while (*cell != value) gasnett_spinloop_hint();
        }
    }
    return (now() - start) / rounds / 2;
}

static double fetch_add(int rounds, int bytes) {
    uint64_t before;
    double start = now();
    for (int i = 0; rank == 0 && i < rounds; i++)
        finish(gex_AD_OpNB_U64(atomics, &before, other, theirs + ADD_AT, GEX_OP_FADD, 1, 0, 0));
    double each = (now() - start) / rounds;
    meet();
    return each;
}

static void steps(void) {
    uint64_t word = 0;
    if (rank == 1) {
        GASNET_BLOCKUNTIL(pings == STEPPED);
        pings = 0;
        return;
    }
    await_stepper();
    for (int i = 0; i < STEPPED; i++) {
        unsigned long before = pongs;
        MARKED(gex_AM_RequestShort2(team, other, PING, 0, i, i)), peers_mark(SEND);
        pause_for_a_message();
        // The request may have polled.
        int early = pongs != before;
        MARKED(gasnet_AMPoll()), peers_mark(!early && pongs == before + 1 ? PROGRESS : NOT_THIS);
        GASNET_BLOCKUNTIL(pongs != before);
        for (int turn = 0; turn < 10; turn++) gasnet_AMPoll();
        MARKED(gasnet_AMPoll()), peers_mark(EMPTY);
        MARKED(gex_RMA_PutNBI(team, other, theirs + PUT_AT, &word, sizeof word, GEX_EVENT_NOW, 0)), peers_mark(PUT);
        gex_NBI_Wait(GEX_EC_ALL, 0);
        MARKED((void)0), peers_mark(NOTHING);
    }
    peers_mark(OVER);
}

static void row(const char *name, double value) {
    if (rank == 0) tell(name, value);
}

int main(int argc, char **argv) {
    begin(argc, argv);
    check(gex_Client_Init(&client, &endpoint, &team, "peers", &argc, &argv, 0), "gex_Client_Init");
    // The others were forked in it.
    begin(words, word);
    rank = gex_TM_QueryRank(team), size = gex_TM_QuerySize(team);
    stay(rank);
    if (size < 2) {
        fprintf(stderr, "GASNET_PSHM_NODES is to say how many processes there are\n");
        gasnet_exit(1);
    }
    // Two processes have a core each.
    if (size > 2) gasnet_set_waitmode(GASNET_WAIT_BLOCK);
    other = rank == 0 ? size - 1 : 0;
    for (int i = 0; i < HALF_ROWS; i++)
        if (wanted(half_rows[i].row) && half_rows[i].bytes > longest) longest = half_rows[i].bytes;
    if (longest < 1 << 16) longest = 1 << 16;
    check(gex_Segment_Attach(&segment, team, DATA_AT + longest), "gex_Segment_Attach");
    check(gex_EP_RegisterHandlers(endpoint, handlers, sizeof handlers / sizeof handlers[0]), "gex_EP_RegisterHandlers");
    mine = gex_Segment_QueryAddr(segment);
    finish(gex_EP_QueryBoundSegmentNB(team, other, (void **)&theirs, NULL, NULL, 0));
    in = mine + DATA_AT, out = aligned_alloc(4096, longest);
    if (wanted("memory")) memset(mine, 0, DATA_AT), memset(out, 1, 4096);
    else memset(mine, 0, DATA_AT + longest), memset(out, 1, longest);
    meet();
    if (rank == 0 || rank == size - 1) half(1, 4);
    if (rank == 0) first();
    meet();
    for (int i = 0; i < HALF_ROWS; i++)
        if (wanted(half_rows[i].row) && size == 2)
            row(half_rows[i].row, measure(half, half_rows[i].bytes, agree));
    if (wanted("rate-8") && size == 2) row("rate-8", WINDOW * 1e3 / measure(rate, 8, agree));
    if (wanted("stream-8") && size == 2) row("stream-8", 1e3 / measure(stream, 8, agree));
    if (wanted("barrier")) row("barrier", measure(barrier, 0, agree));
    if (wanted("allreduce-8")) row("allreduce-8", measure(allreduce, 8, agree));
    if (wanted("broadcast-8")) row("broadcast-8", measure(broadcast, 8, agree));
    if (wanted("allreduce-64k")) row("allreduce-64k", measure(allreduce, 1 << 16, agree));
    if (wanted("broadcast-64k")) row("broadcast-64k", measure(broadcast, 1 << 16, agree));
    if (size == 2) {
        gex_AD_Create(&atomics, team, GEX_DT_U64, GEX_OP_FADD, 0);
        if (wanted("put-8")) row("put-8", measure(put, 8, agree));
        if (wanted("fetch-add")) row("fetch-add", measure(fetch_add, 8, agree));
        if (are_steps_wanted()) steps();
    }
    meet();
    if (wanted("memory")) {
        double own = memory_kib(), all = 0;
        finish(gex_Coll_ReduceToAllNB(team, &all, &own, GEX_DT_DBL, sizeof own, 1, GEX_OP_ADD, NULL, NULL, 0));
        row("memory", all / size);
    }
    meet();
    gasnet_exit(0);
}
