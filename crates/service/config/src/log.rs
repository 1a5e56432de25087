//! Section `[log]`.

use crate::section::section;

section! {
/// Logs.
"log": RawLog => Log {
    /// `text` or `json`.
    format as json: log_format = "text".to_owned();
    /// What is logged: `error`, `warn`, `info`, `debug`, `trace`, or directives such as
    /// `info,antares_pool=debug`.
    filter: log_filter = "info,opentelemetry=warn".to_owned();
}
}
