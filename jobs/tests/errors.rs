//! Errors of the modules that a job calls become the job's; those of `pami` are the kernel's own tests' matter.

use core::error::Error;
use kernel::job_error::JobError;
use pami::SendError;

fn told(result: Result<(), impl Error + 'static>) -> JobError {
    let call = || -> Result<(), JobError> { Ok(result?) };
    call().expect_err("an error")
}

#[test]
fn p5_errors_of_modules_become_the_jobs_by_question_mark() {
    let truncated = mpi::Error::Truncate { len: 9, room: 8 };
    assert_eq!(told(Err(truncated)).to_string(), truncated.to_string());
    assert_eq!(told(Err(armci::Error::Finalized)).to_string(), armci::Error::Finalized.to_string());
}

#[test]
fn r2_a_death_keeps_the_nodes_name_through_modules() {
    for error in [told(Err(mpi::Error::NodeDead(3))), told(Err(armci::Error::Send(SendError::Dead(3))))] {
        assert!(error.to_string().starts_with("node 3, "), "{error}");
    }
}
