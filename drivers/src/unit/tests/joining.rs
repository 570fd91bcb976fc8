//! How often a node calls that waits for others to boot, on a clock of the test's own.

use super::card::{CARD_MTU, frame};
use super::*;
use crate::TreeUnit;
use crate::adapter::FABRIC;
use crate::gathering::{Gathering, Identity, JobWords};
use crate::link::{Flags, LINK_BYTES, Link, Seq, crc32c};
use crate::lossless::Lossless;
use crate::platform::Platform;
use crate::reliable::Reliable;
use crate::torus::{ETHERTYPE, ETHERTYPE_RELIABLE, FRAME_HEADER, TorusAdapter, mac};
use crate::tree_network::TreeAdapter;
use crate::unit::StartError;
use crate::virtio::VirtioNet;
use crate::virtio::fake::FakeCard;
use core::cell::{Cell, RefCell};
use pami::combine::packet as combine;
use pami::packet::{Header, Packet, REFUSED, STARTED};
use std::string::String;
use zerocopy::IntoBytes;

/// So long the last node takes to boot.
const LATE_NS: u64 = 30_000_000_000;
/// Calls of a node in that time: at 0, 10, 30, 70 ms and so on, then every 5 s.
const CALLS: usize = 20;

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static CARD: RefCell<Option<(FakeCard, Vec<u8>)>> = const { RefCell::new(None) };
    static CALLED: Cell<usize> = const { Cell::new(0) };
    static SCRIPT: RefCell<Option<Script>> = const { RefCell::new(None) };
    static NEWS: RefCell<Vec<(u64, String)>> = const { RefCell::new(Vec::new()) };
}

/// What the other nodes do whenever this one sleeps.
type Script = std::boxed::Box<dyn FnMut()>;

/// Milliseconds in nanoseconds.
const MS: u64 = 1_000_000;

/// A node whose sleeps take no time. When the last node is up, the network sends the frame that the node waits for.
struct Patient;

impl Platform for Patient {
    type Card = crate::virtio::VirtioNet<Self, crate::virtio::fake::FakeCard>;

    fn hart() -> usize {
        0
    }

    fn now_ns() -> u64 {
        NOW.get()
    }

    fn wake(_: usize) {}

    fn wait(deadline_ns: Option<u64>, _: impl FnMut()) {
        if SCRIPT.with_borrow(|script| script.is_some()) {
            // So long that what others do is seen in time.
            let tick = NOW.get() + MS;
            NOW.set(deadline_ns.map_or(tick, |deadline| deadline.min(tick)).max(NOW.get()));
            return SCRIPT.with_borrow_mut(|script| script.iter_mut().for_each(|script| script()));
        }
        NOW.set(deadline_ns.unwrap_or(LATE_NS).max(NOW.get()));
        CARD.with_borrow(|card| {
            let Some((card, answer)) = card else { return };
            while card.transmit().is_some() {
                CALLED.set(CALLED.get() + 1);
            }
            if NOW.get() >= LATE_NS {
                card.receive(answer).expect("a buffer");
            }
        });
    }

    fn gathering(news: &Gathering) {
        let text = match news {
            Gathering::Waits(missing) => std::format!("waits for {missing}"),
            Gathering::Differs { node, told, own } => std::format!("{node}: {told}, not {own}"),
            Gathering::Anew(node) => std::format!("{node} anew"),
            Gathering::Refused { told, own } => std::format!("refused: {told}, not {own}"),
            Gathering::NoWord => String::from("no word"),
            Gathering::Late => String::from("late"),
        };
        NEWS.with_borrow_mut(|all| all.push((NOW.get() / MS, text)));
    }
}

fn identity(incarnation: u32) -> Identity {
    Identity { incarnation, words: JobWords::new(format_args!("torus=4")) }
}

type Plain = Reliable<TorusAdapter<VirtioNet<Patient, FakeCard>>, Patient>;

/// Node `node` of four on a plain Ethernet, with room for two peers.
fn plain(card: &FakeCard, node: u32) -> &'static MessageUnit<Patient, Plain> {
    let torus = TorusAdapter::new(nic(card), node).unwrap();
    let adapter = Some(Reliable::with_peers(torus, node, 4, 2).with_life(9).without_fabric());
    let map = TaskMap::new(4, 1, MapOrder::NodesFirst).unwrap();
    let setup =
        Setup { contexts: 1, harts: 1, plain: Some(identity(70 + node)), ..setup(adapter, node, map) };
    MessageUnit::start(setup).unwrap()
}

