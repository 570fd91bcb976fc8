use super::*;
use kernel::timeline::{Record, Timeline};
use serde_json::Value;

fn endpoint(task: u64) -> Endpoint {
    Endpoint::from_bits(task)
}

/// The frames' payloads of a node whose harts did this, each with room for so many events.
fn told(harts: &[&[(u64, Event)]], task: u64, room: usize) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    for (number, events) in (0..).zip(harts) {
        let records: Vec<Record> = (0..room).map(|_| Record::default()).collect();
        let timeline = Timeline::new(&records);
        events.iter().for_each(|&(ns, event)| timeline.note(ns, task, event));
        timeline.send(number, harts.len() as u64, |payload| payloads.push(payload.to_vec()));
    }
    payloads
}

/// That node.
fn node(harts: &[&[(u64, Event)]], task: u64, room: usize) -> Node {
    Node::read(&told(harts, task, room))
}

/// A file's events, what else it has, and what is missing.
fn events(nodes: &[Node]) -> (Vec<Value>, Value, Vec<String>) {
    let mut text = Vec::new();
    let missing = draw(nodes, "a job", &mut text).expect("memory");
    let mut file: Value = serde_json::from_slice(&text).expect("JSON");
    let Value::Array(events) = file["traceEvents"].take() else { panic!("{file}") };
    assert_eq!(file["otherData"]["missing"], json!(missing));
    (events, file["otherData"].take(), missing)
}

/// Times of events of a phase, in nanoseconds.
fn times(events: &[Value], ph: &str) -> Vec<f64> {
    of(events, ph).iter().map(|it| it["ts"].as_f64().unwrap() * 1000.0).collect()
}

fn of<'a>(events: &'a [Value], ph: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == ph).collect()
}

#[test]
fn x6_a_harts_slices_nest_and_what_is_left_of_a_task_is_computing() {
    let events = [
        (5, Event::Task(3)),
        (10, Event::Wait),
        (12, Event::Advance),
        (15, Event::Advanced(1)),
        (16, Event::Sleep),
        (20, Event::Slept),
        (21, Event::Waited),
        (30, Event::Advance),
        (31, Event::Advanced(2)),
        (40, Event::TaskEnded),
        (41, Event::Sleep),
    ];
    let node = node(&[&events], 3, 99);
    let told: Vec<_> = slices(&node.harts[0], 50)
        .into_iter()
        .map(|it| format!("{} {} {}-{}", it.depth, it.name, it.begin, it.end))
        .collect();
    let expected = [
        "0 task 3 5-40",
        "1 compute 5-10",
        "1 wait 10-21",
        "2 advance 12-15",
        "2 sleep 16-20",
        "1 compute 21-30",
        "1 advance 30-31",
        "1 compute 31-40",
        "0 sleep 41-50",
    ];
    assert_eq!(told, expected);
}

#[test]
fn x6_what_is_cut_off_is_ended() {
    let node = node(&[&[(5, Event::Task(3)), (10, Event::Wait), (12, Event::Sleep)]], 3, 99);
    let told: Vec<_> = slices(&node.harts[0], 20).into_iter().map(|it| (it.begin, it.end)).collect();
    assert_eq!(told, [(5, 20), (5, 10), (10, 20), (12, 20)]);
}

#[test]
fn x6_messages_are_joined_in_order_and_never_come_before_they_were_sent() {
    let [a, b] = [endpoint(0), endpoint(1)];
    // The second node's clock is 1000 behind the first's, its joining was noted 30 late; a word each way took 10.
    let first =
        [(1100, Event::Joined), (1200, Event::Send(b)), (1250, Event::Receive(b)), (1300, Event::Send(b))];
    let second = [(130, Event::Joined), (210, Event::Receive(a)), (240, Event::Send(a))];
    let nodes = [node(&[&first], 0, 99), node(&[&second], 1, 99)];
    let (events, other, missing) = events(&nodes);
    assert_eq!(
        (&other["messages"], &other["unreceived"], &other["backwards"]),
        (&2.into(), &1.into(), &0.into())
    );
    let (begins, ends) = (of(&events, "s"), of(&events, "f"));
    for (begin, end) in begins.iter().zip(&ends) {
        assert_eq!((&begin["id"], &end["bp"]), (&end["id"], &"e".into()));
        assert!(begin["ts"].as_f64() <= end["ts"].as_f64(), "{begin} {end}");
        assert_ne!(begin["pid"], end["pid"]);
    }
    assert_eq!((begins.len(), ends.len(), missing.len()), (2, 2, 0));
    // By their joining alone the first message would come 20 before it was sent.
    assert_eq!([0, 1].map(|node| other["nodes"][node]["offset_ns"].as_u64()), [Some(0), Some(990)]);
}

