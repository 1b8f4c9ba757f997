package chart

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Helm's own media types.
const (
	configType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	contentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Artifact returns a packed chart as Helm stores it in registries, with Chart.yaml as the
// configuration. `helm push` would write the present time into it.
func Artifact(archive, about string, annotations map[string]string) (v1.Image, error) {
	content, err := os.ReadFile(archive)
	if err != nil {
		return nil, fmt.Errorf("read the packed chart: %w", err)
	}
	text, err := os.ReadFile(about)
	if err != nil {
		return nil, err
	}
	config, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", about, err)
	}
	packed := artifact{content: static.NewLayer(content, contentType), config: static.NewLayer(config, configType)}
	if packed.manifest, err = manifest(packed.config, packed.content, annotations); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(packed)
}

func manifest(config, content v1.Layer, annotations map[string]string) ([]byte, error) {
	described, err := partial.Descriptor(config)
	if err != nil {
		return nil, err
	}
	layer, err := partial.Descriptor(content)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        *described,
		Layers:        []v1.Descriptor{*layer},
		Annotations:   annotations,
	})
}

// artifact is an image with a configuration that is not a container's.
type artifact struct {
	content, config v1.Layer
	manifest        []byte
}

func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (a artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

func (a artifact) RawConfigFile() ([]byte, error) {
	reader, err := a.config.Compressed()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return io.ReadAll(reader)
}

func (a artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	for _, layer := range []v1.Layer{a.content, a.config} {
		if has, err := layer.Digest(); err == nil && has == digest {
			return layer, nil
		}
	}
	return nil, fmt.Errorf("the chart has no %s", digest)
}
