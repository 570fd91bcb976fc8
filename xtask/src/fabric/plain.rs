//! A plain Ethernet switch in the place of the torus: it learns at which port an address is, sends frames there, and those for an
//! address that it has not seen to all other ports (IEEE 802.1D). It looks at no rank, says nothing itself, and tells nobody who
//! is gone.

/// An Ethernet address.
type Address = [u8; 6];

/// Where a frame goes to and whose card it is from.
fn addresses(frame: &[u8]) -> Option<(Address, Address)> {
    let (destination, rest) = frame.split_first_chunk()?;
    Some((*destination, *rest.first_chunk()?))
}

/// What a switch knows of its ports: which address was last seen at each.
pub struct Ports(Vec<Option<Address>>);

impl Ports {
    /// Nothing was seen at any of `ports` ports.
    pub fn new(ports: usize) -> Self {
        Self(vec![None; ports])
    }

    fn find(&self, address: Address) -> Option<u32> {
        self.0.iter().position(|seen| *seen == Some(address)).map(|port| port as u32)
    }

    /// The port that a frame goes to, if that is known.
    pub fn target(&self, frame: &[u8]) -> Option<u32> {
        self.find(addresses(frame)?.0)
    }

    /// Learns from a frame that came in at port `from`. Returns the ports that it goes out at.
    pub fn forward(&mut self, from: u32, frame: &[u8]) -> impl Iterator<Item = u32> + use<> {
        if let Some((_, station)) = addresses(frame) {
            let before = self.find(station);
            let forget = before.and_then(|port| self.0.get_mut(port as usize));
            forget.into_iter().for_each(|seen| *seen = None);
            self.0.get_mut(from as usize).into_iter().for_each(|seen| *seen = Some(station));
        }
        let all = 0..self.0.len() as u32;
        self.target(frame).map_or(all, |port| port..port + 1).filter(move |&port| port != from)
    }
}
