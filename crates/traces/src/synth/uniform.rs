//! What does a device see when every block is as likely as any other?

use super::settings::Setting;
use super::{Generator, zipf};

pub(super) const GENERATOR: Generator = Generator {
    name: "uniform",
    summary: "random requests of one size, all blocks alike",
    settings: &[
        zipf::SIZE,
        Setting { default: "0%", ..zipf::READ_SHARE },
        zipf::FOOTPRINT,
        zipf::RATE,
        zipf::REQUESTS,
        zipf::GAPS,
    ],
    build: |settings, rng| zipf::build(settings, 0, rng),
};
