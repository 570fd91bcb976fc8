//! One node at the tree: its stream, and for each class route that it is on, what is between it and its router.

use super::super::stream::FrameStream;
use super::super::traffic::Traffic;
use super::model::RoutedPacket;
use super::shipping::Calls;
use super::statistics::TreeDropped;
use pami::combine::{CLASS_ROUTES, ClassRoute, CreditWindow, TreeEnvelope};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::time::Duration;

/// Hears every frame from and to nodes.
pub type Recorder<'a> = &'a mut dyn FnMut(&[u8]);

/// A class route between a node and its router.
pub struct Port {
    /// Its full name.
    pub route: ClassRoute,
    /// Who may send how much.
    pub window: CreditWindow,
    /// What came from the node and is due to go into the tree at a time.
    pub pending: VecDeque<(Duration, RoutedPacket)>,
}

impl Port {
    /// Nothing was sent yet.
    pub fn new(route: ClassRoute) -> Self {
        Self { route, window: CreditWindow::new(), pending: VecDeque::new() }
    }
}

/// A node.
pub struct NodeLink<S> {
    /// Its frames.
    pub stream: Option<FrameStream<S>>,
    /// Why it has left.
    pub left: Option<String>,
    /// The tree knows that it has left.
    pub death_told: bool,
    /// It said Hello.
    pub joined: bool,
    /// What it is to be told outside of all windows, in order.
    pub notices: VecDeque<TreeEnvelope>,
    /// Its calls to its I/O node.
    pub calls: Calls,
    /// By the class route's id.
    pub ports: [Option<Port>; CLASS_ROUTES],
    /// The class route that is served next.
    pub turn: usize,
    /// See [`TreeNodeStatistics`](super::statistics::TreeNodeStatistics), as the following.
    pub delivered: Traffic,
    /// Frames without data.
    pub control: u64,
    /// Packets held back.
    pub delayed: u64,
    /// Frames not carried.
    pub dropped: TreeDropped,
    /// Complaints about it.
    pub complaints: u8,
}

impl<S: Read + Write> NodeLink<S> {
    /// A node that has not connected, on the class routes of all nodes.
    pub fn new() -> Self {
        let mut ports = [const { None }; CLASS_ROUTES];
        for world in ClassRoute::worlds() {
            ports[usize::from(world.id)] = Some(Port::new(world));
        }
        Self {
            stream: None,
            left: None,
            death_told: false,
            joined: false,
            notices: VecDeque::new(),
            calls: Calls::default(),
            ports,
            turn: 0,
            delivered: Traffic::default(),
            control: 0,
            delayed: 0,
            dropped: TreeDropped::default(),
            complaints: 0,
        }
    }

    /// Whether it can be given a frame. Before it has connected, its packets wait; after it has left, they are lost.
    pub fn takes(&self) -> bool {
        self.stream.as_ref().map_or(self.left.is_some(), FrameStream::has_room)
    }
}
