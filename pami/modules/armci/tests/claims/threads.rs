//! A machine's tasks, each as a thread.

use std::cell::Cell;
use std::io::{Write as _, stderr};
use std::panic;
use std::process;
use std::sync::Once;
use std::thread;

thread_local! {
    static IS_TASK: Cell<bool> = const { Cell::new(false) };
}
static HOOK: Once = Once::new();

/// Runs `body` at each node's task; returns what they return, by task. A task that panics ends the process, since the others
/// would wait for it for ever, and its words go past the capture of a test's output, of which nothing would be shown.
pub fn on_nodes<N: Send, T: Send>(nodes: Vec<N>, body: impl Fn(N) -> T + Sync) -> Vec<T> {
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_TASK.get() {
                return others(panic);
            }
            let _ = writeln!(stderr(), "{}: a task {panic}", thread::current().name().unwrap_or_default());
            process::exit(101);
        }));
    });
    let test = thread::current().name().unwrap_or_default().to_owned();
    let as_task = &|node: N| {
        IS_TASK.set(true);
        body(node)
    };
    thread::scope(|scope| {
        let start =
            |node| thread::Builder::new().name(test.clone()).spawn_scoped(scope, move || as_task(node));
        let threads: Vec<_> = nodes.into_iter().map(|node| start(node).unwrap()).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
