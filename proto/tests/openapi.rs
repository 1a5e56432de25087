//! The OpenAPI file is what the proto files say: calls as JSON over HTTP, with their words. `BLESS=1` writes
//! it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
};

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use serde_json::{Map, Value, json};

/// Services that are offered as JSON, as the server has them.
const OFFERED: [&str; 4] = ["CompilerService", "OperationService", "ProfileService", "RunnerService"];
/// Numbers of the fields of descriptors, which paths of comments are made of.
const MESSAGE: i32 = 4;
const ENUM: i32 = 5;
const SERVICE: i32 = 6;
const MEMBER: i32 = 2;

/// The words at each path of a file.
struct Words(HashMap<Vec<i32>, String>);

impl Words {
    fn of(file: &FileDescriptorProto) -> Self {
        let places = file.source_code_info.iter().flat_map(|info| &info.location);
        let said = places.filter_map(|place| {
            let text = place.leading_comments.as_ref()?;
            let lines: Vec<_> = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
            Some((place.path.clone(), lines.join("\n").trim().to_owned()))
        });
        Self(said.collect())
    }

    fn at(&self, path: &[i32]) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }
}

fn index(number: usize) -> i32 {
    i32::try_from(number).unwrap()
}

fn described(mut schema: Value, words: &str) -> Value {
    if !words.is_empty() {
        schema["description"] = words.into();
    }
    schema
}

/// The name of a message or enum below the package.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap()
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{}", short(name)) })
}

fn single(field: &FieldDescriptorProto, is_open: bool) -> Value {
    // Answers have numbers of 64 bits as text; requests may have numbers too.
    let long = |format: &str| match is_open {
        true => json!({ "type": "string", "format": format }),
        false => json!({ "type": ["string", "integer"], "format": format }),
    };
    match field.r#type() {
        Type::Bool => json!({ "type": "boolean" }),
        Type::String => json!({ "type": "string" }),
        Type::Bytes => json!({ "type": "string", "format": "byte" }),
        Type::Double | Type::Float => json!({ "type": "number" }),
        Type::Int32 | Type::Sint32 | Type::Sfixed32 => json!({ "type": "integer", "format": "int32" }),
        Type::Uint32 | Type::Fixed32 => json!({ "type": "integer", "minimum": 0 }),
        Type::Int64 | Type::Sint64 | Type::Sfixed64 => long("int64"),
        Type::Uint64 | Type::Fixed64 => long("uint64"),
        Type::Message | Type::Enum | Type::Group => reference(field.type_name()),
    }
}

/// Messages and enums that answers have, directly or not.
fn of_answers(set: &FileDescriptorSet) -> BTreeSet<&str> {
    let files = || set.file.iter().filter(|file| file.package() == "antares.v1");
    let messages: HashMap<_, _> =
        files().flat_map(|file| &file.message_type).map(|message| (message.name(), message)).collect();
    let methods = files().flat_map(|file| &file.service).flat_map(|service| &service.method);
    let mut left: Vec<_> = methods.map(|method| short(method.output_type())).collect();
    let mut found = BTreeSet::new();
    while let Some(name) = left.pop() {
        let is_new = found.insert(name);
        let message = messages.get(name).filter(|_| is_new);
        let own = message.iter().flat_map(|message| message.nested_type.iter().chain([**message]));
        left.extend(own.flat_map(|message| &message.field).map(|field| short(field.type_name())));
    }
    found
}

fn message(message: &DescriptorProto, words: &Words, path: &[i32], is_open: bool) -> Value {
    let mut properties = Map::new();
    for (number, field) in message.field.iter().enumerate() {
        let said = words.at(&[path, &[MEMBER, index(number)]].concat());
        let entry = message.nested_type.iter().find(|nested| {
            nested.options.as_ref().is_some_and(|options| options.map_entry())
                && field.type_name().ends_with(&format!("{}.{}", message.name(), nested.name()))
        });
        let schema = match (entry, field.label()) {
            (Some(entry), _) => {
                json!({ "type": "object", "additionalProperties": single(&entry.field[1], is_open) })
            }
            (None, Label::Repeated) => json!({ "type": "array", "items": single(field, is_open) }),
            (None, _) => single(field, is_open),
        };
        properties.insert(field.json_name().to_owned(), described(schema, said));
    }
    let schema = json!({ "type": "object", "additionalProperties": is_open, "properties": properties });
    described(schema, words.at(path))
}

