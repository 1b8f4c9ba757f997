// Package policies evaluates the admission policies of deploy with the API server's own code: which
// user may write which object, without a cluster.
package policies

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

const (
	zeroScaler = "system:serviceaccount:rouse-system:zero-scaler"
	activator  = "system:serviceaccount:rouse-system:activator"
	adapter    = "system:serviceaccount:rouse-system:metrics-adapter"
	collector  = "system:serviceaccount:kube-system:generic-garbage-collector"
	namespaces = "system:serviceaccount:kube-system:namespace-controller"
	endpoints  = "system:serviceaccount:kube-system:endpointslice-controller"
	manager    = "system:kube-controller-manager"
	tenant     = "tenant"
	ours       = "zero-scaler.autoscaling.rouse.dev"
	kubernetes = "endpointslice-controller.k8s.io"
	mirroring  = "endpointslicemirroring-controller.k8s.io"
	another    = "mesh.example.com"
)

type object map[string]any

// request is one request to the API server, without what the policies do not read.
type request struct {
	user   string
	groups []string
	// pod is the one that the user's token is bound to.
	pod       string
	operation admission.Operation
	dryRun    bool
	before    object
	after     object
	// rights are the resources that the user may update, as GROUP/RESOURCE/SUBRESOURCE.
	rights []string
	// isDeleted is whether the namespace of Rouse is gone, and with it the zero-scaler's right to its Lease.
	isDeleted bool
}

// policies returns the ValidatingAdmissionPolicies of a file by the first word of their names.
func policies(t *testing.T, file string) map[string]*admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	content, err := os.ReadFile("../../../deploy/" + file)
	if err != nil {
		t.Fatal(err)
	}
	found, bound := map[string]*admissionv1.ValidatingAdmissionPolicy{}, map[string]bool{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		policy := &admissionv1.ValidatingAdmissionPolicy{}
		if err := yaml.UnmarshalStrict(document, policy); err == nil && policy.Kind == "ValidatingAdmissionPolicy" {
			found[strings.Split(policy.Name, ".")[0]] = policy
			continue
		}
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
		if err := yaml.UnmarshalStrict(document, binding); err != nil {
			t.Fatal(err)
		}
		if binding.Spec.ParamRef != nil || len(binding.Spec.ValidationActions) != 1 || binding.Spec.ValidationActions[0] != "Deny" {
			t.Errorf("binding %s does not deny by itself", binding.Name)
		}
		bound[binding.Spec.PolicyName] = true
	}
	for _, policy := range found {
		if !bound[policy.Name] {
			t.Errorf("policy %s has no binding", policy.Name)
		}
	}
	return found
}

// compile compiles a policy as the API server does.
func compile(t *testing.T, policy *admissionv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	withAuthorizer := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, variable := range policy.Spec.Variables {
		compiled := compiler.CompileAndStoreVariable(
			&validating.Variable{Name: variable.Name, Expression: variable.Expression}, withAuthorizer, environment.NewExpressions)
		if compiled.Error != nil {
			t.Fatalf("%s, variable %s: %v", policy.Name, variable.Name, compiled.Error)
		}
	}
	var conditions, validations, messages []cel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	for _, validation := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{
			Expression: validation.Expression, Message: validation.Message, Reason: validation.Reason})
		messages = append(messages, nil)
		if validation.MessageExpression != "" {
			messages[len(messages)-1] = &validating.MessageExpressionCondition{MessageExpression: validation.MessageExpression}
		}
	}
	evaluator := func(expressions []cel.ExpressionAccessor, declarations cel.OptionalVariableDeclarations) cel.ConditionEvaluator {
		compiled := compiler.CompileCondition(expressions, declarations, environment.NewExpressions)
		for _, err := range compiled.CompilationErrors() {
			t.Fatalf("%s: %v", policy.Name, err)
		}
		return compiled
	}
	var matcher matchconditions.Matcher
	if len(conditions) > 0 {
		matcher = matchconditions.NewMatcher(evaluator(conditions, withAuthorizer), policy.Spec.FailurePolicy, "policy", "validate", policy.Name)
	}
	return validating.NewValidator(
		evaluator(validations, withAuthorizer), matcher, evaluator(nil, withAuthorizer),
		evaluator(messages, cel.OptionalVariableDeclarations{}), policy.Spec.FailurePolicy, nil)
}

