//! OpenTelemetry profiles (v1development), compatible with the existing receivers: Parca, Pyroscope and the
//! collector.

use std::collections::{BTreeMap, HashMap};

use antares_profile::{Frame, NodeId, Value};
use opentelemetry_proto::tonic::{
    collector::profiles::v1development::ExportProfilesServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    profiles::v1development::{
        Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesDictionary,
        ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
    },
    resource::v1::Resource,
};
use prost::Message;

use crate::{View, formats::interned::Interned, limits::OTLP_SAMPLES_MAX};

/// Service name for receivers.
const SERVICE: &str = "antares-guest";
/// Parca and Pyroscope use it as the profile's name.
const SCOPE: &str = "antares.guest";

pub(crate) fn write(view: &View<'_>, labels: &BTreeMap<String, String>) -> Vec<u8> {
    otlp_request(view, labels).encode_to_vec()
}

/// The export request for `view`. Cycles and instructions are two profiles, because receivers accept one
/// value per sample. Beyond [`OTLP_SAMPLES_MAX`] stacks, both omit the cheapest ones, and count them in one
/// `[other]`.
#[must_use]
pub fn otlp_request(view: &View<'_>, labels: &BTreeMap<String, String>) -> ExportProfilesServiceRequest {
    let mut tables = Tables::new(view);
    let mut stacks: Vec<_> = view.stacks().collect();
    stacks.sort_by_key(|(node, spent)| (std::cmp::Reverse(*spent), *node));
    let rest = stacks.split_off(stacks.len().min(OTLP_SAMPLES_MAX));
    let mut samples: Vec<(i32, [u64; 2])> = stacks
        .iter()
        .map(|(node, spent)| (tables.stack(view, *node), [spent.cycles, spent.instructions]))
        .collect();
    let other = rest.iter().fold(Value::default(), |sum, (_, spent)| sum.plus(*spent));
    if !other.is_zero() {
        samples.push((tables.other(), [other.cycles, other.instructions]));
    }
    let attributes: Vec<i32> = labels.iter().map(|(key, value)| tables.attribute(key, value)).collect();
    let kinds = [("cycles", "count"), ("instructions", "count")];
    let profiles = kinds.into_iter().enumerate().map(|(index, (kind, unit))| {
        let kind = ValueType { type_strindex: tables.text(kind), unit_strindex: tables.text(unit) };
        let samples = samples.iter().filter(|(_, values)| values[index] > 0);
        let samples = samples.map(|(stack, values)| Sample {
            stack_index: *stack,
            attribute_indices: attributes.clone(),
            values: vec![i64::try_from(values[index]).unwrap_or(i64::MAX)],
            ..Sample::default()
        });
        Profile {
            sample_type: Some(kind),
            samples: samples.collect(),
            period_type: Some(kind),
            period: 1,
            ..Profile::default()
        }
    });
    let profiles: Vec<Profile> = profiles.collect();
    let scope = InstrumentationScope { name: SCOPE.to_owned(), ..InstrumentationScope::default() };
    let service =
        KeyValue { key: "service.name".to_owned(), value: Some(text(SERVICE)), ..KeyValue::default() };
    let resource = Resource { attributes: vec![service], ..Resource::default() };
    let scopes = ScopeProfiles { scope: Some(scope), profiles, ..ScopeProfiles::default() };
    let resources = ResourceProfiles {
        resource: Some(resource),
        scope_profiles: vec![scopes],
        ..ResourceProfiles::default()
    };
    ExportProfilesServiceRequest { resource_profiles: vec![resources], dictionary: Some(tables.dictionary()) }
}

fn text(value: &str) -> AnyValue {
    AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) }
}

/// Builds the dictionary. Every table starts with an empty element, the meaning of index 0.
struct Tables {
    dictionary: ProfilesDictionary,
    texts: Interned,
    locations: HashMap<Frame, i32>,
}

