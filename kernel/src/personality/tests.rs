use super::*;
use std::string::ToString;

fn refusal(text: &str) -> std::string::String {
    Personality::parse(text).expect_err(text).to_string()
}

#[test]
fn n4_all_words_are_read() {
    let personality = Personality::parse(
        "node=3 torus=2x2x2 mode=vn map=txyz agent=1 contexts=2 tree=1 topology=2x2x1x2 life=4294967295 peers=3 fabric=1 lossless=1 baud=115200 log=debug trace=9 geometries=mpi.row:0-3:0-1;npb.all:all job=npb-is -- --class W -- x",
    )
    .unwrap();
    assert_eq!(personality.node, 3);
    assert_eq!(personality.shape, "2x2x2".parse().unwrap());
    assert_eq!(personality.mode, Mode::VirtualNode);
    assert_eq!(personality.map, MapOrder::TasksFirst);
    assert!(personality.agent && personality.tree && personality.fabric && personality.lossless);
    assert_eq!(personality.contexts, 2);
    let topology = HartTopology { sockets: 2, clusters: 2, cores: 1, threads: 2 };
    assert_eq!(personality.topology, Some(topology));
    assert_eq!((personality.life, personality.peers), (u32::MAX, Some(3)));
    assert_eq!((personality.baud, personality.log), (Some(115_200), Level::Debug));
    assert_eq!(personality.trace, Some(9));
    let geometries =
        personality.geometries().map(|(word, geometry)| (word, geometry.client(), geometry.name()));
    assert!(geometries.eq([("mpi.row:0-3:0-1", "mpi", "row"), ("npb.all:all", "npb", "all")]));
    assert_eq!(personality.job, "npb-is");
    assert!(personality.arguments().eq(["--class", "W", "--", "x"]));
}

