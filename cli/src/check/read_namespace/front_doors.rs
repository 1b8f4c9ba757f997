//! Reads front doors: Ingresses of a namespace, and routes of all, which may lead to it.

use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};

use super::listing::{ApiGroups, keep, list, objects};
use crate::check::front_door::FrontDoor;
use crate::check::front_door::controller::Controllers;
use crate::connection::Session;
use crate::workloads::list_all;

/// Group of the Gateway API.
const GATEWAY: &str = "gateway.networking.k8s.io";
/// Kinds and resources of routes to Services.
const ROUTES: [(&str, &str); 2] = [("HTTPRoute", "httproutes"), ("GRPCRoute", "grpcroutes")];

/// A route and its kind.
type Route = (&'static str, DynamicObject);

/// What serves front doors, and all routes.
pub(in crate::check) struct Gateways {
    controllers: Controllers,
    /// `None` if the user may not read those of all namespaces.
    routes: Option<Vec<Route>>,
}

// === impl Gateways ===

impl Gateways {
    /// Of all namespaces, or of the one that the user chose. A cluster without the Gateway API has
    /// none.
    pub(in crate::check) async fn read(
        session: &Session,
        groups: &ApiGroups,
        unchecked: &mut Vec<String>,
    ) -> Self {
        let client = || session.client.clone();
        let classes: Vec<IngressClass> =
            keep(list_all(&Api::all(client())).await, "IngressClasses", unchecked);
        if !groups.may_have(GATEWAY) {
            return Self { controllers: Controllers::new(&classes, &[], &[]), routes: Some(Vec::new()) };
        }
        let resource = ApiResource::from_gvk_with_plural(&kind("GatewayClass"), "gatewayclasses");
        let gateway_classes: Api<DynamicObject> = Api::all_with(client(), &resource);
        let gateway_classes = keep(list_all(&gateway_classes).await, "GatewayClasses", unchecked);
        let namespace = session.only_namespace.as_deref();
        let gateways = objects(session, namespace, &kind("Gateway"), "gateways", unchecked).await;
        let gateways = gateways.unwrap_or_default();
        Self {
            controllers: Controllers::new(&classes, &gateway_classes, &gateways),
            routes: routes(session, namespace, unchecked).await,
        }
    }

    /// The front doors of the Services of a namespace.
    pub(super) async fn front_doors(
        &self,
        session: &Session,
        namespace: &str,
        unchecked: &mut Vec<String>,
    ) -> Vec<FrontDoor> {
        let ingresses: Vec<Ingress> =
            keep(list(session, namespace).await, &format!("Ingresses in {namespace}"), unchecked);
        let ingresses = ingresses.iter().map(|it| FrontDoor::of_ingress(it, &self.controllers));
        let mut doors: Vec<FrontDoor> = ingresses.collect();
        let own = match &self.routes {
            Some(_) => None,
            None => routes(session, Some(namespace), unchecked).await,
        };
        let routes = self.routes.iter().chain(&own).flatten();
        doors.extend(
            routes.filter_map(|(kind, it)| FrontDoor::of_route(kind, it, namespace, &self.controllers)),
        );
        doors
    }
}

/// The routes of a namespace, or of all; `None` if a kind could not be read.
async fn routes(
    session: &Session,
    namespace: Option<&str>,
    unchecked: &mut Vec<String>,
) -> Option<Vec<Route>> {
    let mut routes = Vec::new();
    for (name, plural) in ROUTES {
        let all = objects(session, namespace, &kind(name), plural, unchecked).await?;
        routes.extend(all.into_iter().map(|route| (name, route)));
    }
    Some(routes)
}

fn kind(name: &str) -> GroupVersionKind {
    GroupVersionKind::gvk(GATEWAY, "v1", name)
}
