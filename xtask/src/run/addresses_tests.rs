use super::*;
use crate::Board;

const TWO: &str = "127.0.0.1:7000,127.0.0.1:7001";

fn run(udp: &str) -> Run {
    Run::new("hello").board(Board::Linux).torus("2").udp(udp)
}

/// So many addresses of this machine that nobody has.
fn free(count: usize) -> String {
    let sockets: Vec<_> = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    let words = sockets.iter().map(|socket| socket.local_addr().expect("an address").to_string());
    words.collect::<Vec<_>>().join(",")
}

#[track_caller]
fn refused(run: &Run, nodes: u32, words: &[&str]) {
    let why = Addresses::of(run, nodes).map(|_| ()).expect_err("a refusal");
    let why = format!("{why:#}");
    words.iter().for_each(|word| assert!(why.contains(word), "{word}: {why}"));
}

#[test]
fn h1_each_node_has_an_address_and_those_that_are_here_have_theirs() {
    let words = free(4);
    let all = Addresses::of(&run(&words), 4).expect("addresses").expect("some");
    assert_eq!((all.words(), all.here.as_slice()), (words.clone(), &[0, 1, 2, 3][..]));
    let some = Addresses::of(&run(&words).here("3,0-1,0"), 4).expect("addresses").expect("some");
    assert_eq!((some.here.as_slice(), some.elsewhere().collect::<Vec<_>>()), (&[0, 1, 3][..], vec![2]));
    assert!(Addresses::of(&Run::new("hello").board(Board::Linux), 2).expect("none").is_none());
}

#[test]
fn h1_addresses_that_cannot_be_are_refused_by_name() {
    for (words, said) in [
        ("127.0.0.1:7000", &["1 addresses", "torus 2 has 2 nodes"][..]),
        ("127.0.0.1:7000,here:7001", &["\"here:7001\"", "node 1", "10.9.0.1:7000"]),
        ("127.0.0.1:7000,127.0.0.1", &["\"127.0.0.1\"", "a port"]),
        ("127.0.0.1:0,127.0.0.1:7001", &["\"127.0.0.1:0\"", "1 to 65535"]),
        ("127.0.0.1:7000,127.0.0.1:7000", &["node 1", "node 0 has it already"]),
        ("127.0.0.1:7000,[::1]:7001", &["\"[::1]:7001\"", "IPv6"]),
        ("0.0.0.0:7000,127.0.0.1:7001", &["\"0.0.0.0:7000\"", "others reach"]),
        // From a range for documents, RFC 5737.
        ("192.0.2.1:7000,192.0.2.2:7000", &["node 0", "192.0.2.1:7000", "--here", "os error"]),
    ] {
        refused(&run(words), 2, said);
    }
    for (here, said) in [("2", "nodes 0 to 1"), ("", "0-3,8"), ("one", "\"one\"")] {
        refused(&run(TWO).here(here), 2, &["--here", said]);
    }
    refused(&Run::new("hello").here("0"), 2, &["--udp"]);
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let held = UdpSocket::bind(taken).expect("the port");
    refused(&run(&format!("{taken},192.0.2.1:7000")).here("0"), 2, &["node 0", "in use"]);
    drop(held);
}

#[test]
fn h1_what_wants_the_fabric_is_refused_by_name_where_there_is_none() {
    for (run, word) in [
        (run(TWO).by_fabric(true), "--fabric"),
        (run(TWO).files("files"), "--files"),
        (run(TWO).lossless(true), "--lossless"),
        (run(TWO).counts_links(true), "--picture"),
        (run(TWO).pcap("file"), "--pcap"),
        (run(TWO).faults("drop=1%"), "--faults"),
        (run(TWO).link_down("0:+x@1s..2s"), "--link-down"),
        (run(TWO).kill("node=0@1s"), "--kill"),
        (run(TWO).cut("node=0@1s"), "--cut"),
        (run(TWO).board(Board::Virt), "emulated"),
        (run(TWO).here("0").pause("node=1@1s+1s"), "node 1 is not started here"),
    ] {
        refused(&run, 2, &[word]);
    }
}
