//! Source maps: from a position in a JavaScript bundle to its source.

use std::path::{Component, Path, PathBuf};

use antares_diagnosis::report::{Diagnosis, JavaScriptFrame, OriginalLocation};
use antares_profile_view::Sources;
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use sourcemap::{SourceMap, Token, vlq::parse_vlq_segment};

use crate::{
    args::diagnosis::SourceMapName,
    failure::Failure,
    input,
    limits::{MAPPINGS_MAX, SOURCE_MAP_BYTES_MAX},
};

/// Maximum digits of one number of a mapping: more exceed 32 bits.
const DIGITS_MAX: usize = 7;
/// Maximum numbers of one mapping.
const NUMBERS_MAX: usize = 5;

/// Maps of bundles.
#[derive(Default)]
pub(crate) struct SourceMaps(Vec<Map>);

struct Map {
    path: PathBuf,
    /// The bundle's name, if given.
    bundle: Option<String>,
    map: SourceMap,
}

/// Fields that are checked before the map is decoded.
#[derive(Deserialize)]
struct Head {
    version: Option<u32>,
    mappings: Option<String>,
    sections: Option<serde::de::IgnoredAny>,
}

impl SourceMaps {
    /// Reads the named maps.
    pub(crate) fn read(names: &[SourceMapName]) -> Result<Self, Failure> {
        let read = |name: &SourceMapName| {
            let bytes = input::read(&name.path, SOURCE_MAP_BYTES_MAX)?;
            let map = decode(&bytes).with_context(|| name.path.display().to_string());
            let map = map.map_err(Failure::Usage)?;
            Ok(Map { path: name.path.clone(), bundle: name.bundle.clone(), map })
        };
        names.iter().map(read).collect::<Result<_, Failure>>().map(Self)
    }

    /// `diagnosis` with resolved positions. Reports a map that resolves none.
    pub(crate) fn apply(&self, diagnosis: Diagnosis) -> Diagnosis {
        if self.0.is_empty() {
            return diagnosis;
        }
        let here = Sources::here();
        let original = |frame: &JavaScriptFrame| {
            let (map, token) = self.token(frame)?;
            map.original(token, frame.column.is_some())
        };
        let text = |frame: &JavaScriptFrame| {
            let (map, token) = self.token(frame)?;
            let content = map.map.get_source_contents(token.get_src_id());
            content.map(ToOwned::to_owned).or_else(|| here.read(&map.file(token)?))
        };
        let diagnosis = diagnosis.with_originals(&original, &text);
        if diagnosis.ending.exit_code != Some(0) {
            self.report_unused(&diagnosis);
        }
        diagnosis
    }

    /// The mapping of a call, and its map.
    fn token(&self, frame: &JavaScriptFrame) -> Option<(&Map, Token<'_>)> {
        let map = self.map_of(frame)?;
        let line = frame.line?.checked_sub(1)?;
        Some((map, map.token(line, frame.column.map(|column| column.saturating_sub(1)))?))
    }

    /// The map of the bundle that contains a call. Bytecode and `<run_from_file>` have no name: they belong
    /// to the only map, or to the one declared without a name.
    fn map_of(&self, frame: &JavaScriptFrame) -> Option<&Map> {
        let file = frame.file.as_deref().filter(|file| !file.starts_with('<')).unwrap_or_default();
        let mut named = self.0.iter().filter(|map| map.is_of(file));
        match (named.next(), &*self.0) {
            (Some(map), _) => Some(map),
            (None, [only]) if file.is_empty() && only.bundle.is_none() => Some(only),
            (None, _) => None,
        }
    }

    fn report_unused(&self, diagnosis: &Diagnosis) {
        let frames = || diagnosis.javascript.iter().flat_map(|stack| &stack.frames);
        for map in &self.0 {
            let of_map =
                || frames().filter(|frame| self.map_of(frame).is_some_and(|it| std::ptr::eq(it, map)));
            let why = if frames().next().is_none() {
                "no stack of JavaScript was printed".to_owned()
            } else if of_map().any(|frame| frame.original.is_some()) {
                continue;
            } else if of_map().next().is_some() {
                "no line of the stack is in the map: is it of another build?".to_owned()
            } else {
                let mut files: Vec<_> = frames().map(|frame| frame.file.as_deref().unwrap_or("")).collect();
                files.dedup();
                format!(
                    "no call is of its bundle; the calls' files are {files:?}: NAME=FILE says which it is of"
                )
            };
            let (path, why) = (map.path.display().to_string(), crate::output::printable(&why));
            eprintln!("antares: {}: {why}", crate::output::printable(&path));
        }
    }
}