/// The frame of a word that node `from` says by itself.
fn said(to: u32, from: u32, kind: Kind, dispatch: u8, incarnation: u32, words: &str) -> Vec<u8> {
    let word = Envelope {
        kind,
        dispatch,
        message: incarnation,
        total: 0,
        ..envelope(endpoint(from, 0), endpoint(from, 0), 0)
    };
    let packet = [Header::new(&word, 0, words.len() as u16).as_bytes(), words.as_bytes()].concat();
    sealed(to, from, 9, &packet)
}

fn sealed(to: u32, from: u32, life: u32, packet: &[u8]) -> Vec<u8> {
    of_link(to, from, (life, 0, Flags::APART), packet)
}

/// A call of node `from`, by number 7.
fn call(to: u32, from: u32) -> Vec<u8> {
    of_link(to, from, (9, 7, Flags::CONNECT), &[])
}

fn of_link(to: u32, from: u32, (life, own, flags): (u32, u32, Flags), packet: &[u8]) -> Vec<u8> {
    let link = Link {
        life,
        connection: 0,
        own,
        attempt: 0,
        sequence: Seq::FIRST,
        acknowledged: Seq::FIRST,
        sack: 0,
        credit: 0,
        length: packet.len() as u16,
        flags,
    };
    let mut bytes = [&[0; LINK_BYTES][..], packet].concat();
    link.seal(from, to, &mut bytes, [], crc32c);
    frame(to, from, ETHERTYPE_RELIABLE, &bytes)
}

/// What a node has sent: to whom, what, with which mark, and in which incarnation.
fn sent(card: &FakeCard) -> Vec<(u32, Kind, u8, u32)> {
    let mut all = Vec::new();
    while let Some((bytes, _)) = card.transmit() {
        let to = u32::from_le_bytes(bytes[14..18].try_into().unwrap());
        let packet = Packet::parse(&bytes[FRAME_HEADER + LINK_BYTES..]).unwrap();
        assert_eq!(packet.data, b"torus=4");
        let Envelope { kind, dispatch, message, .. } = packet.envelope;
        all.push((to, kind, dispatch, message));
    }
    all
}

fn nic(card: &FakeCard) -> VirtioNet<Patient, FakeCard> {
    VirtioNet::new(card.clone()).unwrap()
}

#[test]
fn n8_a_node_that_waits_for_the_torus_calls_less_and_less_often() {
    let card = FakeCard::new(CARD_MTU);
    let adapter = Some(Lossless::<_, Patient>::new(TorusAdapter::new(nic(&card), 1).unwrap(), 1, 3));
    let map = TaskMap::new(3, 1, MapOrder::NodesFirst).unwrap();
    let unit: &MessageUnit<Patient, _> =
        MessageUnit::start(Setup { contexts: 1, harts: 1, ..setup(adapter, 1, map) }).unwrap();
    let go = Envelope { kind: Kind::Go, total: 3, ..envelope(endpoint(0, 0), endpoint(1, 0), 0) };
    let go = frame(1, FABRIC, ETHERTYPE, Header::new(&go, 0, 0).as_bytes());
    CARD.set(Some((card, go)));
    unit.join(3);
    assert!((2..CALLS).contains(&CALLED.get()), "{} calls", CALLED.get());
}

#[test]
fn n8_a_node_by_itself_waits_for_nobody_behind_its_card_and_sends_nothing() {
    let card = FakeCard::new(CARD_MTU);
    let adapter = Some(Lossless::<_, Patient>::new(TorusAdapter::new(nic(&card), 0).unwrap(), 0, 1));
    let map = TaskMap::new(1, 1, MapOrder::NodesFirst).unwrap();
    let unit: &MessageUnit<Patient, _> = MessageUnit::start(Setup {
        contexts: 1,
        harts: 1,
        plain: Some(identity(1)),
        ..setup(adapter, 0, map)
    })
    .unwrap();
    unit.join(1);
    assert!(card.transmit().is_none());
    unit.drain();
}

#[test]
fn n8_a_node_that_waits_for_the_tree_calls_less_and_less_often() {
    let card = FakeCard::new(CARD_MTU);
    let unit: TreeUnit<Patient, _> = TreeUnit::new(TreeAdapter::new(nic(&card), 1, 3).unwrap());
    let world = pami::combine::ClassRoute::WORLD;
    let welcome = pami::combine::TreeEnvelope {
        argument: 3,
        ..pami::combine::TreeEnvelope::new(pami::combine::TreePacketKind::Welcome, world, combine::NETWORK)
    };
    let header = combine::TreeHeader::new(&welcome, 0);
    let ether_type = combine::ETHER_TYPE.to_be_bytes();
    let welcome =
        [&combine::mac(1)[..], &combine::mac(combine::NETWORK), &ether_type, header.as_bytes()].concat();
    CARD.set(Some((card, welcome)));
    unit.join();
    assert!((2..CALLS).contains(&CALLED.get()), "{} calls", CALLED.get());
}

