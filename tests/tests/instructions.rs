//! What a message costs, in instructions: counted in the guest, whatever the host's speed (SPEC N-9, F-4).

use tests::on_both_architectures;
use xtask::bench::{Committed, UPDATE, measure};
use xtask::progress::Voice;

on_both_architectures! {
    fn n9_no_path_takes_5_percent_more_instructions_than_committed_and_a_fixed_loop_always_the_same(arch) {
        let counts = measure(arch, &Voice::quiet()).unwrap();
        let complaints = Committed::load().unwrap().complaints(arch, &counts);
        let told: Vec<_> = complaints.iter().map(|complaint| format!("  {complaint}\n")).collect();
        assert!(complaints.is_empty(), "on {arch}:\n{}if that is meant to be: {UPDATE}", told.concat());
    }
}
