//! Shortens a story that ends badly: steps are left out as long as it still does. Each step has chance of its own, so
//! that the others stay as they are.

/// Runs that one search may take.
const RUNS_MAX: usize = 400;

/// The steps that are left, of `steps`, when no more can be left out.
pub(super) fn shrink(steps: Vec<usize>, mut fails: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    let (mut kept, mut runs) = (steps, 0);
    let mut size = kept.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let before = kept.len();
        while at < kept.len() && runs < RUNS_MAX {
            let end = kept.len().min(at + size);
            let rest: Vec<usize> = kept[..at].iter().chain(&kept[end..]).copied().collect();
            runs += 1;
            if fails(&rest) {
                kept = rest;
            } else {
                at = end;
            }
        }
        if runs >= RUNS_MAX {
            break;
        }
        // Steps that were needed may not be needed any more.
        if size > 1 || kept.len() == before {
            size /= 2;
        }
    }
    kept
}

#[test]
fn what_is_left_is_needed() {
    // It fails when 7 comes after 3, and 200 is there.
    let fails = |steps: &[usize]| {
        let place = |wanted| steps.iter().position(|step| *step == wanted);
        place(3).zip(place(7)).is_some_and(|(three, seven)| three < seven) && place(200).is_some()
    };
    assert_eq!(shrink((0..600).collect(), fails), [3, 7, 200]);
    assert_eq!(shrink((0..5).collect(), |_| true), [0_usize; 0]);
}
