//! Tests of configuration errors: all errors are reported together, each with its key.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, io::Write as _};

use antares_config::{Config, ConfigError, ConfigFile, Role};

const LAYERS: [&str; 2] = ["seccomp", "landlock"];

fn read(text: &str) -> Result<ConfigFile, ConfigError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    ConfigFile::read(Some(file.path()), None, None)
}

#[track_caller]
fn keys(error: ConfigError) -> Vec<String> {
    match error {
        ConfigError::Problems(mistakes) => mistakes.into_iter().map(|mistake| mistake.key).collect(),
        other => panic!("expected mistakes, got {other}"),
    }
}

#[track_caller]
fn checked(text: &str, role: Role) -> Result<Config, Vec<String>> {
    text.parse::<ConfigFile>().unwrap().check(role, &LAYERS).map_err(keys)
}

#[track_caller]
fn mistakes_of(text: &str, role: Role) -> Vec<String> {
    checked(text, role).err().unwrap_or_default()
}

#[track_caller]
fn mistakes(text: &str) -> Vec<String> {
    mistakes_of(text, Role::Both)
}

#[test]
fn every_mistake_is_named() {
    let text = r#"
        [listen]
        address = "localhost"
        calls_max = 0
        [metrics]
        address = ""
        [log]
        format = "xml"
        [trace]
        endpoint = "collector:4317"
        sample_ratio = 1.5
        [sandbox]
        allow_degraded = ["landlock", "moat"]
        [compiler]
        wall_ms_max = 0
        script_bytes_max = 100663296
        [runner]
        compiler_url = "http://elsewhere:1"
    "#;
    let error = read(text).unwrap().check(Role::Both, &LAYERS).unwrap_err();
    let expected = "listen.address listen.calls_max log.format trace.sample_ratio trace.endpoint sandbox.allow_degraded \
                    compiler.wall_ms_max compiler.script_bytes_max runner.compiler_url";
    assert_eq!(keys(error).join(" "), expected);
}

#[test]
fn every_unknown_key_is_named() {
    let error = read("typo = 1\n[listen]\nadress = \"x\"\n[runner]\nworkers = 2\n").unwrap_err();
    assert_eq!(keys(error), ["listen.adress", "runner.workers", "typo"]);
}

#[test]
fn a_wrong_type_is_reported_with_its_line() {
    let error = read("[listen]\ncalls_max = \"many\"\n").unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
}

#[test]
fn a_key_that_left_is_refused_with_what_holds_instead() {
    let error = read("[listen]\nkeepalive_timeout_ms = 1\n[runner]\nscript_bytes_max = 1\n").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("listen.keepalive_timeout_ms: left in 0.1.0: fixed"), "{text}");
    let instead = "runner.script_bytes_max: left in 0.1.0: compiler.script_bytes_max holds";
    assert!(text.contains(instead), "{text}");
    for (line, instead) in [
        ("[sandbox]\nlimit_speculation = true", "sandbox.speculation_limits"),
        ("[tenants]\nsalted = 1", "tenants.isolation"),
        ("[trace]\nca = \"c\"", "OTEL_EXPORTER_OTLP_CERTIFICATE"),
        ("[runner]\nreuse = \"always\"", "runner.idle_workers_max"),
    ] {
        assert!(read(line).unwrap_err().to_string().contains(instead), "{line}");
    }
    assert_eq!(checked("", Role::Both).unwrap().sandbox.speculation_limits, []);
}

#[test]
fn renamed_keys_are_accepted() {
    for (former, new) in [
        ("[auth]\naudience = \"a\"", "[auth]\naudiences = [\"a\"]"),
        ("[auth]\njwks_uri = \"u\"", "[auth]\njwks = \"u\""),
        ("[tenants]\nsalted = true\nshared = false", "[tenants]\nisolation = \"code\""),
        ("[tenants]\nshared = true", "[tenants]\nisolation = \"none\""),
        ("[runner]\nreuse = \"per_execution\"", "[runner]\nidle_workers_max = 0"),
        ("[runner]\nreuse = \"per_artifact\"", ""),
        // As `--print-config` wrote them.
        ("[auth]\naudience = \"\"\njwks = \"\"\njwks_uri = \"u\"\naudiences = []", "[auth]\njwks = \"u\""),
    ] {
        assert_eq!(former.parse::<ConfigFile>().unwrap(), new.parse().unwrap(), "{former}");
    }
}

#[test]
fn a_renamed_key_next_to_its_successor_is_refused() {
    for (text, key) in [
        ("[auth]\naudience = \"a\"\naudiences = [\"b\"]", "auth.audience"),
        ("[auth]\njwks = \"keys.json\"\njwks_uri = \"https://a/keys\"", "auth.jwks_uri"),
        ("[tenants]\nsalted = true\nshared = true", "tenants.shared"),
        ("[tenants]\nisolation = \"none\"\nsalted = true", "tenants.salted"),
        ("[runner]\nidle_workers_max = 8\nreuse = \"per_execution\"", "runner.reuse"),
    ] {
        assert_eq!(keys(read(text).unwrap_err()), [key], "{text}");
    }
}