fn enumeration(values: &EnumDescriptorProto, words: &Words, path: &[i32], is_open: bool) -> Value {
    let mut text = words.at(path).to_owned();
    for (number, value) in values.value.iter().enumerate() {
        let said = words.at(&[path, &[MEMBER, index(number)]].concat());
        if !said.is_empty() {
            text += &format!("\n* `{}`: {said}", value.name());
        }
    }
    let names: Vec<_> = values.value.iter().map(|value| value.name()).collect();
    // Answers may have values that a client does not know.
    let key = if is_open { "examples" } else { "enum" };
    described(json!({ "type": "string", key: names }), text.trim())
}

fn operation(method: &MethodDescriptorProto, said: &str, service: &str) -> Value {
    let body = |name: &str, is_stream: bool| {
        let kind = if is_stream { "application/x-ndjson" } else { "application/json" };
        json!({ kind: { "schema": reference(name) } })
    };
    let (asks, tells) = (method.client_streaming(), method.server_streaming());
    let error = |status: &str| json!({ "$ref": format!("#/components/responses/{status}") });
    let mut responses: Map<_, _> =
        ERRORS.iter().map(|(status, _)| (status.to_string(), error(status))).collect();
    let said_of_answer = "The answer; of a stream each line is one, or the error that it ended with.";
    let answer = json!({ "description": said_of_answer, "content": body(method.output_type(), tells) });
    responses.insert("200".to_owned(), answer);
    json!({ "post": {
        "operationId": format!("{service}_{}", method.name()),
        "tags": [service],
        "description": said,
        "parameters": HEADERS.map(|(name, _)| json!({ "$ref": format!("#/components/parameters/{name}") })),
        "requestBody": { "required": true, "content": body(method.input_type(), asks) },
        "responses": responses,
    }})
}

/// Statuses of HTTP that are no status of the call itself, and all others.
const ERRORS: [(&str, &str); 5] = [
    ("403", "The origin is none of web.origins, or the caller may not do this."),
    ("404", "There is no such call, or not what it names."),
    ("405", "Calls are made with POST."),
    ("415", "The content type is none of this call, or the body is encoded."),
    ("default", "There is no answer."),
];

fn response((status, said): (&str, &str)) -> (String, Value) {
    let schema = json!({ "$ref": "#/components/schemas/Error" });
    let content = json!({ "application/json": { "schema": schema } });
    (status.to_owned(), json!({ "description": said, "content": content }))
}

/// The service of gRPC that says whether a service answers, which is in no file of ours.
fn health() -> Value {
    let method = MethodDescriptorProto {
        name: Some("Check".to_owned()),
        input_type: Some(".grpc.health.v1.HealthCheckRequest".to_owned()),
        output_type: Some(".grpc.health.v1.HealthCheckResponse".to_owned()),
        ..MethodDescriptorProto::default()
    };
    operation(&method, "Whether a service answers; without a name, all of them.", "Health")
}

/// Messages of [`health`].
fn health_schemas() -> [(String, Value); 2] {
    let schema = |is_open: bool, property: Value| json!({ "type": "object", "additionalProperties": is_open, "properties": property });
    let status = json!({ "type": "string", "examples": ["UNKNOWN", "SERVING", "NOT_SERVING"] });
    [
        ("HealthCheckRequest".to_owned(), schema(false, json!({ "service": { "type": "string" } }))),
        ("HealthCheckResponse".to_owned(), schema(true, json!({ "status": status }))),
    ]
}

/// Headers that calls may have beside `authorization`.
const HEADERS: [(&str, &str); 3] = [
    ("antares-tenant", "Whose call it is, where the caller may say so."),
    ("grpc-timeout", "The time of the call: 1 to 8 digits and one of H, M, S, m, u and n, such as 5S."),
    ("traceparent", "The trace that the call belongs to, as W3C has it."),
];

