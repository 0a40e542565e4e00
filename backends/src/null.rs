//! A drive that stores nothing and is done at once.

use raid::units::Sectors;
use std::sync::Arc;

/// A size and a name.
#[derive(Clone)]
pub(crate) struct NullDevice {
    name: Arc<str>,
    size: Sectors,
}

impl NullDevice {
    pub(crate) fn new(name: String, size: Sectors) -> Self {
        Self { name: name.into(), size }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn size(&self) -> Sectors {
        self.size
    }
}