#[test]
fn x6_what_found_no_room_is_told_and_no_message_behind_it_is_joined() {
    let [a, b] = [endpoint(0), endpoint(1)];
    let many = [(10, Event::Send(b)), (20, Event::Send(b)), (30, Event::Send(b)), (40, Event::Send(b))];
    // Two harts of the first node have turns with its endpoint; the second has room for two events alone.
    let nodes = [
        node(&[&[(5, Event::Send(b)), (15, Event::Send(b)), (35, Event::Send(b))], &many], 0, 2),
        node(&[&[50, 51, 52, 53, 54, 55, 56].map(|ns| (ns, Event::Receive(a)))], 1, 99),
    ];
    let (events, _, mut missing) = events(&nodes);
    missing.retain(|what| what.contains("room"));
    // Heard of: sends at 5, 10, 15, 20, of which those until 15 are all that there were.
    let times: Vec<_> = of(&events, "s").iter().map(|event| event["ts"].as_f64()).collect();
    assert_eq!(times, [5, 10, 15].map(|ns| Some(f64::from(ns) / 1000.0)));
    assert_eq!(missing.len(), 2);
    assert!(
        missing[1].contains("hart 1 of node 0") && missing[1].contains("2 at most: --trace-events 4 "),
        "{missing:?}"
    );
}

#[test]
fn x6_a_node_that_told_nothing_is_named() {
    let (_, other, missing) = events(&[node(&[&[(1, Event::Joined)]], 0, 9), Node::default()]);
    assert_eq!(missing, ["node 1 told nothing of what its harts did: they tell when it ends by itself"]);
    assert_eq!(other["nodes"][0]["harts"][0], json!({ "events": 1, "dropped": 0 }));
    let killed = Node { exit: Some(Exit::Signal(9)), ..Node::default() };
    let (_, other, missing) = events(&[killed]);
    assert_eq!(missing, ["node 0 told nothing of what its harts did: it was killed, by signal 9"]);
    assert_eq!(other["nodes"][0]["exit"], "signal 9");
}

/// An allreduce of this number begins.
fn begun(number: u32) -> Event {
    let what = Collective::Allreduce as u8;
    Event::Collective(CollectiveCall { what, geometry: 0, number, called: false })
}

/// And is over.
fn ended(number: u32) -> Event {
    Event::CollectiveEnded(CollectiveCall { what: 0, geometry: 0, number, called: false })
}

#[test]
fn x6_collectives_that_overlap_have_slices_of_their_own() {
    let told =
        [(1, begun(0)), (2, begun(1)), (8, ended(0)), (9, ended(1)), (10, begun(2)), (20, Event::Sleep)];
    let (events, ..) = events(&[node(&[&told], 0, 99)]);
    assert_eq!((times(&events, "b"), times(&events, "e")), (vec![1.0, 2.0, 10.0], vec![8.0, 9.0, 20.0]));
    assert!(of(&events, "b").iter().all(|it| it["name"] == "allreduce"));
}

#[test]
fn x6_what_one_hart_has_begun_another_may_end() {
    let harts: [&[_]; 2] = [&[(9, ended(0)), (20, Event::Sleep)], &[(1, begun(0)), (12, begun(1))]];
    let (events, ..) = events(&[node(&harts, 0, 99)]);
    assert_eq!((times(&events, "b"), times(&events, "e")), (vec![1.0, 12.0], vec![9.0, 20.0]));
    assert!(of(&events, "b").iter().all(|it| it["tid"] == 1));
}

