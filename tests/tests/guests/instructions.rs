//! What a message costs, in instructions: counted in the guest, whatever the host's speed (SPEC N-9, F-4, M-2).

use std::sync::OnceLock;
use tests::on_both_architectures;
use xtask::Arch;
use xtask::bench::{Committed, Count, UPDATE, measure};
use xtask::progress::Voice;

/// The counts of `arch`, measured once.
fn counts(arch: Arch) -> &'static [Count] {
    static COUNTS: [OnceLock<Vec<Count>>; 2] = [const { OnceLock::new() }; 2];
    COUNTS[usize::from(arch == Arch::Riscv64)].get_or_init(|| measure(arch, &Voice::quiet()).unwrap())
}

/// The count of one row.
fn count(arch: Arch, row: &str) -> u32 {
    let count = counts(arch).iter().find(|count| count.row == row);
    count.unwrap_or_else(|| panic!("{arch} has no row {row}")).instructions
}

on_both_architectures! {
    fn n9_r6_paths_take_the_committed_instructions_to_5_percent_and_a_fixed_loop_always_the_same(arch) {
        let complaints = Committed::load().unwrap().complaints(arch, counts(arch));
        let told: Vec<_> = complaints.iter().map(|complaint| format!("  {complaint}\n")).collect();
        assert!(complaints.is_empty(), "on {arch}:\n{}if that is meant to be: {UPDATE}", told.concat());
    }

    fn f4_a_fence_costs_the_same_behind_any_number_of_sends_and_sends_the_same_behind_fences(arch) {
        for sends in ["fence-after-10-sends", "fence-after-1000-sends"] {
            assert_eq!(count(arch, sends), count(arch, "fence-after-0-sends"), "{sends}");
        }
        for send in ["send-immediate-8", "send-512"] {
            assert_eq!(count(arch, &format!("{send}-after-fences")), count(arch, send), "{send}");
        }
    }

    fn m2_a_factory_costs_at_most_8_instructions_more_than_the_direct_call(arch) {
        const MOST: u32 = 8;
        let factories = counts(arch).iter().filter_map(|count| Some((count, count.row.strip_suffix("-factory")?)));
        let mut rows = 0;
        for (through, direct) in factories {
            let (through, direct_count) = (through.instructions, count(arch, direct));
            assert!(through <= direct_count + MOST, "{direct} on {arch}: {through} over {direct_count}");
            // One that were cheaper would be another code, and the comparison none.
            assert!(through >= direct_count, "{direct} on {arch}: {through} below {direct_count}");
            rows += 1;
        }
        assert_eq!(rows, 9, "one for each function and path");
    }
}