#[test]
fn r7_node_0_names_who_is_missing_or_mistaken_and_starts_when_all_have_said_hello() {
    let card = FakeCard::new(CARD_MTU);
    let unit = plain(&card, 0);
    let wire = card.clone();
    let gone = std::rc::Rc::new(RefCell::new(Vec::new()));
    let goes = gone.clone();
    let hello = |node, incarnation, words: &str| said(0, node, Kind::Hello, 0, incarnation, words);
    let mut others = std::vec![
        (1000, hello(1, 5, "torus=4")),
        // It is reset, and says Hello anew.
        (2000, hello(1, 6, "torus=4")),
        (6000, hello(2, 7, "torus=2x2")),
        (6500, hello(5, 8, "torus=6")),
        // Of another life of the job, for another node, damaged, or in another's name.
        (6600, sealed(0, 3, 8, &hello(3, 9, "torus=4")[FRAME_HEADER + LINK_BYTES..])),
        (6700, said(1, 3, Kind::Hello, 0, 9, "torus=4")),
        (6800, [&hello(3, 9, "torus=4")[..80], b"!"].concat()),
        (6900, sealed(0, 3, 9, &hello(2, 9, "torus=4")[FRAME_HEADER + LINK_BYTES..])),
        (12_000, hello(2, 7, "torus=4")),
        (13_000, hello(3, 9, "torus=4")),
    ];
    SCRIPT.set(Some(std::boxed::Box::new(move || {
        let now = NOW.get() / MS;
        let due = others.iter().take_while(|(at, _)| *at <= now).count();
        others.drain(..due).for_each(|(_, frame)| _ = wire.receive(&frame).expect("a buffer"));
        for word in sent(&wire) {
            goes.borrow_mut().push((now, word));
            // Node 3 computes, and what it said is lost.
            if let (node @ 1..3, Kind::Go, 0, incarnation) = word
                && now > 13_050
            {
                wire.receive(&said(0, node, Kind::Hello, STARTED, incarnation, "torus=4")).unwrap();
            }
        }
    })));
    unit.join(4);
    let started = NOW.get() / MS;
    let news = NEWS.take();
    let texts: Vec<_> = news.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "1 anew",
            "waits for 2..3",
            "2: `torus=2x2`, not `torus=4`",
            "5: `torus=6`, not `torus=4`",
            "waits for 2..3"
        ],
        "{news:?}"
    );
    assert!((13_900..14_200).contains(&started), "it waits for one that computes: {started}");
    let goes = gone.take();
    let (refused, goes): (Vec<_>, Vec<_>) =
        goes.into_iter().map(|(_, word)| word).partition(|word| word.2 == REFUSED);
    assert_eq!(refused, [(2, Kind::Go, REFUSED, 7), (5, Kind::Go, REFUSED, 8)]);
    let count = |word| goes.iter().filter(|&&it| it == word).count();
    let told = [(1, 6), (2, 7), (3, 9)].map(|(node, incarnation)| count((node, Kind::Go, 0, incarnation)));
    assert_eq!(told.iter().sum::<usize>(), goes.len(), "{goes:?}");
    assert!(told[0] >= 2 && told[0] <= 5 && told[1] == told[0] && (6..12).contains(&told[2]), "{told:?}");
    SCRIPT.set(None);
    // It has not heard it, and asks again while node 0 runs its job.
    card.receive(&said(0, 3, Kind::Hello, 0, 9, "torus=4")).unwrap();
    unit.progress();
    assert_eq!(sent(&card), [(3, Kind::Go, 0, 9)]);
    card.receive(&said(0, 3, Kind::Hello, STARTED, 9, "torus=4")).unwrap();
    unit.progress();
    // One that had heard it and says Hello anew has lost what it had, and is told so.
    assert!(!unit.is_dead(1));
    // As a death may end node 0, it waits until there is room to tell it so.
    let hear = |node, incarnation, words| {
        card.receive(&said(0, node, Kind::Hello, 0, incarnation, words)).unwrap();
        unit.progress();
    };
    (0..1000).for_each(|_| hear(2, 20, "torus=2x2"));
    hear(1, 10, "torus=4");
    assert!(!unit.is_dead(1));
    assert!(sent(&card).iter().all(|word| word.0 == 2));
    NEWS.take();
    for _ in 0..2 {
        card.receive(&said(0, 1, Kind::Hello, 0, 10, "torus=4")).unwrap();
        unit.drain();
        assert!(unit.is_dead(1));
        assert_eq!(sent(&card), [(1, Kind::Go, REFUSED, 10)]);
        assert_eq!(NEWS.take().into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["1 anew"]);
    }
    assert_eq!(unit.statistics().dropped.unexpected, 0);
}

