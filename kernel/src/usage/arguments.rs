//! A job's arguments, as its description reads them.

use super::{Argument, Item, Usage, Value};
use crate::job_error::JobError;
use core::str::{FromStr, SplitAsciiWhitespace};
use heapless::Vec;

/// Of a job that is not described: it has none.
static NONE: Usage = Usage::new("", &[]);

/// The arguments of a job that starts, which were looked at before. Of one that is said twice the last counts.
#[derive(Clone)]
pub struct Arguments {
    usage: &'static Usage,
    words: SplitAsciiWhitespace<'static>,
}

impl Arguments {
    /// Those of a job in these words, by its description.
    pub fn new(usage: Option<&'static Usage>, words: SplitAsciiWhitespace<'static>) -> Self {
        Self { usage: usage.unwrap_or(&NONE), words }
    }

    fn items(&self) -> impl Iterator<Item = Item<'static>> {
        self.usage.items(self.words.clone()).flatten()
    }

    fn find(&self, name: &str) -> Option<(&'static Argument, &'static str)> {
        let named = |item| match item {
            Item::Named(argument, value) if argument.name == name => Some((argument, value)),
            _ => None,
        };
        self.items().filter_map(named).last()
    }

    /// Whether it is among them.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Its value, if it is there; one of a list of words as the description spells it.
    pub fn word(&self, name: &str) -> Option<&'static str> {
        let (argument, value) = self.find(name)?;
        let spelt = |words: &'static [&str]| words.iter().find(|word| word.eq_ignore_ascii_case(value));
        match argument.value {
            Value::Word(words) => spelt(words).copied(),
            _ => Some(value),
        }
    }

    /// Its value as a `T`, if it is there.
    ///
    /// # Errors
    /// It is no `T`.
    pub fn get<T: FromStr>(&self, name: &str) -> Result<Option<T>, JobError> {
        self.word(name).map(parse).transpose()
    }

    /// The words of its value, if it is there.
    ///
    /// # Errors
    /// The word that is no `T`, or one too many.
    pub fn list<T: FromStr, const N: usize>(&self, name: &str) -> Result<Option<Vec<T, N>>, JobError> {
        let Some(words) = self.word(name) else { return Ok(None) };
        let mut list = Vec::new();
        for word in words.split(',') {
            list.push(parse(word)?).map_err(|_| JobError::Argument(word, "is one too many"))?;
        }
        Ok(Some(list))
    }

    /// The words without names, in their order.
    pub fn plain(&self) -> impl Iterator<Item = &'static str> {
        self.items().filter_map(|item| if let Item::Plain(word) = item { Some(word) } else { None })
    }
}

fn parse<T: FromStr>(word: &'static str) -> Result<T, JobError> {
    word.parse().map_err(|_| JobError::Argument(word, super::NO_VALUE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn argument(name: &'static str, value: Value) -> Argument {
        Argument { name, value, help: "" }
    }

    fn are_numbers(word: &str) -> bool {
        word.split(',').all(|number| number.parse::<u32>().is_ok())
    }

    static DESCRIBED: [Usage; 2] = [
        Usage::new(
            "table",
            &[
                argument("--updates", Value::Number(1, u64::MAX)),
                argument("--log2", Value::Number(1, 28)),
                argument("--form", Value::Word(&["rmw", "am"])),
                argument("--radix", Value::Such("numbers", are_numbers)),
                argument("--path", Value::Flag),
                argument("--all", Value::Flag),
            ],
        ),
        Usage {
            words: &[Value::Word(&["panic", "log"]), Value::Word(&["all", "one"])],
            ..Usage::new("faults", &[])
        },
    ];

    fn of(job: &str, words: &'static str) -> Arguments {
        Arguments::new(Usage::of(job, &DESCRIBED), words.split_ascii_whitespace())
    }

    #[test]
    fn n4_a_job_reads_its_arguments_by_their_description() {
        let table = of("table", "--updates 7 --form AM --updates 8 --radix 2,3,4,5,6 --path");
        assert_eq!(table.get::<u64>("--updates"), Ok(Some(8)), "the last counts");
        assert_eq!(table.word("--form"), Some("am"), "as the description spells it");
        assert_eq!(table.get::<u32>("--log2"), Ok(None));
        assert!(table.has("--path") && !table.has("--all"));
        assert_eq!(table.list::<u32, 5>("--radix").map(|list| list.map(|list| list.len())), Ok(Some(5)));
        let many = table.list::<u32, 4>("--radix");
        assert_eq!(many, Err(JobError::Argument("6", "is one too many")));
        assert!(of("faults", "panic all").plain().eq(["panic", "all"]));
        assert_eq!(of("unheard-of", "--rounds 3").word("--rounds"), None);
    }

    #[test]
    fn n4_a_value_that_its_type_cannot_hold_is_refused_not_dropped() {
        let small = of("table", "--updates 300").get::<u8>("--updates");
        assert_eq!(small, Err(JobError::Argument("300", super::super::NO_VALUE)));
    }
}
