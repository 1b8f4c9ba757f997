//! Reads front doors: Ingresses of a namespace, and routes of all, which may lead to it.

use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};

use super::listing::Lister;
use crate::check::front_door::FrontDoor;
use crate::check::front_door::controller::Controllers;

/// Group of the Gateway API.
const GATEWAY: &str = "gateway.networking.k8s.io";
/// Kinds of routes to Services.
const ROUTES: [&str; 2] = ["HTTPRoute", "GRPCRoute"];

/// A route and its kind.
type Route = (&'static str, DynamicObject);

/// What serves front doors, and all routes.
pub(super) struct Gateways {
    controllers: Controllers,
    /// `None` if the user may not read those of all namespaces.
    routes: Option<Vec<Route>>,
}

// === impl Gateways ===

impl Gateways {
    /// Of all namespaces, or of the one that the user chose. A cluster without the Gateway API has
    /// none.
    pub(super) async fn read(lister: &mut Lister<'_>) -> Self {
        let session = lister.session;
        let classes: Api<IngressClass> = Api::all(session.client.clone());
        let classes = lister.known(&classes, "IngressClasses").await.unwrap_or_default();
        if !lister.may_have(GATEWAY) {
            return Self { controllers: Controllers::new(&classes, &[], &[]), routes: Some(Vec::new()) };
        }
        let resource = ApiResource::from_gvk(&kind("GatewayClass"));
        let gateway_classes: Api<DynamicObject> = Api::all_with(session.client.clone(), &resource);
        let gateway_classes = lister.known(&gateway_classes, "GatewayClasses").await.unwrap_or_default();
        let namespace = session.only_namespace.as_deref();
        let gateways = lister.dynamic(namespace, &kind("Gateway")).await.unwrap_or_default();
        Self {
            controllers: Controllers::new(&classes, &gateway_classes, &gateways),
            routes: routes(lister, namespace).await,
        }
    }

    /// The front doors of the Services of a namespace.
    pub(super) async fn front_doors(&self, lister: &mut Lister<'_>, namespace: &str) -> Vec<FrontDoor> {
        let ingresses: Vec<Ingress> = lister.list(namespace, "Ingresses").await;
        let ingresses = ingresses.iter().map(|it| FrontDoor::of_ingress(it, &self.controllers));
        let mut doors: Vec<FrontDoor> = ingresses.collect();
        let own = match &self.routes {
            Some(_) => None,
            None => routes(lister, Some(namespace)).await,
        };
        let routes = self.routes.iter().chain(&own).flatten();
        doors.extend(
            routes.filter_map(|(kind, it)| FrontDoor::of_route(kind, it, namespace, &self.controllers)),
        );
        doors
    }
}

/// The routes of a namespace, or of all; `None` if a kind could not be read.
async fn routes(lister: &mut Lister<'_>, namespace: Option<&str>) -> Option<Vec<Route>> {
    let mut routes = Vec::new();
    for name in ROUTES {
        let all = lister.dynamic(namespace, &kind(name)).await?;
        routes.extend(all.into_iter().map(|route| (name, route)));
    }
    Some(routes)
}

fn kind(name: &str) -> GroupVersionKind {
    GroupVersionKind::gvk(GATEWAY, "v1", name)
}
