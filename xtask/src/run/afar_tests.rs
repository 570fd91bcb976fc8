use super::super::addresses::Addresses;
use super::*;
use crate::node::Exit;
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::sync::atomic::AtomicUsize;

const SECOND: Duration = Duration::from_secs(1);
const SILENCE: Option<Duration> = Some(SECOND);

/// Two nodes at addresses of this machine that nobody has; node `here` is.
fn two() -> [Addresses; 2] {
    let sockets: Vec<_> = (0..2).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    let all: Vec<_> = sockets.iter().map(|socket| socket.local_addr().expect("an address")).collect();
    [0, 1].map(|rank| Addresses { all: all.clone(), here: vec![rank] })
}

fn listen(addresses: &Addresses, job: &str, life: u32) -> Afar {
    Afar::listen(addresses, job.to_owned(), life).expect("nobody else listens there")
}

fn gather(afar: &mut Afar) -> Result<u32> {
    afar.gather(&Voice::quiet(), &AtomicBool::new(false))
}

/// Both runs find each other, and go on to greet until `over` are there that have. The life that they agree on.
fn meet(afar: &mut Afar, over: &AtomicUsize) -> u32 {
    let life = gather(afar).expect("the other");
    over.fetch_add(1, Ordering::Relaxed);
    let begun = Instant::now();
    while over.load(Ordering::Relaxed) < 2 {
        assert!(begun.elapsed() < 20 * SECOND, "the other is not met");
        afar.accept();
    }
    life
}

/// Two runs that have found each other.
fn gathered() -> [Afar; 2] {
    let [first, second] = two();
    let [mut first, mut second] = [listen(&first, "hello", 7), listen(&second, "hello", 8)];
    let over = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| meet(&mut second, &over));
        assert_eq!((meet(&mut first, &over), other.join().expect("no panic")), (7, 7));
    });
    [first, second]
}

/// Turns of `afar`, whose node is as `outcome` says, until it `is` so.
#[track_caller]
fn until(afar: &mut Afar, outcome: &NodeOutcome, is: impl Fn(&Afar) -> bool) {
    let begun = Instant::now();
    while !is(afar) {
        assert!(begun.elapsed() < 20 * SECOND, "in vain");
        let now = Instant::now();
        afar.turn(&Turn::new(now, now), [outcome].into_iter(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn failure(afar: &Afar) -> Option<String> {
    afar.failures().next().and_then(|(_, why)| why.cloned())
}

#[test]
fn h1_runs_of_one_job_wait_for_each_other_and_agree_on_a_life() {
    let [first, second] = two();
    let (mut early, over) = (listen(&second, "hello", 8), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| meet(&mut early, &over));
        std::thread::sleep(SECOND / 2);
        assert!(!waiting.is_finished());
        // One that comes, and goes before it was gathered with, is none.
        drop(listen(&first, "hello", 6));
        let mut late = listen(&first, "hello", 7);
        assert_eq!((meet(&mut late, &over), waiting.join().expect("no panic")), (7, 7));
    });
}

#[test]
fn h1_a_run_of_another_job_or_none_is_refused_with_both() {
    let [first, second] = two();
    let (mut other, mut afar) = (listen(&first, "npb-is -- --class W", 7), listen(&second, "hello", 8));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                other.accept();
            }
        });
        let why = gather(&mut afar).expect_err("another job").to_string();
        done.store(true, Ordering::Relaxed);
        let address = first.of_node(0).to_string();
        for word in [&address, "node 0", "`npb-is -- --class W`", "`hello`"] {
            assert!(why.contains(word), "{word}: {why}");
        }
    });
    let [first, second] = two();
    let stranger = TcpListener::bind(first.of_node(0)).expect("a port");
    let greets = std::thread::spawn(move || {
        let (mut stream, _) = stranger.accept().expect("who asks");
        stream.write_all(b"SSH-2.0-x\r\n").expect("room");
        stream
    });
    let why = gather(&mut listen(&second, "hello", 8)).expect_err("a stranger").to_string();
    assert!(why.contains("SSH-2.0-x") && why.contains("starts node 0"), "{why}");
    drop(greets.join());
}

