package policies

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/yaml"
)

const webhookFile = "../../../deploy/components/sidecar-webhook/sidecar-webhook.yaml"

// sidecarPolicy is the policy that adds the sidecar, compiled as the API server compiles it.
type sidecarPolicy struct {
	compiler *cel.CompositedCompiler
	matcher  matchconditions.Matcher
	patchers []patch.Patcher
	scheme   *runtime.Scheme
}

// readFirst decodes the first object of a manifest.
func readFirst(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	document, err := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))).Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(document, into); err != nil {
		t.Fatal(err)
	}
}

func readSidecarPolicy(t *testing.T) *admissionv1.MutatingAdmissionPolicy {
	t.Helper()
	policy := &admissionv1.MutatingAdmissionPolicy{}
	readFirst(t, "../../../deploy/queue-proxy.yaml", policy)
	return policy
}

// compileSidecar compiles the policy, with another image unless it is empty.
func compileSidecar(t *testing.T, image string) *sidecarPolicy {
	t.Helper()
	policy := readSidecarPolicy(t)
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	// Without parameters, as the API server compiles a policy without paramKind.
	options := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, variable := range policy.Spec.Variables {
		if variable.Name == "image" && image != "" {
			variable.Expression = `"` + image + `"`
		}
		compiled := compiler.CompileAndStoreVariable(
			&validating.Variable{Name: variable.Name, Expression: variable.Expression}, options, environment.NewExpressions)
		if compiled.Error != nil {
			t.Fatalf("variable %s: %v", variable.Name, compiled.Error)
		}
	}
	conditions := make([]cel.ExpressionAccessor, len(policy.Spec.MatchConditions))
	for i := range policy.Spec.MatchConditions {
		conditions[i] = (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i])
	}
	evaluator := compiler.CompileCondition(conditions, options, environment.NewExpressions)
	matcher := matchconditions.NewMatcher(evaluator, policy.Spec.FailurePolicy, "policy", "mutate", policy.Name)
	options.HasPatchTypes = true
	var patchers []patch.Patcher
	for _, mutation := range policy.Spec.Mutations {
		if mutation.PatchType == admissionv1.PatchTypeJSONPatch {
			condition := &patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}
			compiled := compiler.CompileMutatingEvaluator(condition, options, environment.NewExpressions)
			patchers = append(patchers, patch.NewJSONPatcher(compiled))
		} else {
			condition := &patch.ApplyConfigurationCondition{Expression: mutation.ApplyConfiguration.Expression}
			compiled := compiler.CompileMutatingEvaluator(condition, options, environment.NewExpressions)
			patchers = append(patchers, patch.NewApplyConfigurationPatcher(compiled))
		}
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &sidecarPolicy{compiler, matcher, patchers, scheme}
}

