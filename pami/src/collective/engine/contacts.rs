//! The members of a geometry that were spoken with last: what is known of them need not be looked up for every message.

use super::early::PeerNumber;
use crate::device::Path;
use crate::endpoint::Endpoint;

/// Members that are kept of a geometry. Those whose ranks differ by a multiple of so many have one place, so of an exchange
/// among more than 16 some partners are looked up each time.
const KEPT: usize = 8;

/// What is known of a member.
#[derive(Clone, Copy)]
pub(super) struct Contact {
    rank: u32,
    endpoint: Endpoint,
    number: Option<PeerNumber>,
    /// How packets get there, and how many nodes were gone then.
    path: Option<(Path, u32)>,
}

impl Contact {
    pub(super) fn new(rank: u32, endpoint: Endpoint, number: Option<PeerNumber>) -> Self {
        Self { rank, endpoint, number, path: None }
    }

    #[inline(always)]
    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    #[inline(always)]
    pub(super) fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Where its credit is; `None` if nobody has any.
    #[inline(always)]
    pub(super) fn number(&self) -> Option<PeerNumber> {
        self.number
    }

    /// How packets get there, if that is known and no node has gone since.
    #[inline(always)]
    pub(super) fn known_path(&self, deaths: u32) -> Option<Path> {
        self.path.filter(|(_, then)| *then == deaths).map(|(path, _)| path)
    }

    /// How packets get there, which is looked up if a node has gone since; `None`: nothing is to go there.
    ///
    /// # Errors
    /// Those of `look_up`.
    #[inline(always)]
    pub(super) fn path<E>(
        &mut self,
        deaths: u32,
        look_up: impl FnOnce(Endpoint) -> Result<Option<Path>, E>,
    ) -> Result<Option<Path>, E> {
        if let Some(path) = self.known_path(deaths) {
            return Ok(Some(path));
        }
        let path = look_up(self.endpoint)?;
        self.path = path.map(|path| (path, deaths));
        Ok(path)
    }
}

/// Those of a geometry.
#[derive(Default)]
pub(super) struct Contacts([Option<Contact>; KEPT]);

impl Contacts {
    /// The member with this rank, which is looked up if another one has its place.
    #[inline(always)]
    pub(super) fn of(
        &mut self,
        rank: u32,
        look_up: impl FnOnce() -> Option<Contact>,
    ) -> Option<&mut Contact> {
        let place = &mut self.0[rank as usize % KEPT];
        if place.as_ref().is_none_or(|contact| contact.rank != rank) {
            *place = Some(look_up()?);
        }
        place.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{ClientId, ContextOffset};

    fn contact(rank: u32) -> Contact {
        Contact::new(rank, Endpoint::from_parts(ClientId(0), rank, ContextOffset(0)), None)
    }

    #[test]
    fn q4_a_member_is_looked_up_once_and_again_when_another_one_had_its_place() {
        let mut contacts = Contacts::default();
        let far = 3 + KEPT as u32;
        for (rank, looks) in [(3, 1), (3, 0), (4, 1), (far, 1), (far, 0), (3, 1), (4, 0)] {
            let mut looked = 0;
            let found = contacts.of(rank, || {
                looked += 1;
                Some(contact(rank))
            });
            assert_eq!((found.map(|it| it.endpoint.task()), looked), (Some(rank), looks), "{rank}");
        }
        assert!(
            contacts.of(far, || None).is_none() && contacts.of(3, || None).is_some(),
            "nobody takes a place"
        );
    }

    #[test]
    fn r2_a_path_is_looked_up_again_when_a_node_has_gone_and_an_end_is_never_kept() {
        let mut contact = contact(1);
        let path = Ok::<_, ()>(Some(Path::Torus(7)));
        assert_eq!(contact.path(0, |_| path), path);
        assert_eq!(contact.path(0, |_| Err(())), path);
        assert_eq!(contact.path(1, |_| Err(())), Err(()));
        assert_eq!(contact.path(1, |_| Ok::<_, ()>(None)), Ok(None));
        assert_eq!(contact.path(1, |_| path), path, "nothing was kept");
    }
}
