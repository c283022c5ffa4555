//go:build unix

package kubernetesholdfast_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// manifests is where the manifests are.
const manifests = "../kubernetes"

// pods returns the pods of a manifest. A field that Kubernetes does not have is an error.
func pods(t *testing.T, name string) (all []corev1.PodSpec) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, name))
	if err != nil {
		t.Fatal(err)
	}
	ports := map[string]bool{}   // that containers have
	targets := map[string]bool{} // of services
	for i, doc := range bytes.Split(text, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatalf("%s, document %d: %v", name, i, err)
		}
		var service corev1.Service
		var deployment appsv1.Deployment
		var set appsv1.StatefulSet
		object := map[string]any{"Service": &service, "Deployment": &deployment, "StatefulSet": &set}[kind.Kind]
		if object == nil {
			t.Fatalf("%s, document %d: kind %q", name, i, kind.Kind)
		}
		if err := yaml.UnmarshalStrict(doc, object); err != nil {
			t.Fatalf("%s, document %d: %v", name, i, err)
		}
		for _, p := range service.Spec.Ports {
			targets[p.TargetPort.StrVal] = true
		}
		var template corev1.PodTemplateSpec
		var selector *metav1.LabelSelector
		switch kind.Kind {
		case "Deployment":
			template, selector = deployment.Spec.Template, deployment.Spec.Selector
		case "StatefulSet":
			template, selector = set.Spec.Template, set.Spec.Selector
		default:
			continue
		}
		for key, value := range selector.MatchLabels {
			if template.Labels[key] != value {
				t.Errorf("%s: the selector does not match the pods", name)
			}
		}
		if s := template.Spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot {
			t.Errorf("%s: the pod can run as root", name)
		}
		for _, c := range append(template.Spec.InitContainers, template.Spec.Containers...) {
			for _, p := range c.Ports {
				ports[p.Name] = true
			}
		}
		all = append(all, template.Spec)
	}
	for target := range targets {
		if !ports[target] {
			t.Errorf("%s: no container has the port %q", name, target)
		}
	}
	return all
}

// program builds the command, and the programs beside it.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-o", dir, "./cmd/...")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "holdfast")
}

// start runs the command of a container as a process, until it prints an address that matches, and returns the address.
// Its ports are free ones of this machine, and its volumes are directories below dir.
func start(t *testing.T, bin, dir string, c corev1.Container, address *regexp.Regexp, env ...string) string {
	t.Helper()
	args := append(c.Command[1:len(c.Command):len(c.Command)], c.Args...)
	for i, arg := range args {
		arg = regexp.MustCompile(`0\.0\.0\.0:\d+`).ReplaceAllString(arg, "0.0.0.0:0")
		for _, m := range c.VolumeMounts {
			arg = strings.Replace(arg, m.MountPath, filepath.Join(dir, m.Name), 1)
		}
		args[i] = strings.ReplaceAll(arg, "$(POD_NAME)", "pod-1")
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), append(env, "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		w.Close()
	})
	found := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			t.Log(lines.Text())
			if m := address.FindStringSubmatch(lines.Text()); m != nil && len(found) == 0 {
				found <- m[1]
			}
		}
	}()
	select {
	case at := <-found:
		_, port, err := net.SplitHostPort(at)
		if err != nil {
			t.Fatal(err)
		}
		return "127.0.0.1:" + port
	case <-time.After(30 * time.Second):
		t.Fatalf("%s %v does not listen", c.Name, args)
		return ""
	}
}

// server starts a server, and returns the variable that names it.
func server(t *testing.T, bin string) string {
	t.Helper()
	c := corev1.Container{Name: "server", Command: []string{"holdfast", "serve"}, Args: []string{"--data-dir", filepath.Join(t.TempDir(), "store"), "--listen", "0.0.0.0:0", "--insecure"}}
	return "HOLDFAST_SERVER=zk://" + start(t, bin, "", c, regexp.MustCompile(`^listening tcp (\S+)`))
}

// mustAnswer waits until a probe succeeds.
func mustAnswer(t *testing.T, at string, p *corev1.Probe) {
	t.Helper()
	until(t, fmt.Sprintf("GET %s", p.HTTPGet.Path), func() bool {
		resp, err := http.Get("http://" + at + p.HTTPGet.Path)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: no success", what)
		}
	}
}

// files makes the files of the manifests' secrets.
func files(t *testing.T, bin string) string {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"tls", "users", "store"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"holdfast", "locks.example.com"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	users := exec.Command(bin, "ui", "passwd", "--role", "operator", "ann")
	users.Stdin = strings.NewReader("correct horse battery\n")
	passwords, err := users.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"tls/tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		"tls/tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		"users/users": passwords,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o440); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Every manifest has only fields of Kubernetes, and what its containers run starts and answers its probes.
func TestManifests(t *testing.T) {
	bin := program(t)
	t.Run("serve", func(t *testing.T) {
		c := pods(t, "serve.yaml")[0].Containers[0]
		dir := files(t, bin)
		if err := os.WriteFile(filepath.Join(dir, "users", "users"), []byte("ann:correct horse\n"), 0o440); err != nil {
			t.Fatal(err)
		}
		at := start(t, bin, dir, c, regexp.MustCompile(`^listening tls (\S+)`))
		for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p.TCPSocket.Port.StrVal != "zookeeper" {
				t.Errorf("a probe of port %v", p.TCPSocket.Port)
			}
		}
		nc, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	})
	t.Run("ui", func(t *testing.T) {
		c := pods(t, "ui.yaml")[0].Containers[0]
		at := start(t, bin, files(t, bin), c, regexp.MustCompile(`https://([^/\s"]+)`), server(t, bin))
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		for host, known := range map[string]bool{"locks.example.com": true, "evil.example.com": false} {
			req, err := http.NewRequest("GET", "https://"+at+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.StatusCode; (got == http.StatusOK || got == http.StatusUnauthorized) != known {
				t.Errorf("%s: %d", host, got)
			}
		}
	})
	t.Run("leader", func(t *testing.T) {
		sidecar := pods(t, "leader.yaml")[0].InitContainers[0]
		if sidecar.RestartPolicy == nil || *sidecar.RestartPolicy != corev1.ContainerRestartPolicyAlways {
			t.Error("the init container is no sidecar")
		}
		store := server(t, bin)
		form := regexp.MustCompile(`answering at http://([^/\s"]+)`)
		first := start(t, bin, t.TempDir(), sidecar, form, store)
		mustAnswer(t, first, sidecar.ReadinessProbe)
		second := start(t, bin, t.TempDir(), sidecar, form, store)
		resp, err := http.Get("http://" + second + sidecar.ReadinessProbe.HTTPGet.Path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("the second of two candidates: %d", resp.StatusCode)
		}
	})
}
