//! What a configuration means: read it, check it whole, and report every mistake at once with its key.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use antares_tls::ClientFiles;

use crate::{
    admin_section::{AdminAccess, check_admin},
    audit_section::{Audit, check_audit},
    auth_section::{Auth, check_auth},
    check::{Checker, find_unknown},
    config_error::ConfigError,
    listen_section::{Listen, check_listen},
    node_section::{NodeSection, check_node},
    quota_section::{Tenancy, check_tenancy},
    raw_config::{RawCompiler, RawConfig, RawRunner, RawSandbox},
    role::Role,
    sections::{ProfilePush, check_compiler, check_profile_push, check_runner, check_sandbox},
    shared_section::{SharedTier, check_shared},
    signing_section::{Signing, check_signing, check_verdict},
    sizes::check_sizes,
    tls::Tls,
    tls_section::{check_compiler_tls, check_open, check_tls},
    usage_section::{UsageSection, check_usage},
};

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which services run.
    pub role: Role,
    /// The gRPC listener.
    pub listen: Listen,
    /// How the gRPC listener encrypts, if it does.
    pub tls: Option<Tls>,
    /// Who may call.
    pub auth: Auth,
    /// Who administers, beside whom it lets.
    pub admin: AdminAccess,
    /// What tenants may use up, and what they see of each other.
    pub tenancy: Tenancy,
    /// Where it is kept what tenants used.
    pub usage: UsageSection,
    /// Where the audit log goes.
    pub audit: Audit,
    /// What the runner uses towards a compiler with TLS.
    pub compiler_tls: ClientFiles,
    /// Address of `/metrics` and `/healthz`, if they are on.
    pub metrics: Option<SocketAddr>,
    /// Logs.
    pub log: Log,
    /// Traces, if they are on.
    pub trace: Option<Trace>,
    /// Where profiles are sent, if anywhere.
    pub profile_push: Option<ProfilePush>,
    /// The fence around workers.
    pub sandbox: RawSandbox,
    /// The store.
    pub cache: StoreConfig,
    /// The object store that several servers share, if there is one.
    pub shared: Option<SharedTier>,
    /// Who signs native code, and whose is taken.
    pub signing: Signing,
    /// Folder of the keys that sign verdicts of transactions, if any do.
    pub verdict_keys: Option<PathBuf>,
    /// The node that cells of bare transactions come from, if there is one.
    pub node: Option<NodeSection>,
    /// The compiler service; see [`RawCompiler`] for the fields' units.
    pub compiler: RawCompiler,
    /// The runner service; see [`RawRunner`] for the fields' units.
    pub runner: RawRunner,
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// JSON, one object a line; otherwise text.
    pub json: bool,
    /// Filter directives.
    pub filter: String,
    /// Lines of one kind that are written.
    pub lines_per_second: u64,
}

/// Traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// OTLP over gRPC.
    pub endpoint: String,
    /// Share of calls, 0.0 to 1.0.
    pub sample_ratio: f64,
    /// Spans that wait.
    pub queue_max: usize,
    /// Time for one export.
    pub timeout: Duration,
}

/// The store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Directory.
    pub dir: PathBuf,
    /// What is stored at most, bytes.
    pub budget_bytes: u64,
    /// Largest entry, bytes.
    pub entry_bytes_max: u64,
    /// Free bytes of the file system under which nothing more is stored.
    pub free_bytes_min: u64,
    /// Accept file systems that cannot be relied on.
    pub allow_any_filesystem: bool,
}

impl RawConfig {
    /// Reads the TOML file `path`, or takes the defaults, and puts the command line's `listen` and `data`
    /// over it.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has keys that do not exist (all of them are named).
    pub fn read(
        path: Option<&Path>,
        listen: Option<SocketAddr>,
        data: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let mut raw = match path {
            Some(path) => Self::read_file(path)?,
            None => Self::default(),
        };
        if let Some(address) = listen {
            raw.listen.address = address.to_string();
        }
        if let Some(dir) = data {
            raw.cache.dir = dir.to_owned();
        }
        Ok(raw)
    }

    fn read_file(path: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let syntax = |source| ConfigError::Syntax { path: path.to_owned(), source: Box::new(source) };
        let table: toml::Table = toml::from_str(&text).map_err(syntax)?;
        let known = toml::Table::try_from(Self::default())?;
        let mut unknown = Vec::new();
        find_unknown(&table, &known, "", &mut unknown);
        if !unknown.is_empty() {
            return Err(ConfigError::Mistakes(unknown));
        }
        toml::from_str(&text).map_err(syntax)
    }

    /// As TOML, every key with its value: what `--print-config` shows.
    ///
    /// # Errors
    /// A path is not text.
    pub fn print(&self) -> Result<String, ConfigError> {
        Ok(toml::to_string(self)?)
    }

