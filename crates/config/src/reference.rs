//! Every key has a comment, which `--print-config` does not show.

use crate::{
    admin::RawAdmin,
    audit::RawAudit,
    auth::{RawAuth, RawRule},
    cache::RawCache,
    compiler::RawCompiler,
    listen::RawListen,
    log::RawLog,
    metrics::RawMetrics,
    node::RawNode,
    profile_push::RawProfilePush,
    quotas::{RawQuotas, RawTenantQuotas, RawTenants},
    runner::RawRunner,
    sandbox::RawSandbox,
    section::KeyText,
    shared_tier::RawShared,
    signing::{RawSigning, RawVerdict},
    tls::RawTls,
    trace::RawTrace,
    usage::RawUsage,
    web::RawWeb,
};

/// A section, as the reference has it.
struct SectionText {
    /// As files have it, such as `[listen]`.
    name: &'static str,
    about: &'static [&'static str],
    keys: &'static [KeyText],
}

/// All sections in the order of `--print-config`.
fn sections() -> Vec<SectionText> {
    macro_rules! all {
        ($($name:literal: $raw:ident),+ $(,)?) => {
            vec![$(SectionText {
                name: $name,
                about: $raw::ABOUT,
                keys: $raw::KEYS,
            }),+]
        };
    }
    all![
        "[listen]": RawListen,
        "[web]": RawWeb,
        "[tls]": RawTls,
        "[auth]": RawAuth,
        "[[auth.rules]]": RawRule,
        "[admin]": RawAdmin,
        "[quotas]": RawQuotas,
        "[[quotas.tenants]]": RawTenantQuotas,
        "[tenants]": RawTenants,
        "[usage]": RawUsage,
        "[audit]": RawAudit,
        "[metrics]": RawMetrics,
        "[log]": RawLog,
        "[trace]": RawTrace,
        "[profile_push]": RawProfilePush,
        "[sandbox]": RawSandbox,
        "[cache]": RawCache,
        "[shared]": RawShared,
        "[signing]": RawSigning,
        "[verdict]": RawVerdict,
        "[node]": RawNode,
        "[compiler]": RawCompiler,
        "[runner]": RawRunner,
    ]
}

/// The lines of a comment as one.
fn sentence(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_key_that_is_printed_is_explained() {
    let sections = sections();
    let printed = crate::ConfigFile::default().print().unwrap();
    let shown = printed.lines().filter(|line| !line.is_empty());
    let shown: Vec<_> = shown.map(|line| line.split(" = ").next().unwrap_or_default()).collect();
    let plain = sections.iter().filter(|section| !section.name.starts_with("[["));
    let told =
        plain.flat_map(|section| [section.name].into_iter().chain(section.keys.iter().map(|key| key.name)));
    assert_eq!(shown, told.collect::<Vec<_>>());
    for section in &sections {
        assert!(sentence(section.about).ends_with('.'), "{}", section.name);
        for key in section.keys {
            assert!(sentence(key.about).ends_with('.'), "{} {}", section.name, key.name);
        }
    }
}
