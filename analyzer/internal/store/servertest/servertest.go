// Package servertest starts the real servers that stores are tested and
// measured with: nginx, which speaks Bazel's HTTP cache protocol with its WebDAV
// module, and buildbox-casd, which speaks the Remote Execution API. They listen
// on free ports of the loopback interface, keep their files in a directory of
// the caller's, and die with the process that started them.
package servertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// RequireVariable makes a missing server an error where all tests must run.
const RequireVariable = "TASTING_REQUIRE_SERVERS"

// Server is a running server.
type Server struct {
	Addr string // host:port
	Dir  string // where it keeps its files

	cmd  *exec.Cmd
	out  *bytes.Buffer
	done chan struct{}
	stop sync.Once
}

// Stop kills the server and waits for its end.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.cmd.Process.Kill()
		<-s.done
	})
}

// Output is what the server has printed; to be called after Stop.
func (s *Server) Output() string { return s.out.String() }

// Find returns the path of a program; servers may be in directories that only
// root has on PATH.
func Find(name string) (string, error) {
	p, err := exec.LookPath(name)
	if err == nil {
		return p, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", err
}

// Tool returns the path of a program. Without it the test is skipped, or fails
// if RequireVariable is set.
func Tool(t testing.TB, name string) string {
	t.Helper()
	p, err := Find(name)
	if err != nil {
		if os.Getenv(RequireVariable) != "" {
			t.Fatalf("%s is required: %v", name, err)
		}
		t.Skipf("no %s on this machine: %v", name, err)
	}
	return p
}

// FreeAddr returns an address of the loopback interface that nobody listens on.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Start runs command, which is to listen on addr, and waits until it does.
func Start(addr, dir string, command *exec.Cmd) (*Server, error) {
	s := &Server{Addr: addr, Dir: dir, cmd: command, out: new(bytes.Buffer), done: make(chan struct{})}
	command.Stdout, command.Stderr = s.out, s.out
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := command.Start(); err != nil {
		return nil, err
	}
	go func() {
		command.Wait()
		close(s.done)
	}()
	for end := time.Now().Add(5 * time.Minute); ; {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
			return s, nil
		}
		select {
		case <-s.done:
			return nil, fmt.Errorf("%s: %v: %s", command, command.ProcessState, s.out)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			s.Stop()
			return nil, fmt.Errorf("%s: doesn't listen on %s: %s", command, addr, s.out)
		}
	}
}

// retry calls start with free addresses until nobody else has taken one
// meanwhile.
func retry(start func(addr string) (*Server, error)) (*Server, error) {
	var errs []error
	for range 3 {
		addr, err := FreeAddr()
		if err != nil {
			return nil, err
		}
		s, err := start(addr)
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// NginxConfig is a configuration of nginx as an HTTP cache: the one of
// docs/how-to/share-a-store.md, with everything below dir. server is for further directives of
// the server block, with TLS for ones of "listen".
func NginxConfig(addr, dir, listen, server string) string {
	return fmt.Sprintf(`daemon off;
master_process off;
user root root;
pid %[2]s/nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
	access_log off;
	log_not_found off;
	client_body_temp_path %[2]s/temp;
	proxy_temp_path %[2]s/proxy;
	fastcgi_temp_path %[2]s/fastcgi;
	uwsgi_temp_path %[2]s/uwsgi;
	scgi_temp_path %[2]s/scgi;
	keepalive_requests 1000000;
	server {
		listen %[1]s %[3]s;
		root %[2]s/root;
		client_max_body_size 1g;
		%[4]s
		location /ac/ { dav_methods PUT; create_full_put_path on; }
		location /cas/ { dav_methods PUT; create_full_put_path on; }
		location / { return 404; }
	}
}
`, addr, dir, listen, server)
}

// StartNginx starts nginx at program as an HTTP cache with its files below
// dir/root; listen and server as in NginxConfig.
func StartNginx(program, dir, listen, server string) (*Server, error) {
	return retry(func(addr string) (*Server, error) {
		if err := os.MkdirAll(filepath.Join(dir, "root"), 0o777); err != nil {
			return nil, err
		}
		conf := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(conf, []byte(NginxConfig(addr, dir, listen, server)), 0o666); err != nil {
			return nil, err
		}
		return Start(addr, dir, exec.Command(program, "-p", dir, "-e", "stderr", "-c", conf))
	})
}

// StartCASD starts buildbox-casd at program with its files in dir.
func StartCASD(program, dir string, args ...string) (*Server, error) {
	return retry(func(addr string) (*Server, error) {
		return Start(addr, dir, exec.Command(program, append([]string{"--bind=" + addr}, append(args, dir)...)...))
	})
}

// Nginx starts nginx for a test.
func Nginx(t testing.TB, listen, server string) *Server {
	t.Helper()
	return started(t)(StartNginx(Tool(t, "nginx"), t.TempDir(), listen, server))
}

// CASD starts buildbox-casd for a test.
func CASD(t testing.TB, args ...string) *Server {
	t.Helper()
	return started(t)(StartCASD(Tool(t, "buildbox-casd"), t.TempDir(), args...))
}

func started(t testing.TB) func(s *Server, err error) *Server {
	return func(s *Server, err error) *Server {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.Stop()
			if out := strings.TrimSpace(s.Output()); t.Failed() && out != "" {
				t.Logf("the server said:\n%s", out[max(0, len(out)-2000):])
			}
		})
		return s
	}
}
