//! What a section of the configuration is made of: each key once, with its kind, its default and what it is
//! for. From that come what is written, what is checked, and the page of the reference.

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// CPUs that this process may use, cgroup quota included.
pub(crate) fn parallelism() -> u64 {
    std::thread::available_parallelism().map_or(1, |number| number.get() as u64)
}

/// A key, as the reference has it.
#[cfg(test)]
pub(crate) struct KeyText {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) limit: Option<u64>,
    /// Whether it is no key.
    pub(crate) is_fixed: bool,
    /// Lines of its comment.
    pub(crate) about: &'static [&'static str],
}

/// Makes a section of lines `KEY: KIND = DEFAULT;`, or `KEY as FIELD: KIND = DEFAULT;` where a number of
/// milliseconds becomes a duration. `fixed` makes a limit that no file sets: only tests have other values. A kind is a method of [`Checker`](crate::check::Checker) of that name;
/// `kind!` has its types. Without a default a key is empty, zero or false.
///
/// `"NAME": RawNAME` makes what is written, `=> NAME` what is checked too, with the fields in parentheses
/// behind it, which come from elsewhere.
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

/// What is written for a kind, and what it is when it is checked.
macro_rules! kind {
    (written flag) => { bool };
    (checked flag) => { bool };
    (written share) => { f64 };
    (checked share) => { f64 };
    (written list) => { Vec<String> };
    (checked list) => { Vec<String> };
    (written folder) => { std::path::PathBuf };
    (checked folder) => { std::path::PathBuf };
    (written folder_or_none) => { std::path::PathBuf };
    (checked folder_or_none) => { Option<std::path::PathBuf> };
    (written absolute_or_none) => {
        std::path::PathBuf
    };
    (checked absolute_or_none) => {
        Option<std::path::PathBuf>
    };
    (written text) => { String };
    (checked text) => { String };
    (written address) => { String };
    (checked address) => { std::net::SocketAddr };
    (written file) => { String };
    (checked file) => { Option<std::path::PathBuf> };
    (written urls) => { String };
    (checked urls) => { Vec<String> };
    (written log_format) => { String };
    (checked log_format) => { bool };
    (written log_filter) => { String };
    (checked log_filter) => { String };
    (written reuse) => { String };
    (checked reuse) => { $crate::check::WorkerReuse };
    (written rules) => { Vec<RawRule> };
    (written tenants) => { Vec<RawTenantQuotas> };
    (written own) => { Option<u64> };
    (checked count) => { usize };
    (checked workers) => { usize };
    (checked one_in) => { Option<std::num::NonZeroU64> };
    (checked time) => { std::time::Duration };
    (checked time_to) => { std::time::Duration };
    (checked pause) => { std::time::Duration };
    // `whole`, `positive`, `range`, `at_least`, `at_most`, and what the others are written as.
    (written $kind:ident) => { u64 };
    (checked $kind:ident) => { u64 };
}

pub(crate) use {default, kind, section};
#[cfg(test)]
pub(crate) use {is_fixed, limit};
