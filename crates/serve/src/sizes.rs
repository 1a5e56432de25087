//! Sizes in the configuration that bound each other across sections.

use crate::{check::Checker, raw_config::RawConfig, role::Role};

/// Each size must fit into all that it ends up in: whoever lowers the first is told of all the others at
/// once.
pub(crate) fn check_sizes(config: &RawConfig, role: Role, checker: &mut Checker) {
    let sizes = [
        ("cache.budget_bytes", config.cache.budget_bytes),
        ("cache.entry_bytes_max", config.cache.entry_bytes_max),
        ("compiler.script_bytes_max", config.compiler.script_bytes_max),
        ("runner.script_bytes_max", config.runner.script_bytes_max),
    ];
    let used = match role {
        Role::Runner => 2,
        Role::Compiler => 3,
        Role::Both => 4,
    };
    for (place, (key, bytes)) in sizes[..used].iter().enumerate() {
        let least = sizes[..place].iter().min_by_key(|(_, bound)| bound);
        if let Some((bound_key, bound)) = least.filter(|(_, bound)| bytes > bound) {
            checker.note(key, format!("is {bytes}, more than {bound_key} ({bound})"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_error::ConfigError;

    #[test]
    fn whoever_lowers_the_budget_is_told_of_all_that_is_too_large_then() {
        let mut raw = RawConfig::default();
        raw.cache.budget_bytes = 4 << 20;
        let Err(ConfigError::Mistakes(mistakes)) = raw.check(Role::Both, &[]) else { panic!("a mistake") };
        let told: Vec<_> =
            mistakes.iter().map(|mistake| (mistake.key.as_str(), mistake.problem.as_str())).collect();
        let keys: Vec<_> = told.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["cache.entry_bytes_max", "compiler.script_bytes_max", "runner.script_bytes_max"]);
        assert!(told.iter().all(|(_, problem)| problem.contains("cache.budget_bytes (4194304)")), "{told:?}");
    }
}
