//! What a tenant has spent in the current day and month. Periods are in UTC, so that they are the same for all offices
//! of a tenant.

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::Tenant;
use crate::settings::{BudgetPeriod, TenantSettings};

/// One day or month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Period {
    /// Its name, such as `2027-01` or `2027-01-15`.
    pub(crate) name: String,
    /// When the next one begins.
    pub(crate) ends_at: Timestamp,
}

impl Period {
    /// The day or month that `now` is in.
    pub(crate) fn containing(period: BudgetPeriod, now: Timestamp) -> Period {
        let instant = jiff::Timestamp::from_millisecond(now.as_millis()).expect("the range is within jiff's");
        let today = instant.to_zoned(TimeZone::UTC).date();
        let (name, next) = match period {
            BudgetPeriod::Day => (today.to_string(), today.checked_add(1.day())),
            BudgetPeriod::Month => {
                (today.strftime("%Y-%m").to_string(), today.first_of_month().checked_add(1.month()))
            }
        };
        let start = |date: Date| date.to_zoned(TimeZone::UTC).map(|start| start.timestamp().as_millisecond());
        let ends_at = next.and_then(start).map_or(Timestamp::MAX, Timestamp::from_millis);
        Period { name, ends_at }
    }
}

/// What was spent in one period.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Sum {
    period: String,
    cents: i64,
}

impl Sum {
    fn add(&mut self, period: Period, cents: i64) {
        if self.period != period.name {
            *self = Sum { period: period.name, cents: 0 };
        }
        self.cents = self.cents.saturating_add(cents);
    }
}

/// A tenant's spending in the current periods.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct BudgetUsage {
    day: Sum,
    month: Sum,
}

/// The key of the document that stores it.
pub(crate) fn spent_key(tenant: &Tenant) -> String {
    format!("spent {tenant}")
}

impl BudgetUsage {
    /// Adds a cost booked now.
    pub(crate) fn add(&mut self, cents: i64, now: Timestamp) {
        self.day.add(Period::containing(BudgetPeriod::Day, now), cents);
        self.month.add(Period::containing(BudgetPeriod::Month, now), cents);
    }

    /// The amount spent in this period.
    pub(crate) fn in_period(&self, kind: BudgetPeriod, period: &Period) -> i64 {
        let sum = match kind {
            BudgetPeriod::Day => &self.day,
            BudgetPeriod::Month => &self.month,
        };
        if sum.period == period.name { sum.cents } else { 0 }
    }
}

/// A budget that is used up: none of its tenant's jobs start any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BudgetExceeded {
    pub(crate) budget_cents: u64,
    pub(crate) spent_cents: i64,
    pub(crate) period: BudgetPeriod,
    /// When the next period begins.
    pub(crate) until: Timestamp,
}

/// Whether a tenant's budget is used up now.
pub(crate) fn overdrawn(
    settings: &TenantSettings,
    spent: Option<&BudgetUsage>,
    now: Timestamp,
) -> Option<BudgetExceeded> {
    let budget_cents = settings.budget_cents?;
    let kind = settings.budget_period.unwrap_or_default();
    let period = Period::containing(kind, now);
    let spent_cents = spent.map_or(0, |spent| spent.in_period(kind, &period));
    let is_over = u64::try_from(spent_cents).unwrap_or(0) >= budget_cents;
    is_over.then_some(BudgetExceeded { budget_cents, spent_cents, period: kind, until: period.ends_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    #[test]
    fn periods_are_days_and_months_of_utc() {
        let now = at("2028-02-29T23:59:59.999Z");
        let day = Period::containing(BudgetPeriod::Day, now);
        assert_eq!((day.name.as_str(), day.ends_at), ("2028-02-29", at("2028-03-01T00:00:00Z")));
        let month = Period::containing(BudgetPeriod::Month, at("2027-12-01T00:00:00Z"));
        assert_eq!((month.name.as_str(), month.ends_at), ("2027-12", at("2028-01-01T00:00:00Z")));
        assert_eq!(Period::containing(BudgetPeriod::Month, Timestamp::MAX).ends_at, Timestamp::MAX);
    }

    #[test]
    fn counting_restarts_with_each_period() {
        let mut spent = BudgetUsage::default();
        let sums = |spent: &BudgetUsage, now| {
            let sum = |kind| spent.in_period(kind, &Period::containing(kind, now));
            (sum(BudgetPeriod::Day), sum(BudgetPeriod::Month))
        };
        spent.add(30, at("2027-01-30T12:00:00Z"));
        spent.add(12, at("2027-01-31T12:00:00Z"));
        assert_eq!(sums(&spent, at("2027-01-31T23:00:00Z")), (12, 42));
        assert_eq!(sums(&spent, at("2027-02-01T00:00:00Z")), (0, 0));
    }

    #[test]
    fn a_budget_of_nothing_is_used_up_from_the_start() {
        let now = at("2027-01-31T12:00:00Z");
        let settings = TenantSettings { budget_cents: Some(0), ..TenantSettings::default() };
        assert_eq!(overdrawn(&settings, None, now).unwrap().until, at("2027-02-01T00:00:00Z"));
        let settings = TenantSettings { budget_cents: Some(1), ..settings };
        assert_eq!(overdrawn(&settings, None, now), None);
        assert_eq!(overdrawn(&TenantSettings::default(), None, now), None);
    }
}
