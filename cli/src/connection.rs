//! Session: the API server of the user's kubeconfig, and the selected namespaces.

use autoscaler::Key;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::args::ConnectionArgs;
use crate::error::CommandError;

/// A client with the user's rights. Clones share it.
#[derive(Clone)]
pub struct Session {
    pub client: Client,
    /// Namespace of names without one: by the flag, else by the context.
    pub namespace: String,
    /// Namespace of the flag; `None` is all namespaces.
    pub only_namespace: Option<String>,
    /// Namespace of the installation.
    pub system_namespace: String,
}

// === impl Session ===

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Session {
    /// Reads the kubeconfig. No request is sent.
    ///
    /// # Errors
    /// When there is no usable kubeconfig.
    pub async fn connect(args: &ConnectionArgs) -> Result<Self, CommandError> {
        // An error means that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = config(args).await?;
        let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(CommandError::Client)?;
        Ok(Self {
            client,
            namespace,
            only_namespace: args.namespace.clone(),
            system_namespace: args.system_namespace.clone(),
        })
    }

    /// The workload that an argument names: NAME or NAMESPACE/NAME.
    ///
    /// # Errors
    /// When a part is empty.
    pub fn workload(&self, name: &str) -> Result<Key, CommandError> {
        let (namespace, name) = name.split_once('/').unwrap_or((&self.namespace, name));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            let message = format!("{namespace}/{name} names no workload; use NAME or NAMESPACE/NAME");
            return Err(CommandError::Argument(message));
        }
        Ok(Key::new(namespace, name))
    }

    /// The objects of a kind in the selected namespaces.
    pub fn selected<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match &self.only_namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }
}

async fn config(args: &ConnectionArgs) -> Result<Config, CommandError> {
    if args.kubeconfig.is_none() && args.context.is_none() {
        return Ok(Config::infer().await?);
    }
    let kubeconfig = match &args.kubeconfig {
        Some(file) => Kubeconfig::read_from(file)?,
        None => Kubeconfig::read()?,
    };
    let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}