fn parameter((name, said): (&str, &str)) -> (String, Value) {
    let schema = json!({ "type": "string" });
    (name.to_owned(), json!({ "name": name, "in": "header", "description": said, "schema": schema }))
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "Why a call has no answer.",
        "properties": { "error": {
            "type": "object",
            "properties": {
                "code": { "type": "integer", "description": "The HTTP status." },
                "status": { "type": "string", "description": "The name of the gRPC status." },
                "message": { "type": "string" },
                "details": {
                    "type": "array",
                    "description": "google.rpc.ErrorInfo with the reason, RetryInfo, BadRequest and others, by @type.",
                    "items": { "type": "object" },
                },
            },
        }},
    })
}

fn openapi() -> Value {
    // Not the constant: what `generated` has just written is not built in yet.
    let descriptors = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated/antares.v1.bin");
    let set = FileDescriptorSet::decode(&*fs::read(descriptors).unwrap()).unwrap();
    let open = of_answers(&set);
    let (mut paths, mut schemas) = (BTreeMap::new(), BTreeMap::new());
    schemas.insert("Error".to_owned(), error());
    schemas.extend(health_schemas());
    paths.insert("/grpc.health.v1.Health/Check".to_owned(), health());
    for file in set.file.iter().filter(|file| file.package() == "antares.v1") {
        let words = Words::of(file);
        for (number, service) in file.service.iter().enumerate() {
            if !OFFERED.contains(&service.name()) {
                continue;
            }
            for (place, method) in service.method.iter().enumerate() {
                let said = words.at(&[SERVICE, index(number), MEMBER, index(place)]);
                let path = format!("/antares.v1.{}/{}", service.name(), method.name());
                paths.insert(path, operation(method, said, service.name()));
            }
        }
        for (number, of_file) in file.message_type.iter().enumerate() {
            let is_open = open.contains(of_file.name());
            let schema = message(of_file, &words, &[MESSAGE, index(number)], is_open);
            assert!(schemas.insert(of_file.name().to_owned(), schema).is_none(), "{}", of_file.name());
            for (place, values) in of_file.enum_type.iter().enumerate() {
                let path = [MESSAGE, index(number), 4, index(place)];
                let schema = enumeration(values, &words, &path, open.contains(values.name()));
                schemas.insert(values.name().to_owned(), schema);
            }
        }
        for (number, values) in file.enum_type.iter().enumerate() {
            let schema = enumeration(values, &words, &[ENUM, index(number)], open.contains(values.name()));
            schemas.insert(values.name().to_owned(), schema);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Antares",
            "version": "v1",
            "description": "antares.v1 as JSON over HTTP, made from the proto files.",
        },
        "paths": paths,
        "components": {
            "responses": ERRORS.map(response).into_iter().collect::<Map<_, _>>(),
            "parameters": HEADERS.map(parameter).into_iter().collect::<Map<_, _>>(),
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
}

#[test]
fn the_openapi_file_is_made_from_the_proto_files() {
    let made = format!("{}\n", serde_json::to_string_pretty(&openapi()).unwrap());
    antares_guests::golden(concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json"), &made);
}

/// Each reference leads somewhere, and the words came along.
#[test]
fn it_is_whole() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| match (key.as_str(), value) {
                ("$ref", Value::String(name)) => found.push(name.clone()),
                _ => references(value, found),
            }),
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let api = openapi();
    let mut found = Vec::new();
    references(&api, &mut found);
    assert!(found.len() > 100);
    for name in found {
        assert!(api.pointer(name.trim_start_matches('#')).is_some(), "{name}");
    }
    let execute = &api["paths"]["/antares.v1.RunnerService/Execute"]["post"];
    assert_eq!(execute["description"], "Runs one script once.");
    assert!(api["paths"].get("/antares.v1.AdminService/Drain").is_none());
    let schemas = &api["components"]["schemas"];
    let is_open = |name: &str| schemas[name]["additionalProperties"] == true;
    assert!(is_open("Verdict") && is_open("ExecuteResponse") && !is_open("ExecuteRequest"));
    let max_cycles = &schemas["RunLimits"]["properties"]["maxCycles"];
    let kinds = (&schemas["Verdict"]["properties"]["cycles"]["type"], &max_cycles["type"][1]);
    assert_eq!(kinds, (&json!("string"), &json!("integer")));
    assert_eq!(execute["responses"]["415"]["$ref"], "#/components/responses/415");
    assert!(schemas["Outcome"].get("enum").is_none() && schemas["Tier"].get("enum").is_some());
}
