//! The table of a section: each key once, with its kind, default and description. The file format, the
//! validation and the reference page are generated from it.

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// CPUs available to this process, including its cgroup quota.
pub(crate) fn parallelism() -> u64 {
    std::thread::available_parallelism().map_or(1, |number| number.get() as u64)
}

/// A key in the reference.
#[cfg(test)]
pub(crate) struct KeyText {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) limit: Option<u64>,
    /// Whether it is a fixed limit instead of a key.
    pub(crate) is_fixed: bool,
    /// Lines of its comment.
    pub(crate) about: &'static [&'static str],
}

/// Defines a section by lines `KEY: KIND = DEFAULT;`, or `KEY as FIELD: KIND = DEFAULT;` if milliseconds
/// become a duration. `fixed` defines a limit that no file sets: only tests use other values. A kind is a
/// method of [`Checker`](crate::check::Checker) with that name; `kind!` has its types. A key without a
/// default is empty, zero or false.
///
/// `"NAME": RawNAME` defines the type of the file's section. `=> NAME` also defines the validated type, with
/// additional fields in parentheses that come from elsewhere.
macro_rules! section {
    ($(#[doc = $about:literal])+ $name:literal: $raw:ident
        $(=> $checked:ident $(($($(#[doc = $more_doc:literal])+ $more:ident: $more_type:ty),+ $(,)?))?)?
        { $($keys:tt)+ }) => {
        section!(@keys
            { [$($about)+] $name $raw $([$checked $($([$($more_doc)+] $more $more_type)+)?])? }
            [] $($keys)+);
    };
    (@keys $head:tt [$($done:tt)*] $(#[doc = $doc:literal])+
        fixed $key:ident as $field:ident: $kind:ident = $default:expr; $($rest:tt)*) => {
        section!(@keys $head [$($done)* { [$($doc)+] $key $field $kind [] [$default] [serde(skip)] }] $($rest)*);
    };
    (@keys $head:tt [$($done:tt)*] $(#[doc = $doc:literal])+
        fixed $key:ident: $kind:ident = $default:expr; $($rest:tt)*) => {
        section!(@keys $head [$($done)* { [$($doc)+] $key $key $kind [] [$default] [serde(skip)] }] $($rest)*);
    };
    (@keys $head:tt [$($done:tt)*] $(#[doc = $doc:literal])+
        $key:ident: $kind:ident $(($limit:expr))? $(= $default:expr)?; $($rest:tt)*) => {
        section!(@keys $head [$($done)* { [$($doc)+] $key $key $kind [$($limit)?] [$($default)?] [] }] $($rest)*);
    };
    (@keys $head:tt [$($done:tt)*] $(#[doc = $doc:literal])+
        $key:ident as $field:ident: $kind:ident $(($limit:expr))? $(= $default:expr)?; $($rest:tt)*) => {
        section!(@keys $head [$($done)* { [$($doc)+] $key $field $kind [$($limit)?] [$($default)?] [] }] $($rest)*);
    };
    (@keys { $about:tt $name:literal $raw:ident } [$($done:tt)*]) => {
        section!(@written $about $raw $($done)*);
    };
    (@keys { $about:tt $name:literal $raw:ident [$checked:ident $($more:tt)*] } [$($done:tt)*]) => {
        section!(@written $about $raw $($done)*);
        section!(@checked $about $name $raw $checked [$($more)*] $($done)*);
    };
    (@written [$($about:literal)+] $raw:ident
        $({ [$($doc:literal)+] $key:ident $field:ident $kind:ident [$($limit:expr)?] [$($default:expr)?] [$($skip:meta)?] })+) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $raw {
            $($(#[doc = $doc])+ $(#[$skip])? pub(crate) $key: $crate::section::kind!(written $kind),)+
        }

        impl Default for $raw {
            fn default() -> Self {
                Self { $($key: $crate::section::default!($($default)?),)+ }
            }
        }

        #[cfg(test)]
        impl $raw {
            pub(crate) const ABOUT: &[&str] = &[$($about),+];
            pub(crate) const KEYS: &[$crate::section::KeyText] = &[$($crate::section::KeyText {
                name: stringify!($key),
                kind: stringify!($kind),
                limit: $crate::section::limit!($($limit)?),
                is_fixed: $crate::section::is_fixed!($($skip)?),
                about: &[$($doc),+],
            }),+];
        }
    };
    (@checked [$($about:literal)+] $name:literal $raw:ident $checked:ident
        [$([$($more_doc:literal)+] $more:ident $more_type:ty)*]
        $({ [$($doc:literal)+] $key:ident $field:ident $kind:ident [$($limit:expr)?] [$($default:expr)?] [$($skip:meta)?] })+) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $checked {
            $($(#[doc = $doc])+ pub $field: $crate::section::kind!(checked $kind),)+
            $($(#[doc = $more_doc])+ pub $more: $more_type,)*
        }

        impl $raw {
            pub(crate) fn check(&self, checker: &mut $crate::check::Checker $(, $more: $more_type)*) -> $checked {
                $checked {
                    $($field: checker.$kind(concat!($name, ".", stringify!($key)), &self.$key $(, $limit)?),)+
                    $($more,)*
                }
            }
        }
    };
}

macro_rules! default {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

#[cfg(test)]
macro_rules! limit {
    () => {
        None
    };
    ($limit:expr) => {
        Some($limit)
    };
}

#[cfg(test)]
macro_rules! is_fixed {
    () => {
        false
    };
    ($skip:meta) => {
        true
    };
}

/// The type of a kind in the file and after validation.
macro_rules! kind {
    (written flag) => { bool };
    (written share) => { f64 };
    (written list) => { Vec<String> };
    (written folder) => { std::path::PathBuf };
    (written folder_or_none) => { std::path::PathBuf };
    (checked folder_or_none) => { Option<std::path::PathBuf> };
    (written absolute_or_none) => {
        std::path::PathBuf
    };
    (checked absolute_or_none) => {
        Option<std::path::PathBuf>
    };
    (written text) => { String };
    (written address) => { String };
    (checked address) => { std::net::SocketAddr };
    (written file) => { String };
    (checked file) => { Option<std::path::PathBuf> };
    (written urls) => { String };
    (checked urls) => { Vec<String> };
    (written log_format) => { String };
    (checked log_format) => { bool };
    (written log_filter) => { String };
    (written rules) => { Vec<RawRule> };
    (written tenants) => { Vec<RawTenantQuotas> };
    (written isolation) => { Isolation };
    (written speculation) => { Vec<SpeculationLimit> };
    (written own) => { Option<u64> };
    (checked count) => { usize };
    (checked workers) => { usize };
    (checked one_in) => { Option<std::num::NonZeroU64> };
    (checked time) => { std::time::Duration };
    (checked pause) => { std::time::Duration };
    // `whole`, `positive`, `at_least`, `at_most`, and the file types of the others.
    (written $kind:ident) => { u64 };
    // The others are checked and not changed.
    (checked $kind:ident) => { $crate::section::kind!(written $kind) };
}

pub(crate) use {default, kind, section};
#[cfg(test)]
pub(crate) use {is_fixed, limit};
