//! Why a job failed.

use core::error::Error;
use core::fmt::{self, Write as _};
use heapless::String;
use pami::{CollectError, OperationError, SendError};

/// Bytes of an error's text; what is longer is cut.
const TEXT: usize = 104;

/// Why a job failed. The errors of calls into the kernel, into PAMI and into the libraries above it become one by `?`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobError {
    /// A node that the job cannot do without is dead.
    Dead(u32),
    /// An argument of the job, and what is wrong with it.
    Argument(&'static str, &'static str),
    /// What a call said that did not end well.
    Call(String<TEXT>),
    /// Anything else, in words.
    Other(&'static str),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dead(node) => write!(f, "node {node} is dead: the job cannot be done without it"),
            Self::Argument(argument, problem) => write!(f, "the argument \"{argument}\" {problem}"),
            Self::Call(text) => f.write_str(text),
            Self::Other(text) => f.write_str(text),
        }
    }
}

// As it is no `Error` itself, this leaves room for the identity.
impl<E: Error + 'static> From<E> for JobError {
    #[cold]
    fn from(error: E) -> Self {
        from(&error)
    }
}

fn from(error: &(dyn Error + 'static)) -> JobError {
    if let Some(node) = dead_node(error) {
        return JobError::Dead(node);
    }
    let mut text = Cut(String::new());
    // What does not fit is cut.
    let _ = write!(text, "{error}");
    JobError::Call(text.0)
}

/// The node whose death the error tells of.
fn dead_node(error: &(dyn Error + 'static)) -> Option<u32> {
    if let Some(&SendError::Dead(node)) = error.downcast_ref() {
        return Some(node);
    }
    if let Some(&CollectError::Dead(node)) = error.downcast_ref() {
        return Some(node);
    }
    match error.downcast_ref() {
        Some(&OperationError::NodeDead(node)) => Some(node),
        _ => None,
    }
}

/// Takes as many characters as there is room for.
struct Cut(String<TEXT>);

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| self.0.push(character)).map_err(|_| fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(result: Result<(), impl Error + 'static>) -> JobError {
        let call = || -> Result<(), JobError> { Ok(result?) };
        call().expect_err("an error")
    }

    #[test]
    fn p5_errors_of_pami_become_the_jobs_by_question_mark() {
        assert_eq!(told(Err(SendError::TooLong)).to_string(), SendError::TooLong.to_string());
    }

    #[test]
    fn r2_a_death_that_pami_tells_of_keeps_the_nodes_name() {
        assert_eq!(told(Err(SendError::Dead(3))), JobError::Dead(3));
        assert_eq!(told(Err(CollectError::Dead(3))), JobError::Dead(3));
        assert_eq!(told(Err(OperationError::NodeDead(3))), JobError::Dead(3));
    }

    #[test]
    fn p5_a_long_text_is_cut() {
        #[derive(Debug)]
        struct Long;
        impl fmt::Display for Long {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&"é".repeat(200))
            }
        }
        impl Error for Long {}
        assert_eq!(told(Err(Long)).to_string(), "é".repeat(TEXT / 2));
    }
}