#[test]
fn what_contradicts_is_named() {
    let long = format!("[admin]\nsocket = \"/{}\"", "x".repeat(107));
    let twice = format!("{TLS}[[quotas.tenants]]\ntenant = \"a\"\n[[quotas.tenants]]\ntenant = \"a\"\n");
    let no_name = format!("{TLS}[[quotas.tenants]]\ntenant = \"a b\"\n");
    for (text, expected) in [
        ("[listen]\nrequest_bytes_max = 33554432\n", "listen.request_bytes_max"),
        ("[compiler]\nscript_bytes_max = 67108864\n", ""),
        ("[tls]\ncertificate = \"c\"", "tls.certificate"),
        ("[tls]\nkey = \"k\"", "tls.key"),
        ("[tls]\nclient_ca = \"a\"\n[[auth.rules]]\ncertificate = \"*\"", "tls.client_ca"),
        ("[web]\naddress = \"127.0.0.1:50051\"", "web.address"),
        ("[web]\naddress = \"127.0.0.1:9464\"", "web.address"),
        ("[web]\naddress = \"0.0.0.0:8080\"", "web.address"),
        ("[listen]\nallow_open = true\n[web]\naddress = \"0.0.0.0:8080\"", ""),
        ("[admin]\nsocket = \"/run/antares/admin.sock\"\nloopback = true", ""),
        (&long, "admin.socket"),
        (&twice, "quotas.tenants[1]"),
        ("[[quotas.tenants]]\ntenant = \"a\"\n", "quotas.tenants[0]"),
        (&no_name, "quotas.tenants[0]"),
        ("[quotas]\ncalls_max = 9000000000000000000\n", "quotas.calls_max"),
    ] {
        assert_eq!(mistakes(text).join(" "), expected, "{text}");
    }
    let asked = "[admin]\nloopback = true\n[tls]\nclient_ca = \"ca.pem\"";
    assert!(mistakes(asked).contains(&"admin.loopback".to_owned()));
    for (runner, expected) in [
        ("", "runner.compiler_url"),
        ("[runner]\ncompiler_url = \"https://c:1\"\ncompiler_certificate = \"c\"", "runner.compiler_key"),
        ("[runner]\ncompiler_url = \"http://c:1\"\ncompiler_ca = \"c\"", "runner.compiler_ca"),
    ] {
        assert_eq!(mistakes_of(runner, Role::Runner), [expected], "{runner}");
    }
}

#[test]
fn scripts_fit_into_the_store() {
    let file: ConfigFile = "[cache]\nbudget_bytes = 4194304\n".parse().unwrap();
    let text = file.check(Role::Both, &[]).unwrap_err().to_string();
    let both = ["compiler.script_bytes_max", "cache.budget_bytes (4194304)"];
    assert!(both.iter().all(|key| text.contains(key)), "{text}");
}

#[test]
fn an_open_listener_beyond_loopback_must_be_wanted() {
    for (address, tls, expected) in [
        ("127.0.0.1:1", "", true),
        ("[::1]:1", "", true),
        ("[::ffff:127.0.0.2]:1", "", true),
        ("0.0.0.0:1", "", false),
        ("[::]:1", "", false),
        ("192.0.2.1:1", "certificate = \"c\"\nkey = \"k\"", false),
        (
            "192.0.2.1:1",
            "certificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n[[auth.rules]]\ncertificate = \"*\"",
            true,
        ),
    ] {
        let listen = format!("[listen]\naddress = \"{address}\"\n");
        let closed = format!("{listen}[tls]\n{tls}\n");
        let expected = if expected { Vec::new() } else { vec!["listen.address"] };
        assert_eq!(mistakes(&closed), expected, "{closed}");
        let open = format!("{listen}allow_open = true\n[tls]\n{tls}\n");
        assert!(mistakes(&open).is_empty(), "{open}");
    }
}

#[test]
fn browsers_are_served_only_where_that_is_asked_for() {
    let web = |text: &str| checked(text, Role::Both).unwrap().listen.web;
    assert_eq!(web(""), None);
    let both = "[web]\naddress = \"127.0.0.1:0\"\norigins = [\"https://a.example\", \"http://[::1]:3000\"]";
    assert_eq!(web(both).unwrap().origins, ["https://a.example", "http://[::1]:3000"]);
    assert_eq!(mistakes("[web]\naddress = \"127.0.0.1:0\"\norigins = [\"*\"]"), ["web.origins"]);
    assert_eq!(mistakes("[web]\norigins = [\"https://a.example\"]"), ["web.origins"]);
}

