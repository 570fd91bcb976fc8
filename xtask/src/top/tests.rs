//! A fake run is shown.

use std::sync::mpsc::sync_channel;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyEvent;

use super::model::fit;
use super::*;
use crate::dump::{Activity, Fifo};
use crate::fabric::Traffic;
use crate::run::{NodeLook, OwnLook};

/// A run of so many nodes after so many seconds. Node `n` sends `n` times 1 kB a second and gets as much, in `n` times 2 packets;
/// the last one waits node 0.
fn look_at(nodes: u32, seconds: u64) -> Look {
    let elapsed = Duration::from_secs(seconds);
    let fifo = |node: u32| {
        // They begin below their wrap.
        let packets = (u32::MAX - 3).wrapping_add(2 * node * seconds as u32);
        let last = node == nodes - 1;
        let awaited = if last { vec![0] } else { Vec::new() };
        let packets = if last { 7 } else { packets };
        let (retired, consumed) = (packets, packets);
        Fifo {
            client: 0,
            task: 0,
            context: 0,
            open: true,
            injected: packets,
            retired,
            delivered: packets,
            consumed,
            awaited,
            refused: None,
        }
    };
    let node = |node: u32| {
        let traffic = Traffic { packets: 1, bytes: 1000 * u64::from(node) * seconds };
        let harts = vec![Activity::Computing, Activity::Sleeping, Activity::Sleeping];
        NodeLook {
            lives: true,
            life: "alive".into(),
            frames: Some([traffic; 2]),
            own: Some(OwnLook { elapsed, harts, fifos: vec![fifo(node)] }),
        }
    };
    // The busiest so far is none of the busiest now.
    let link = |(name, first, rate): (&str, u64, u64)| {
        (name.to_owned(), Traffic { packets: 1, bytes: first + rate * seconds })
    };
    Look {
        words: "a-job on board virt, aarch64, torus 4x4x4".into(),
        elapsed,
        joined: true,
        nodes: (0..nodes).map(node).collect(),
        links: [("0 to 1 (+x)", 900_000, 0), ("63 to 62 (-x)", 0, 2000), ("3 down to 7", 0, 5000)]
            .map(link)
            .into(),
        uncounted: None,
        next: 0,
    }
}

fn model_of(nodes: u32, looks: &[u64]) -> Model {
    let mut model = Model::new("run-17");
    looks.iter().for_each(|&seconds| model.take(look_at(nodes, seconds)));
    model
}

