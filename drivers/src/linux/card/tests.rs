use super::*;
use std::io::Read as _;
use std::os::unix::net::{UnixListener, UnixStream};

const MTU: u16 = 16 << 10;

/// A card, and the other end of its stream.
fn card(name: &str) -> (Card<()>, UnixStream) {
    let path = std::env::temp_dir().join(std::format!("pamir-card-{name}-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let card = Card::connect(path.to_str().unwrap(), MTU).unwrap();
    std::fs::remove_file(&path).unwrap();
    (card, listener.accept().unwrap().0)
}

/// Sends frames until the host takes no more, and takes back all cookies that there are. The cookie of the last.
fn fill(card: &mut Card<()>) -> u16 {
    static FRAME: [u8; MTU as usize] = [7; MTU as usize];
    let mut cookie = 0;
    loop {
        // SAFETY: what is lent lives for ever and does not change.
        assert!(unsafe { card.transmit(Lent::new(&FRAME), [Lent::NONE; 2], cookie) });
        while card.reclaim().is_some() {}
        if !card.has_room() {
            return cookie;
        }
        cookie += 1;
    }
}

#[test]
fn n8_a_card_without_room_gives_a_cookie_back_when_there_is() {
    let (mut card, mut host) = card("room");
    let last = fill(&mut card);
    assert!(!card.arm(true), "nothing has left meanwhile");
    let whole = (usize::from(last) + 1) * (PREFIX + usize::from(MTU));
    let mut came = vec![0; whole];
    host.set_nonblocking(true).unwrap();
    let mut read = 0;
    while read < whole {
        card.flush();
        read += host.read(&mut came[read..]).unwrap();
    }
    assert!(card.arm(true) && card.has_room());
    assert_eq!((card.reclaim(), card.reclaim()), (Some(last), None));
    assert!(!card.arm(true));
}

#[test]
fn n8_a_fabric_that_goes_gives_back_the_cookie_of_what_it_did_not_take() {
    let (mut card, host) = card("gone");
    let last = fill(&mut card);
    drop(host);
    card.flush();
    assert!(card.has_room());
    assert_eq!((card.reclaim(), card.reclaim()), (Some(last), None));
}