impl Tables {
    fn new(view: &View<'_>) -> Self {
        let mut texts = Interned::default();
        texts.number("");
        let dictionary = ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            link_table: vec![Link::default()],
            string_table: Vec::new(),
            attribute_table: vec![KeyValueAndUnit::default()],
            stack_table: vec![Stack::default()],
        };
        let mut tables = Self { dictionary, texts, locations: HashMap::new() };
        for function in view.functions() {
            let (name, file) = (tables.text(&function.name), tables.text(&function.file));
            let entry = Function { name_strindex: name, filename_strindex: file, ..Function::default() };
            tables.dictionary.function_table.push(entry);
        }
        for (program, index) in view.profile().programs().iter().zip(0..) {
            let symbols = view.symbols(index);
            let digest = program.elf.map_or("unknown".to_owned(), |digest| digest.to_string());
            let build_id = symbols.map(|symbols| symbols.build_id()).filter(|id| !id.is_empty());
            let build_id = build_id.map_or(digest.clone(), hex::encode);
            let attribute = tables.attribute("process.executable.build_id.gnu", &build_id);
            let filename_strindex = tables.text(&digest);
            tables.dictionary.mapping_table.push(Mapping {
                memory_start: 0,
                memory_limit: antares_abi::GUEST_MEMORY_BYTES,
                file_offset: 0,
                filename_strindex,
                attribute_indices: vec![attribute],
            });
        }
        tables
    }

    fn text(&mut self, text: &str) -> i32 {
        int(self.texts.number(text))
    }

    fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let key_strindex = self.text(key);
        self.dictionary.attribute_table.push(KeyValueAndUnit {
            key_strindex,
            value: Some(text(value)),
            unit_strindex: 0,
        });
        int(self.dictionary.attribute_table.len() - 1)
    }

    fn stack(&mut self, view: &View<'_>, node: NodeId) -> i32 {
        let mut location_indices = Vec::new();
        let mut next = Some(node);
        while let Some(id) = next {
            let Some(node) = view.profile().node(id) else { break };
            location_indices.push(self.location(view, node.frame, id));
            next = node.parent;
        }
        self.dictionary.stack_table.push(Stack { location_indices });
        int(self.dictionary.stack_table.len() - 1)
    }

    fn location(&mut self, view: &View<'_>, frame: Frame, node: NodeId) -> i32 {
        if let Some(index) = self.locations.get(&frame) {
            return *index;
        }
        let code = frame.code().map(|(program, pc)| (int(program.0 as usize + 1), pc));
        let (mapping_index, address) = code.unwrap_or_default();
        // Every location has lines, so that no mapping is considered unsymbolized.
        let lines = view.named(node).iter().rev().map(|(function, line)| Line {
            function_index: int(function.0 as usize + 1),
            line: line.as_ref().map_or(0, |line| i64::from(line.line)),
            column: line.as_ref().map_or(0, |line| i64::from(line.column)),
        });
        let lines = lines.collect();
        let entry = Location { mapping_index, address, lines, attribute_indices: Vec::new() };
        self.dictionary.location_table.push(entry);
        let index = int(self.dictionary.location_table.len() - 1);
        self.locations.insert(frame, index);
        index
    }

    /// The stack for omitted samples.
    fn other(&mut self) -> i32 {
        let name_strindex = self.text(&Frame::Other.to_string());
        self.dictionary.function_table.push(Function { name_strindex, ..Function::default() });
        let function_index = int(self.dictionary.function_table.len() - 1);
        let lines = vec![Line { function_index, line: 0, column: 0 }];
        self.dictionary.location_table.push(Location { lines, ..Location::default() });
        let location_indices = vec![int(self.dictionary.location_table.len() - 1)];
        self.dictionary.stack_table.push(Stack { location_indices });
        int(self.dictionary.stack_table.len() - 1)
    }

    fn dictionary(mut self) -> ProfilesDictionary {
        self.dictionary.string_table = self.texts.texts;
        self.dictionary
    }
}

/// No table comes near the limit.
fn int(index: usize) -> i32 {
    i32::try_from(index).unwrap_or(i32::MAX)
}
