//! JSON for speedscope (its `file-format-spec.ts`, version 0.0.1). Its schema has no cycles: the unit is
//! `none`.

use std::collections::BTreeMap;

use serde_json::json;

use crate::View;

pub(crate) fn write(view: &View<'_>, labels: &BTreeMap<String, String>) -> String {
    let frames: Vec<_> = view
        .functions()
        .iter()
        .map(|function| match function.file.as_str() {
            "" => json!({ "name": function.name }),
            file => json!({ "name": function.name, "file": file }),
        })
        .collect();
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for (place, node) in view.tree().iter().enumerate().filter(|(_, node)| node.own.cycles > 0) {
        let path: Vec<u32> = view.path(place).into_iter().map(|function| function.0).collect();
        samples.push(path);
        weights.push(node.own.cycles);
    }
    let name = labels.get("script").map_or("cycles", String::as_str);
    let end = weights.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight));
    let profile = json!({
        "type": "sampled",
        "name": format!("{name} (cycles)"),
        "unit": "none",
        "startValue": 0,
        "endValue": end,
        "samples": samples,
        "weights": weights,
    });
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "antares",
        "name": name,
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": [profile],
    });
    file.to_string()
}
