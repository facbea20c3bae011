//! Who uses what must not go away meanwhile?

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tandem_block::ObjectId;

/// Objects in use, and by how many: shared by front ends of one event loop.
#[derive(Clone, Debug, Default)]
pub struct Users(Rc<RefCell<BTreeMap<ObjectId, usize>>>);

impl Users {
    /// One more uses it, until what is returned is dropped.
    #[must_use]
    pub fn enter(&self, object: ObjectId) -> User {
        *self.0.borrow_mut().entry(object).or_default() += 1;
        User { users: self.clone(), object }
    }

    /// How many use it?
    pub fn of(&self, object: ObjectId) -> usize {
        self.0.borrow().get(&object).copied().unwrap_or(0)
    }
}

/// Somebody who uses an object.
#[derive(Debug)]
pub struct User {
    users: Users,
    object: ObjectId,
}

impl Drop for User {
    fn drop(&mut self) {
        let mut users = self.users.0.borrow_mut();
        if let Some(count) = users.get_mut(&self.object) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_is_not_counted() {
        let users = Users::default();
        let one = users.enter(ObjectId(1));
        let two = users.clone().enter(ObjectId(1));
        assert_eq!((users.of(ObjectId(1)), users.of(ObjectId(2))), (2, 0));
        drop(one);
        assert_eq!(users.of(ObjectId(1)), 1);
        drop(two);
        assert_eq!(users.of(ObjectId(1)), 0);
    }
}