#[test]
fn h1_who_does_not_want_to_wait_hears_for_whom_and_an_address_in_use_is_named() {
    let [first, second] = two();
    let mut afar = listen(&first, "hello", 7);
    let why = afar.gather(&Voice::quiet(), &AtomicBool::new(true)).expect_err("a wait").to_string();
    assert!(why.contains(&format!("node 1 at {}", second.of_node(1))), "{why}");
    let why = Afar::listen(&first, "hello".into(), 7).map(|_| ()).expect_err("in use").to_string();
    assert!(why.contains("node 0") && why.contains(&first.of_node(0).to_string()), "{why}");
}

#[test]
fn h4_how_a_node_went_is_told_to_the_other_run_and_to_who_comes_later() {
    let [mut first, mut second] = gathered();
    let alive = NodeOutcome::default();
    let ended = NodeOutcome { exit: Some(Exit::Code(0)), ..NodeOutcome::default() };
    until(&mut first, &ended, |first| first.own[0].told.is_some());
    until(&mut second, &alive, Afar::is_over);
    assert_eq!((second.others[0].fate, failure(&second)), (Some(Fate::Ended), None));
    // What it told, its end does not change.
    drop(first);
    until(&mut second, &alive, Afar::is_over);
    assert_eq!(failure(&second), None);

    let [mut first, mut second] = gathered();
    let why = "node 0 was killed by\nsignal 9".to_owned();
    let killed = NodeOutcome { failure: Some(why), exit: Some(Exit::Signal(9)), ..NodeOutcome::default() };
    until(&mut first, &killed, |first| first.own[0].told.is_some());
    let address = second.others[0].address;
    until(&mut second, &alive, Afar::is_over);
    assert_eq!(failure(&second), Some(format!("node 0 was killed by signal 9, at {address}")));
    let mut late = BufReader::new(TcpStream::connect(address).expect("it listens"));
    until(&mut first, &killed, |first| first.own[0].listeners.len() == 2);
    let mut lines = [String::new(), String::new()];
    lines.iter_mut().for_each(|line| _ = late.read_line(line).expect("a line"));
    assert_eq!(lines[1], "died node 0 was killed by signal 9\n");
}

#[test]
fn h4_a_run_that_is_gone_or_silent_has_its_node_dead_and_named() {
    let alive = NodeOutcome::default();
    let [first, mut second] = gathered();
    let address = second.others[0].address;
    drop(first);
    until(&mut second, &alive, Afar::is_over);
    let why = failure(&second).expect("it died");
    assert!(why.contains("node 0 is dead") && why.contains(&address.to_string()), "{why}");

    let [mut first, mut second] = gathered();
    let heard = second.others[0].heard;
    let turn = |second: &mut Afar, begin, end| {
        second.turn(&Turn::new(begin, end), [&NodeOutcome::default()].into_iter(), SILENCE);
    };
    // What this tool slept through does not count, nor does what is less than the limit.
    turn(&mut second, heard, heard + 60 * SECOND);
    let later = heard + 60 * SECOND + SECOND / 2;
    turn(&mut second, later, later);
    assert_eq!(failure(&second), None);
    // A word of it does.
    let now = Instant::now();
    first.pulse = now - SECOND;
    first.turn(&Turn::new(now, now), [&alive].into_iter(), None);
    until(&mut second, &alive, |second| second.others[0].heard < later);
    let (heard, late) = (second.others[0].heard, second.others[0].heard + SECOND);
    assert!(heard >= now);
    turn(&mut second, late, late);
    let why = failure(&second).expect("it is silent");
    assert!(why.contains("node 0 is dead") && why.contains("for 1 s"), "{why}");
}
