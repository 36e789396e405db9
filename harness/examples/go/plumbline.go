// Package plumbline starts a Kubernetes API for tests: one `plumbline serve` process, and a world of its own for each
// test.
//
//	server, err := plumbline.Start()           // `plumbline` from PATH; PLUMBLINE names another program
//	world, err := server.World()               // milliseconds; nothing is shared with other worlds
//	client, err := kubernetes.NewForConfig(world.Config)
//	err = world.Advance("2m")                  // returns when everything has come to rest
package plumbline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Server is a running `plumbline serve`.
type Server struct {
	command *exec.Cmd
	url     string
	client  *http.Client
}

// World is an API server with its own objects and clock.
type World struct {
	// Config is for any client, such as those of client-go and controller-runtime.
	Config *rest.Config
	name   string
	server *Server
}

// Start starts a server with a manual clock, over HTTPS: client-go sends no token otherwise. Without flags it is a whole
// cluster.
func Start(flags ...string) (*Server, error) {
	program := os.Getenv("PLUMBLINE")
	if program == "" {
		program = "plumbline"
	}
	if len(flags) == 0 {
		flags = []string{"--like", "kind"}
	}
	folder, err := os.MkdirTemp("", "plumbline")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	kubeconfig := filepath.Join(folder, "kubeconfig")
	flags = append([]string{"serve", "--clock", "manual", "--kubeconfig", kubeconfig}, flags...)
	command := exec.Command(program, flags...)
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	// It prints a line when it is ready.
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("%s did not start; its error output has the reason: %v", program, command.Wait())
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(config)
	return &Server{command, config.Host, client}, err
}

// Close ends the server.
func (s *Server) Close() error {
	if err := s.command.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return s.command.Wait()
}

// World creates a world.
func (s *Server) World() (*World, error) {
	var described struct{ Name, Kubeconfig string }
	if err := s.call("POST", "/plumbline/worlds", struct{}{}, &described); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(described.Kubeconfig))
	if err != nil {
		return nil, err
	}
	return &World{Config: config, name: described.Name, server: s}, nil
}

// Advance moves the clock, for example by "2m"; it returns when everything has come to rest.
func (w *World) Advance(duration string) error {
	return w.server.call("POST", w.path("clock"), map[string]string{"advance": duration}, nil)
}

// Transcript returns all requests that clients have made, as text, with what each has changed.
func (w *World) Transcript() (string, error) {
	text, err := w.server.send("GET", w.path("transcript"), nil)
	return string(text), err
}

// Fault arms a fault rule: words such as "POST pods/* 500", or the form of /plumbline/openapi.json.
func (w *World) Fault(rule any) error {
	return w.server.call("POST", w.path("faults"), rule, nil)
}

// Close removes the world.
func (w *World) Close() error {
	return w.server.call("DELETE", "/plumbline/worlds/"+w.name, nil, nil)
}

func (w *World) path(part string) string {
	return "/plumbline/worlds/" + w.name + "/plumbline/" + part
}

// call sends a request of the control API and reads its reply.
func (s *Server) call(method, path string, body, reply any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	text, err := s.send(method, path, content)
	if err != nil || reply == nil {
		return err
	}
	return json.Unmarshal(text, reply)
}

// send sends a request of the control API.
func (s *Server) send(method, path string, content []byte) ([]byte, error) {
	request, err := http.NewRequest(method, s.url+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s", method, path, text)
	}
	return text, err
}
