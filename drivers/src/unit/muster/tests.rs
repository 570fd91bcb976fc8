use super::*;
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use std::string::ToString;

fn words(of: &str) -> JobWords {
    JobWords::new(format_args!("{of}"))
}

fn muster(node: u32, nodes: u32) -> Muster {
    Muster::new(node, nodes, Identity { incarnation: 70 + node, words: words("torus=130") })
}

/// As node `node` says it, in incarnation `incarnation`.
fn word(kind: Kind, dispatch: u8, node: u32, incarnation: u32) -> Envelope {
    let origin = Endpoint::from_parts(ClientId(0), node, ContextOffset(0));
    Envelope { kind, dispatch, origin, target: origin, message: incarnation, offset: 0, total: 0 }
}

fn hello(node: u32, incarnation: u32) -> Envelope {
    word(Kind::Hello, 0, node, incarnation)
}

fn told(kind: Kind, dispatch: u8, incarnation: u32) -> Option<Word> {
    Some(Word { kind, dispatch, incarnation })
}

#[test]
fn r7_all_are_up_when_the_last_has_told_it_and_all_go_again_until_they_say_so() {
    let muster = muster(0, 130);
    for node in (1..129).rev() {
        let heard = [(); 2].map(|()| muster.hear(&hello(node, 5), b"torus=130"));
        assert_eq!(heard, [Some(Heard::default()), Some(Heard::default())], "node {node}");
    }
    assert_eq!(muster.missing().unwrap().to_string(), "129");
    let go = Heard { reply: told(Kind::Go, 0, 6), go: true, ..Heard::default() };
    assert_eq!(muster.hear(&hello(129, 6), b"torus=130"), Some(go));
    assert_eq!(muster.missing(), None);
    // One that did not hear it says Hello again, and is told at once.
    let go = Heard { reply: told(Kind::Go, 0, 5), go: true, ..Heard::default() };
    assert_eq!(muster.hear(&hello(1, 5), b"torus=130"), Some(go));
    for node in 1..130 {
        assert_eq!(muster.next_to_go(0).unwrap().0, node);
        assert!(muster.owes_go());
        let incarnation = if node == 129 { 6 } else { 5 };
        // Of another incarnation it is no news.
        assert_eq!(muster.hear(&word(Kind::Hello, STARTED, node, 9), b"torus=130"), None);
        for _ in 0..2 {
            let started = word(Kind::Hello, STARTED, node, incarnation);
            assert_eq!(muster.hear(&started, b"torus=130"), Some(Heard::default()));
        }
    }
    assert!(!muster.owes_go() && muster.next_to_go(0).is_none());
}

#[test]
fn r7_a_node_that_starts_anew_is_told_go_by_its_new_number_and_has_died_once_it_had_heard_it() {
    let muster = muster(0, 3);
    assert_eq!(muster.hear(&hello(1, 5), b"torus=130"), Some(Heard::default()));
    let anew = Heard { news: Some(Gathering::Anew(1)), ..Heard::default() };
    assert_eq!(muster.hear(&hello(1, 6), b"torus=130"), Some(anew));
    muster.hear(&hello(2, 7), b"torus=130");
    assert_eq!(muster.next_to_go(0), Some((1, Word { kind: Kind::Go, dispatch: 0, incarnation: 6 })));
    muster.hear(&word(Kind::Hello, STARTED, 1, 6), b"torus=130");
    // What it said before it heard Go comes late.
    assert!(!muster.hear(&hello(1, 6), b"torus=130").unwrap().died);
    let news = Some(Gathering::Anew(1));
    let died = Heard { reply: told(Kind::Go, REFUSED, 8), go: false, died: true, news };
    assert_eq!(muster.hear(&hello(1, 8), b"torus=130"), Some(died));
}

#[test]
fn r7_a_node_that_is_told_other_things_is_refused_and_named_with_both() {
    let muster = muster(0, 3);
    for (node, says) in
        [(1, "torus=129"), (3, "torus=130"), (0, "torus=130"), (u32::MAX, "torus=130"), (2, "")]
    {
        let news = Some(Gathering::Differs { node, told: words(says), own: words("torus=130") });
        let refused = Heard { reply: told(Kind::Go, REFUSED, 5), news, ..Heard::default() };
        assert_eq!(muster.hear(&hello(node, 5), says.as_bytes()), Some(refused), "node {node}: {says}");
    }
    assert_eq!(muster.missing().unwrap().to_string(), "1..2");
    // Told the same at last, it is one of them.
    assert_eq!(muster.hear(&hello(1, 6), b"torus=130"), Some(Heard::default()));
    assert_eq!(muster.missing().unwrap().to_string(), "2");
}

#[test]
fn r7_node_0_alone_is_believed_and_of_it_only_what_it_says_to_this_incarnation() {
    let muster = muster(3, 130);
    for _ in 0..2 {
        let started = Heard { reply: told(Kind::Hello, STARTED, 73), go: true, ..Heard::default() };
        assert_eq!(muster.hear(&word(Kind::Go, 0, 0, 73), b"torus=130"), Some(started));
    }
    for (kind, node, incarnation) in
        [(Kind::Go, 1, 73), (Kind::Go, 0, 72), (Kind::Hello, 2, 5), (Kind::Gone, 0, 73)]
    {
        assert_eq!(muster.hear(&word(kind, 0, node, incarnation), b"torus=130"), None);
    }
    let refused = Gathering::Refused { told: words("torus=4"), own: words("torus=130") };
    for (says, news) in [("torus=4", refused), ("torus=130", Gathering::Late)] {
        // Told nothing else, it was reset.
        let heard = Heard { news: Some(news), ..Heard::default() };
        assert_eq!(muster.hear(&word(Kind::Go, REFUSED, 0, 73), says.as_bytes()), Some(heard));
    }
    assert!(!muster.owes_go());
}

#[test]
fn r7_missing_nodes_are_named_in_ranges_and_counted_beyond() {
    let muster = muster(0, 130);
    for node in (1..130).filter(|node| ![1, 3, 4, 5, 9].contains(node)) {
        muster.hear(&hello(node, 1), b"torus=130");
    }
    assert_eq!(muster.missing().unwrap().to_string(), "1, 3..5, 9");
    let muster = self::muster(0, 130);
    for node in (2..130).step_by(2) {
        muster.hear(&hello(node, 1), b"torus=130");
    }
    assert_eq!(muster.missing().unwrap().to_string(), "1, 3, 5, 7, 9, 11, 13, 15 and 57 more");
}
