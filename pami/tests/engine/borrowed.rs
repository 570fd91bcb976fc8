//! An application's own memory, of any alignment: sent from, a region, put into and got from where it is (SPEC Q-3).

use crate::machine::{MTU, buffer, pattern};
use crate::scene::{advance_all, collector, context, ends, message, pair};
use pami::{Get, Layout, Payload, Put, RegisterError, Rights, Send, Shared};

/// Bytes in front of it and behind it that are nobody's.
const GUARD: usize = 16;

#[test]
fn q3_an_applications_memory_is_sent_put_and_got_wherever_it_begins() {
    // Inside a node by memory, and between nodes.
    for (local, skip) in [true, false].into_iter().flat_map(|local| (0..9).map(move |skip| (local, skip))) {
        let (log, handler) = collector();
        let mut clients = pair(local, |client| client.local_paths(local).dispatch(0, handler));
        let (mut origin, mut target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
        // Less than a word, short enough to be copied, and more packets than one.
        for len in [3, 200, 3 * MTU + 5] {
            let all = pattern(len + 2 * GUARD, len + skip);
            let (mut mine, mut theirs) = (all.clone(), vec![1; all.len()]);
            let range = GUARD + skip..GUARD + skip + len;
            Shared::scope(&mut mine[range.clone()], |mine| {
                Shared::scope(&mut theirs[range.clone()], |theirs| {
                    let (ends, done) = ends();
                    let to = target.endpoint();
                    let payload = Payload::Shared(mine.clone(), 0..len);
                    let sent = origin.send(Send { payload, remote_done: done(0), ..message(to, vec![]) });
                    assert!(sent.is_ok());
                    advance_all(&mut [&mut origin, &mut target]);

                    let rights = Rights::READ | Rights::WRITE;
                    let region = target.register_shared(theirs.clone(), rights).ok().unwrap();
                    let put = Put {
                        target: to,
                        region: region.handle(),
                        offset: 0,
                        layout: Layout::Contiguous,
                        payload: Payload::Shared(mine.clone(), 0..len),
                        payload_layout: Layout::Contiguous,
                        local_done: None,
                        remote_done: done(1),
                    };
                    assert!(origin.put(put).is_ok());
                    advance_all(&mut [&mut origin]);
                    mine.write(0, &vec![0; len]).unwrap();
                    let get = Get {
                        target: to,
                        region: region.handle(),
                        offset: 1,
                        layout: Layout::Contiguous,
                        into: mine.clone(),
                        at: 1,
                        into_layout: Layout::Contiguous,
                        len: len as u32 - 1,
                        done: done(2),
                    };
                    assert_eq!(origin.get(get), Ok(()));
                    advance_all(&mut [&mut origin]);
                    assert_eq!(*ends.lock().unwrap(), [0, 1, 2].map(|cookie| (cookie, None, Ok(()))));
                    // Its owner and this scope have handles of it, nobody else has.
                    assert!(target.deregister(region).err().unwrap().reclaim().is_err());
                });
            });
            assert_eq!(log.lock().unwrap().pop().unwrap().2, all[range.clone()]);
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
    let mut clients = pair(true, |client| client);
    let mut context = context(&mut clients[0], 0);
    let mut words = [0u128; 4];
    let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut words);
    for skip in 0..=8 {
        Shared::scope(&mut bytes[skip..40], |memory| {
            for rights in [Rights::READ | Rights::WRITE, Rights::UPDATE, Rights::all()] {
                match context.register_shared(memory.clone(), rights) {
                    Ok(region) => drop(context.deregister(region).err().unwrap()),
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
    assert!(context.register(buffer(3), Rights::all()).is_ok());
}