// apply returns what the policy makes of a pod that is created.
func (p *sidecarPolicy) apply(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	kind, resource := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	attributes := admission.NewAttributesRecord(
		pod, nil, kind, "shop", "web", resource, "", admission.Create, nil, false, &user.DefaultInfo{})
	versioned := &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: kind, VersionedObject: admission.NewLazyObject(pod)}
	ctx := p.compiler.CreateContext(context.Background())
	matched := p.matcher.Match(ctx, versioned, nil, nil)
	if matched.Error != nil {
		t.Fatal(matched.Error)
	}
	if !matched.Matches {
		return pod
	}
	for _, patcher := range p.patchers {
		patched, err := patcher.Patch(ctx, patch.Request{
			MatchedResource:     resource,
			VersionedAttributes: versioned,
			ObjectInterfaces:    admission.NewObjectInterfacesFromScheme(p.scheme),
			Namespace:           &corev1.Namespace{},
			TypeConverter:       applyconfigurations.NewTypeConverter(p.scheme),
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			t.Fatal(err)
		}
		typed, err := p.scheme.ConvertToVersion(patched, corev1.SchemeGroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		versioned.UpdateObject(typed)
	}
	return versioned.VersionedObject.Object().(*corev1.Pod)
}

// The metrics-adapter's webhook is tested with the same pods.
func TestSidecarIsAddedAsInTheSharedTable(t *testing.T) {
	policy := compileSidecar(t, sharedImage)
	for _, file := range sharedFiles(t) {
		cases := readShared(t, file)
		for i := range cases {
			pod := cases[i].input(t)
			if os.Getenv(update) != "" {
				cases[i].Pod = plain(t, pod)
			}
			got := plain(t, policy.apply(t, pod))
			if os.Getenv(update) != "" {
				cases[i].WithSidecar = got
			} else if !reflect.DeepEqual(got, cases[i].WithSidecar) {
				t.Errorf("%s, %s: the pod is\n%s\nrun the test with %s=1 if that is intended", file, cases[i].Name, format(t, got, ""), update)
			}
			if again := plain(t, policy.apply(t, policy.apply(t, pod))); !reflect.DeepEqual(again, got) {
				t.Errorf("%s, %s: a second evaluation changes the pod", file, cases[i].Name)
			}
		}
		if os.Getenv(update) != "" {
			writeShared(t, file, cases)
		}
	}
}

// The webhook gets the pods that the policy changes.
func TestWebhookHasTheRulesOfThePolicy(t *testing.T) {
	policy, webhooks := readSidecarPolicy(t), &admissionv1.MutatingWebhookConfiguration{}
	readFirst(t, webhookFile, webhooks)
	if len(webhooks.Webhooks) != 1 {
		t.Fatalf("%d webhooks", len(webhooks.Webhooks))
	}
	webhook, constraints := webhooks.Webhooks[0], policy.Spec.MatchConstraints
	var rules []admissionv1.RuleWithOperations
	for _, rule := range constraints.ResourceRules {
		rules = append(rules, rule.RuleWithOperations)
	}
	if !reflect.DeepEqual(webhook.Rules, rules) {
		t.Errorf("rules %+v, of the policy %+v", webhook.Rules, rules)
	}
	if !reflect.DeepEqual(webhook.ObjectSelector, constraints.ObjectSelector) {
		t.Errorf("selector %+v, of the policy %+v", webhook.ObjectSelector, constraints.ObjectSelector)
	}
	if !reflect.DeepEqual(webhook.MatchConditions, policy.Spec.MatchConditions) {
		t.Errorf("conditions %+v, of the policy %+v", webhook.MatchConditions, policy.Spec.MatchConditions)
	}
	if reinvocation := policy.Spec.ReinvocationPolicy; *webhook.ReinvocationPolicy != reinvocation {
		t.Errorf("reinvocation %s, of the policy %s", *webhook.ReinvocationPolicy, reinvocation)
	}
	// The parts of Rouse run in pods, too: no pod may wait for them in order to start.
	if *webhook.FailurePolicy != admissionv1.Ignore || *webhook.TimeoutSeconds > 3 {
		t.Errorf("failure policy %s, timeout %d s", *webhook.FailurePolicy, *webhook.TimeoutSeconds)
	}
}

func TestSidecarIsBehindTheAppWhereAnnotated(t *testing.T) {
	policy := compileSidecar(t, "")
	// completes is whether the pod is a Job's.
	for _, c := range []struct {
		annotation        string
		completes, behind bool
	}{{"true", false, true}, {"true", true, false}, {"false", false, false}} {
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"autoscaling.rouse.dev/app-first": c.annotation}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}, RestartPolicy: corev1.RestartPolicyAlways}}
		if c.completes {
			pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		}
		spec := policy.apply(t, pod).Spec
		if !c.behind {
			if len(spec.Containers) != 1 || len(spec.InitContainers) != 1 || *spec.InitContainers[0].RestartPolicy != corev1.ContainerRestartPolicyAlways {
				t.Errorf("%+v: init containers %v, containers %v", c, spec.InitContainers, spec.Containers)
			}
			continue
		}
		if len(spec.Containers) != 2 || len(spec.InitContainers) != 0 {
			t.Fatalf("%+v: init containers %v, containers %v", c, spec.InitContainers, spec.Containers)
		}
		sidecar := spec.Containers[1]
		if sidecar.Name != "queue-proxy" || sidecar.RestartPolicy != nil || sidecar.Lifecycle.PreStop.Exec == nil {
			t.Errorf("the sidecar is %+v", sidecar)
		}
		if sidecar.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.uid" || sidecar.SecurityContext.Capabilities.Drop[0] != "ALL" {
			t.Errorf("the sidecar is %+v", sidecar)
		}
	}
}

func TestSidecarIsAddedWithoutAnyOtherObject(t *testing.T) {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/h", Port: intstr.FromInt32(8080)}}}
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}, ReadinessProbe: probe}}}}
	pod = compileSidecar(t, "").apply(t, pod)
	if len(pod.Spec.Containers) != 2 {
		t.Fatalf("containers: %v", pod.Spec.Containers)
	}
	sidecar := pod.Spec.Containers[1]
	requests, limits := sidecar.Resources.Requests, sidecar.Resources.Limits
	if !strings.HasPrefix(sidecar.Image, "rouse/queue-proxy:v") || requests.Cpu().String() != "25m" ||
		requests.Memory().String() != "16Mi" || limits.Memory().String() != "128Mi" {
		t.Errorf("the sidecar is %+v", sidecar)
	}
	if path := pod.Spec.Containers[0].ReadinessProbe.HTTPGet.Path; path != "/app-ready" {
		t.Errorf("the app's probe is at %s", path)
	}
}
