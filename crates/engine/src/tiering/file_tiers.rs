//! Which tier does a file have?
//!
//! Source: [LORIS §III], whose policies are a volume's; requirements L3: attributes of an object carry its
//! policy. An object may name one of the tiers that its volume lets its files have
//! ([`tandem_block::TIER_KEY`]); one that names none, or another, has its volume's. A front end lets what is
//! made in a directory have the directory's.

use crate::config::VolumeConfig;
use crate::config_error::ConfigError;
use crate::map::objects::Objects;
use crate::settings::Registry;
use crate::tier::space::SpaceConfig;
use crate::tier::{self, Class, Tier, TierConfig, TierNumber, Tiers};
use crate::tiering;
use crate::tiering::VolumePolicy;
use crate::tiering::policies::FileTiers;
use tandem_block::{ObjectId, ObjectOp, TIER_KEY};

/// What files may have where nothing is said of it, and their volume's tier has a share: the architectures
/// without settings of their own.
const USUAL: &[&str] = &[
    "none",
    "hot-dst",
    "cold-dst-plain",
    "cold-dst",
    "cache-read-only",
    "cache-write-through",
    "cache-write-through-all",
    "cache-write-back",
];

/// The tiers that the files of a volume may have.
///
/// # Errors
/// If one is unknown, or is named twice.
pub(crate) fn build(volume: &VolumeConfig) -> Result<FileTiers, ConfigError> {
    let mut all = FileTiers::new();
    let has_share = volume.tier.build().is_some_and(|tier| tier.has_share());
    if volume.file_tiers.is_empty() && has_share {
        let usual = USUAL.iter().map(|name| {
            let tier = TierConfig::named(name).build().expect("registered");
            (tier::number(name.as_bytes()).expect("registered"), tier)
        });
        return Ok(usual.collect());
    }
    for config in &volume.file_tiers {
        let number = tier::number(config.name().as_bytes());
        let (Some(number), Some(tier)) = (number, config.build()) else {
            return Err(unknown(volume, config));
        };
        if all.iter().any(|(known, _)| *known == number) {
            return Err(ConfigError::Tier {
                volume: volume.name.clone(),
                tier: config.name().to_owned(),
                why: "files may have it once, with these settings or with those".into(),
            });
        }
        all.push((number, tier));
    }
    Ok(all)
}

pub(crate) fn unknown(volume: &VolumeConfig, tier: &TierConfig) -> ConfigError {
    ConfigError::Unknown {
        volume: volume.name.clone(),
        what: Tiers::WHAT,
        name: tier.name().to_owned(),
        known: Tiers::names().join(", "),
    }
}

/// Joins a tier that files may have to the space of the volumes' own, or makes one.
///
/// # Errors
/// Words, if it says something else of what all have alike.
pub(crate) fn join(space: &mut Option<SpaceConfig>, tier: &TierConfig) -> Result<(), String> {
    let Some(space) = space else {
        *space = Some(tiering::own_config(tier)?);
        return Ok(());
    };
    // what it does not say itself it has from the others
    let mut alike = tier.clone();
    for name in tier::settings::OF_THE_SPACE {
        if tier.changed().all(|(setting, _)| setting.name != *name) {
            alike.set(name, space.tier.get(name)).map_err(|error| error.to_string())?;
        }
    }
    tiering::join(space, &tiering::own_config(&alike)?)
}

impl VolumePolicy {
    /// The tier of an object that names this one for itself.
    #[inline]
    pub(crate) fn tier_of(&self, named: Option<TierNumber>) -> &dyn Tier {
        let own = named.and_then(|named| self.file_tiers.iter().find(|(known, _)| *known == named));
        own.map_or(&*self.tier, |(_, tier)| &**tier)
    }
}

