//! Store time and the wall clock.

use windlass_api::clock::ClockView;
use windlass_api::time::Moment;

use crate::clock::ClockReport;

impl From<&ClockReport> for ClockView {
    fn from(report: &ClockReport) -> ClockView {
        ClockView {
            store_time: report.now.into(),
            wall_clock: report.wall.into(),
            difference_ms: report.ahead_ms,
            believed: report.is_believed,
            not_believed_since: report.doubted_since.map(Moment),
            lifetimes_wait_until: report.lifetimes_from.map(Moment),
        }
    }
}
