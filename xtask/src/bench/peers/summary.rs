//! What many numbers come to.

/// The middle one, or the mean of the middle two; `None` of nothing.
pub fn median(values: Vec<f64>) -> Option<f64> {
    Summary::of(values).map(|summary| summary.median)
}

/// Of the runs that count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// How many.
    pub count: usize,
}

impl Summary {
    /// Of some numbers; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let half = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            (values[half - 1] + values[half]) / 2.0
        } else {
            values[half]
        };
        Some(Self { median, min, max, count: values.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h6_medians_least_and_greatest() {
        let summary = Summary::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!(summary, Summary { median: 2.0, min: 1.0, max: 3.0, count: 3 });
        assert_eq!(Summary::of(vec![4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Summary::of(Vec::new()), None);
    }
}
