//! Goes wrong as its argument says, to show the report: `panic`, `overflow`, `null`, `readonly`, `execute`, `illegal`,
//! `oom`, `status`; `allocate` breaks the rule against allocation. A second argument says on which hart.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::black_box;
use kernel::arch::provoke;
use kernel::{JobError, Task};

kernel::entry!(main);

fn main(task: &'static Task) -> i32 {
    match run(task) {
        Ok(status) => status,
        Err(error) => {
            defmt::error!("{}", defmt::Display2Format(&error));
            1
        }
    }
}

fn run(task: &'static Task) -> Result<i32, JobError> {
    let mut args = task.args();
    let fault = args.next().unwrap_or("");
    let hart = match args.next() {
        None => 0,
        Some(word) => word.parse().map_err(|_| JobError::Argument(word, "is no hart"))?,
    };
    if hart == 0 {
        return provoke(fault);
    }
    task.spawn(
        hart,
        task.memory().place(move |_: &'static Task| {
            if provoke(fault).is_err() {
                defmt::error!("no fault is called {=str}", fault);
            }
        })?,
    )?;
    task.join(hart);
    Ok(0)
}

fn provoke(fault: &'static str) -> Result<i32, JobError> {
    match fault {
        "panic" => panic!("a panic, as asked for"),
        "overflow" => Ok(recurse(1) as i32),
        "null" => Ok(provoke::null_dereference() as i32),
        "readonly" => {
            provoke::write_to_code();
            Ok(0)
        }
        "execute" => {
            provoke::execute_data();
            Ok(0)
        }
        "illegal" => provoke::illegal_instruction(),
        "oom" => {
            let memory: Vec<u8> = Vec::with_capacity(1 << 40);
            Ok(black_box(memory).len() as i32)
        }
        "allocate" => {
            black_box(Box::new(1));
            Ok(0)
        }
        // What the host would cut down to 0.
        "status" => Ok(256),
        _ => Err(JobError::Argument(fault, "is no fault")),
    }
}

#[expect(unconditional_recursion, reason = "the stack is to overflow")]
fn recurse(depth: u64) -> u64 {
    let room = black_box([depth; 64]);
    recurse(depth + 1) + room[depth as usize % 64]
}
