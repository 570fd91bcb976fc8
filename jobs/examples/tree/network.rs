//! Driving the adapter: what has no credit is tried again, and the hart sleeps until something comes.

use super::check::Contribution;
use kernel::{Context, InjectError, JobError, Task, Tree};
use pami::combine::{AluOperation, ClassRoute, Element, Operator, Role, RouteMembers, Status};

/// A node's way to the tree.
pub struct Network {
    context: Context,
    tree: &'static Tree,
    /// This node.
    pub node: u32,
    /// All nodes.
    pub nodes: u32,
}

impl Network {
    /// The way of `task`'s node; its hart sleeps on `context`.
    pub fn new(task: &'static Task, context: Context) -> Result<Self, JobError> {
        let tree =
            task.tree().ok_or(JobError::Other("the nodes are not on the tree: leave --no-tree out"))?;
        Ok(Self { context, tree, node: task.node(), nodes: task.shape().nodes() })
    }

    /// Most bytes of a packet.
    pub fn payload(&self) -> usize {
        self.tree.payload()
    }

    /// The time.
    pub fn now_ns(&self) -> u64 {
        self.context.now_ns()
    }

    /// Does `step` until it has a value, sleeping while nothing comes.
    fn until<T>(&mut self, mut step: impl FnMut(&Tree) -> Option<T>) -> T {
        let tree = self.tree;
        loop {
            let mut value = None;
            self.context.wait(|_| {
                value = step(tree);
                value.is_some()
            });
            if let Some(value) = value {
                return value;
            }
        }
    }

    /// Does `step` until there is credit for it.
    fn inject(&mut self, step: impl Fn(&Tree) -> Result<(), InjectError>) -> Result<(), JobError> {
        self.until(|tree| match step(tree) {
            Err(InjectError::Full) => None,
            other => Some(other),
        })
        .map_err(refused)
    }

    /// Contributes `count` parts to as many combinations, as fast as credit comes, and has each result checked. Returns
    /// whether all were right.
    pub fn pipeline(
        &mut self,
        route: ClassRoute,
        operation: AluOperation,
        count: u32,
        part: impl Fn(u32) -> Contribution,
        is_right: impl Fn(u32, &[u8]) -> bool,
    ) -> Result<bool, JobError> {
        let receives = self.role(route).is_some_and(|role| role.receives);
        let (mut sent, mut received, mut good) = (0, if receives { 0 } else { count }, true);
        let mut left = false;
        let mut next = (count > 0).then(|| part(0));
        self.until(|tree| {
            while let Some(mine) = &next {
                match tree.contribute(route, operation, sent, mine) {
                    Ok(()) => sent += 1,
                    Err(InjectError::Full) => break,
                    Err(error) => return Some(Err(refused(error))),
                }
                next = (sent < count).then(|| part(sent));
            }
            while received < count
                && tree.receive(route, |result| {
                    left |= result.status == Status::Dead;
                    let like = (result.broadcast, result.sequence, result.status);
                    good &= like == (None, received, Status::Good) && is_right(received, result.payload);
                    true
                })
            {
                received += 1;
            }
            if left {
                return Some(Err(JobError::Other("a node that had to contribute has left")));
            }
            (sent == count && received == count).then_some(Ok(()))
        })?;
        Ok(good)
    }

    /// Waits until all nodes have come here.
    pub fn barrier(&mut self) -> Result<(), JobError> {
        self.status_of(ClassRoute::WORLD, AluOperation::NOTHING, &[]).map(|_| ())
    }

    /// Contributes once and says how that went.
    pub fn status_of(
        &mut self,
        route: ClassRoute,
        operation: AluOperation,
        mine: &[u8],
    ) -> Result<Status, JobError> {
        self.inject(|tree| tree.contribute(route, operation, 0, mine))?;
        let mut status = Status::Good;
        self.until(|tree| {
            let came = tree.receive(route, |result| {
                status = result.status;
                true
            });
            came.then_some(())
        });
        Ok(status)
    }

    /// Node `root` broadcasts `len` bytes to all; returns whether it came from there and is right.
    pub fn broadcast(
        &mut self,
        root: u32,
        bytes: &Contribution,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Result<bool, JobError> {
        if self.node == root {
            self.inject(|tree| tree.broadcast(ClassRoute::WORLD, root, bytes))?;
        }
        let mut good = false;
        self.until(|tree| {
            let came = tree.receive(ClassRoute::WORLD, |arrival| {
                let like = (arrival.broadcast, arrival.sequence) == (Some(root), root);
                good = like && is_right(arrival.payload);
                true
            });
            came.then_some(())
        });
        Ok(good)
    }

    /// Asks for a class route and waits for the answer.
    pub fn allocate(
        &mut self,
        tag: u32,
        members: &[RouteMembers],
    ) -> Result<Result<ClassRoute, Status>, JobError> {
        self.inject(|tree| tree.allocate(tag, members))?;
        Ok(self.until(Tree::answer))
    }

    /// Waits for the class route that `owner` asked for.
    pub fn find(&mut self, owner: u32, tag: u32) -> ClassRoute {
        self.until(|tree| tree.find(owner, tag))
    }

    /// What this node does on a class route.
    pub fn role(&self, route: ClassRoute) -> Option<Role> {
        self.tree.role(route)
    }

    /// Gives up a class route of this node's.
    pub fn release(&mut self, route: ClassRoute) -> Result<(), JobError> {
        self.inject(|tree| tree.release(route))
    }

    /// All have done with a class route: its owner, which receives, gives it up when all have said so; the others wait
    /// for that. What they say has a result for them too, which they do not look at.
    pub fn leave(&mut self, owner: u32, route: ClassRoute) -> Result<(), JobError> {
        let done = AluOperation::new(Operator::BitOr, Element::U32).unwrap();
        if self.node == owner {
            self.status_of(route, done, &[])?;
            self.release(route)?;
        } else {
            self.inject(|tree| tree.contribute(route, done, 0, &[]))?;
        }
        self.until(|tree| tree.role(route).is_none().then_some(()));
        Ok(())
    }
}

fn refused(error: InjectError) -> JobError {
    JobError::Other(match error {
        InjectError::NoRoute => "the adapter refused: no such class route",
        InjectError::Length => "the adapter refused: a wrong length",
        InjectError::Pending => "the adapter refused: an earlier request has no answer",
        InjectError::Full => "the adapter refused: no credit",
    })
}