/// What is seen in a terminal of this size.
fn screen(model: &mut Model, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw::draw(frame, model)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn s3_rates_are_what_counters_rose_by_from_look_to_look() {
    let one = model_of(3, &[10]);
    let row = |model: &Model, node: usize| model.rows(80).nth(node).expect("a row");
    let cells = |text: &str| {
        text.split("  ").map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(row(&one, 1).contains("1c 2s") && row(&one, 1).contains(" - "), "{}", row(&one, 1));
    // Two seconds: 4 kB and 8 packets are half as much a second; counters of 32 bits went over their end.
    let two = model_of(3, &[10, 12]);
    assert_eq!(cells(&row(&two, 1)), ["1 1c 2s", "1.00 kB", "1.00 kB", "2", "2 alive"]);
    assert_eq!(cells(&row(&two, 2))[1..], ["2.00 kB", "2.00 kB", "0", "0 alive"]);
    // The same look again is no time in which anything could rise.
    assert!(row(&model_of(3, &[10, 10]), 1).contains(" - "));
    // What was not read keeps what was last known; who is gone has nothing.
    let mut three = two;
    let mut next = look_at(3, 13);
    next.nodes[1].own = None;
    (next.nodes[2].lives, next.nodes[2].life, next.nodes[2].own) = (false, "gone, exit 0".into(), None);
    three.take(next);
    assert_eq!(cells(&row(&three, 1))[3..], ["2", "2 alive"]);
    assert!(row(&three, 2).contains(" - ") && row(&three, 2).ends_with("gone, exit 0"), "{}", row(&three, 2));
    assert!(three.waits(60).is_empty(), "who is gone waits nobody");
    let [what, how] = three.head();
    assert_eq!(what, "run-17: a-job on board virt, aarch64, torus 4x4x4");
    assert_eq!(how, "0:00:13, 2 of 3 nodes live; harts: 2 computing, 4 sleeping");
}

#[test]
fn s3_x4_hot_links_have_the_names_of_the_picture_and_the_busiest_of_now_is_first() {
    let links = model_of(64, &[10, 12]).hot_links(24);
    assert_eq!(links, ["3 down to 7    5.00 kB/s", "63 to 62 (-x)  2.00 kB/s", "0 to 1 (+x)        0 B/s"]);
    // After one look it is told what they have carried.
    assert_eq!(model_of(64, &[10]).hot_links(24)[0], "0 to 1 (+x)    900.00 kB");
    assert_eq!(model_of(64, &[10, 12]).hot_links(16)[0], "3 dow… 5.00 kB/s");
    let mut model = Model::new("run-1");
    model.take(Look { uncounted: Some("packets go through rings".into()), ..look_at(2, 1) });
    assert_eq!(model.hot_links(80), ["packets go through rings"]);
}

#[test]
fn s3_a_wait_lasts_while_the_context_has_done_nothing() {
    let mut model = model_of(64, &[10, 12, 15]);
    assert_eq!(model.waits(50), ["node 63 for node 0 (task 0 context 0)          5 s"]);
    // It sent something, so this is another wait.
    let mut next = look_at(64, 16);
    let fifo = |look: &mut Look, node: usize| look.nodes[node].own.as_mut().expect("read").fifos.remove(0);
    let mut moved = fifo(&mut next, 63);
    moved.injected += 1;
    next.nodes[63].own.as_mut().expect("read").fifos.push(moved);
    // And this one has no room; that it still puts packets in does not end that.
    for (seconds, more) in [(16, 3), (19, 5)] {
        let mut look = if seconds == 16 { next.clone() } else { look_at(64, seconds) };
        let mut full = fifo(&mut look, 4);
        (full.retired, full.injected, full.client) = (7, 7 + more, 2);
        full.refused = (seconds == 19).then_some(5);
        look.nodes[4].own.as_mut().expect("read").fifos.push(full);
        model.take(look);
    }
    assert_eq!(
        model.waits(60),
        [
            "node 4 for room at node 5, 5 packets (client 2 task 0 c… 3 s",
            "node 63 for node 0 (task 0 context 0)                    0 s"
        ]
    );
}

#[test]
fn s3_sixty_four_nodes_are_scrolled_and_none_lies_over_another() {
    let mut model = model_of(64, &[10, 12]);
    let first = |screen: &[String]| screen[3].split_whitespace().next().map(str::to_owned);
    let seen = screen(&mut model, 80, 24);
    assert!(
        seen[0].starts_with("run-17: a-job on board") && seen[1].starts_with("0:00:12, 64 of 64"),
        "{seen:#?}"
    );
    assert!(seen[2].contains("packets out/s") && seen[2].ends_with("state"), "{seen:#?}");
    assert_eq!(first(&seen).as_deref(), Some("0"));
    let lists = seen.iter().position(|line| line.starts_with("hot links")).expect("the lists");
    assert!(
        seen[lists].contains("waits") && seen[lists + 1].contains("kB/s") && seen[lists + 1].ends_with("2 s")
    );
    assert!(
        seen[lists - 1].starts_with("   12 ") && seen[23].starts_with("nodes 0 to 12 of 64; q quit"),
        "{seen:#?}"
    );
    let press = |model: &mut Model, key| press(model, KeyEvent::from(key));
    assert_eq!(press(&mut model, KeyCode::Down), None);
    assert_eq!(first(&screen(&mut model, 80, 24)).as_deref(), Some("1"));
    press(&mut model, KeyCode::PageDown);
    assert_eq!(first(&screen(&mut model, 80, 24)).as_deref(), Some("14"));
    // Behind the last there is nothing, and one up is seen at once.
    for _ in 0..100 {
        press(&mut model, KeyCode::PageDown);
    }
    let end = screen(&mut model, 80, 24);
    assert!(end[lists - 1].starts_with("   63 "), "{end:#?}");
    press(&mut model, KeyCode::Up);
    assert!(screen(&mut model, 80, 24)[lists - 1].starts_with("   62 "));
    for _ in 0..100 {
        press(&mut model, KeyCode::PageUp);
    }
    assert_eq!(first(&screen(&mut model, 80, 24)).as_deref(), Some("0"));
}

#[test]
fn s3_a_small_terminal_shows_what_it_has_room_for_and_cuts_with_an_ellipsis() {
    let mut model = model_of(64, &[10, 12]);
    let seen = screen(&mut model, 40, 10);
    let expected = [
        "run-17: a-job on board virt, aarch64, t…",
        "0:00:12, 64 of 64 nodes live; harts: 64…",
        " node harts       bytes out/s bytes in/s",
        "    0 1c 2s               0 B        0 B",
        "    1 1c 2s           1.00 kB    1.00 kB",
        "hot links",
        "3 down to 7                    5.00 kB/s",
        "waits",
        "node 63 for node 0 (task 0 context … 2 s",
        "nodes 0 to 1 of 64; q quit, p pause, ar…",
    ];
    assert_eq!(seen, expected);
    // Of any size.
    for (width, height) in [(1, 1), (3, 2), (10, 3), (40, 5), (69, 7), (70, 4), (200, 100), (80, 1)] {
        for nodes in [0, 1, 64] {
            let mut model = if nodes == 0 { Model::new("run-1") } else { model_of(nodes, &[1, 2]) };
            for line in screen(&mut model, width, height) {
                assert!(line.chars().count() <= usize::from(width), "{line}");
            }
        }
    }
    assert_eq!([fit("word", 4), fit("words", 4), fit("w", 0), fit("語語語", 4)], ["word", "wor…", "", "語…"]);
}

#[test]
fn s3_keys_end_it_or_pause_it() {
    let mut model = model_of(2, &[1, 2]);
    assert_eq!(press(&mut model, KeyEvent::from(KeyCode::Char('q'))), Some(End::Left));
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(press(&mut model, control), Some(End::Interrupted));
    assert_eq!(press(&mut model, KeyEvent::from(KeyCode::Char('c'))), None);
    assert_eq!(press(&mut model, KeyEvent::from(KeyCode::Char('p'))), None);
    model.take(look_at(2, 9));
    assert_eq!(model.head()[0], "run-17: paused");
    assert!(model.head()[1].starts_with("0:00:02"));
    press(&mut model, KeyEvent::from(KeyCode::Char('p')));
    model.take(look_at(2, 9));
    assert!(model.head()[1].starts_with("0:00:09"));
    model.note_trouble("it stands still".into());
    assert_eq!(model.head()[0], "run-17: it stands still");
}

/// What is printed of a run of which these looks are had.
fn printed(looks: &[Option<Result<u64>>], once: bool) -> (String, End) {
    let (tell, news) = sync_channel(looks.len() + 1);
    let mut looks = looks.iter();
    ask(
        |_| match looks.next() {
            Some(Some(Ok(seconds))) => Ok(Some(look_at(2, *seconds))),
            Some(Some(Err(error))) => Err(anyhow::anyhow!("{error}")),
            Some(None) | None => Ok(None),
        },
        Duration::ZERO,
        &tell,
    );
    let mut text = Vec::new();
    let end =
        print(&mut Model::new("run-1"), &news, once, &AtomicBool::new(false), &mut text).expect("printed");
    (String::from_utf8(text).expect("text"), end)
}

#[test]
fn s3_without_a_terminal_there_is_a_table_for_each_look_until_the_run_ends() {
    let (text, end) = printed(&[Some(Ok(1)), Some(Ok(2)), Some(Ok(3)), None], false);
    assert_eq!((text.matches("run-1: a-job").count(), end), (2, End::Over), "{text}");
    assert!(text.contains("\n    1 1c 2s           1.00 kB    1.00 kB"), "{text}");
    assert!(
        text.contains("hot links\n  3 down to 7 ") && text.contains("waits\n  node 1 for node 0 "),
        "{text}"
    );
    let (text, end) = printed(&[Some(Ok(1)), Some(Ok(2))], true);
    assert_eq!((text.matches("run-1: a-job").count(), end), (1, End::Left), "{text}");
    // One that ends meanwhile.
    let (text, end) = printed(&[Some(Ok(1)), None], true);
    assert_eq!((text.matches("run-1: a-job").count(), end), (1, End::Over), "{text}");
    assert_eq!(printed(&[None], false), (String::new(), End::Over));
    let (text, _) =
        printed(&[Some(Ok(1)), Some(Ok(2)), Some(Err(anyhow::anyhow!("no answer"))), None], false);
    assert!(text.contains("run-1: no answer"), "{text}");
}

#[test]
fn s3_top_of_none_or_of_several_runs_says_what_to_type() {
    use crate::run::Door;
    let parent = tempfile::tempdir().expect("a folder");
    let top = |run: Option<&str>| {
        let options = TopOptions { run: run.map(str::to_owned), every: Duration::from_secs(1), once: true };
        let code = top(Some(parent.path()), &options, &AtomicBool::new(false), &Voice::quiet());
        code.map_err(|error| error.to_string())
    };
    let none = "no run of this workspace is alive: `cargo xtask qemu JOB` starts one";
    assert_eq!(top(None), Err(none.into()));
    let open = |name: &str| {
        let sockets = parent.path().join(format!("pamir-{name}"));
        std::fs::create_dir(&sockets).expect("a folder");
        Door::open(&sockets, &Path::new("logs").join(name)).expect("a door")
    };
    let _doors = ["run-1", "run-2"].map(open);
    assert_eq!(top(None), Err("several runs are alive: say --run, as one of run-1, run-2".into()));
    assert_eq!(top(Some("run-3")), Err("no run run-3 is alive; there is run-1, run-2".into()));
}
