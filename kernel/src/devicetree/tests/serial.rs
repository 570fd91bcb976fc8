//! Serial lines whose registers lie otherwise (SPEC B-3).

use super::*;

#[test]
fn b3_registers_of_a_serial_line_are_as_far_apart_and_as_wide_as_the_tree_says() {
    let uart = |told: &[(&str, Vec<u8>)]| {
        let tree = told
            .iter()
            .fold(RISCV, |tree, (name, value)| with_property(tree, "serial@10000000", name, value));
        read(tree, 0x8020_0000, 0)
    };
    let [shift, width] = ["reg-shift", "reg-io-width"];
    let synopsys = b"vendor,uart\0snps,dw-apb-uart\0".to_vec();
    let machine = uart(&[("compatible", synopsys), (shift, cells([2])), (width, cells([4]))]);
    let kind = UartKind::Ns16550 { stride: 4, width: 4, synopsys: true };
    assert_eq!((machine.problem, machine.uart.unwrap().kind), (None, kind));
    for (shift_by, bytes) in [(2, 3), (0, 4), (1, 4), (4, 8), (2, 0)] {
        let problem = uart(&[(shift, cells([shift_by])), (width, cells([bytes]))]).problem.unwrap();
        assert!(problem.what.contains("reg-io-width"), "{problem}");
        assert_eq!(problem.node, "serial@10000000");
    }
}