// denial returns why the policy refuses a request; empty if it does not.
func denial(t *testing.T, policy *admissionv1.ValidatingAdmissionPolicy, request request) string {
	t.Helper()
	convert := func(content object) runtime.Object {
		if content == nil {
			return nil
		}
		// Through JSON, for the types that the API server has.
		encoded, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		decoded := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(encoded, &decoded.Object); err != nil {
			t.Fatal(err)
		}
		return decoded
	}
	kind := schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Kind"}
	resource := schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "kinds"}
	info := &user.DefaultInfo{Name: request.user, Groups: request.groups}
	if request.pod != "" {
		info.Extra = map[string][]string{"authentication.kubernetes.io/pod-name": {request.pod}}
	}
	before, after := convert(request.before), convert(request.after)
	attributes := admission.NewAttributesRecord(after, before, kind, "shop", "web", resource, "", request.operation, nil, request.dryRun, info)
	versioned := &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: kind,
		VersionedObject: admission.NewLazyObject(after), VersionedOldObject: admission.NewLazyObject(before)}
	authorizer := rights{request.rights, request.isDeleted}
	result := compile(t, policy).Validate(
		context.Background(), resource, versioned, nil, &corev1.Namespace{}, celconfig.RuntimeCELCostBudget, authorizer)
	for _, decision := range result.Decisions {
		if decision.Evaluation == validating.EvalError {
			t.Fatalf("%s: %s", policy.Name, decision.Message)
		}
		if decision.Action == validating.ActionDeny {
			return decision.Message
		}
	}
	return ""
}

// rights authorizes updates of these resources in one namespace, impersonation of these accounts of Rouse, and deletion of these
// policies. The zero-scaler has the right to its Lease.
type rights struct {
	resources []string
	isDeleted bool
}