#[test]
fn the_url_of_a_shared_tier_says_which_store_it_is() {
    let shared =
        |keys: &str| checked(&format!("[shared]\n{keys}"), Role::Compiler).map(|config| config.shared);
    assert_eq!(shared("").unwrap(), None);
    for url in ["s3://bucket/prefix", "gs://bucket", "az://container/p"] {
        assert_eq!(shared(&format!("url = \"{url}\"")).unwrap().unwrap().url, url);
    }
    for url in ["bucket", "s3://", "file:///folder", "http://host/bucket"] {
        assert_eq!(shared(&format!("url = \"{url}\"")).unwrap_err(), ["shared.url"], "{url}");
    }
    assert_eq!(shared("get_ms_max = 0").unwrap_err(), ["shared.get_ms_max"]);
}

#[test]
fn rules_fit_somebody_and_give_names_that_tenants_can_have() {
    for (text, expected) in [
        ("[auth]\njwks = \"j\"", &["auth.issuer", "auth.audiences", "auth.rules"][..]),
        ("[auth]\nissuer = \"i\"", &["auth.issuer"]),
        ("[[auth.rules]]\ncertificate = \"a\"", &["auth.rules[0]"]),
        ("[[auth.rules]]", &["auth.rules[0]"]),
        ("[[auth.rules]]\ntoken = \"a\"\ncertificate = \"b\"", &["auth.rules[0]"]),
        ("[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"", &["auth.rules"]),
    ] {
        assert_eq!(mistakes(text), expected, "{text}");
    }
    let tls = "[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n[[auth.rules]]\n";
    for rule in [
        "certificate = \"a**\"",
        "certificate = \"a\"\ntenant = \"*\"",
        "certificate = \"a\"\ntenant = \"a b\"",
        "certificate = \"a\"\nroles = [\"root\"]",
        "certificate = \"a\"\nroles_claim = \"roles\"",
    ] {
        assert_eq!(mistakes(&format!("{tls}{rule}")), ["auth.rules[0]"], "{rule}");
    }
}

#[test]
fn keys_come_from_one_place_that_nobody_can_change_on_the_way() {
    let with = |keys: &str| {
        mistakes(&format!(
            "[auth]\nissuer = \"i\"\naudiences = [\"a\"]\n{keys}\n[[auth.rules]]\ntoken = \"*\""
        ))
    };
    for (keys, expected) in [
        ("jwks = \"https://issuer.test/keys\"", &[][..]),
        ("jwks = \"http://127.0.0.1:1/keys\"", &[]),
        ("jwks = \"http://[::1]:1/keys\"", &[]),
        ("jwks = \"http://issuer.test/keys\"", &["auth.jwks"]),
        ("jwks = \"file:///keys\"", &["auth.jwks"]),
        ("jwks = \"f\"\njwks_ca = \"c\"", &["auth.jwks_ca"]),
    ] {
        assert_eq!(with(keys), expected, "{keys}");
    }
}

#[test]
fn rules_and_quotas_are_read_again_and_nothing_else() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |calls: u32, more: &str| {
        fs::write(file.path(), format!("{TLS}roles = [\"execute\"]\n[quotas]\ncalls_max = {calls}\n{more}"))
            .unwrap();
    };
    write(1, "");
    let address = "127.0.0.1:7".parse().ok();
    let read = ConfigFile::read(Some(file.path()), address, None).unwrap();
    let source = read.check(Role::Both, &LAYERS).unwrap().callers.unwrap();
    write(2, "");
    let (auth, tenancy, is_all) = source.read().unwrap();
    assert_eq!((tenancy.quota("any").calls_max, auth.rules.len(), is_all), (Some(2), 1, true));
    write(3, "[log]\nfilter = \"debug\"\n");
    assert!(matches!(source.read(), Ok((_, _, false))));
    write(3, "[[auth.rules]]\ntoken = \"a\"\n");
    assert_eq!(keys(source.read().unwrap_err()), ["auth.rules[1]"]);
}

const TLS: &str =
    "[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n[[auth.rules]]\ncertificate = \"*\"\n";

#[test]
fn a_tenant_has_its_own_quotas_and_else_those_of_all() {
    let quotas = "[quotas]\ncalls_max = 4\nstored_bytes_max = 9\n";
    let own = "[[quotas.tenants]]\ntenant = \"big\"\ncalls_max = 0\n";
    let tenancy = checked(&format!("{TLS}{quotas}{own}"), Role::Both).unwrap().tenancy;
    assert_eq!(tenancy.quota("any").calls_max, Some(4));
    let big = tenancy.quota("big");
    assert_eq!((big.calls_max, big.stored_bytes_max, big.guest_cycles_per_second), (None, Some(9), None));
    assert!(tenancy.is_apart && tenancy.is_proven && !tenancy.is_salted);
    // Without authentication tenants' names are unproven, so tenants are not isolated.
    assert!(!checked("", Role::Both).unwrap().tenancy.is_apart);
}
