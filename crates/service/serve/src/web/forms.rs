//! Methods callable over HTTP, and conversion of their messages between JSON and the wire format, from the
//! proto files.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::HeaderMap;
use prost::Message as _;
use prost_reflect::{
    DescriptorError, DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage as _, Value as Field,
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use serde_path_to_error::{Deserializer, Track};

use super::plain_json::Plain;
use crate::status::{Fault, code_in, http_status};

/// Services offered over HTTP: none for operators.
const OFFERED: [&str; 5] = [
    "antares.v1.CompilerService",
    "antares.v1.OperationService",
    "antares.v1.ProfileService",
    "antares.v1.RunnerService",
    "grpc.health.v1.Health",
];

/// An invalid request field, in an error within a response.
const VIOLATION: &str = "antares.v1.FieldViolation";

/// Nesting levels of a request that are searched for a field.
const DEPTH_MAX: usize = 3;

/// Bytes of a JSON object during parsing: a node of a field tree.
const OBJECT_BYTES: usize = 1 << 10;

/// Bytes of any other value, doubled for growing lists.
const VALUE_BYTES: usize = 128;

/// One method.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    pub(crate) input: MessageDescriptor,
    pub(crate) output: MessageDescriptor,
    pub(crate) takes_stream: bool,
    pub(crate) gives_stream: bool,
}

/// All methods, by path.
#[derive(Debug)]
pub(crate) struct Forms {
    methods: HashMap<String, Method>,
    status: Option<MessageDescriptor>,
}

impl Forms {
    /// For the services in the encoded descriptor `sets`.
    pub(crate) fn new(sets: &[&[u8]]) -> Result<Self, DescriptorError> {
        let mut pool = DescriptorPool::new();
        for set in sets {
            pool.decode_file_descriptor_set(*set)?;
        }
        let offered = pool.services().filter(|service| OFFERED.contains(&service.full_name()));
        let methods = offered.flat_map(|service| service.methods().collect::<Vec<_>>());
        let methods = methods.map(|method| {
            let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
            let known = Method {
                input: method.input(),
                output: method.output(),
                takes_stream: method.is_client_streaming(),
                gives_stream: method.is_server_streaming(),
            };
            (path, known)
        });
        let methods = methods.collect();
        Ok(Self { methods, status: pool.get_message_by_name("google.rpc.Status") })
    }

    /// The method at `path`.
    pub(crate) fn method(&self, path: &str) -> Option<&Method> {
        self.methods.get(path)
    }

    /// The error in `headers` or trailers: `google.rpc.Status` in JSON, with the HTTP and gRPC codes. Fields
    /// of `request` have their JSON names.
    pub(crate) fn error(&self, headers: &HeaderMap, request: &MessageDescriptor) -> Value {
        let details = headers.get("grpc-status-details-bin").and_then(|value| self.details(value.as_bytes()));
        let details = details.map(|mut details| {
            let of_bad_request = |detail: &mut Value| detail.get_mut("fieldViolations").map(Value::take);
            for detail in details.as_array_mut().into_iter().flatten() {
                let Some(mut violations) = of_bad_request(detail) else { continue };
                for violation in violations.as_array_mut().into_iter().flatten() {
                    let field = violation["field"].as_str().map(|path| path_in_json(request, path));
                    violation["field"] = field.into();
                }
                detail["fieldViolations"] = violations;
            }
            details
        });
        let message = tonic::Status::from_header_map(headers).map(|status| status.message().to_owned());
        json!({ "error": {
            "code": http_status(headers).as_u16(),
            "status": code_in(headers),
            "message": message,
            "details": details.unwrap_or_else(|| json!([])),
        }})
    }

    fn details(&self, value: &[u8]) -> Option<Value> {
        let padding = value.iter().rposition(|&byte| byte != b'=').map_or(0, |last| last + 1);
        let bytes = STANDARD_NO_PAD.decode(&value[..padding]).ok()?;
        let status = DynamicMessage::decode(self.status.clone()?, &bytes[..]).ok()?;
        let mut status = serde_json::to_value(&status).ok()?;
        status.get_mut("details").map(Value::take)
    }
}

