//! A node that is sent more than it takes in: what it sends itself goes on (SPEC D-8, R-1).

use super::bench::Bench;
use super::elapse;
use super::wire::Faults;
use crate::adapter::Adapter;

#[test]
fn d8_r1_what_was_lost_is_sent_again_by_a_node_that_never_has_looked_at_all_that_arrives() {
    let mut bench = Bench::new(4, 7, Faults::NONE);
    bench.nodes[0].burst = 1;
    (1..4).for_each(|node| bench.order(node, 0, 1));
    bench.order(0, 1, 1);
    bench.run(1_000_000_000);
    // Nothing behind it shows the gap.
    bench.wire.network().faults.drop = 1000;
    bench.order(0, 1, 1);
    for _ in 0..5 {
        bench.round(|node| node == 0);
        elapse(1_000);
    }
    bench.wire.network().faults.drop = 0;
    assert_eq!(bench.nodes[0].link.faults().reliability.retransmitted, 0);
    // A second.
    for _ in 0..5_000 {
        for node in 2..4 {
            if bench.nodes[node as usize].orders.len() < 64 {
                bench.order(node, 0, 64);
            }
        }
        bench.round(|_| true);
        elapse(200_000);
        if bench.nodes[1].received[0] == 2 {
            return;
        }
    }
    panic!("node 0 has {:?} of them, and node 1 nothing of it", bench.nodes[0].received);
}