    /// What this configuration means for `role`. `layers` are the names that `sandbox.allow_degraded` may
    /// have.
    ///
    /// # Errors
    /// Every mistake, with its key.
    pub fn check(&self, role: Role, layers: &[&str]) -> Result<Config, ConfigError> {
        let mut checker = Checker::default();
        let mut config = Config {
            role,
            listen: check_listen(self, self.call_time_max(role), &mut checker),
            tls: check_tls(&self.tls, &mut checker),
            auth: check_auth(self, &mut checker),
            admin: AdminAccess::default(),
            tenancy: Tenancy::default(),
            usage: check_usage(self, &mut checker),
            audit: check_audit(self, &mut checker),
            compiler_tls: check_compiler_tls(self, &mut checker),
            metrics: self.check_metrics(&mut checker),
            log: self.check_log(&mut checker),
            trace: self.check_trace(&mut checker),
            profile_push: check_profile_push(self, &mut checker),
            sandbox: self.sandbox.clone(),
            cache: self.check_cache(&mut checker),
            shared: check_shared(self, &mut checker),
            signing: check_signing(self, &mut checker),
            verdict_keys: None,
            node: check_node(self, &mut checker),
            compiler: self.compiler.clone(),
            runner: self.runner.clone(),
        };
        check_sandbox(&self.sandbox, layers, &mut checker);
        config.admin = check_admin(self, config.auth.is_on(), &mut checker);
        config.verdict_keys = check_verdict(self, &config.signing, &mut checker);
        config.tenancy = check_tenancy(self, config.auth.is_on(), &mut checker);
        let web = config.listen.web.iter().map(|web| ("web.address", web.address));
        for (key, address) in [("listen.address", config.listen.address)].into_iter().chain(web) {
            check_open(self, key, address, config.auth.is_on(), &mut checker);
        }
        check_compiler(&self.compiler, &mut checker);
        check_runner(&self.runner, &mut checker);
        self.check_together(role, &mut checker);
        checker.finish(config)
    }

    fn check_metrics(&self, checker: &mut Checker) -> Option<SocketAddr> {
        if self.metrics.address.is_empty() {
            return None;
        }
        let address = checker.address("metrics.address", &self.metrics.address);
        if address.port() != 0 && self.metrics.address == self.listen.address {
            checker.note("metrics.address", "is the same as listen.address".to_owned());
        }
        Some(address)
    }

