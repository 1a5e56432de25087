//! `antares serve` with limits that no configuration key sets, for tests that reach them: section `[tuned]`
//! of the file. Usage: `tuned-server --listen ADDRESS --config FILE --data FOLDER`.

use std::{env, fs, time::Duration};

use antares_config::{Config, ConfigFile};
use antares_runner_svc::embedded;
use anyhow::{Context, bail};
use toml::{Table, Value};

fn main() -> anyhow::Result<()> {
    antares_pool::settle(antares_pool::ProcessKind::Service);
    let words: Vec<String> = env::args().skip(1).collect();
    let [_, listen, _, path, _, data] = &*words else { bail!("usage: see the first lines of this file") };
    let mut file: Table = fs::read_to_string(path)?.parse()?;
    let Some(Value::Table(tuned)) = file.remove("tuned") else { bail!("{path} has no section [tuned]") };
    set(&mut file, "listen", ("address", listen))?;
    set(&mut file, "cache", ("dir", data))?;
    let mut config = embedded::check_config(&toml::to_string(&file)?.parse::<ConfigFile>()?)?;
    for (limit, value) in &tuned {
        let value = value.as_integer().and_then(|value| value.try_into().ok()).context("a number")?;
        tune(&mut config, limit, value)?;
    }
    Ok(embedded::serve(&config)?)
}

fn set(file: &mut Table, section: &str, (key, value): (&str, &str)) -> anyhow::Result<()> {
    let section = file.entry(section).or_insert_with(|| Table::new().into());
    section.as_table_mut().context("a section")?.insert(key.to_owned(), value.into());
    Ok(())
}

fn tune(config: &mut Config, limit: &str, value: u64) -> anyhow::Result<()> {
    let time = Duration::from_millis(value);
    match limit {
        "keepalive_interval_ms" => config.listen.keepalive_interval = time,
        "keepalive_timeout_ms" => config.listen.keepalive_timeout = time,
        "handshake_ms_max" => config.tls.as_mut().context("[tls]")?.handshake_time_max = time,
        "handshakes_max" => config.tls.as_mut().context("[tls]")?.handshakes_max = value,
        "zygote_workers_max" => config.sandbox.zygote_workers_max = value,
        "partial_uploads_max" => config.compiler.partial_uploads_max = usize::try_from(value)?,
        "upload_bytes_max" => config.compiler.upload_bytes_max = value,
        "upload_idle_ms" => config.compiler.idle_max = time,
        "uploads_max" => config.compiler.uploads_max = usize::try_from(value)?,
        "profile_push_ms" => config.profile_push.as_mut().context("[profile_push]")?.interval = time,
        "upload_keep_ms" => config.compiler.upload_keep = time,
        "node_cache_bytes_max" => config.node.as_mut().context("[node]")?.cache_bytes_max = value,
        _ => bail!("there is no limit {limit}"),
    }
    Ok(())
}
