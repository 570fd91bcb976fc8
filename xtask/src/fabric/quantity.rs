//! Percentages and times as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The longest time that is taken: a day.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A share of 0 to 100 %, written `0.5%`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Percent(f64);

impl Percent {
    /// The number before the sign.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value = text.strip_suffix('%').and_then(decimal).filter(|value| *value <= 100.0);
        value.map(Self).ok_or_else(|| format!("{text:?} is no percentage: write 0% to 100%, as in 0.5%"))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// Digits with at most one point among them: no sign, no exponent.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain && text.starts_with(|c: char| c.is_ascii_digit()))
}

/// Microseconds per unit of time, the longer suffixes first: `ms` ends in `s` too.
const UNITS: [(&str, f64); 3] = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];

/// A time with its unit, such as `20ms`, to the microsecond.
///
/// # Errors
/// The text and what would be right.
pub fn time(text: &str) -> Result<Duration, String> {
    let parse = |(unit, micros): &(&str, f64)| Some(decimal(text.strip_suffix(unit)?)? * micros);
    let time = UNITS.iter().find_map(parse).map(|micros| Duration::from_micros(micros.round() as u64));
    match time {
        None => Err(format!("{text:?} is no time: write a number and us, ms or s, as in 20ms")),
        Some(time) if time > LONGEST => Err(format!("{text:?} is over a day")),
        Some(time) => Ok(time),
    }
}

/// From a time to a later one, such as `1s..3s`. A bare number takes the later one's unit: `0..20ms`.
///
/// # Errors
/// What is wrong and what would be right.
pub fn interval(from: &str, to: &str) -> Result<(Duration, Duration), String> {
    let until = time(to)?;
    let unit = to.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let since = if decimal(from).is_some() { time(&format!("{from}{unit}"))? } else { time(from)? };
    if since > until {
        return Err(format!("{from}..{to} ends before it begins"));
    }
    Ok((since, until))
}

/// Shows a time so that [`time`] reads it back.
pub struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match micros {
            _ if micros.is_multiple_of(1_000_000) => write!(f, "{}s", micros / 1_000_000),
            _ if micros.is_multiple_of(1000) => write!(f, "{}ms", micros / 1000),
            _ => write!(f, "{micros}us"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn x4_percentages_and_times_read_back(value in 0.0..=100.0f64, micros in 0..=LONGEST.as_micros() as u64) {
            prop_assert_eq!(Percent(value).to_string().parse(), Ok(Percent(value)));
            let duration = Duration::from_micros(micros);
            prop_assert_eq!(time(&Time(duration).to_string()), Ok(duration));
        }

        #[test]
        fn x4_any_text_is_read_or_refused_by_name(text in "\\PC{0,12}") {
            let quoted = format!("{text:?}");
            if let Err(why) = time(&text) {
                prop_assert!(why.starts_with(&quoted), "{}", why);
            }
            match text.parse::<Percent>() {
                Ok(percent) => prop_assert!((0.0..=100.0).contains(&percent.value())),
                Err(why) => prop_assert!(why.starts_with(&quoted), "{}", why),
            }
        }
    }

    #[test]
    fn x4_what_is_no_quantity_is_refused() {
        for text in ["", "%", "5", "-1%", "100.1%", "1e1%", "nan%", "inf%", ".%", "1.2.3%", "1 %", "+1%"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
        for text in ["", "5", "s", "ms", "-1s", "1 s", "1m", "1e3ms", "infs", "99999999999999999999s"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert_eq!(time("2.5ms"), Ok(Duration::from_micros(2500)));
        assert_eq!(interval("0", "20ms"), Ok((Duration::ZERO, Duration::from_millis(20))));
        assert_eq!(interval("500us", "1s"), Ok((Duration::from_micros(500), Duration::from_secs(1))));
        assert_eq!(interval("3", "2s"), Err("3..2s ends before it begins".into()));
    }
}
