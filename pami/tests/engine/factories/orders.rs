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
        let (log, handler) = collector();
        let [mut a, mut b] = factories(local, |client| client.dispatch(0, handler));
        let protocol = a.protocol("p").unwrap();
        let eager = a.register(&protocol, EAGER).unwrap();
        let pulled = SendFunction { dispatch: 0, rendezvous_from: Some(1) };
        let pulled = a.register(&protocol, pulled).unwrap();
        let immediate = a.register(&protocol, ImmediateFunction { dispatch: 0 }).unwrap();
        let puts = a.register(&protocol, PutFunction::default()).unwrap();
        let by_network = a.register(&protocol, PutFunction { local_paths: Some(false) }).unwrap();
        let fence = a.register(&protocol, FenceFunction).unwrap();
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let (to, region) = (target.endpoint(), target.register(buffer(8), Rights::all()).ok().unwrap());
        let (ended, done) = ends();
        let (mut sent, mut eager_sent, mut ends_due) = (Vec::new(), Vec::new(), 0);
        for (number, step) in (0u32..).zip(steps) {
            match step {
                Step::Advance { target: false } => { origin.advance(); }
                Step::Advance { target: true } => { target.advance(); }
                Step::Immediate => match immediate.execute(&mut origin, to, &number.to_le_bytes(), &[]) {
                    Ok(()) => { sent.push((number, 0)); eager_sent.push(number); }
                    Err(error) => prop_assert_eq!(error, SendError::Again),
                },
                Step::Send { len, with_memory, rendezvous } => {
                    let factory = if rendezvous { &pulled } else { &eager };
                    let header = number.to_le_bytes();
                    let data = pattern(len, number as usize);
                    let outgoing = Outgoing { header: &header, remote_done: done(0), ..outgoing(to, &data) };
                    let outcome = if with_memory {
                        factory.execute_in(own(), &mut origin, outgoing)
                    } else {
                        factory.execute(&mut origin, outgoing)
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
                    let put = Put { remote_done: done(1), ..put(to, region.handle(), &[1; 8]) };
                    let outcome = if with_memory {
                        factory.execute_in(own(), &mut origin, put)
                    } else {
                        factory.execute(&mut origin, put)
                    };
                    match outcome {
                        Ok(()) => ends_due += 1,
                        Err((error, _)) => prop_assert!(!with_memory && error == SendError::Again),
                    }
                }
            }
        }
        prop_assert_eq!(fence.execute_in(own(), &mut origin, to, done(2).unwrap()), Ok(()));
        advance_all(&mut [&mut origin, &mut target]);
        let ended = ended.lock().unwrap();
        prop_assert_eq!(ended.len(), ends_due + 1);
        prop_assert!(ended.iter().all(|end| end.2.is_ok()));
        prop_assert_eq!(ended.last().map(|end| end.0), Some(2), "the fence is behind all");
        let log = log.lock().unwrap();
        let mut seen: Vec<_> = log.iter().map(|(_, header, data)| {
            let number = u32::from_le_bytes(header[..].try_into().unwrap());
            assert_eq!(*data, pattern(data.len(), number as usize));
            (number, data.len())
        }).collect();
        let eager_seen: Vec<_> =
            seen.iter().map(|message| message.0).filter(|number| eager_sent.contains(number)).collect();
        prop_assert_eq!(eager_seen, eager_sent);
        seen.sort_unstable();
        prop_assert_eq!(seen, sent);
        prop_assert_eq!((origin.counters().protocol_errors, target.counters().protocol_errors), (0, 0));
        prop_assert!(a.destroy_context(origin).is_ok());
    }
}
