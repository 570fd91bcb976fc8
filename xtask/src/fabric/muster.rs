//! Who has joined: Hello is gathered from every node before any gets Go.

/// What a Hello leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Others are missing still.
    Wait,
    /// This was the last: all nodes get a Go.
    GoToAll,
    /// The job runs already: this node gets another Go.
    GoAgain,
    /// The node and the fabric differ on rank or number of nodes.
    Refused(String),
}

/// The nodes that have joined.
pub struct Muster {
    joined: Vec<bool>,
    count: usize,
}

impl Muster {
    /// Nobody has joined of `nodes`. A node by itself says no Hello.
    pub fn new(nodes: usize) -> Self {
        if nodes == 1 { Self::of_all(nodes) } else { Self { joined: vec![false; nodes], count: 0 } }
    }

    /// A Hello on `port` that claims to be node `rank` of `nodes`.
    pub fn hello(&mut self, port: u32, rank: u32, nodes: u32) -> Answer {
        if rank != port {
            return Answer::Refused(format!("it says it is node {rank}"));
        }
        if nodes as usize != self.joined.len() {
            return Answer::Refused(format!(
                "it says there are {nodes} nodes, there are {}",
                self.joined.len()
            ));
        }
        let before = self.started();
        if let Some(joined) = self.joined.get_mut(port as usize)
            && !std::mem::replace(joined, true)
        {
            self.count += 1;
        }
        match (before, self.started()) {
            (true, _) => Answer::GoAgain,
            (false, true) => Answer::GoToAll,
            (false, false) => Answer::Wait,
        }
    }

    /// Those of nodes that gather themselves: nobody is waited for.
    pub fn of_all(nodes: usize) -> Self {
        Self { joined: vec![true; nodes], count: nodes }
    }

    /// Whether `node` has joined.
    pub fn has(&self, node: u32) -> bool {
        self.joined.get(node as usize).is_some_and(|&joined| joined)
    }

    /// Number of nodes that have joined.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether all have joined.
    pub fn started(&self) -> bool {
        self.count == self.joined.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x4_go_comes_when_the_last_node_has_joined_and_again_when_asked() {
        let mut muster = Muster::new(3);
        assert_eq!(muster.hello(2, 2, 3), Answer::Wait);
        assert_eq!(muster.hello(2, 2, 3), Answer::Wait);
        assert_eq!(muster.hello(0, 0, 3), Answer::Wait);
        assert_eq!((muster.count(), muster.started()), (2, false));
        assert_eq!(muster.hello(1, 1, 3), Answer::GoToAll);
        assert_eq!(muster.hello(0, 0, 3), Answer::GoAgain);
    }

    #[test]
    fn x4_a_node_by_itself_is_there_from_the_start() {
        let mut muster = Muster::new(1);
        assert_eq!((muster.has(0), muster.started()), (true, true));
        assert_eq!(muster.hello(0, 0, 1), Answer::GoAgain);
    }

    #[test]
    fn x4_a_hello_of_another_rank_or_torus_does_not_join() {
        let mut muster = Muster::new(2);
        assert!(matches!(muster.hello(0, 1, 2), Answer::Refused(why) if why.contains("node 1")));
        assert!(matches!(muster.hello(0, 0, 8), Answer::Refused(why) if why.contains("8 nodes")));
        assert_eq!(muster.count(), 0);
    }
}