/// Converts a field path of `request`, or of a nested message, to JSON names. The part after the last field
/// comes from the caller.
fn path_in_json(request: &MessageDescriptor, path: &str) -> String {
    let split = |part: &str| part.find('[').unwrap_or(part.len());
    let first = path.split('.').next().map_or("", |part| &part[..split(part)]);
    let parts_of = |message: &MessageDescriptor| -> Vec<_> {
        message.fields().filter_map(|field| field.kind().as_message().cloned()).collect()
    };
    let levels = std::iter::successors(Some(vec![request.clone()]), |level| {
        Some(level.iter().flat_map(parts_of).collect())
    });
    let mut messages = levels.take(DEPTH_MAX).flatten();
    let mut message = messages.find(|message| message.get_field_by_name(first).is_some());
    let in_json = |part: &str| {
        let (name, index) = part.split_at(split(part));
        let Some(field) = message.take().and_then(|message| message.get_field_by_name(name)) else {
            return part.to_owned();
        };
        message = field.kind().as_message().cloned();
        format!("{}{index}", field.json_name())
    };
    path.split('.').map(in_json).collect::<Vec<_>>().join(".")
}

/// Converts fields of `request` in a response's errors to JSON names.
fn name_fields(answer: &mut DynamicMessage, request: &MessageDescriptor) {
    let is_violation = answer.descriptor().full_name() == VIOLATION;
    for (field, value) in answer.fields_mut() {
        match value {
            Field::String(path) if is_violation && field.name() == "field" => {
                *path = path_in_json(request, path);
            }
            Field::Message(message) => name_fields(message, request),
            Field::List(items) => {
                items
                    .iter_mut()
                    .filter_map(Field::as_message_mut)
                    .for_each(|item| name_fields(item, request));
            }
            _ => {}
        }
    }
}

/// Maximum memory for parsing `text`, without the text: `{},` is a message with its own slot.
pub(crate) fn reading_bytes(text: &[u8]) -> usize {
    let (mut bytes, mut is_text, mut is_escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' if !is_text => bytes += OBJECT_BYTES,
            b'[' | b',' if !is_text => bytes += VALUE_BYTES,
            _ => {}
        }
    }
    bytes
}

/// Converts `text` to a framed gRPC message.
pub(crate) fn to_frame(message: &MessageDescriptor, text: &[u8]) -> Result<Bytes, Fault> {
    let (mut json, mut track) = (serde_json::Deserializer::from_slice(text), Track::new());
    let plain = Plain::deserialize(Deserializer::new(&mut json, &mut track));
    plain.map_err(|error| no_message(message, track, &error))?;
    let (mut json, mut track) = (serde_json::Deserializer::from_slice(text), Track::new());
    let read = DynamicMessage::deserialize(message.clone(), Deserializer::new(&mut json, &mut track));
    let read = read.and_then(|read| json.end().map(|()| read));
    let read = read.map_err(|error| no_message(message, track, &error))?;
    let bytes = read.encoded_len();
    let length = u32::try_from(bytes).map_err(|_| too_long(bytes, u32::MAX as usize))?;
    let mut frame = BytesMut::with_capacity(5 + bytes);
    frame.put_u8(0);
    frame.put_u32(length);
    read.encode(&mut frame).map_err(|error| Fault::internal(&error))?;
    Ok(frame.freeze())
}

fn no_message(message: &MessageDescriptor, track: Track, error: &serde_json::Error) -> Fault {
    let problem = format!("the body is no {} in JSON: {error}", message.name());
    Fault::invalid("MESSAGE_MALFORMED", problem).violation(track.path().to_string(), error.to_string())
}

/// Converts a response to a line of JSON.
pub(crate) fn to_line(method: &Method, bytes: &[u8]) -> Result<Bytes, Fault> {
    let message = DynamicMessage::decode(method.output.clone(), bytes);
    let mut message = message.map_err(|error| Fault::internal(&error))?;
    name_fields(&mut message, &method.input);
    let mut line = serde_json::to_vec(&message).map_err(|error| Fault::internal(&error))?;
    line.push(b'\n');
    Ok(line.into())
}