impl Map {
    /// Whether it belongs to the bundle `file`: by the declared name, else by the map's own `file`, else by
    /// the map's path.
    fn is_of(&self, file: &str) -> bool {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let by_path = || {
            let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            last(name.strip_suffix(".map").unwrap_or(name)) == last(file)
        };
        match (&self.bundle, self.map.get_file()) {
            (Some(bundle), _) => bundle == file,
            (None, _) if file.is_empty() => false,
            (None, Some(name)) => last(name) == last(file) || by_path(),
            (None, None) => by_path(),
        }
    }

    /// The mapping of a zero-based position: the last one up to the column, else the line's first.
    fn token(&self, line: u32, column: Option<u32>) -> Option<Token<'_>> {
        let is_here = |token: &Token<'_>| token.get_dst_line() == line && token.has_source();
        let up_to = |column: u32| self.before((line, column.saturating_add(1)));
        let at_column = column.and_then(|column| self.map.get_token(up_to(column).checked_sub(1)?));
        at_column.filter(is_here).or_else(|| {
            let mut rest = (self.before((line, 0))..).map_while(|index| self.map.get_token(index));
            // A line may start with code that the bundler inserted.
            rest.by_ref().take_while(|token| token.get_dst_line() == line).find(is_here)
        })
    }

    /// Number of mappings before a position.
    fn before(&self, place: (u32, u32)) -> usize {
        let (mut from, mut to) = (0, self.map.get_token_count() as usize);
        while from < to {
            let middle = from.midpoint(to);
            match self.map.get_token(middle) {
                Some(token) if token.get_dst() < place => from = middle + 1,
                _ => to = middle,
            }
        }
        from
    }

    fn original(&self, token: Token<'_>, has_column: bool) -> Option<OriginalLocation> {
        let (line, column) = token.get_src();
        let column = has_column.then(|| column.saturating_add(1));
        Some(OriginalLocation { file: self.file(token)?, line: line.checked_add(1)?, column })
    }

    /// The source file, relative to the command's folder if below it: maps use paths relative to their own.
    fn file(&self, token: Token<'_>) -> Option<String> {
        let source = token.get_source().filter(|source| !source.is_empty())?;
        if source.contains("://") {
            return Some(source.to_owned());
        }
        let joined = self.path.parent().unwrap_or(Path::new("")).join(source);
        let mut parts = PathBuf::new();
        for part in joined.components() {
            match part {
                Component::CurDir => {}
                // The root has no parent.
                Component::ParentDir if parts.has_root() && parts.parent().is_none() => {}
                Component::ParentDir if parts.file_name().is_some_and(|name| name != "..") => {
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        let here = std::env::current_dir().ok();
        let file = here.and_then(|here| parts.strip_prefix(here).ok()).unwrap_or(&parts);
        Some(file.display().to_string())
    }
}

/// Decodes an untrusted map.
fn decode(bytes: &[u8]) -> Result<SourceMap> {
    // Editors on Windows may insert a byte order mark.
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let head: Head = serde_json::from_slice(bytes).context("no source map")?;
    if head.sections.is_some() {
        bail!("is a map of maps (sections): give the maps themselves");
    }
    let version = head.version.context("no source map: it has no version")?;
    ensure!(version == 3, "a source map of version {version}; version 3 is read");
    check(&head.mappings.context("no source map: it has no mappings")?)?;
    SourceMap::from_slice(bytes).map_err(|error| anyhow!("cannot be used: {error}"))
}

/// Checks the ranges and the count of mappings.
fn check(mappings: &str) -> Result<()> {
    let mut count = 0;
    for (line, segments) in (1_u64..).zip(mappings.split(';')) {
        for (number, segment) in (1_u64..).zip(segments.split(',')) {
            count += 1;
            ensure!(count <= MAPPINGS_MAX, "has more than {MAPPINGS_MAX} mappings, the most that are read");
            check_segment(segment).with_context(|| format!("mapping {number} of line {line}"))?;
        }
    }
    Ok(())
}

fn check_segment(segment: &str) -> Result<()> {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    if let Some(at) = segment.bytes().position(|byte| !is_digit(byte)) {
        bail!("its byte {} is no digit", at + 1);
    }
    ensure!(segment.len() <= DIGITS_MAX * NUMBERS_MAX, "is too long");
    if segment.is_empty() {
        return Ok(());
    }
    let numbers = parse_vlq_segment(segment).map_err(|error| anyhow!("{error}"))?;
    ensure!(matches!(numbers.len(), 1 | 4 | 5), "has {} numbers; 1, 4 or 5 are right", numbers.len());
    ensure!(numbers.iter().all(|number| i32::try_from(*number).is_ok()), "a number is too large");
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const BUNDLE: &str = include_str!("../../tests/javascript/dist/index.js.map");

    fn maps(maps: &[(Option<&str>, &str, &str)]) -> SourceMaps {
        let map = |(bundle, path, json): &(Option<&str>, &str, &str)| Map {
            path: path.into(),
            bundle: bundle.map(str::to_owned),
            map: decode(json.as_bytes()).unwrap(),
        };
        SourceMaps(maps.iter().map(map).collect())
    }

    fn place(maps: &SourceMaps, file: &str, line: u32, column: Option<u32>) -> Option<String> {
        let frame = JavaScriptFrame {
            function: String::new(),
            file: Some(file).filter(|file| !file.is_empty()).map(str::to_owned),
            line: Some(line),
            column,
            is_native: false,
            original: None,
        };
        let (map, token) = maps.token(&frame)?;
        let OriginalLocation { file, line, column } = map.original(token, frame.column.is_some())?;
        Some(format!("{file}:{line}:{}", column.map_or("-".to_owned(), |column| column.to_string())))
    }

    fn refused(json: &str) -> String {
        format!("{:#}", decode(json.as_bytes()).unwrap_err())
    }

    #[test]
    fn lines_and_columns_lead_to_the_source() {
        let maps = maps(&[(None, "a/dist/index.js.map", BUNDLE)]);
        let place = |line, column| place(&maps, "<run_from_file>", line, column);
        // throw new AmountError(...); the column of `new`.
        assert_eq!(place(11, None).as_deref(), Some("a/src/amounts.ts:8:-"));
        assert_eq!(place(11, Some(11)).as_deref(), Some("a/src/amounts.ts:8:11"));
        assert_eq!(place(11, Some(13)).as_deref(), Some("a/src/amounts.ts:8:11"), "the last one up to it");
        assert_eq!(place(11, Some(1)).as_deref(), Some("a/src/amounts.ts:8:5"), "the first of its line");
        // Lines that the bundler inserted, and missing lines.
        for line in [1, 3, 26, u32::MAX] {
            assert_eq!((place(line, None), place(line, Some(5))), (None, None), "{line}");
        }
    }

    #[test]
    fn each_bundle_has_its_map() {
        let named = |name: &str| BUNDLE.replacen('{', &format!("{{\"file\": \"{name}\","), 1);
        let file = |maps: &SourceMaps, file: &str| {
            let place = place(maps, file, 11, None);
            place.map(|place| place.split('/').next().unwrap().to_owned())
        };
        let found =
            |maps: &SourceMaps| ["", "<x>", "lib.js", "app/main.js", "other.js"].map(|name| file(maps, name));
        let some = |name: &str| Some(name.to_owned());
        let only = maps(&[(None, "lib/d/lib.js.map", BUNDLE)]);
        assert_eq!(found(&only), [some("lib"), some("lib"), some("lib"), None, None]);
        let main = named("main.js");
        let both = maps(&[(None, "lib/d/lib.js.map", BUNDLE), (None, "app/d/x.map", &main)]);
        assert_eq!(found(&both), [None, None, some("lib"), some("app"), None]);
        let said = maps(&[(Some("other.js"), "a/d/lib.js.map", BUNDLE), (Some(""), "b/d/x.map", &main)]);
        assert_eq!(found(&said), [some("b"), some("b"), None, None, some("a")]);
    }

    #[test]
    fn sources_are_named_from_the_command_s_folder() {
        let place = |path: &str, source: &str| {
            let json = format!(r#"{{"version": 3, "sources": ["{source}"], "mappings": "AAAA"}}"#);
            place(&maps(&[(None, path, &json)]), "", 1, Some(1)).unwrap()
        };
        let here = std::env::current_dir().unwrap();
        assert_eq!(place("x.map", "a.ts"), "a.ts:1:1");
        assert_eq!(place("x.map", "../a.ts"), "../a.ts:1:1");
        assert_eq!(place("../../x.map", "../a.ts"), "../../../a.ts:1:1");
        assert_eq!(place(here.join("d/x.map").to_str().unwrap(), "./.././a.ts"), "a.ts:1:1");
        assert_eq!(place("/x.map", "../a.ts"), "/a.ts:1:1");
        assert_eq!(place("d/x.map", "webpack://p/a.ts"), "webpack://p/a.ts:1:1");
    }

    #[test]
    fn a_byte_order_mark_and_what_is_null_are_passed_over() {
        let json = "\u{feff}{\"version\": 3, \"file\": null, \"sourceRoot\": null, \"names\": null, \"sourcesContent\": [null], \
                    \"sources\": [null, \"a.ts\"], \"mappings\": \"AAAA,CCAA;\"}\r\n";
        let maps = maps(&[(None, "x.map", json)]);
        assert_eq!(place(&maps, "", 1, Some(2)).as_deref(), Some("a.ts:1:1"));
        assert_eq!(place(&maps, "", 1, Some(1)), None);
    }

    #[test]
    fn hostile_maps_are_refused() {
        let of = |mappings: &str| {
            refused(&format!(r#"{{"version": 3, "sources": ["a"], "mappings": "{mappings}"}}"#))
        };
        assert!(refused("").starts_with("no source map: EOF"), "{}", refused(""));
        assert!(refused("[]").starts_with("no source map"));
        assert_eq!(refused("{}"), "no source map: it has no version");
        assert_eq!(refused(r#"{"version": 3}"#), "no source map: it has no mappings");
        let old = refused(r#"{"version": 2, "mappings": ""}"#);
        assert_eq!(old, "a source map of version 2; version 3 is read");
        assert!(refused(r#"{"version": 3, "sections": []}"#).contains("(sections)"));
        assert_eq!(of("AAAA;A AA"), "mapping 1 of line 2: its byte 2 is no digit");
        assert_eq!(of("AAA"), "mapping 1 of line 1: has 3 numbers; 1, 4 or 5 are right");
        assert_eq!(of("AAAA,AAAg"), "mapping 2 of line 1: leftover cur/shift in vlq decode");
        assert_eq!(of(&"g".repeat(36)), "mapping 1 of line 1: is too long");
        assert!(of(&"g".repeat(35)).starts_with("mapping 1 of line 1: "), "{}", of(&"g".repeat(35)));
        assert_eq!(of("A+////////B"), "mapping 1 of line 1: has 2 numbers; 1, 4 or 5 are right");
        assert_eq!(of("+////////B"), "mapping 1 of line 1: a number is too large");
        assert_eq!(of("ACAA"), "cannot be used: bad reference to source #1");
        assert_eq!(of("AAAAC"), "cannot be used: bad reference to name #1");
        assert!(of(&",".repeat(MAPPINGS_MAX)).contains("has more than 2097152 mappings"));
    }

    /// Sums beyond 32 bits wrap without a panic.
    #[test]
    fn sums_that_are_too_large_are_of_no_use() {
        let map = |mappings: &str| format!(r#"{{"version": 3, "sources": ["a"], "mappings": "{mappings}"}}"#);
        let look = |mappings: &str| place(&maps(&[(None, "x.map", &map(mappings))]), "", 1, Some(u32::MAX));
        assert_eq!(look("AADD"), None, "line -1");
        look(&"+////DA+////D+////D,".repeat(20));
    }

    #[test]
    fn maps_with_bytes_changed_panic_nowhere() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        let (start, mut read) = (BUNDLE.find("mappings").unwrap(), 0);
        for _ in 0..2000 {
            let mut json = BUNDLE.as_bytes().to_vec();
            for _ in 0..=random(3) {
                let at = start + random(json.len() - start);
                json[at] = b"ADgz9+/,;\"\0"[random(11)];
            }
            let Ok(map) = decode(&json) else { continue };
            read += 1;
            let maps = SourceMaps(vec![Map { path: "x.map".into(), bundle: None, map }]);
            for line in [0, 1, 11, 25, u32::MAX] {
                place(&maps, "", line, Some(random(100).try_into().unwrap()));
                place(&maps, "", line, None);
            }
        }
        assert!((100..1900).contains(&read), "{read} could be read");
    }
}
