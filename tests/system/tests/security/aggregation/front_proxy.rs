//! A CA for front proxies, published beside the real one.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

const CONFIG_MAP: &str = "extension-apiserver-authentication";
const KEY: &str = "requestheader-client-ca-file";

/// A certificate and its key.
pub(crate) type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// A CA, and the published bundle without it.
pub(crate) struct TestCa {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    before: String,
}

// === impl TestCa ===

impl TestCa {
    /// An unpublished CA.
    pub(crate) fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "test front proxies");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(parameters, key), pem, before: String::new() })
    }

    /// Publishes a new CA beside the existing one. The API server owns that ConfigMap, and only
    /// ever adds to the bundle.
    pub(crate) async fn publish(client: &Client) -> Result<Self> {
        let map = maps(client).get(CONFIG_MAP).await?;
        let before =
            map.data.and_then(|mut data| data.remove(KEY)).context("no front proxy CA is published")?;
        let ca = Self { before, ..Self::new()? };
        write(client, &format!("{}\n{}", ca.before.trim_end(), ca.pem)).await?;
        Ok(ca)
    }

    /// Restores the former bundle.
    pub(crate) async fn withdraw(&self, client: &Client) -> Result<()> {
        write(client, &self.before).await
    }

    pub(crate) fn client(&self, name: &str) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = parameters.signed_by(&key, &self.issuer)?.der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        Ok((certificate, key))
    }
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "kube-system")
}

async fn write(client: &Client, bundle: &str) -> Result<()> {
    let patch = Patch::Merge(json!({"data": {KEY: bundle}}));
    maps(client).patch(CONFIG_MAP, &PatchParams::default(), &patch).await?;
    Ok(())
}