func (r rights) Authorize(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	name := attributes.GetAPIGroup() + "/" + attributes.GetResource() + "/" + attributes.GetSubresource()
	account := attributes.GetAPIGroup() + "/" + attributes.GetResource() + "/" + attributes.GetName()
	if attributes.GetVerb() == "impersonate" && attributes.GetNamespace() == "rouse-system" && slices.Contains(r.resources, account) {
		return authorizer.DecisionAllow, "", nil
	}
	if attributes.GetVerb() == "delete" && attributes.GetNamespace() == "" && slices.Contains(r.resources, account) {
		return authorizer.DecisionAllow, "", nil
	}
	if attributes.GetUser().GetName() == zeroScaler && attributes.GetVerb() == "update" && attributes.GetNamespace() == "rouse-system" &&
		account == "coordination.k8s.io/leases/zero-scaler" && !r.isDeleted {
		return authorizer.DecisionAllow, "", nil
	}
	if attributes.GetVerb() == "update" && attributes.GetNamespace() == "shop" && slices.Contains(r.resources, name) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// check expects the policy to admit or to refuse each request.
func check(t *testing.T, name string, admitted bool, requests ...request) {
	t.Helper()
	policy, ok := policies(t, "policies.yaml")[name]
	if !ok {
		t.Fatalf("there is no policy %s", name)
	}
	for i, request := range requests {
		message := denial(t, policy, request)
		if (message == "") != admitted {
			t.Errorf("%s, request %d, %s by %s: %q", name, i, request.operation, request.user, message)
		}
	}
}

// slice returns an EndpointSlice of a manager, of a managed Service or not.
func slice(manager string, isManaged bool, port int) object {
	labels := object{"endpointslice.kubernetes.io/managed-by": manager}
	if isManaged {
		labels["autoscaling.rouse.dev/managed-slice"] = "true"
	}
	return object{"metadata": object{"name": "web-1", "labels": labels}, "ports": []object{{"port": port}}}
}

func labelled(labels object, spec object) object {
	return object{"metadata": object{"name": "web", "labels": labels}, "spec": spec}
}

func TestInternalObjectsAreWrittenByTheZeroScalerAlone(t *testing.T) {
	of := func(port int) object {
		claim := slice(ours, false, port)
		claim["status"] = object{"ports": claim["ports"]}
		return claim
	}
	claim, forged := of(20000), of(20001)
	owned := of(20000)
	owned["metadata"].(object)["ownerReferences"] = []object{{"name": "other"}}
	impersonates := []string{"/serviceaccounts/zero-scaler"}
	for _, policy := range []string{"internal-objects", "internal-slices"} {
		check(t, policy, true,
			request{user: zeroScaler, operation: admission.Create, after: claim},
			request{user: zeroScaler, operation: admission.Update, before: claim, after: claim},
			request{user: collector, operation: admission.Delete, before: claim},
			request{user: collector, operation: admission.Update, before: claim, after: claim},
			request{user: namespaces, operation: admission.Delete, before: claim},
			request{user: manager, operation: admission.Delete, before: claim},
			request{user: "admin", groups: []string{"system:masters"}, operation: admission.Delete, before: claim},
			// A migration of stored versions, and a restore.
			request{user: tenant, operation: admission.Update, before: claim, after: claim},
			request{user: "restore", operation: admission.Create, after: claim, rights: impersonates},
			request{user: "restore", operation: admission.Delete, before: claim, rights: impersonates})
		check(t, policy, false,
			request{user: tenant, groups: []string{"system:authenticated"}, operation: admission.Create, after: claim},
			request{user: tenant, operation: admission.Update, before: claim, after: forged},
			request{user: tenant, operation: admission.Update, before: claim, after: owned},
			request{user: tenant, operation: admission.Update, before: owned, after: claim},
			request{user: tenant, operation: admission.Delete, before: claim},
			request{user: activator, operation: admission.Update, before: claim, after: forged},
			request{user: "system:serviceaccount:shop:zero-scaler", operation: admission.Create, after: claim})
	}
}

// Only RBAC applies to the deletion of objects of a deleted installation. What the next installation reads stays as it is.
func TestLeftInternalObjectsAreDeletedByAdministrators(t *testing.T) {
	claim, forged := slice(ours, false, 20000), slice(ours, false, 20001)
	claim["spec"], forged["spec"] = "20000", "20001"
	for _, policy := range []string{"internal-objects", "internal-slices"} {
		mayDelete := []string{"admissionregistration.k8s.io/validatingadmissionpolicies/" + policy + ".autoscaling.rouse.dev"}
		check(t, policy, true,
			request{user: tenant, operation: admission.Delete, before: claim, isDeleted: true},
			request{user: "admin", operation: admission.Delete, before: claim, rights: mayDelete})
		check(t, policy, false,
			request{user: tenant, operation: admission.Create, after: claim, isDeleted: true},
			request{user: tenant, operation: admission.Update, before: claim, after: forged, isDeleted: true},
			request{user: "admin", operation: admission.Update, before: claim, after: forged, rights: mayDelete})
	}
}

// Kubernetes takes over a managed Service that gets a selector, and gives no slice of its own the label of the zero-scaler's.
func TestKubernetesOnlyDeletesSlicesOfManagedServices(t *testing.T) {
	const policy = "internal-slices"
	managed, forged := slice(kubernetes, true, 20000), slice(kubernetes, true, 20001)
	plain := slice(kubernetes, false, 20000)
	check(t, policy, true,
		request{user: zeroScaler, operation: admission.Create, after: managed},
		request{user: zeroScaler, operation: admission.Update, before: managed, after: forged},
		request{user: endpoints, operation: admission.Delete, before: managed},
		request{user: endpoints, operation: admission.Create, after: plain},
		request{user: endpoints, operation: admission.Update, before: plain, after: plain},
		request{user: tenant, operation: admission.Delete, before: slice(another, false, 20000)},
		request{user: tenant, operation: admission.Create, after: object{"metadata": object{"name": "web-1"}}})
	check(t, policy, false,
		request{user: endpoints, operation: admission.Create, after: managed},
		request{user: endpoints, operation: admission.Update, before: plain, after: managed},
		request{user: endpoints, operation: admission.Update, before: managed, after: forged},
		request{user: tenant, operation: admission.Create, after: managed},
		request{user: tenant, operation: admission.Update, before: managed, after: plain},
		request{user: tenant, operation: admission.Delete, before: managed})
}

func TestActivatorScalesFromZeroToOneOnly(t *testing.T) {
	size := func(replicas any) object { return object{"spec": object{"replicas": replicas}} }
	// The API server leaves replicas out where it is 0, and spec with it.
	for _, zero := range []object{size(0), {"spec": object{}}, {}} {
		check(t, "activator-scale", true, request{user: activator, operation: admission.Update, before: zero, after: size(1)})
		check(t, "activator-scale", false,
			request{user: activator, operation: admission.Update, before: zero, after: size(2)},
			request{user: activator, operation: admission.Update, before: size(1), after: zero},
			request{user: activator, operation: admission.Update, before: zero, after: zero})
	}
	check(t, "activator-scale", false,
		request{user: activator, operation: admission.Update, before: size(5), after: size(1)},
		request{user: activator, operation: admission.Update, before: size(1), after: size(1)})
	check(t, "activator-scale", true,
		request{user: zeroScaler, operation: admission.Update, before: size(5), after: size(0)},
		request{user: tenant, operation: admission.Update, before: size(1), after: size(9)})
}

func TestActivatorWritesTheLeaseOfItsOwnPodOnly(t *testing.T) {
	// The API server leaves the name of requests for object "web" in them.
	lease := object{"metadata": object{"name": "web"}}
	writes := func(user, pod string) []request {
		return []request{
			{user: user, pod: pod, operation: admission.Create, after: lease},
			{user: user, pod: pod, operation: admission.Update, before: lease, after: lease},
			{user: user, pod: pod, operation: admission.Delete, before: lease}}
	}
	check(t, "activator-leases", true, writes(activator, "web")...)
	check(t, "activator-leases", true, writes(zeroScaler, "another")...)
	check(t, "activator-leases", true, writes(tenant, "")...)
	check(t, "activator-leases", false, writes(activator, "another")...)
	check(t, "activator-leases", false, writes(activator, "")...)
}

func TestZeroScalerWritesItsOwnServicesOnly(t *testing.T) {
	label := object{"autoscaling.rouse.dev/workload": "web"}
	own := labelled(label, object{"clusterIP": "None", "selector": object{"app": "web"}})
	users := labelled(object{"app": "web"}, object{"clusterIP": "10.96.0.1"})
	bare := object{"metadata": object{"name": "web"}, "spec": object{}}
	check(t, "zero-scaler-services", true,
		request{user: zeroScaler, operation: admission.Create, after: own},
		request{user: zeroScaler, operation: admission.Update, before: own, after: own},
		request{user: zeroScaler, operation: admission.Delete, before: own},
		request{user: tenant, operation: admission.Update, before: users, after: users})
	check(t, "zero-scaler-services", false,
		request{user: zeroScaler, operation: admission.Create, after: users},
		request{user: zeroScaler, operation: admission.Create, after: labelled(label, object{"type": "LoadBalancer"})},
		request{user: zeroScaler, operation: admission.Create,
			after: labelled(label, object{"clusterIP": "None", "externalIPs": []string{"192.0.2.1"}})},
		request{user: zeroScaler, operation: admission.Update, before: users, after: own},
		request{user: zeroScaler, operation: admission.Update, before: bare, after: own},
		request{user: zeroScaler, operation: admission.Update, before: own, after: users},
		request{user: zeroScaler, operation: admission.Delete, before: users},
		request{user: zeroScaler, operation: admission.Delete, before: bare})
}

func TestZeroScalerGivesServicesASelectorAndTargetPortsAndNothingElse(t *testing.T) {
	of := func(selector any, target any, changes object) object {
		port := object{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP", "targetPort": target}
		spec := object{"type": "NodePort", "clusterIP": "10.96.0.1", "ports": []object{port}}
		if selector != nil {
			spec["selector"] = object{"app": selector}
		}
		for field, value := range changes {
			spec[field] = value
		}
		return labelled(object{"team": "shop"}, spec)
	}
	without := of(nil, 80, nil)
	restored := of("web", 8080, nil)
	relabelled := of("web", 8080, nil)
	relabelled["metadata"].(object)["labels"] = object{"team": "other"}
	renumbered := of("web", 8080, nil)
	renumbered["spec"].(object)["ports"].([]object)[0]["nodePort"] = 30081
	typeless := of("web", 8080, nil)
	delete(typeless["spec"].(object), "type")
	update := func(before, after object) request {
		return request{user: zeroScaler, operation: admission.Update, before: before, after: after}
	}
	check(t, "zero-scaler-services", true,
		update(without, restored), update(of("web", "queue-proxy", nil), of("web", 8080, nil)))
	check(t, "zero-scaler-services", false,
		update(restored, without),
		update(restored, of("other", 8080, nil)),
		update(without, of("web", 8080, object{"type": "LoadBalancer"})),
		update(without, of("web", 8080, object{"externalIPs": []string{"192.0.2.1"}})),
		update(without, typeless),
		update(without, relabelled),
		update(without, renumbered))
}

func TestZeroScalerWritesItsOwnSlicesOnly(t *testing.T) {
	of := func(manager string) object { return slice(manager, false, 20000) }
	managed := slice(kubernetes, true, 20000)
	bare := object{"metadata": object{"name": "web-1"}}
	check(t, "zero-scaler-slices", true,
		request{user: zeroScaler, operation: admission.Create, after: of(ours)},
		request{user: zeroScaler, operation: admission.Update, before: of(ours), after: of(ours)},
		request{user: zeroScaler, operation: admission.Delete, before: of(ours)},
		request{user: zeroScaler, operation: admission.Delete, before: of(kubernetes)},
		request{user: zeroScaler, operation: admission.Create, after: managed},
		request{user: zeroScaler, operation: admission.Update, before: managed, after: managed},
		request{user: zeroScaler, operation: admission.Delete, before: managed},
		request{user: tenant, operation: admission.Delete, before: of(another)})
	check(t, "zero-scaler-slices", false,
		request{user: zeroScaler, operation: admission.Create, after: of(kubernetes)},
		request{user: zeroScaler, operation: admission.Create, after: bare},
		request{user: zeroScaler, operation: admission.Update, before: of(kubernetes), after: of(ours)},
		request{user: zeroScaler, operation: admission.Update, before: of(ours), after: of(kubernetes)},
		request{user: zeroScaler, operation: admission.Update, before: of(kubernetes), after: managed},
		request{user: zeroScaler, operation: admission.Create, after: slice(another, true, 20000)},
		request{user: zeroScaler, operation: admission.Delete, before: of(mirroring)},
		request{user: zeroScaler, operation: admission.Delete, before: of(another)},
		request{user: zeroScaler, operation: admission.Delete, before: bare})
}

func TestZeroScalerCreatesPodsAsADryRunOnly(t *testing.T) {
	pod := object{"metadata": object{"name": "web-1"}}
	check(t, "zero-scaler-pods", true,
		request{user: zeroScaler, operation: admission.Create, after: pod, dryRun: true},
		request{user: tenant, operation: admission.Create, after: pod},
		request{user: tenant, operation: admission.Delete, before: pod})
	check(t, "zero-scaler-pods", false,
		request{user: zeroScaler, operation: admission.Create, after: pod},
		request{user: zeroScaler, operation: admission.Update, before: pod, after: pod, dryRun: true},
		request{user: zeroScaler, operation: admission.Delete, before: pod})
}

func TestMetricsAdapterWritesItsDeletionCostOfPodsOnly(t *testing.T) {
	const cost = "controller.kubernetes.io/pod-deletion-cost"
	pod := func(image string, labels, annotations object) object {
		metadata := object{"name": "web-1", "labels": labels}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
		return object{"metadata": metadata, "spec": object{"containers": []object{{"name": "app", "image": image}}}}
	}
	web := object{"app": "web"}
	bare, marked := pod("a", web, nil), pod("a", web, object{cost: "1"})
	annotated, both := pod("a", web, object{"note": "x"}), pod("a", web, object{"note": "x", cost: "1"})
	update := func(before, after object) request {
		return request{user: adapter, operation: admission.Update, before: before, after: after}
	}
	check(t, "metrics-adapter-pods", true,
		update(bare, marked), update(marked, bare), update(annotated, both), update(both, annotated), update(bare, bare),
		request{user: tenant, operation: admission.Update, before: bare, after: pod("b", web, object{cost: "7"})},
		request{user: tenant, operation: admission.Delete, before: bare})
	check(t, "metrics-adapter-pods", false,
		update(bare, pod("b", web, object{cost: "1"})), update(bare, pod("a", object{}, object{cost: "1"})),
		update(bare, pod("a", web, object{cost: "2"})), update(pod("a", web, object{cost: "7"}), marked),
		update(pod("a", web, object{cost: "7"}), bare), update(bare, both), update(both, marked),
		update(annotated, pod("a", web, object{"note": "y"})),
		request{user: adapter, operation: admission.Create, after: bare},
		request{user: adapter, operation: admission.Delete, before: bare})
}

func TestPodAutoscalerNeedsItsAuthorsRightToScaleTheTarget(t *testing.T) {
	scaling := func(version, kind string, max int) object {
		target := object{"apiVersion": version, "kind": kind, "name": "web"}
		return object{"metadata": object{"name": "web"}, "spec": object{"scaleTargetRef": target, "maxReplicas": max}}
	}
	create := func(version, kind string, rights ...string) request {
		return request{user: tenant, operation: admission.Create, after: scaling(version, kind, 1), rights: rights}
	}
	const policy = "podautoscaler-targets"
	check(t, policy, true,
		create("apps/v1", "Deployment", "apps/deployments/scale"),
		create("apps/v1", "StatefulSet", "apps/statefulsets/scale"),
		create("apps/v1", "ReplicaSet", "apps/replicasets/scale"),
		create("argoproj.io/v1alpha1", "Rollout", "argoproj.io/*/scale"),
		create("v1", "ReplicationController", "/*/scale"))
	check(t, policy, false,
		create("apps/v1", "Deployment"),
		create("apps/v1", "Deployment", "apps/statefulsets/scale", "apps/deployments/", "/deployments/scale"),
		create("argoproj.io/v1alpha1", "Rollout", "argoproj.io/rollouts/scale"),
		create("example.com/v1", "Deployment", "apps/deployments/scale"))

	before, after := scaling("apps/v1", "Deployment", 1), scaling("apps/v1", "Deployment", 9)
	annotated, owned := scaling("apps/v1", "Deployment", 1), scaling("apps/v1", "Deployment", 1)
	annotated["metadata"] = object{"name": "web", "annotations": object{"autoscaling.rouse.dev/activation-scale": "9"}}
	owned["metadata"] = object{"name": "web", "finalizers": []string{"foregroundDeletion"}}
	right := []string{"apps/deployments/scale"}
	check(t, policy, false,
		request{user: tenant, operation: admission.Update, before: before, after: after},
		request{user: tenant, operation: admission.Update, before: before, after: annotated},
		request{user: tenant, operation: admission.Update, before: annotated, after: before})
	check(t, policy, true,
		request{user: tenant, operation: admission.Update, before: before, after: after, rights: right},
		request{user: tenant, operation: admission.Update, before: before, after: annotated, rights: right},
		request{user: tenant, operation: admission.Update, before: before, after: before},
		request{user: collector, operation: admission.Update, before: before, after: owned},
		request{user: zeroScaler, operation: admission.Create, after: before},
		request{user: zeroScaler, operation: admission.Update, before: before, after: after})

	denied := create("argoproj.io/v1alpha1", "Rollout")
	message := denial(t, policies(t, "policies.yaml")[policy], denied)
	if want := `you may not update the scale of Rollout web (*/scale in API group "argoproj.io")`; !strings.Contains(message, want) {
		t.Errorf("the message is %q", message)
	}
}