#[test]
fn r7_a_node_on_a_plain_ethernet_calls_less_and_less_often_and_believes_node_0_alone() {
    let card = FakeCard::new(CARD_MTU);
    let unit = plain(&card, 1);
    let wire = card.clone();
    let go = |from, dispatch, incarnation| said(1, from, Kind::Go, dispatch, incarnation, "torus=4");
    let packet = go(0, 0, 71)[FRAME_HEADER + LINK_BYTES..].to_vec();
    let mut others = std::vec![
        (1000, go(2, 0, 71)),
        (1100, go(0, 0, 70)),
        (1200, frame(1, FABRIC, ETHERTYPE, &packet)),
        (2000, said(1, 0, Kind::Go, REFUSED, 71, "torus=5")),
        (30_000, go(0, 0, 71)),
    ];
    let calls = std::rc::Rc::new(RefCell::new(Vec::new()));
    let called = calls.clone();
    SCRIPT.set(Some(std::boxed::Box::new(move || {
        let now = NOW.get() / MS;
        let due = others.iter().take_while(|(at, _)| *at <= now).count();
        others.drain(..due).for_each(|(_, frame)| _ = wire.receive(&frame).expect("a buffer"));
        called.borrow_mut().extend(sent(&wire));
    })));
    unit.join(4);
    assert!((30_000..30_100).contains(&(NOW.get() / MS)), "{}", NOW.get());
    let calls = calls.take();
    assert!((2..CALLS).contains(&calls.len()), "{} calls", calls.len());
    assert!(calls.iter().all(|&call| call == (0, Kind::Hello, 0, 71)), "{calls:?}");
    assert_eq!(sent(&card), [(0, Kind::Hello, STARTED, 71)]);
    // That is lost twice, so node 0 says it again, and is heard although this node has nothing left to do.
    let (wire, ended, mut after) = (card.clone(), NOW.get() / MS, [10, 150].into_iter().peekable());
    SCRIPT.set(Some(std::boxed::Box::new(move || {
        if after.next_if(|after| ended + after <= NOW.get() / MS).is_some() {
            wire.receive(&go(0, 0, 71)).unwrap();
        }
    })));
    unit.drain();
    assert_eq!(sent(&card), [(0, Kind::Hello, STARTED, 71); 2]);
    assert_eq!(unit.statistics().dropped.unexpected, 3);
    let mut news: Vec<_> = NEWS.take().into_iter().map(|(_, text)| text).collect();
    assert_eq!(news.remove(0), "refused: `torus=5`, not `torus=4`");
    assert!((5..=6).contains(&news.len()) && news.iter().all(|text| text == "no word"), "{news:?}");
}

#[test]
fn r7_node_0_does_not_end_before_all_have_heard_go_but_does_not_wait_for_ever_for_one_to_say_so() {
    // Node 1 said Hello, was reset, and is up again when node 0 has nothing left to do; or it has ended, and nobody knows.
    for (up_at, ends) in [(6_000, 7_200..7_300), (u64::MAX, 11_000..11_100)] {
        NOW.set(0);
        let card = FakeCard::new(CARD_MTU);
        let unit = plain(&card, 0);
        let wire = card.clone();
        let hello = |node, incarnation| said(0, node, Kind::Hello, 0, incarnation, "torus=4");
        let mut others =
            std::vec![(1, hello(1, 5)), (2, hello(2, 6)), (3, hello(3, 7)), (up_at, hello(1, 8))];
        let told = std::rc::Rc::new(RefCell::new(Vec::new()));
        let tells = told.clone();
        SCRIPT.set(Some(std::boxed::Box::new(move || {
            let now = NOW.get() / MS;
            let due = others.iter().take_while(|(at, _)| *at <= now).count();
            others.drain(..due).for_each(|(_, frame)| _ = wire.receive(&frame).expect("a buffer"));
            for (node, _, _, incarnation) in sent(&wire) {
                tells.borrow_mut().push((node, incarnation));
                if incarnation != 5 {
                    let started = said(0, node, Kind::Hello, STARTED, incarnation, "torus=4");
                    wire.receive(&started).unwrap();
                }
            }
        })));
        unit.join(4);
        assert!(NOW.get() / MS < 1100, "{}", NOW.get());
        unit.drain();
        assert!(ends.contains(&(NOW.get() / MS)), "{} is not in {ends:?}", NOW.get() / MS);
        assert_eq!(told.borrow().last(), Some(&if up_at < u64::MAX { (1, 8) } else { (1, 5) }));
        let anew = if up_at < u64::MAX { 1 } else { 0 };
        assert_eq!(NEWS.take().iter().filter(|(_, text)| text == "1 anew").count(), anew);
        SCRIPT.set(None);
    }
}

