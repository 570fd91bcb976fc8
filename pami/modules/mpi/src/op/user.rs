//! Operators of applications on a datatype.

use super::UserFunction;
use crate::datatype::Datatype;
use pami::collective::{Order, Reducer};
use pami::operator::{Combine, UserOperator};
use spin::Mutex;

/// An application's operator on a datatype.
#[derive(Clone)]
pub(crate) struct User {
    pub(super) function: UserFunction,
    pub(super) commutes: bool,
    pub(super) datatype: Datatype,
}

/// What combines elements of a datatype.
#[derive(Clone)]
pub(crate) enum Combiner {
    Known(Reducer),
    User(User),
}

impl Combiner {
    pub(crate) fn element_len(&self) -> usize {
        match self {
            Self::Known(reducer) => reducer.element_len(),
            Self::User(user) => user.element_len(),
        }
    }
}

impl User {
    pub(super) fn combine(&self, into: &mut [u8], from: &[u8], order: Order) {
        (self.function)(into, from, order, &self.datatype);
    }

    pub(super) fn element_len(&self) -> usize {
        self.datatype.size()
    }
}

/// Where the layer below finds the operator of a collective under way.
pub(crate) struct UserPlace(Mutex<Option<User>>);

impl UserPlace {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The operator that is here from now on, as the layer below takes it.
    pub(crate) fn reducer(&'static self, user: &User) -> Option<Reducer> {
        *self.0.lock() = Some(user.clone());
        let (element_len, commutes) = (user.element_len(), user.commutes);
        Reducer::user(UserOperator { combine: self, element_len, commutes }).ok()
    }

    /// Nobody uses it any more.
    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }
}

impl Combine for UserPlace {
    fn combine(&self, into: &mut [u8], from: &[u8], order: Order) {
        // Slices of a divided reduction are combined by several threads at once.
        let user = self.0.lock().clone();
        if let Some(user) = user {
            user.combine(into, from, order);
        }
    }
}
