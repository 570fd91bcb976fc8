//! What Wireshark shows of a capture (SPEC X-4): `xtask/pamir.lua` on frames that the drivers' own code makes.

use std::collections::HashMap;

use drivers::link::{Flags, LINK_BYTES, Link, Seq, crc32c};
use drivers::torus;
use mlua::Lua;
use pami::combine::packet as tree;
use pami::combine::route::ClassRoute;
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::{Envelope, Header, Kind, VERSION};
use zerocopy::IntoBytes as _;

/// The columns and the fields of a frame.
struct Shown {
    protocol: String,
    info: String,
    fields: HashMap<String, u64>,
}

fn wireshark() -> Lua {
    let lua = Lua::new();
    let run = |name, text| lua.load(text).set_name(name).exec().unwrap();
    run("wireshark.lua", include_str!("wireshark.lua"));
    run("pamir.lua", include_str!("../../../xtask/pamir.lua"));
    lua
}

fn shown(lua: &Lua, frame: &[u8]) -> Shown {
    let dissect: mlua::Function = lua.globals().get("dissect").unwrap();
    let frame = lua.create_string(frame).unwrap();
    let (protocol, info, fields, taken): (String, String, HashMap<String, u64>, usize) =
        dissect.call(frame).unwrap();
    assert!(taken > 0);
    Shown { protocol, info, fields }
}

fn frame(addresses: [[u8; 6]; 2], ether_type: u16, parts: &[&[u8]]) -> Vec<u8> {
    [addresses.as_flattened(), &ether_type.to_be_bytes(), &parts.concat()].concat()
}

fn on_the_torus(ether_type: u16, parts: &[&[u8]]) -> Vec<u8> {
    frame([torus::mac(2), torus::mac(1)], ether_type, &[&[2, 0, 0, 0, 1, 0, 0, 0], &parts.concat()])
}

fn envelope(kind: Kind) -> Envelope {
    let endpoint = |task, context| Endpoint::from_parts(ClientId::new(1, 300), task, ContextOffset(context));
    Envelope {
        kind,
        dispatch: 7,
        origin: endpoint(1, 0),
        target: endpoint(2, 3),
        message: 99,
        offset: 64,
        total: 128,
    }
}

#[test]
fn x4_wireshark_names_every_kind_of_torus_packet() {
    let lua = wireshark();
    let kinds: Vec<_> = (0..=u8::MAX).filter_map(Kind::from_byte).collect();
    assert!(kinds.len() > 20);
    for kind in kinds {
        let header = Header::new(&envelope(kind), 4, 6);
        let shown = shown(&lua, &on_the_torus(torus::ETHERTYPE, &[header.as_bytes(), b"head", b"data.."]));
        assert_eq!(shown.protocol, "PAMIR");
        assert_eq!(["to", "from"].map(|name| shown.fields[&format!("pamir_ranks.{name}")]), [2, 1]);
        assert!(
            shown.info.starts_with(&format!("{kind:?} task 1.0 -> 2.3, message 99, 4 + ")),
            "{}",
            shown.info
        );
        let field = |name: &str| shown.fields[name];
        let numbers = ["dispatch", "offset", "total", "header"].map(|name| field(&format!("pamir.{name}")));
        assert_eq!(numbers, [7, 64, 128, 4]);
        let who = ["version", "kind", "client", "generation"].map(|name| field(&format!("pamir.{name}")));
        assert_eq!(who, [VERSION.into(), kind as u64, 1, 300]);
    }
}

#[test]
fn x4_wireshark_tells_tree_packets_from_torus_packets() {
    let lua = wireshark();
    let route = ClassRoute { id: 3, generation: 2 };
    for (kind, name) in
        [(tree::TreePacketKind::Contribute, "Contribute"), (tree::TreePacketKind::Closed, "Closed")]
    {
        let envelope =
            tree::TreeEnvelope { sequence: 41, taken: 5, ..tree::TreeEnvelope::new(kind, route, 6) };
        let header = tree::TreeHeader::new(&envelope, 8);
        let addresses = [tree::mac(0), tree::mac(6)];
        let shown = shown(&lua, &frame(addresses, tree::ETHER_TYPE, &[header.as_bytes(), &[0; 8]]));
        assert_eq!(shown.protocol, "PAMIR TREE");
        assert_eq!(shown.info, format!("{name} route 3.2 from 6, sequence 41, Good, 8 bytes"));
        assert_eq!((shown.fields["pamir_tree.taken"], shown.fields["pamir_tree.data"]), (5, 8));
        assert!(shown.fields.keys().all(|name| name.starts_with("pamir_tree.")));
    }
}

/// A link header in front of `packet`.
fn sealed(link: &Link, packet: &[u8]) -> Vec<u8> {
    let mut frame = [&[0; LINK_BYTES][..], packet].concat();
    link.seal(1, 2, &mut frame, [], crc32c);
    frame
}

#[test]
fn x4_wireshark_reads_link_headers() {
    let lua = wireshark();
    let packet = Header::new(&envelope(Kind::EagerFirst), 0, 0);
    let link = Link {
        life: 1,
        connection: 12,
        own: 0,
        attempt: 0,
        sequence: Seq::new(0),
        acknowledged: Seq::new(0),
        sack: 5,
        credit: 9,
        length: 32,
        flags: Flags::PACKET,
    };
    let with = shown(&lua, &on_the_torus(torus::ETHERTYPE_RELIABLE, &[&sealed(&link, packet.as_bytes())]));
    assert!(
        with.info.starts_with("EagerFirst task 1.0 -> 2.3") && with.info.contains("[connection 12 "),
        "{}",
        with.info
    );
    assert_eq!((with.fields["pamir_link.sack"], with.fields["pamir_link.credit"]), (5, 9));
    let alone = Link { length: 0, flags: Flags::RELEASE, own: 4, attempt: 8, ..link };
    let last = sealed(&Link { flags: Flags::LAST, ..alone }, &[]);
    let last = shown(&lua, &on_the_torus(torus::ETHERTYPE_RELIABLE, &[&last]));
    assert!(last.info.starts_with("Last, connection 12 "), "{}", last.info);
    let alone = shown(&lua, &on_the_torus(torus::ETHERTYPE_RELIABLE, &[&sealed(&alone, &[])]));
    assert!(alone.info.starts_with("Release, connection 12 "), "{}", alone.info);
    assert_eq!((alone.fields["pamir_link.own"], alone.fields["pamir_link.attempt"]), (4, 8));
    let with_word = Flags::PACKET | Flags::WORD;
    for (flags, name) in [(with_word, "Void"), (Flags::WORD, "Ready"), (Flags::REFUSED, "Not ready")] {
        let word = [1; 8];
        let word = if flags.contains(Flags::WORD) { &word[..] } else { &[] };
        let sealed = sealed(&Link { length: word.len() as u16, flags, ..link }, word);
        let shown = shown(&lua, &on_the_torus(torus::ETHERTYPE_RELIABLE, &[&sealed]));
        assert!(shown.info.starts_with(&format!("{name}, connection 12 ")), "{}", shown.info);
        assert_eq!(shown.fields["pamir_link.sack"], 5);
    }
}