/// A hart that sleeps so often, each time in two events that are 10 apart.
fn sleeper(times: u64) -> Vec<(u64, Event)> {
    (0..times).flat_map(|at| [(20 * at, Event::Sleep), (20 * at + 10, Event::Slept)]).collect()
}

#[test]
fn x6_a_hart_of_which_frames_are_lost_ends_at_the_gap() {
    let long = sleeper(200);
    let whole = told(&[&long], 0, 999);
    assert!(whole.len() > 4);
    let at = |payloads: &[Vec<u8>]| Node::read(payloads).harts.first().map_or(0, |hart| hart.moments.len());
    for lost in 0..whole.len() {
        let mut payloads = whole.clone();
        payloads.remove(lost);
        let heard = at(&payloads);
        assert_eq!(heard, at(&whole[..lost]), "without frame {lost}");
        let (events, other, missing) = events(&[Node::read(&payloads)]);
        assert!(missing.len() == 1 && missing[0].contains("not all"), "{missing:?}");
        assert!(missing[0].contains("harts did: 0;"), "{missing:?}");
        assert_eq!(other["nodes"][0]["harts"][0], json!({ "events": heard, "dropped": null }));
        assert_eq!(of(&events, "X").len(), heard.div_ceil(2));
    }
    assert_eq!(events(&[Node::read(&whole)]).2, [""; 0]);
}

#[test]
fn x6_a_hart_of_which_nothing_came_is_named() {
    let payloads = told(&[&sleeper(1), &sleeper(1), &sleeper(1)], 0, 9);
    let (.., missing) = events(&[Node::read(&payloads[..2])]);
    assert!(missing.len() == 1 && missing[0].contains("harts did: 1, 2;"), "{missing:?}");
}

#[test]
fn x6_moments_that_cannot_be_are_a_gap() {
    for absurd in [NEVER, 1 << 63, u64::MAX] {
        let mut long = sleeper(2);
        let kept = long.len();
        long.push((absurd, Event::Joined));
        let node = node(&[&long], 0, 99);
        assert_eq!((node.harts[0].moments.len(), node.harts[0].dropped), (kept, None));
        let (.., missing) = events(&[node]);
        assert!(missing[0].contains("not all"), "{missing:?}");
    }
    // A second frame that begins before the first ends; one record came before it.
    let [mut payloads, second] = [told(&[&[(50, Event::Sleep)]], 0, 9), told(&[&sleeper(1)], 0, 9)];
    payloads[1].clone_from(&second[0]);
    payloads[1][2] = 0x81;
    assert_eq!(Node::read(&payloads).harts[0].moments.len(), 1);
}

#[test]
fn x6_what_was_under_way_when_room_ended_ends_with_what_its_hart_told() {
    let busy = [(5, Event::Task(0)), (6, begun(0)), (10, Event::Wait), (30, Event::Waited), (40, ended(0))];
    let other = [(4, Event::Sleep), (900, Event::Slept)];
    let (events, ..) = events(&[node(&[&busy, &other], 0, 3)]);
    let slices: Vec<_> = of(&events, "X")
        .into_iter()
        .map(|it| {
            let end = it["ts"].as_f64().unwrap() + it["dur"].as_f64().unwrap();
            (it["name"].as_str().unwrap(), (end * 1000.0).round(), it["args"]["cut"] == true)
        })
        .collect();
    let expected =
        [("task 0", 10.0, true), ("compute", 10.0, false), ("wait", 10.0, true), ("sleep", 900.0, false)];
    assert_eq!(slices, expected);
    assert_eq!((times(&events, "b"), times(&events, "e")), (vec![6.0], vec![10.0]));
    assert_eq!(of(&events, "e")[0]["args"]["cut"], true);
}

#[test]
fn x6_a_node_that_did_not_tell_when_it_joined_is_named() {
    let joined = || node(&[&[(1, Event::Joined)]], 0, 9);
    let (.., missing) = events(&[joined(), node(&[&sleeper(1)], 1, 9)]);
    assert!(
        missing.len() == 1 && missing[0].starts_with("node 1 did not tell when it joined"),
        "{missing:?}"
    );
    assert_eq!(events(&[joined(), joined()]).2, [""; 0]);
}