#[test]
fn r7_a_word_of_a_node_that_is_not_taken_does_not_change_where_frames_for_its_rank_go() {
    let card = FakeCard::new(CARD_MTU);
    let unit = plain(&card, 0);
    let mut wrong = said(0, 1, Kind::Hello, 0, 5, "torus=2x2");
    let own = wrong[6..12].to_vec();
    wrong[6..12].copy_from_slice(&[0x50, 0, 0, 0, 0, 7]);
    card.receive(&wrong).unwrap();
    unit.progress();
    let (reply, _) = card.transmit().unwrap();
    assert_eq!(reply[..6], own);
}

/// Where the frames went that a node has sent, and their flags.
fn marks(card: &FakeCard) -> Vec<([u8; 6], Flags)> {
    let frames = core::iter::from_fn(|| card.transmit()).map(|(bytes, _)| {
        let [to, from] = [14, 18].map(|at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
        let link = Link::open(&bytes[FRAME_HEADER..], from, to, crc32c).unwrap();
        (bytes[..6].try_into().unwrap(), link.flags)
    });
    frames.collect()
}

#[test]
fn r2_a_node_answers_no_call_before_it_has_heard_go_as_what_came_would_be_lost_with_a_reset() {
    let card = FakeCard::new(CARD_MTU);
    let unit = plain(&card, 1);
    for _ in 0..2 {
        // Such a node waits, as where there is no place.
        card.receive(&call(1, 2)).unwrap();
        unit.progress();
        assert_eq!(marks(&card), [(mac(2), Flags::KEEP)]);
    }
    card.receive(&said(1, 0, Kind::Go, 0, 71, "torus=4")).unwrap();
    unit.progress();
    let mut told = marks(&card);
    told.sort_by_key(|(_, flags)| flags.bits());
    assert_eq!(
        told,
        [(mac(2), Flags::CONNECT), (mac(0), Flags::APART)],
        "it has heard Go, and who called, too"
    );
}

#[test]
fn r7_a_refusal_reaches_a_node_though_another_card_plays_its_rank() {
    let card = FakeCard::new(CARD_MTU);
    let unit = plain(&card, 0);
    let from = |address: [u8; 6], frame: Vec<u8>| [&frame[..6], &address, &frame[12..]].concat();
    let [first, second] = [[0x50, 0, 0, 0, 0, 1], [0x50, 0, 0, 0, 0, 2]];
    for node in 1..4 {
        let hello = said(0, node, Kind::Hello, 0, 5, "torus=4");
        card.receive(&if node == 1 { from(first, hello) } else { hello }).unwrap();
    }
    unit.progress();
    marks(&card);
    card.receive(&from(first, call(0, 1))).unwrap();
    unit.progress();
    assert_eq!(marks(&card), [(first, Flags::CONNECT)], "where node 1 is is known");
    card.receive(&from(second, said(0, 1, Kind::Hello, 0, 6, "torus=2x2"))).unwrap();
    unit.progress();
    assert_eq!(marks(&card), [(mac(1), Flags::APART)]);
    NEWS.take();
    // What was known still is.
    card.receive(&from(first, call(0, 1))).unwrap();
    unit.progress();
    assert_eq!(marks(&card), [(first, Flags::CONNECT)]);
}

#[test]
fn r7_more_nodes_than_node_0_has_links_for_gather_but_no_more_than_it_remembers() {
    let start = |nodes, plain| {
        let torus = TorusAdapter::new(nic(&FakeCard::new(CARD_MTU)), 0).unwrap();
        let adapter = Some(Reliable::<_, Patient>::with_peers(torus, 0, nodes, 2));
        let map = TaskMap::new(nodes, 1, MapOrder::NodesFirst).unwrap();
        MessageUnit::<Patient, _>::start(Setup { contexts: 1, harts: 1, plain, ..setup(adapter, 0, map) })
            .err()
    };
    let most = crate::unit::MOST_GATHERED;
    assert_eq!(start(most, Some(identity(1))), None);
    assert_eq!(start(most + 1, Some(identity(1))), Some(StartError::TooManyNodes(most + 1)));
    assert_eq!(start(most + 1, None), None);
}
