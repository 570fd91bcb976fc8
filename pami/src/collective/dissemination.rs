//! Dissemination barrier (Hensgen, Finkel, Manber, 1988), with more than one signal a round (Hoefler et al., 2006).

use super::call::Call;
use super::step::Round;

/// In round `r`, signals to the ranks `j * radix^r` ahead, `0 < j < radix`. After it, a rank has heard, directly or
/// not, from the `radix^(r + 1) - 1` ranks behind it.
pub(super) fn steps(call: &Call, at: usize, out: &mut Round) -> bool {
    let size = u64::from(call.size);
    // A larger radix would only add signals that fall on the same ranks.
    let radix = u64::from(call.tuning.radix).min(size.max(2));
    let (round, factor) = (at / (radix as usize - 1), at as u64 % (radix - 1) + 1);
    let Some(stride) = radix.checked_pow(round as u32).filter(|&stride| stride < size) else {
        return false;
    };
    if factor * stride < size {
        let distance = (factor * stride) as u32;
        out.signal(call.ahead(distance), round);
        out.expect(call.behind(distance), round);
    }
    if factor == radix - 1 {
        out.wait();
    }
    true
}
