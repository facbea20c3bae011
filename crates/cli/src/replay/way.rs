//! What takes the requests of a trace: a pool with a policy and a tier, or one drive alone?

use crate::failure::Failure;
use crate::policy;
use tandem_engine::steer::POLICIES;
use tandem_engine::{Role, SteerConfig, TierConfig};
use tandem_traces::spell;

/// A row of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A pool with this policy and this tier.
    Pool(SteerConfig, TierConfig),
    /// The first drive of this role alone: no pool, no policy, no promise.
    Bare(Role),
}

/// Its words in `--policy`. `bare` alone is the hard drive, or the SSD where there is no hard drive.
const WORDS: [(&str, Role); 2] = [("bare-hdd", Role::Hdd), ("bare-ssd", Role::Ssd)];
const EITHER: &str = "bare";

impl Way {
    /// As it is written in results.
    pub fn label(&self) -> String {
        match self {
            Way::Pool(steer, tier) => policy::label_both(steer, tier),
            Way::Bare(role) => word(*role).to_owned(),
        }
    }
}

fn word(role: Role) -> &'static str {
    let found = WORDS.iter().find(|(_, of)| *of == role);
    found.expect("each role has a word").0
}

/// Takes the words for drives alone out of a list of policies. Returns their roles, and the rest if there is one.
///
/// # Errors
/// A drive that is not there, or settings of what has none.
pub fn take_bare(
    text: &str,
    (ssds, hdds): (usize, usize),
) -> Result<(Vec<Role>, Option<String>), Failure> {
    let (mut roles, mut rest) = (Vec::new(), Vec::new());
    let mut was_bare = false;
    for piece in text.split(',').map(str::trim) {
        let (name, settings) = piece.split_once(':').unwrap_or((piece, ""));
        let known = WORDS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        let either = if hdds > 0 { Role::Hdd } else { Role::Ssd };
        let is_either = name.eq_ignore_ascii_case(EITHER);
        let role = known.map(|(_, role)| *role).or(is_either.then_some(either));
        let goes_on = was_bare && piece.contains('=') && !piece.contains(':');
        if goes_on || role.is_some() && !settings.is_empty() {
            let text = format!("--policy {EITHER}: {piece:?}: a drive alone has no settings");
            return Err(Failure::usage(text));
        }
        was_bare = role.is_some();
        match role {
            Some(role) if !roles.contains(&role) => roles.push(role),
            Some(_) => {}
            None => {
                refuse_slip(name)?;
                rest.push(piece);
            }
        }
    }
    for (role, count, option) in [(Role::Ssd, ssds, "--ssd"), (Role::Hdd, hdds, "--hdd")] {
        if count == 0 && roles.contains(&role) {
            let text = format!("--policy {}: there is none; name an {option}", word(role));
            return Err(Failure::usage(text));
        }
    }
    Ok((roles, (!rest.is_empty()).then(|| rest.join(","))))
}

/// A slip in a word for a drive alone would be taken for one in the name of a policy.
fn refuse_slip(name: &str) -> Result<(), Failure> {
    let words = || WORDS.iter().map(|(word, _)| *word).chain([EITHER]);
    let policies = POLICIES.iter().map(|policy| policy.name).chain(["all"]);
    let nearest = spell::nearest(name, policies.chain(words()));
    if name.contains('=') || !words().any(|word| word == nearest) {
        return Ok(()); // another setting of the policy before it, or a policy, well written or not
    }
    Err(Failure::usage(format!("--policy: nothing is called {name:?}; did you mean {nearest:?}?")))
}

/// Refuses promises where no row is a pool.
///
/// # Errors
/// Something is promised, or an order asked for, and drives alone would not hear of it.
pub fn refuse_promises(choices: &[Way], is_usual: bool) -> Result<(), Failure> {
    let is_pool = |way: &Way| matches!(way, Way::Pool(..));
    if is_usual || choices.iter().any(is_pool) {
        return Ok(());
    }
    let text = "--qos and --stream hold in a pool, and a drive alone is none; name a policy beside it, \
                as in --policy bare,ssd-first, or leave them out";
    Err(Failure::usage(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_alone_are_taken_out_of_the_list() {
        let taken = |text, drives| {
            let Ok(taken) = take_bare(text, drives) else { panic!("{text}") };
            taken
        };
        let rest = |text: &str| Some(text.to_owned());
        assert_eq!(taken("bare", (1, 1)), (vec![Role::Hdd], None));
        assert_eq!(taken("bare", (1, 0)), (vec![Role::Ssd], None));
        assert_eq!(taken("ect, BARE-ssd,bare", (1, 1)), (vec![Role::Ssd, Role::Hdd], rest("ect")));
        assert_eq!(taken("bare,bare-hdd", (1, 1)), (vec![Role::Hdd], None));
        let settings = "mios-d:queue_length=2,mios-e,queue_length=3";
        assert_eq!(taken(settings, (1, 1)), (vec![], rest(settings)));
        assert_eq!(taken("all", (1, 1)), (vec![], rest("all")));
    }

    #[test]
    fn what_cannot_run_alone_says_why() {
        for (text, drives, want) in [
            ("bare-hdd", (1, 0), "there is none; name an --hdd"),
            ("ect,bare-ssd", (0, 1), "there is none; name an --ssd"),
            ("barre", (1, 1), "nothing is called \"barre\"; did you mean \"bare\""),
            ("ect,bare-sd", (1, 1), "did you mean \"bare-ssd\""),
            ("bare:depth=2", (1, 1), "has no settings"),
            ("bare,queue_length=2", (1, 1), "has no settings"),
        ] {
            let Err(Failure::Usage(error)) = take_bare(text, drives) else { panic!("{text}") };
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