/// A message exceeds its maximum length.
pub(crate) fn too_long(bytes: usize, most: usize) -> Fault {
    let problem = format!("a message of {bytes} bytes or more, at most {most} are allowed");
    Fault::too_large(problem).metadata("message_bytes_max", most.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms() -> Forms {
        let health = tonic_health::pb::FILE_DESCRIPTOR_SET;
        Forms::new(&[antares_proto::FILE_DESCRIPTOR_SET, health, tonic_types::pb::FILE_DESCRIPTOR_SET])
            .unwrap()
    }

    #[test]
    fn fields_have_the_names_that_the_caller_wrote() {
        let forms = forms();
        let input = &forms.method("/antares.v1.RunnerService/VerifyTransaction").unwrap().input;
        for (path, reported) in [
            ("mock_json", "mockJson"),
            ("rules.script_version", "rules.scriptVersion"),
            ("limits.maxCycles", "limits.maxCycles"),
            ("cell_deps[1].cell.data_sha256", "cellDeps[1].cell.dataSha256"),
            // A path of the transaction, not of the request.
            ("tx.cell_deps[0]", "tx.cell_deps[0]"),
            ("mock_info.inputs[0].output", "mock_info.inputs[0].output"),
            ("", ""),
        ] {
            assert_eq!(path_in_json(input, path), reported);
        }
    }

    #[test]
    fn fields_of_an_answer_s_errors_too() {
        use antares_proto::v1;

        let forms = forms();
        let violation = |field: &str| v1::FieldViolation { field: field.to_owned(), ..Default::default() };
        let fields = ["cell_deps[1]", "inputs[0].data_sha256", "tx.cell_deps[0]"];
        let violations = fields.map(violation).to_vec();
        let error = v1::OperationError { violations, ..Default::default() };
        let result = v1::shared_transaction_result::Result::Error(error);
        let result = v1::SharedTransactionResult { id: 1, result: Some(result) };
        let message = v1::verify_session_response::Message::Result(result.clone());
        let session = v1::VerifySessionResponse { message: Some(message) }.encode_to_vec();
        let batch = v1::VerifyBatchResponse { results: vec![result], ..Default::default() }.encode_to_vec();
        for (name, answer) in [("VerifySession", session), ("VerifyBatch", batch)] {
            let method = forms.method(&format!("/antares.v1.RunnerService/{name}")).unwrap();
            let line = to_line(method, &answer).unwrap();
            for reported in ["\"cellDeps[1]\"", "\"inputs[0].dataSha256\"", "\"tx.cell_deps[0]\""] {
                assert!(String::from_utf8_lossy(&line).contains(reported), "{line:?}");
            }
        }
    }

    #[test]
    fn messages_go_there_and_back() {
        let forms = forms();
        let method = forms.method("/grpc.health.v1.Health/Check").unwrap();
        assert!(!method.takes_stream && !method.gives_stream);
        let frame = to_frame(&method.input, br#"{"service": "a"}"#).unwrap();
        assert_eq!(&frame[..], b"\0\0\0\0\x03\x0a\x01a");
        assert_eq!(to_line(method, b"\x08\x01").unwrap(), "{\"status\":\"SERVING\"}\n");
        assert!(forms.method("/grpc.health.v1.Health/Check/").is_none());
        assert!(forms.method("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo").is_none());
    }

    #[test]
    fn what_is_no_message_is_reported_with_its_place() {
        let forms = forms();
        let input = &forms.method("/grpc.health.v1.Health/Check").unwrap().input;
        let wrong =
            "{|[]|{}{}|{'service':1}|{'other':1}|null|{'service':'\\ud800'}|{'service':'a','service':'a'}";
        for wrong in wrong.replace('\'', "\"").split('|').chain([""]) {
            let fault = to_frame(input, wrong.as_bytes()).unwrap_err();
            assert_eq!(fault.reason(), "MESSAGE_MALFORMED", "{wrong}");
        }
        let status = tonic::Status::from(to_frame(input, b"{\"service\":1}").unwrap_err());
        let headers = status.into_http::<()>().into_parts().0.headers;
        let error = forms.error(&headers, input);
        assert_eq!(error["error"]["code"], 400);
        assert_eq!(error["error"]["status"], "INVALID_ARGUMENT");
        let details = error["error"]["details"].as_array().unwrap();
        assert_eq!(details[0]["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
        assert_eq!(details[0]["reason"], "MESSAGE_MALFORMED");
        assert_eq!(details[1]["fieldViolations"][0]["field"], "service");
    }

    #[test]
    fn bombs_of_few_bytes_count_for_what_they_become() {
        assert_eq!(reading_bytes(br#"{"a":[{},{}]}"#), 3 * OBJECT_BYTES + 2 * VALUE_BYTES);
        assert_eq!(reading_bytes(br#"{"a":"{\"b\":[{},{}]}\\"}"#), OBJECT_BYTES);
    }
}
