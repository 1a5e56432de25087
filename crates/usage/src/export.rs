//! Hours that are over, as files for others: CSV and JSON, each written once.

use std::{fs, path::Path};

use crate::{
    error::UsageError,
    folder::{Folder, replace},
    hour::Hour,
    table::{Tenants, UsageRow, csv, json},
};

/// Writes the hours of `folder` that are before `now` and were not written yet to `to`. Files that are
/// there with the same name are replaced.
pub(crate) fn export(
    folder: &Folder,
    to: &Path,
    now: Hour,
    mut read: impl FnMut(Hour) -> Result<Tenants, UsageError>,
) -> Result<(), UsageError> {
    // A clock that was ahead for a while holds nothing up.
    let after = folder.exported()?.filter(|after| *after < now);
    let due = |hour: &Hour| *hour < now && after.is_none_or(|after| *hour > after);
    for hour in folder.hours()?.into_iter().filter(due) {
        let rows = rows(hour, read(hour)?);
        fs::create_dir_all(to).map_err(UsageError::at(to))?;
        let texts = [("csv", csv(&rows)), ("json", json(&rows).unwrap_or_default())];
        for (kind, text) in texts {
            // Servers may share the folder.
            let path = to.join(format!("usage-{hour}-{}.{kind}", folder.instance));
            replace(to, &path, text.as_bytes()).map_err(UsageError::at(path))?;
        }
        folder.put_exported(hour)?;
    }
    Ok(())
}

pub(crate) fn rows(hour: Hour, tenants: Tenants) -> Vec<UsageRow> {
    tenants.into_iter().map(|(tenant, amounts)| UsageRow { hour, tenant, amounts }).collect()
}
