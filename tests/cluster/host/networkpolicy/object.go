// Package networkpolicy enforces the NetworkPolicies of a one-node cluster by nftables.
//
//	watches of policies, pods and namespaces ──► Cluster ──► rule set as text ──► nft, one transaction
//
// It has types of its own for the few fields that it reads, because the client library of Kubernetes
// would be most of this program.
package networkpolicy

import (
	"encoding/json"
	"fmt"
)

// Meta is the metadata of any object.
type Meta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	Labels          map[string]string `json:"labels"`
	ResourceVersion string            `json:"resourceVersion"`
}

// Key identifies an object among those of its kind.
func (m Meta) Key() string { return m.Namespace + "/" + m.Name }

// Namespace is a namespace; only its labels matter.
type Namespace struct {
	Metadata Meta `json:"metadata"`
}

// Pod is a pod with its addresses and named ports.
type Pod struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		HostNetwork    bool        `json:"hostNetwork"`
		Containers     []Container `json:"containers"`
		InitContainers []Container `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		PodIP string `json:"podIP"`
	} `json:"status"`
}

// Container is a container with its named ports.
type Container struct {
	RestartPolicy string `json:"restartPolicy"`
	Ports         []struct {
		Name          string `json:"name"`
		Protocol      string `json:"protocol"`
		ContainerPort int    `json:"containerPort"`
	} `json:"ports"`
}

// Policy is a NetworkPolicy.
type Policy struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		PodSelector Selector `json:"podSelector"`
		PolicyTypes []string `json:"policyTypes"`
		Ingress     []Rule   `json:"ingress"`
		Egress      []Rule   `json:"egress"`
	} `json:"spec"`
}

// Rule allows connections with any of its peers on any of its ports. Without peers it allows all of
// them, and without ports all ports.
type Rule struct {
	From  []Peer `json:"from"`
	To    []Peer `json:"to"`
	Ports []Port `json:"ports"`
}

// Peer selects pods, or a block of addresses.
type Peer struct {
	PodSelector       *Selector `json:"podSelector"`
	NamespaceSelector *Selector `json:"namespaceSelector"`
	IPBlock           *IPBlock  `json:"ipBlock"`
}

// IPBlock is a block of addresses without those in Except.
type IPBlock struct {
	CIDR   string   `json:"cidr"`
	Except []string `json:"except"`
}

// Port is a port, a range of ports, or without a number all ports of a protocol.
type Port struct {
	Protocol string      `json:"protocol"`
	Port     *PortNumber `json:"port"`
	EndPort  int         `json:"endPort"`
}

// PortNumber is a number, or the name of a container's port.
type PortNumber struct {
	Number int
	Name   string
}

// UnmarshalJSON reads a number or a string.
func (p *PortNumber) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &p.Number) == nil {
		return nil
	}
	if err := json.Unmarshal(text, &p.Name); err != nil {
		return fmt.Errorf("port %s is neither a number nor a name", text)
	}
	return nil
}

// address returns the pod's own address, or "" if it has none: a pod of the host network has the
// node's, and the address of a pod that has ended can belong to another one.
func (p Pod) address() string {
	if p.Spec.HostNetwork || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" {
		return ""
	}
	return p.Status.PodIP
}

// port returns the number of a named port, or 0. Containers that run as long as the pod have ports,
// and so do init containers that stay.
func (p Pod) port(name, protocol string) int {
	containers := p.Spec.Containers
	for _, container := range p.Spec.InitContainers {
		if container.RestartPolicy == "Always" {
			containers = append(containers[:len(containers):len(containers)], container)
		}
	}
	for _, container := range containers {
		for _, port := range container.Ports {
			if port.Name == name && protocolOf(port.Protocol) == protocol {
				return port.ContainerPort
			}
		}
	}
	return 0
}