impl super::Tiers {
    /// What applies to an object's data while nobody asks for it: `None` if its tier has no share.
    pub(crate) fn class_of(&self, object: ObjectId, objects: &Objects) -> Option<Class> {
        let volume = objects.get(object)?.volume;
        let tier = self.policies.get(&volume)?.tier_of(objects.attributes().tier(object));
        tier.has_share().then(|| tier.class())
    }

    /// The tiers that files of a volume may have, by name; none if all have the volume's.
    pub(crate) fn file_tiers(&self, volume: ObjectId) -> Vec<&'static str> {
        let policy = self.policies.get(&volume);
        let all = policy.map_or(&[][..], |policy| &policy.file_tiers);
        all.iter().map(|(number, _)| number.name()).collect()
    }

    /// A batch was carried out: objects that have another tier by now have it for what they hold, too.
    /// Nothing is lost of that, and what the new one does not keep on the SSDs leaves as it always does.
    pub(crate) fn note_tiers_named(&mut self, ops: &[ObjectOp], objects: &Objects) {
        if self.share.is_none() {
            return;
        }
        for op in ops {
            let (ObjectOp::SetAttribute { object, key, .. }
            | ObjectOp::RemoveAttribute { object, key }) = op
            else {
                continue;
            };
            if **key == *TIER_KEY && objects.get(*object).is_some_and(|o| o.is_thin()) {
                let class = self.class_of(*object, objects);
                let tiers = self.share.as_mut().expect("asked above");
                for run in objects.runs().of(*object) {
                    let Some(first) = run.logical else { continue };
                    tiers.space.classify(first, first + run.count, class);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SteerConfig;

    fn volume(tier: TierConfig, file_tiers: &[TierConfig]) -> VolumeConfig {
        VolumeConfig {
            object: ObjectId(1),
            name: "files".into(),
            size_bytes: 1 << 20,
            steer: SteerConfig::default(),
            tier,
            file_tiers: file_tiers.to_vec(),
            durability: Default::default(),
        }
    }

    #[test]
    fn usual_ones_are_there_where_the_volume_has_a_share() {
        let named = |name| TierConfig::named(name);
        assert_eq!(build(&volume(named("none"), &[])).unwrap().len(), 0);
        assert_eq!(build(&volume(named("edt"), &[])).unwrap().len(), USUAL.len());
        let one = build(&volume(named("none"), &[named("hot-dst")])).unwrap();
        assert_eq!((one.len(), one[0].0.name()), (1, "hot-dst"));
        let twice = [named("hot-dst"), named("hot-dst").with("reads", 2)];
        let why = build(&volume(named("none"), &twice)).unwrap_err().to_string();
        assert!(why.contains("hot-dst: files may have it once"), "{why}");
        let why = build(&volume(named("none"), &[named("warm")])).unwrap_err().to_string();
        assert!(why.contains("no tier called warm; there are none, hot-dst"), "{why}");
    }

    /// What all have alike is what the volumes' own say; a file's tier may not say otherwise.
    #[test]
    fn a_files_tier_joins_the_volumes() {
        let own = TierConfig::named("hot-dst").with("extent", 16 << 10).with("reads", 2);
        let own = own.with("interval", 5_000_000_000);
        let first = || Some(tiering::own_config(&own).expect("sound"));
        let mut space = first();
        join(&mut space, &TierConfig::named("cache-read-only").with("reads", 3)).expect("alike");
        let joined = space.expect("there was one");
        assert_eq!((joined.reads, &joined.tier), (3, &own));
        let differs = TierConfig::named("cache-read-only").with("extent", 32 << 10);
        let why = join(&mut first(), &differs).unwrap_err();
        assert!(why.starts_with("extent is not what it is"), "{why}");
        let differs = TierConfig::named("cold-dst").with("interval", 6_000_000_000);
        assert!(join(&mut first(), &differs).unwrap_err().starts_with("interval"));
        let mut space = None;
        join(&mut space, &own).expect("the first");
        assert_eq!(space, first());
    }
}
