//! Location of the shared tier: a URL, and the client for it.

use std::{env, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientConfigKey, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder,
    path::Path,
};

use crate::{listing::Connector, remote::Bucket};

/// Why no client can be made for a URL.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    /// The URL has an unknown scheme or is malformed.
    #[error("must be s3://bucket/prefix, gs://bucket/prefix or az://container/prefix, is {0:?}")]
    Kind(String),
    /// The client rejects the URL or the credentials.
    #[error("{0}: {1}")]
    Client(String, #[source] object_store::Error),
}

/// Location of objects: a bucket and a prefix.
#[derive(Clone, Debug)]
pub struct StoreLocation {
    pub(crate) prefix: Path,
    pub(crate) store: Arc<dyn Bucket>,
    url: String,
}

/// Scheme, bucket and prefix of a URL.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let (kind, rest) = url.split_once("://")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_plain = |text: &str| !text.is_empty() && !text.contains(['?', '#', '@', '%', '\\', ' ']);
    let is_known = ["s3", "gs", "az"].contains(&kind)
        && is_plain(bucket)
        && (prefix.is_empty() || is_plain(prefix))
        && !prefix.split('/').any(|part| part == "..");
    is_known.then_some((kind, bucket, prefix))
}

impl StoreLocation {
    /// The location that `url` names, with credentials from the environment. Sends no request.
    ///
    /// # Errors
    /// The URL is unsupported, or the client rejects its settings.
    pub fn open(url: &str) -> Result<Self, LocationError> {
        let (kind, bucket, prefix) = parts(url).ok_or_else(|| LocationError::Kind(url.to_owned()))?;
        let store = match kind {
            "s3" => s3(bucket).build().map(shared),
            "gs" => gcs(bucket).build().map(shared),
            _ => azure(bucket).build().map(shared),
        };
        let store = store.map_err(|source| LocationError::Client(url.to_owned(), source))?;
        Ok(Self { prefix: Path::from(prefix), store, url: url.to_owned() })
    }

    /// A bucket on the S3 server at `endpoint`, without credentials.
    ///
    /// # Errors
    /// The client rejects it.
    pub fn s3_at(endpoint: &str, bucket: &str) -> Result<Self, LocationError> {
        let url = format!("s3://{bucket}");
        let builder = s3(bucket).with_endpoint(endpoint).with_allow_http(true).with_skip_signature(true);
        let store = builder.build().map_err(|source| LocationError::Client(url.clone(), source))?;
        Ok(Self { prefix: Path::default(), store: shared(store), url })
    }

    /// URL of the location.
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn shared(store: impl Bucket) -> Arc<dyn Bucket> {
    Arc::new(store)
}

/// A single attempt: the caller, not the client, knows whether there is time for a retry.
fn once() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: Duration::from_secs(30) }
}

fn s3(bucket: &str) -> AmazonS3Builder {
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(once())
        .with_http_connector(Connector)
        // Not every provider supports bulk removals, and objects are removed one at a time.
        .with_disable_bulk_delete(true);
    // An endpoint URL with scheme `http` allows plain HTTP.
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    match endpoint {
        Some(endpoint) => {
            let is_plain = endpoint.starts_with("http://");
            builder
                .with_endpoint(endpoint)
                .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp), is_plain.to_string())
        }
        None => builder,
    }
}

fn gcs(bucket: &str) -> GoogleCloudStorageBuilder {
    GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(once())
        .with_http_connector(Connector)
}

fn azure(container: &str) -> MicrosoftAzureBuilder {
    MicrosoftAzureBuilder::from_env()
        .with_container_name(container)
        .with_retry(once())
        .with_http_connector(Connector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_bucket_and_a_prefix() {
        assert_eq!(parts("s3://bucket"), Some(("s3", "bucket", "")));
        assert_eq!(parts("gs://bucket/a/b"), Some(("gs", "bucket", "a/b")));
        assert_eq!(parts("az://c/p/"), Some(("az", "c", "p/")));
        let wrong =
            "s3:/b s3:// s3:///p http://h/p file:///folder s3://b?x=1 s3://u@b/p s3://b/../c s3://b/%2e%2e";
        for wrong in wrong.split(' ').chain([""]) {
            assert!(parts(wrong).is_none(), "{wrong}");
        }
    }
}
