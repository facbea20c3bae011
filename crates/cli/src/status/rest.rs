//! Which hard drives rest, and why do the others not?

use super::path;
use tandem_live::status::Status;

/// Drives that are named, at most.
const AWAKE_SHOWN: usize = 6;

/// One line, or nothing where there is no hard drive.
pub(super) fn describe(status: &Status) -> String {
    let known = || {
        let all = status.rest.iter().enumerate();
        all.filter_map(|(device, one)| Some((device, one.as_ref()?)))
    };
    let Some(shortest_ns) = known().map(|(_, one)| one.idle_ns).min() else {
        return String::new();
    };
    let awake: Vec<String> = known()
        .filter_map(|(device, one)| Some((path(status, device), one.awake_for.as_ref()?)))
        .map(|(path, why)| format!("{path} ({why})"))
        .collect();
    if awake.is_empty() {
        let seconds = shortest_ns / 1_000_000_000;
        return format!("\nAll hard drives rest. Their last command ended {seconds} s ago.\n");
    }
    let all = known().count();
    let shown = AWAKE_SHOWN.min(awake.len());
    let more = match awake.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "\n{} of {all} hard drives rest. Not at rest: {}{more}.\n",
        all - awake.len(),
        awake[..shown].join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tandem_live::status::{Drive, Rest};

    #[test]
    fn drives_that_do_not_rest_are_named_with_what_they_do() {
        let said = |rest: &[Option<Option<&str>>]| {
            let mut status = Status::default();
            for (device, one) in rest.iter().enumerate() {
                status.pool.devices.push(Drive { path: format!("d{device}"), ..Drive::default() });
                let idle_ns = (device as u64 + 2) * 1_500_000_000;
                status
                    .rest
                    .push(one.map(|why| Rest { idle_ns, awake_for: why.map(str::to_owned) }));
            }
            describe(&status).trim().to_owned()
        };
        assert_eq!(said(&[None, None]), "");
        assert_eq!(
            said(&[None, Some(None), Some(None)]),
            "All hard drives rest. Their last command ended 4 s ago."
        );
        assert_eq!(
            said(&[None, Some(Some("flush")), Some(None), Some(Some("requests"))]),
            "1 of 3 hard drives rest. Not at rest: d1 (flush), d3 (requests)."
        );
        let many = said(&[Some(Some("drain")); 9]);
        assert!(many.starts_with("0 of 9") && many.ends_with("d5 (drain) and 3 more."), "{many}");
    }
}