    fn check_log(&self, checker: &mut Checker) -> Log {
        let json = self.log.format == "json";
        if !json && self.log.format != "text" {
            checker.note("log.format", format!("must be \"text\" or \"json\", is {:?}", self.log.format));
        }
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&self.log.filter) {
            checker.note("log.filter", format!("{:?}: {error}", self.log.filter));
        }
        checker.positive("log.lines_per_second", self.log.lines_per_second);
        Log { json, filter: self.log.filter.clone(), lines_per_second: self.log.lines_per_second }
    }

    fn check_trace(&self, checker: &mut Checker) -> Option<Trace> {
        let raw = &self.trace;
        if !(0.0..=1.0).contains(&raw.sample_ratio) {
            checker.note("trace.sample_ratio", format!("must be 0.0 to 1.0, is {}", raw.sample_ratio));
        }
        let trace = Trace {
            endpoint: raw.endpoint.clone(),
            sample_ratio: raw.sample_ratio,
            queue_max: checker.count("trace.queue_max", raw.queue_max),
            timeout: checker.time("trace.timeout_ms", raw.timeout_ms),
        };
        if raw.endpoint.is_empty() {
            return None;
        }
        checker.url("trace.endpoint", &raw.endpoint);
        Some(trace)
    }

    fn check_cache(&self, checker: &mut Checker) -> StoreConfig {
        let raw = &self.cache;
        if raw.dir.as_os_str().is_empty() {
            checker.note("cache.dir", "is empty".to_owned());
        }
        checker.at_least("cache.budget_bytes", raw.budget_bytes, 1 << 20);
        checker.positive("cache.entry_bytes_max", raw.entry_bytes_max);
        StoreConfig {
            dir: raw.dir.clone(),
            budget_bytes: raw.budget_bytes,
            entry_bytes_max: raw.entry_bytes_max,
            free_bytes_min: raw.free_bytes_min,
            allow_any_filesystem: raw.allow_any_filesystem,
        }
    }

    fn call_time_max(&self, role: Role) -> Duration {
        let compiler = &self.compiler;
        let compile_ms =
            compiler.idle_ms_max.saturating_add(compiler.queue_ms_max).saturating_add(compiler.wall_ms_max);
        Duration::from_millis(match role {
            Role::Compiler => compile_ms,
            Role::Runner => self.runner.call_ms_max,
            Role::Both => compile_ms.max(self.runner.call_ms_max),
        })
    }

    /// Contradictions between sections.
    fn check_together(&self, role: Role, checker: &mut Checker) {
        /// What a message needs beside its bulk: field tags, digests, options.
        const FRAME_BYTES: u64 = 64 << 10;
        let message = self.listen.message_bytes_max;
        let execute = self.runner.script_bytes_max.saturating_add(self.runner.args_bytes_max);
        if role != Role::Compiler && execute.saturating_add(FRAME_BYTES) > message {
            let problem = format!(
                "must be at least runner.script_bytes_max + runner.args_bytes_max + {FRAME_BYTES}, or such calls cannot be made"
            );
            checker.note("listen.message_bytes_max", problem);
        }
        if role != Role::Runner && self.compiler.chunk_bytes_max.saturating_add(FRAME_BYTES) > message {
            let problem = format!("must be at most listen.message_bytes_max - {FRAME_BYTES}");
            checker.note("compiler.chunk_bytes_max", problem);
        }
        check_sizes(self, role, checker);
        match role {
            Role::Runner if self.runner.compiler_url.is_empty() => {
                checker.note("runner.compiler_url", "is needed where the compiler runs elsewhere".to_owned());
            }
            Role::Runner => checker.service_urls("runner.compiler_url", &self.runner.compiler_url),
            Role::Both if !self.runner.compiler_url.is_empty() => {
                checker.note(
                    "runner.compiler_url",
                    "makes no sense with both services in one process".to_owned(),
                );
            }
            Role::Both | Role::Compiler => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LAYERS: [&str; 2] = ["seccomp", "landlock"];

    #[track_caller]
    fn keys(error: ConfigError) -> Vec<String> {
        match error {
            ConfigError::Mistakes(mistakes) => mistakes.into_iter().map(|mistake| mistake.key).collect(),
            other => panic!("expected mistakes, got {other}"),
        }
    }

    fn read(text: &str) -> Result<RawConfig, ConfigError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        RawConfig::read(Some(file.path()), None, None)
    }

    #[test]
    fn defaults_are_right_for_one_process_and_for_the_compiler() {
        for role in [Role::Both, Role::Compiler] {
            RawConfig::default().check(role, &LAYERS).unwrap();
        }
    }

    #[test]
    fn a_runner_alone_needs_a_compiler() {
        let error = RawConfig::default().check(Role::Runner, &LAYERS).unwrap_err();
        assert_eq!(keys(error), ["runner.compiler_url"]);
    }

    #[test]
    fn what_is_printed_reads_back() {
        let printed = RawConfig::default().print().unwrap();
        assert_eq!(read(&printed).unwrap(), RawConfig::default());
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
            [profile_push]
            pyroscope_url = "pyroscope"
            interval_ms = 0
            [sandbox]
            allow_degraded = ["landlock", "moat"]
            zygote_workers_max = 0
            [compiler]
            wall_ms_max = 0
            chunk_bytes_max = 1073741824
            [runner]
            max_cycles_default = 2000000000000
            compiler_url = "http://elsewhere:1"
        "#;
        let error = read(text).unwrap().check(Role::Both, &LAYERS).unwrap_err();
        let expected = [
            "listen.address",
            "listen.calls_max",
            "log.format",
            "trace.sample_ratio",
            "trace.endpoint",
            "profile_push.interval_ms",
            "profile_push.pyroscope_url",
            "sandbox.allow_degraded",
            "sandbox.zygote_workers_max",
            "compiler.wall_ms_max",
            "runner.max_cycles_default",
            "compiler.chunk_bytes_max",
            "runner.compiler_url",
        ];
        assert_eq!(keys(error), expected);
    }

    #[test]
    fn every_unknown_key_is_named() {
        let error = read("typo = 1\n[listen]\nadress = \"x\"\n[runner]\nworkers = 2\n").unwrap_err();
        assert_eq!(keys(error), ["listen.adress", "runner.workers", "typo"]);
    }

    #[test]
    fn a_key_that_was_split_is_refused_with_its_successors() {
        let error = read("[sandbox]\nlimit_speculation = true\n").unwrap_err().to_string();
        assert!(error.contains("limit_store_bypass") && error.contains("limit_indirect_branches"), "{error}");
        let sandbox = RawConfig::default().sandbox;
        assert!(!sandbox.limit_store_bypass && !sandbox.limit_indirect_branches);
    }

    #[test]
    fn a_wrong_type_is_told_with_its_line() {
        let error = read("[listen]\ncalls_max = \"many\"\n").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn the_command_line_goes_over_the_file() {
        let raw =
            RawConfig::read(None, Some("127.0.0.1:7".parse().unwrap()), Some(Path::new("/data"))).unwrap();
        assert_eq!((raw.listen.address.as_str(), raw.cache.dir.to_str()), ("127.0.0.1:7", Some("/data")));
    }

    #[test]
    fn too_small_messages_contradict_inline_scripts() {
        let mut raw = RawConfig::default();
        raw.listen.message_bytes_max = 4 << 20;
        assert_eq!(keys(raw.check(Role::Both, &LAYERS).unwrap_err()), ["listen.message_bytes_max"]);
    }
}
