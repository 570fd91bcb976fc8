//! Random programs of objects wherever they lie (SPEC M-3).

use super::*;

/// One instruction of a random program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send { len: usize, with_memory: bool, rendezvous: bool },
    Immediate,
    Put { with_memory: bool, by_network: bool },
    Advance { target: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..4 * MTU, any::<bool>(), any::<bool>()).prop_map(|(len, with_memory, rendezvous)| {
            Step::Send { len, with_memory, rendezvous }
        }),
        2 => Just(Step::Immediate),
        2 => any::<(bool, bool)>().prop_map(|(with_memory, by_network)| Step::Put { with_memory, by_network }),
        1 => any::<bool>().prop_map(|target| Step::Advance { target }),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn m3_messages_arrive_once_in_order_wherever_their_objects_lie(local in any::<bool>(), steps in steps()) {
        let (mut stage, protocol) = factories(local, |client| client);
        let eager = stage.register(&protocol, EAGER);
        let pulled = stage.register(&protocol, SendFunction { dispatch: 0, rendezvous_from: Some(1) });
        let immediate = stage.register(&protocol, ImmediateFunction { dispatch: 0 });
        let puts = stage.register(&protocol, PutFunction::default());
        let by_network = stage.register(&protocol, PutFunction { local_paths: Some(false) });
        let fence = stage.register(&protocol, FenceFunction);
        let region = stage.region(1, &[0; 8], Rights::all());
        let (to, told) = (stage.at(1), stage.told);
        let (mut sent, mut eager_sent, mut ends_due) = (Vec::new(), Vec::new(), 0);
        for (number, step) in (0u32..).zip(steps) {
            match step {
                Step::Advance { target } => stage.turn(&[usize::from(target)]),
                Step::Immediate => match immediate.execute(&mut stage[0], to, &number.to_le_bytes(), &[]) {
                    Ok(()) => { sent.push((number, 0)); eager_sent.push(number); }
                    Err(error) => prop_assert_eq!(error, SendError::Again),
                },
                Step::Send { len, with_memory, rendezvous } => {
                    let factory = if rendezvous { &pulled } else { &eager };
                    let header = number.to_le_bytes();
                    let data = pattern(len, number as usize);
                    let outgoing = Outgoing { header: &header, remote_done: told.done(0), ..outgoing(to, &data) };
                    let outcome = if with_memory {
                        factory.execute_in(own(), &mut stage[0], outgoing)
                    } else {
                        factory.execute(&mut stage[0], outgoing)
                    };
                    match outcome {
                        Ok(()) => {
                            sent.push((number, len));
                            if local || !rendezvous || len == 0 { eager_sent.push(number); }
                            ends_due += 1;
                        }
                        Err((error, _)) => prop_assert!(!with_memory && error == SendError::Again),
                    }
                }
                Step::Put { with_memory, by_network: far } => {
                    let factory = if far { &by_network } else { &puts };
                    let put = Put { remote_done: told.done(1), ..put_of(to, region.handle(), &[1; 8]) };
                    let outcome = if with_memory {
                        factory.execute_in(own(), &mut stage[0], put)
                    } else {
                        factory.execute(&mut stage[0], put)
                    };
                    match outcome {
                        Ok(()) => ends_due += 1,
                        Err((error, _)) => prop_assert!(!with_memory && error == SendError::Again),
                    }
                }
            }
        }
        prop_assert_eq!(fence.execute_in(own(), &mut stage[0], to, told.done(2).unwrap()), Ok(()));
        stage.quiet();
        let ended = stage.told.list();
        prop_assert_eq!(ended.len(), ends_due + 1);
        prop_assert!(ended.iter().all(|end| end.2.is_ok()));
        prop_assert_eq!(ended.last().map(|end| end.0), Some(2), "the fence is behind all");
        let mut seen: Vec<_> = stage.got().into_iter().map(|(_, header, data)| {
            let number = u32::from_le_bytes(header[..].try_into().unwrap());
            assert_eq!(data, pattern(data.len(), number as usize));
            (number, data.len())
        }).collect();
        let eager_seen: Vec<_> =
            seen.iter().map(|message| message.0).filter(|number| eager_sent.contains(number)).collect();
        prop_assert_eq!(eager_seen, eager_sent);
        seen.sort_unstable();
        prop_assert_eq!(seen, sent);
        prop_assert_eq!((stage.protocol_errors(), stage.destroy(0)), (0, Ok(())));
    }
}
