package deploy

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// No daemon builds the image here, so the last stage is read: it must run as the user that the manifests name.
func TestTheImageHasNoShellAndNoRoot(t *testing.T) {
	_, last, found := strings.Cut(read(t, "Dockerfile"), "\nFROM scratch\n")
	for _, want := range []string{
		"\nUSER 65532:65532\n", `CMD ["/usr/bin/mailroom", "status"]`, "\nENTRYPOINT [\"/usr/bin/mailroom\"]\n",
		"\nSTOPSIGNAL SIGTERM\n",
	} {
		if !found || !strings.Contains(last, want) {
			t.Errorf("the last stage lacks %q", want)
		}
	}
	if strings.Contains(last, "\nRUN ") {
		t.Error("the last stage runs a program, and has none")
	}
}

func TestTheComposeFilesAreValid(t *testing.T) {
	for name, servers := range map[string]int{"one.yaml": 1, "caddy.yaml": 1, "postgres.yaml": 2} {
		path, err := filepath.Abs(filepath.Join(folder, "compose", name))
		if err != nil {
			t.Fatal(err)
		}
		project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
			WorkingDir: filepath.Dir(path), ConfigFiles: []types.ConfigFile{{Filename: path}},
			Environment: types.Mapping{"MAILROOM_HOST": "mail.example.org"},
		}, func(o *loader.Options) { o.SetProjectName("mailroom", true) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for service, s := range project.Services {
			if s.Image != "mailroom" {
				continue
			}
			servers--
			if !s.ReadOnly || len(s.CapDrop) == 0 || s.StopGracePeriod == nil || len(s.Volumes) == 0 ||
				s.Environment["MAILROOM_BEHIND_PROXY"] == nil {
				t.Errorf("%s: the server %s lacks its sandbox, its data, its proxy or time to stop", name, service)
			}
			for _, p := range s.Ports { // an address without TLS
				if p.HostIP != "127.0.0.1" {
					t.Errorf("%s: the server %s publishes %s on %q", name, service, p.Published, p.HostIP)
				}
			}
		}
		if servers != 0 {
			t.Errorf("%s lacks %d servers", name, servers)
		}
	}
}

// A decoder of the API's own types refuses a field that Kubernetes does not know.
func TestTheManifestsHaveOnlyFieldsOfKubernetes(t *testing.T) {
	for _, name := range []string{"sqlite.yaml", "postgres.yaml"} {
		for i, text := range strings.Split(read(t, filepath.Join("kubernetes", name)), "\n---\n") {
			var kind struct{ Kind string }
			if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
				t.Fatalf("%s %d: %v", name, i, err)
			}
			objects := map[string]any{
				"StatefulSet": &apps.StatefulSet{}, "Deployment": &apps.Deployment{}, "Service": &core.Service{},
				"PodDisruptionBudget": &policy.PodDisruptionBudget{}, "NetworkPolicy": &networking.NetworkPolicy{},
			}
			to := objects[kind.Kind]
			if to == nil {
				t.Fatalf("%s %d has the unknown kind %q", name, i, kind.Kind)
			}
			if err := yaml.UnmarshalStrict([]byte(text), to); err != nil {
				t.Fatalf("%s %s: %v", name, kind.Kind, err)
			}
			switch o := to.(type) {
			case *apps.StatefulSet:
				if *o.Spec.Replicas != 1 {
					t.Errorf("%s: %d servers on one SQLite file", name, *o.Spec.Replicas)
				}
				checkPod(t, name, &o.Spec.Template.Spec)
			case *apps.Deployment:
				checkPod(t, name, &o.Spec.Template.Spec)
			}
		}
	}
}

// checkPod checks that a pod stops as slowly as the server drains, and runs as the image's user on a read-only root.
func checkPod(t *testing.T, name string, pod *core.PodSpec) {
	t.Helper()
	const drain = 30 + 60 // shutdown_grace, and the margin of the server's own EXTEND_TIMEOUT_USEC
	c := pod.Containers[0]
	var before int64
	if c.Lifecycle != nil {
		before = c.Lifecycle.PreStop.Sleep.Seconds
	}
	if *pod.TerminationGracePeriodSeconds < before+drain {
		t.Errorf("%s: %d s to end, want %d", name, *pod.TerminationGracePeriodSeconds, before+drain)
	}
	if *pod.SecurityContext.RunAsUser != 65532 || !*c.SecurityContext.ReadOnlyRootFilesystem ||
		*c.SecurityContext.AllowPrivilegeEscalation || len(c.SecurityContext.Capabilities.Drop) != 1 {
		t.Errorf("%s: the security context is %+v", name, c.SecurityContext)
	}
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("%s: a probe asks for another path", name)
	}
	mounted := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounted[m.MountPath] = true
	}
	if !mounted["/data"] || !mounted["/tmp"] {
		t.Errorf("%s: the server cannot write /data and /tmp", name)
	}
}
