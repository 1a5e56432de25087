//! Validates a configuration as a whole, reporting all errors together by key.

use std::{net::SocketAddr, time::Duration};

use antares_abi::LIBRARY_BYTES_MAX;
use antares_tls::ClientFiles;

use crate::{
    auth::{AdminAccess, Auth},
    check::{Checker, ConfigError},
    file::{CallerSource, ConfigFile},
    listen::{Listen, message_bytes_max},
    observability::{Audit, Log, ProfilePush, Trace},
    quotas::Tenancy,
    services::{CompilerSection, NodeSection, RunnerSection, SandboxSection},
    stores::{SharedTier, Signing, StoreConfig},
    tls::Tls,
};

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which services run.
    pub role: Role,
    /// The gRPC listener.
    pub listen: Listen,
    /// Encryption of the gRPC listener, if enabled.
    pub tls: Option<Tls>,
    /// Authentication and authorization.
    pub auth: Auth,
    /// Administrators in addition to those by `auth`.
    pub admin: AdminAccess,
    /// Quotas and isolation of tenants.
    pub tenancy: Tenancy,
    /// Target of the audit log.
    pub audit: Audit,
    /// TLS files of the runner's connection to its compiler.
    pub compiler_tls: ClientFiles,
    /// Address of `/metrics` and `/healthz`, if enabled.
    pub metrics: Option<SocketAddr>,
    /// Logs.
    pub log: Log,
    /// Traces, if enabled.
    pub trace: Option<Trace>,
    /// Receiver of profiles, if any.
    pub profile_push: Option<ProfilePush>,
    /// The sandbox of workers.
    pub sandbox: SandboxSection,
    /// The store.
    pub cache: StoreConfig,
    /// The object store shared by several servers, if any.
    pub shared: Option<SharedTier>,
    /// Signing and verification of native code.
    pub signing: Signing,
    /// The node that provides cells of bare transactions, if any.
    pub node: Option<NodeSection>,
    /// The compiler service.
    pub compiler: CompilerSection,
    /// The runner service.
    pub runner: RunnerSection,
    /// Source of settings that are reloaded at run time, if the configuration has a file.
    pub callers: Option<CallerSource>,
}

impl ConfigFile {
    /// Validates the configuration for `role`. `layers` are the valid names in `sandbox.allow_degraded`.
    ///
    /// # Errors
    /// All errors, each with its key.
    pub fn check(&self, role: Role, layers: &[&str]) -> Result<Config, ConfigError> {
        let checker = &mut Checker::default();
        let is_asked = self.is_requested();
        let message_bytes_max = message_bytes_max(self.compiler.script_bytes_max);
        let page_hosts = self.metrics.page_hosts(checker);
        let web = self.web.check(&self.listen.address, &self.metrics.address, checker);
        let bytes_max = usize::try_from(message_bytes_max).unwrap_or(usize::MAX);
        let run_time_max = Duration::from_millis(self.runner.call_ms_max);
        let call_time_max = self.call_time_max(role);
        let listen = self.listen.check(checker, page_hosts, web, call_time_max, run_time_max, bytes_max);
        self.listen.agree(message_bytes_max, checker);
        let mut config = Config {
            role,
            listen,
            tls: self.tls.check(checker),
            auth: self.auth.check(!self.tls.client_ca.is_empty(), checker),
            audit: self.audit.check(checker),
            compiler_tls: self.tls.of_client(&self.runner, checker),
            metrics: self.metrics.check(&self.listen.address, checker),
            log: self.log.check(checker),
            trace: self.trace.section(|name| std::env::var(name).ok(), checker),
            profile_push: None,
            cache: self.cache.check(checker),
            shared: self.shared.section(self.signing.keys.is_empty(), checker),
            signing: self.signing.check(&self.cache.dir),
            node: self.node.section(checker),
            sandbox: self.sandbox.section(layers, checker),
            admin: self.admin.section(is_asked, checker),
            tenancy: self.quotas.check(&self.tenants, is_asked, checker),
            compiler: self.compiler.check(checker),
            runner: self.runner.section(self.compiler.script_bytes_max, checker),
            callers: CallerSource::of(self, role, layers),
        };
        let sample_cycles = self.runner.sample_cycles;
        config.profile_push = self.profile_push.check(config.trace.as_ref(), sample_cycles, checker);
        self.check_open("listen.address", config.listen.address, checker);
        if let Some(web) = &config.listen.web {
            self.check_open("web.address", web.address, checker);
        }
        self.check_together(role, checker);
        std::mem::take(checker).finish(config)
    }

    /// Whether callers must authenticate.
    fn is_requested(&self) -> bool {
        !self.tls.client_ca.is_empty() || self.auth.has_tokens()
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

    /// A listener that other machines can reach must encrypt and authenticate, unless the configuration
    /// explicitly allows otherwise.
    fn check_open(&self, key: &str, address: SocketAddr, checker: &mut Checker) {
        let (is_encrypted, is_asked) = (!self.tls.certificate.is_empty(), self.is_requested());
        if address.ip().to_canonical().is_loopback() || self.listen.allow_open || is_encrypted && is_asked {
            return;
        }
        let lacks = match (is_encrypted, is_asked) {
            (true, _) => "without authentication (tls.client_ca, auth.jwks)",
            (false, true) => "without encryption (tls.certificate), which tokens need",
            (false, false) => "without encryption and authentication (tls.certificate, tls.client_ca)",
        };
        let problem = format!(
            "others can reach {address}, {lacks}: anyone there could run scripts. Listen on loopback, add what is missing, or say \
             listen.allow_open = true"
        );
        checker.record(key, problem);
    }

    /// Checks for contradictions between sections, and that scripts fit into the store.
    fn check_together(&self, role: Role, checker: &mut Checker) {
        let (bytes, budget) = (self.compiler.script_bytes_max, self.cache.budget_bytes);
        let key = "compiler.script_bytes_max";
        if role != Role::Runner && bytes > budget {
            checker.record(key, format!("is {bytes}, more than cache.budget_bytes ({budget})"));
        } else if role != Role::Runner && bytes > LIBRARY_BYTES_MAX {
            let problem = format!("is {bytes}, more than the store's largest entry ({LIBRARY_BYTES_MAX})");
            checker.record(key, problem);
        }
        let (key, url) = ("runner.compiler_url", &self.runner.compiler_url);
        match (role, url.is_empty()) {
            (Role::Runner, true) => checker.record(key, "is needed where the compiler runs elsewhere"),
            (Role::Runner, false) => checker.service_urls(key, url),
            (Role::Both, false) => checker.record(key, "makes no sense with both services in one process"),
            (Role::Both, true) | (Role::Compiler, _) => {}
        }
    }
}

/// Which services a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The compiler service.
    Compiler,
    /// The runner service, with a separate compiler service.
    Runner,
    /// Both services.
    Both,
}

impl Role {
    /// Service name in traces (`service.name`), shared by all processes of the role.
    pub fn service_name(self) -> &'static str {
        match self {
            Self::Compiler => "antares-compiler",
            Self::Runner => "antares-runner",
            Self::Both => "antares-server",
        }
    }
}
