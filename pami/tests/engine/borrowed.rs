//! An application's own memory, of any alignment: sent from, a region, put into and got from where it is (SPEC Q-3).

use crate::machine::{MTU, buffer, pattern};
use crate::stage::{Stage, get, put};
use pami::{Get, Payload, Put, RegisterError, Rights, Send, Shared};

/// Bytes in front of it and behind it that are nobody's.
const GUARD: usize = 16;

#[test]
fn q3_an_applications_memory_is_sent_put_and_got_wherever_it_begins() {
    // Inside a node by memory, and between nodes.
    for (local, skip) in [true, false].into_iter().flat_map(|local| (0..9).map(move |skip| (local, skip))) {
        let mut stage = Stage::pair(local, |client| client.local_paths(local));
        // Less than a word, short enough to be copied, and more packets than one.
        for len in [3, 200, 3 * MTU + 5] {
            let all = pattern(len + 2 * GUARD, len + skip);
            let (mut mine, mut theirs) = (all.clone(), vec![1; all.len()]);
            let range = GUARD + skip..GUARD + skip + len;
            let (to, dones) = (stage.at(1), [0, 1, 2].map(|cookie| stage.done(cookie)));
            Shared::scope(&mut mine[range.clone()], |mine| {
                Shared::scope(&mut theirs[range.clone()], |theirs| {
                    let payload = || Payload::Shared(mine.clone(), 0..len);
                    let send = Send { remote_done: dones[0], payload: payload(), ..stage.message(1, vec![]) };
                    stage.send(0, send);
                    stage.quiet();

                    let rights = Rights::READ | Rights::WRITE;
                    let region = stage[1].register_shared(theirs.clone(), rights).ok().unwrap();
                    stage.put(0, Put { remote_done: dones[1], ..put(to, region.handle(), 0, payload()) });
                    stage.quiet_of(&[0]);
                    mine.write(0, &vec![0; len]).unwrap();
                    let rest = Get { at: 1, done: dones[2], ..get(to, region.handle(), 1, mine, len - 1) };
                    assert_eq!(stage[0].get(rest), Ok(()));
                    stage.quiet_of(&[0]);
                    let ends = std::mem::take(&mut stage.told.notes().ends);
                    assert_eq!(ends, [0, 1, 2].map(|cookie| (cookie, None, Ok(()))));
                    // Its owner and this scope have handles of it, nobody else has.
                    assert!(stage[1].deregister(region).err().unwrap().reclaim().is_err());
                });
            });
            assert_eq!(stage.data(), [&all[range.clone()]]);
            assert_eq!(theirs[range.clone()], all[range.clone()]);
            assert_eq!(
                (mine[range.start], &mine[range.start + 1..range.end]),
                (0, &all[range.start + 1..range.end])
            );
            for at in (0..range.start).chain(range.end..all.len()) {
                assert_eq!((mine[at], theirs[at]), (all[at], 1), "{at} is nobody's");
            }
        }
    }
}

#[test]
fn q3_words_of_a_region_are_updated_only_if_offsets_tell_which_are_aligned() {
    let mut stage = Stage::pair(true, |client| client);
    let mut words = [0u128; 4];
    let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut words);
    for skip in 0..=8 {
        Shared::scope(&mut bytes[skip..40], |memory| {
            for rights in [Rights::READ | Rights::WRITE, Rights::UPDATE, Rights::all()] {
                match stage[0].register_shared(memory.clone(), rights) {
                    Ok(region) => drop(stage[0].deregister(region).err().unwrap()),
                    Err((error, memory)) => {
                        assert_eq!((error, memory.is_aligned()), (RegisterError::Unaligned, false));
                        assert!(rights.contains(Rights::UPDATE));
                        continue;
                    }
                }
                assert!(skip % 8 == 0 || !rights.contains(Rights::UPDATE));
            }
        });
    }
    // The library's own always are.
    assert!(stage[0].register(buffer(3), Rights::all()).is_ok());
}
