use super::*;
use proptest::prelude::*;

fn refused<T: FromStr<Err = String> + fmt::Debug>(text: &str) -> String {
    text.parse::<T>().expect_err(text)
}

proptest! {
    #[test]
    fn x4_faults_and_links_read_back(
        shares in proptest::array::uniform4(prop_oneof![Just(0.0), 0.0..=100.0f64]),
        delay in proptest::option::of((0..10_000_000u64, 0..10_000_000u64)), seed in any::<u64>(),
        node in any::<u32>(), link in 0..10usize, from in 0..10_000_000u64,
        length in proptest::option::of(0..10_000_000u64)
    ) {
        let micros = Duration::from_micros;
        let [drop, corrupt, duplicate, reorder] = shares.map(|share| format!("{share}%").parse().unwrap());
        let delay = delay.map(|(a, b)| (micros(a.min(b)), micros(a.max(b))));
        let faults = Faults { drop, corrupt, duplicate, reorder, delay, seed };
        prop_assert_eq!(faults.to_string().parse(), Ok(faults), "{}", faults);
        let until = length.map(|length| micros(from + length));
        let down = LinkDown { node, direction: Direction::from_index(link), from: micros(from), until };
        prop_assert_eq!(down.to_string().parse(), Ok(down), "{}", down);
    }

    #[test]
    fn x4_any_words_are_read_or_refused(
        words in proptest::collection::vec(
            prop_oneof![
                "(drop|corrupt|dup|reorder)=[0-9.]{1,4}%?", "delay=[0-9]{1,3}(us|ms|s)?\\.\\.[0-9]{1,3}(us|ms|s)?",
                "seed=-?[0-9]{1,21}", "\\PC{0,8}"
            ],
            1..4
        ),
        link in "[0-9]{1,10}:[-+x-zuvw@.0-9s]{0,12}"
    ) {
        let text = words.join(",");
        match text.parse::<Faults>() {
            Ok(faults) => prop_assert_eq!(faults.to_string().parse(), Ok(faults)),
            Err(why) => prop_assert!(!why.is_empty()),
        }
        if let Ok(down) = link.parse::<LinkDown>() {
            prop_assert_eq!(down.to_string().parse(), Ok(down));
        }
    }
}

#[test]
fn x4_faults_are_what_the_words_say() {
    let faults: Faults = "drop=1%,corrupt=0.1%,dup=1%,delay=0..20ms,reorder=5%,seed=7".parse().unwrap();
    let shares = [faults.drop, faults.corrupt, faults.duplicate, faults.reorder].map(Percent::value);
    assert_eq!(shares, [1.0, 0.1, 1.0, 5.0]);
    assert_eq!((faults.delay, faults.seed), (Some((Duration::ZERO, Duration::from_millis(20))), 7));
    assert_eq!("seed=0".parse(), Ok(Faults::default()));
    let always: Faults = "delay=500us".parse().unwrap();
    assert_eq!(always.delay, Some((Duration::from_micros(500), Duration::from_micros(500))));
    assert_eq!(always.to_string(), "delay=500us..500us,seed=0");
}

#[test]
fn x4_a_bad_word_is_named_with_what_would_be_right() {
    for (text, why) in [
        ("drop=5", r#"drop: "5" is no percentage: write 0% to 100%, as in 0.5%"#),
        ("drop", r#"drop: "" is no percentage: write 0% to 100%, as in 0.5%"#),
        ("dup=1%,dup=2%", "dup is given twice"),
        ("delay=20", r#"delay: "20" is no time: write a number and us, ms or s, as in 20ms"#),
        ("delay=3..2ms", "delay: 3..2ms ends before it begins"),
        ("seed=x", r#"seed: "x" is no seed: write a whole number from 0 to 18446744073709551615"#),
    ] {
        assert_eq!(refused::<Faults>(text), why);
    }
    for text in ["dorp=1%", "", "drop=1%,"] {
        let why = refused::<Faults>(text);
        assert!(why.starts_with("there is no fault \"") && why.contains("there are drop=1%"), "{why}");
    }
    for (text, why) in [
        ("0:+x", r#"write NODE:LINK@FROM..UNTIL, as in 0:+x@1s..3s"#),
        ("a:+x@1s..", r#""a" is no node: write its number, as in 0:+x"#),
        ("0:x@1s..", r#""x" is no link: write + or - and one of x, y, z, u, v"#),
        ("0:+x@1..", r#""1" is no time: write a number and us, ms or s, as in 20ms"#),
        ("0:+x@3s..1s", "3s..1s ends before it begins"),
    ] {
        assert_eq!(refused::<LinkDown>(text), why);
    }
}

#[test]
fn x4_a_link_that_no_packet_takes_is_refused() {
    let check = |down: &str, shape: &str| down.parse::<LinkDown>().unwrap().check(shape.parse().unwrap());
    assert_eq!(check("7:+z@1s..3s", "2x2x2"), Ok(()));
    assert_eq!(check("0:-x@0s..", "3x2m"), Ok(()));
    assert_eq!(check("8:+z@1s..3s", "2x2x2"), Err("there is no node 8: the last one of 2x2x2 is 7".into()));
    assert_eq!(check("0:+z@1s..3s", "2x2"), Err("node 0 of 2x2 has no link +z".into()));
    assert_eq!(check("1:+x@1s..3s", "2mx2"), Err("node 1 of 2mx2 has no link +x".into()));
    assert_eq!(
        check("0:-x@1s..3s", "2x2"),
        Err("no packet takes -x in 2x2: between two nodes the way is +x".into())
    );
}

#[test]
fn x4_a_link_is_down_from_the_first_time_until_before_the_second() {
    let down: LinkDown = "0:+x@1s..3s".parse().unwrap();
    let at = |micros| down.covers(Duration::from_micros(micros));
    assert_eq!([at(999_999), at(1_000_000), at(2_999_999), at(3_000_000)], [false, true, true, false]);
    let down: LinkDown = "0:+x@1s..".parse().unwrap();
    assert!(down.covers(Duration::from_secs(1_000_000)));
}
