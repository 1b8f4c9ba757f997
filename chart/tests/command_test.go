package chart

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const setRegistry = "--set=image.registry=" + registry

// helm runs the program that `make helm` builds. Other tests call its packages, which need no program.
func helm(t *testing.T, arguments ...string) string {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		t.Skip("HELM names no program; make test-chart builds it")
	}
	output, err := exec.Command(program, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return string(output)
}

func TestHelmLint(t *testing.T) {
	helm(t, "lint", "--strict", chartFolder, setRegistry)
	helm(t, "lint", "--strict", chartFolder, setRegistry, "--kube-version", "1.33.0", "--set", "metricsApi=custom")
}

func TestHelmTemplateEqualsKustomize(t *testing.T) {
	output := helm(t, "template", "rouse", chartFolder, setRegistry, "--kube-version", "1.37.0")
	assertEqual(t, parse(t, withoutRegistry(output)), kustomize(t, nil))
	output = helm(t, "template", "rouse", chartFolder, setRegistry, "--kube-version", "1.35.0")
	assertEqual(t, parse(t, withoutRegistry(output)), kustomize(t, []string{"sidecar-webhook"}))
	output = helm(t, "template", "rouse", chartFolder, setRegistry, "--kube-version", "1.35.0",
		"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
	assertEqual(t, parse(t, withoutRegistry(output)), kustomize(t, nil))
}

// The chart takes the values that the pages give, and renders them.
func TestValuesOfPagesAreAccepted(t *testing.T) {
	const pages = "../../docs/howto/operate/"
	found := 0
	for _, page := range []string{"install.md", "platforms.md"} {
		blocks := regexp.MustCompile("(?ms)^```text\n# values: .*?^```").FindAllString(read(t, pages+page), -1)
		for _, block := range blocks {
			install(strings.Trim(block, "`")[len("text\n"):]).objects(t)
		}
		found += len(blocks)
	}
	if found < 5 {
		t.Errorf("%d blocks of values", found)
	}
}

// The chart, the kustomization and the crates have one version.
func TestVersionsAreEqual(t *testing.T) {
	manifest := read(t, "../../Cargo.toml")
	version := regexp.MustCompile(`(?m)^version = "(.*)"$`).FindStringSubmatch(manifest)[1]
	var chart struct{ Version, AppVersion string }
	if err := yaml.Unmarshal([]byte(read(t, chartFolder+"/Chart.yaml")), &chart); err != nil {
		t.Fatal(err)
	}
	if chart.Version != version || chart.AppVersion != version {
		t.Errorf("the chart is %+v, the crates %s", chart, version)
	}
	for _, tag := range regexp.MustCompile(`newTag: (.*)`).FindAllStringSubmatch(read(t, deploy+"/kustomization.yaml"), -1) {
		if tag[1] != "v"+version {
			t.Errorf("deploy/ has images of %s, the crates are %s", tag[1], version)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