#[test]
fn n4_what_is_displayed_reads_back() {
    for text in [
        "node=3 torus=2x2x2 mode=vn map=txyz agent=1 contexts=8 tree=1 life=7 peers=2 fabric=1 lossless=1 baud=300 job=npb-is -- --class W",
        "node=0 torus=1 mode=smp map=xyzt agent=0 contexts=4 topology=1x1x4x2",
        "node=5 torus=3x2m mode=smp map=xyzt agent=0 contexts=1 log=off trace=65536 geometries=a.b:0-2,4:0:barrier=n-ary job=a -- b",
    ] {
        assert_eq!(Personality::parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn n4_few_words_are_enough() {
    let personality = Personality::parse("  torus=4   node=2 ").unwrap();
    assert_eq!(personality, Personality::new(2, "4".parse().unwrap()));
    assert_eq!(personality.arguments().count(), 0);
}

#[test]
fn n4_a_bad_word_is_named_with_what_would_be_right() {
    for (text, word, right) in [
        ("nod=3 torus=2", "`nod=3`", "node="),
        ("node=0 torus=2 quiet", "`quiet`", "node="),
        ("node=x torus=2", "`node=x`", "node=0"),
        ("node=+1 torus=2", "`node=+1`", "node=0"),
        ("node= torus=2", "`node=`", "node=0"),
        ("node=2 torus=2", "`node=2`", "0 to 1"),
        ("node=0 torus=2y2", "`torus=2y2`", "4x2m"),
        ("node=0 torus=2 torus=3", "`torus=3`", "once"),
        ("node=0 torus=2 mode=up", "`mode=up`", "smp"),
        ("node=0 torus=2 map=zyx", "`map=zyx`", "txyz"),
        ("node=0 torus=2 agent=yes", "`agent=yes`", "0, or 1"),
        ("node=0 torus=2 baud=299", "`baud=299`", "baud=115200"),
        ("node=0 torus=2 life=now", "`life=now`", "life=1"),
        ("node=0 torus=2 life=4294967296", "`life=4294967296`", "life=1"),
        ("node=0 torus=2 peers=1", "`peers=1`", "2 peers"),
        ("node=0 torus=2 fabric=no", "`fabric=no`", "plain Ethernet"),
        ("node=0 torus=2 tree=1", "`tree=1`", "fabric=1"),
        ("node=0 torus=2 lossless=1 fabric=0", "`lossless=1`", "fabric=1"),
        ("node=0 torus=2 lossless=maybe", "`lossless=maybe`", "0, or 1"),
        ("node=0 torus=2 log=loud", "`log=loud`", "warn, info"),
        ("node=0 torus=2 trace=0", "`trace=0`", "trace=65536"),
        ("node=0 torus=2 geometries=a.b:0;row:0-1", "`row:0-1`", "CLIENT.NAME:TASKS"),
        ("node=0 torus=2 geometries=a.b:0:0:barrier=ring", "`a.b:0:0:barrier=ring`", "dissemination"),
        ("node=0 torus=2 geometries=a.b:0;a.b:1", "`a.b:1`", "each once"),
        ("node=0 torus=2 tree=yes", "`tree=yes`", "0, or 1"),
        ("node=0 torus=2 topology=2x2", "`topology=2x2`", "2x2x2"),
        ("node=0 torus=2 topology=2x0x2", "`topology=2x0x2`", "2x2x2"),
        ("node=0 torus=2 topology=2x1x1x1x1", "`topology=2x1x1x1x1`", "2x2x2"),
        ("node=0 torus=2 topology=5x13x1", "`topology=5x13x1`", "1 to 64"),
        ("node=0 torus=2 topology=70000x70000x1", "`topology=70000x70000x1`", "1 to 64"),
        ("node=0 torus=2 contexts=0", "`contexts=0`", "1 to 8"),
        ("node=0 torus=2 contexts=9", "`contexts=9`", "1 to 8"),
        ("torus=2", "`node=`", "node=0"),
        ("node=0", "`torus=`", "torus=2x2x2"),
        ("", "`node=`", "node=0"),
    ] {
        let said = refusal(text);
        assert!(said.contains(word) && said.contains(right), "{text}: {said}");
    }
}

#[test]
fn n6_harts_are_divided_by_the_mode() {
    let divide = |text, harts| Personality::parse(text).unwrap().divide(harts);
    let smp = divide("node=0 torus=2x2", 4).unwrap();
    assert_eq!((smp.application, smp.agent, smp.tasks, smp.harts_per_task()), (4, None, 1, 4));
    let vn = divide("node=0 torus=2x2 mode=vn agent=1", 4).unwrap();
    assert_eq!((vn.application, vn.agent, vn.tasks, vn.harts_per_task()), (3, Some(3), 3, 1));
    assert_eq!(vn.map.tasks(), 12);
}

#[test]
fn g1_a_geometry_of_other_tasks_or_contexts_than_the_job_has_is_refused() {
    for (geometries, word, right) in [
        ("a.b:0-7:0-3", "", ""),
        ("a.b:0-7;a.c:5,8", "`a.c:5,8`", "task 8 is not in the job"),
        ("a.b:0-7:0-4", "`a.b:0-7:0-4`", "no context 4"),
    ] {
        let text = std::format!("node=0 torus=2x2 mode=vn geometries={geometries}");
        let refused = Personality::parse(&text).unwrap().divide(2).err();
        assert_eq!(refused.is_none(), word.is_empty(), "{geometries}");
        let said = refused.map(|refused| refused.to_string()).unwrap_or_default();
        assert!(said.contains(word) && said.contains(right), "{said}");
    }
}

#[test]
fn d7_an_agent_needs_a_second_hart() {
    let refused = Personality::parse("node=0 torus=1 agent=1").unwrap().divide(1).unwrap_err();
    assert!(refused.to_string().contains("`agent=1`"));
}

#[test]
fn a2_three_numbers_are_a_topology_of_one_cluster_a_socket() {
    let read = |text: &str| text.parse::<HartTopology>().unwrap();
    assert_eq!(read("2x3x1"), read("2x1x3x1"));
    assert_eq!(read("2x2x1x2").harts(), 8);
    let places = |text: &str| {
        let topology = read(text);
        (0..topology.harts() as u16).map(|hart| topology.place(hart)).collect::<std::vec::Vec<_>>()
    };
    let of = |[socket, cluster, core, thread]: [u16; 4]| pami::affinity::HartPlace {
        socket,
        cluster,
        core,
        thread,
    };
    assert_eq!(places("2x1x2"), [[0, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [1, 0, 0, 1]].map(of));
    assert_eq!(places("1x2x2x1"), [[0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 1, 1, 0]].map(of));
}

#[test]
fn a2_a_topology_of_other_harts_is_refused() {
    let personality = Personality::parse("node=0 torus=1 topology=2x2x2").unwrap();
    assert!(personality.divide(8).is_ok());
    let refused = personality.divide(4).unwrap_err().to_string();
    assert!(
        refused.contains("`topology`") && refused.contains("2x1x2x2") && refused.contains("4 harts"),
        "{refused}"
    );
}
