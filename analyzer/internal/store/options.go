package store

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// The environment variables that name a store. A file of flags is for what
// must not be in the environment, nor in a key of Bazel's that the environment
// is part of.
const (
	LocationVariable = "TASTING_STORE"
	ModeVariable     = "TASTING_STORE_MODE"
	FlagsVariable    = "TASTING_STORE_FLAGS"
)

// Mode is what may be done with a store.
type Mode string

// The modes. The empty Mode is ReadWrite.
const (
	ReadWrite Mode = "rw"
	ReadOnly  Mode = "ro"
	WriteOnly Mode = "wo"
	Off       Mode = "off"
)

// CanRead reports whether results may be read.
func (m Mode) CanRead() bool { return m == ReadWrite || m == ReadOnly || m == "" }

// CanWrite reports whether results may be recorded.
func (m Mode) CanWrite() bool { return m == ReadWrite || m == WriteOnly || m == "" }

// WithoutWriting returns the mode that reads what m reads, and writes nothing.
func (m Mode) WithoutWriting() Mode {
	if m.CanRead() {
		return ReadOnly
	}
	return Off
}

// String implements pflag.Value.
func (m *Mode) String() string { return string(*m) }

// Set implements pflag.Value.
func (m *Mode) Set(s string) error {
	switch Mode(s) {
	case ReadWrite, ReadOnly, WriteOnly, Off:
		*m = Mode(s)
		return nil
	}
	return fmt.Errorf("%q: want rw, ro, wo or off", s)
}

// Type implements pflag.Value.
func (m *Mode) Type() string { return "MODE" }

// Secret is a string that isn't shown by any verb of package fmt, nor written
// by package encoding/json.
type Secret string

const hidden = "(hidden)"

// Format implements fmt.Formatter.
func (Secret) Format(f fmt.State, _ rune) { f.Write([]byte(hidden)) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Header is a header that is sent with each request.
type Header struct {
	Name  string
	Value Secret
}

// headers is the value of --store_header.
type headers struct{ list *[]Header }

func (h headers) String() string {
	var names []string
	for _, x := range *h.list {
		names = append(names, x.Name)
	}
	return strings.Join(names, ",")
}

func (h headers) Type() string { return "stringArray" }

func (h headers) Set(s string) error {
	// pflag puts what was given into its message, so it must not fail here;
	// Options.check names what is wrong without it.
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		name = ""
	}
	*h.list = append(*h.list, Header{name, Secret(value)})
	return nil
}

// locationValue is the value of --store.
type locationValue struct{ s *string }

func (l locationValue) String() string     { return Redact(*l.s) }
func (l locationValue) Type() string       { return "LOCATION" }
func (l locationValue) Set(s string) error { *l.s = s; return nil }

// Options are the location of a store and how to connect to it. The zero value stands
// for the flags' defaults.
type Options struct {
	// Location is what Open describes. It may contain a secret: Redact it
	// before it is shown.
	Location string
	Mode     Mode
	Headers  []Header
	// CredentialHelpers are programs that know headers, [PATTERN=]PROGRAM: for
	// all servers, or those whose host is PATTERN or, if it starts with "*.",
	// ends with the rest of it.
	CredentialHelpers []string
	// Files in PEM form.
	TLSCertificate       string // of the authorities that sign servers' certificates
	TLSClientCertificate string
	TLSClientKey         string

	InstanceName string        // in requests of gRPC
	Timeout      time.Duration // that a server may cost without an answer; 0: DefaultTimeout
	Retries      *int          // of one call; nil: DefaultRetries
	Compression  bool          // zstd, if a server offers it

	// MaxSize and MaxAge are the limits of directories for Tidy.
	MaxSize Size
	MaxAge  Age
	// IsDefault is set by Complete if Location is DefaultDir for lack of another.
	IsDefault bool
}

// Defaults of Options.
const (
	DefaultTimeout = 5 * time.Second
	DefaultRetries = 3
)

// String shows o without secrets.
func (o Options) String() string {
	return fmt.Sprintf("store %q, mode %s, headers [%s]", Redact(o.Location), o.mode(), headers{&o.Headers})
}

// GoString implements fmt.GoStringer.
func (o Options) GoString() string { return o.String() }

func (o *Options) mode() Mode { return cmp.Or(o.Mode, ReadWrite) }

func (o *Options) timeout() time.Duration { return cmp.Or(o.Timeout, DefaultTimeout) }

func (o *Options) retries() int {
	if o.Retries == nil {
		return DefaultRetries
	}
	return *o.Retries
}

// AddFlags adds the flags of a store to fs and sets o to their defaults. They
// are named after Bazel's --remote_... flags of the same meaning.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.Mode, o.Retries = ReadWrite, new(int)
	fs.Var(locationValue{&o.Location}, "store", "`LOCATION` of recorded results: a directory, http(s)://..., grpc(s)://..., or several separated by commas, nearest first (default: $TASTING_STORE, or tasting in the user's cache directory)")
	fs.Var(&o.Mode, "store_mode", "`MODE`: rw, ro (look up, don't record), wo (record, don't look up) or off")
	fs.Var(headers{&o.Headers}, "store_header", "`NAME=VALUE`: a header to send with each request to a server; better in a file that $TASTING_STORE_FLAGS names (repeatable)")
	fs.StringArrayVar(&o.CredentialHelpers, "store_credential_helper", nil, "`[HOST=]PROGRAM`: a credential helper, as Bazel's --credential_helper (repeatable)")
	fs.StringVar(&o.TLSCertificate, "store_tls_certificate", "", "`FILE` with the certificates (PEM) of those who sign servers' certificates (default: the system's)")
	fs.StringVar(&o.TLSClientCertificate, "store_tls_client_certificate", "", "`FILE` with the client's certificate (PEM)")
	fs.StringVar(&o.TLSClientKey, "store_tls_client_key", "", "`FILE` with the key (PEM) of the client's certificate")
	fs.StringVar(&o.InstanceName, "store_instance_name", "", "`NAME` of the instance, for gRPC")
	fs.DurationVar(&o.Timeout, "store_timeout", DefaultTimeout, "the longest that a server may keep this process waiting in vain, all calls together; it isn't asked any more then")
	fs.IntVar(o.Retries, "store_retries", DefaultRetries, "how often a call is repeated after a failure that may pass")
	fs.BoolVar(&o.Compression, "store_compression", false, "compress contents with zstd on their way, if a gRPC server offers it")
	o.MaxSize, o.MaxAge = DefaultMaxSize, DefaultMaxAge
	fs.Var(&o.MaxSize, "store_max_size", "`SIZE` that directories are reduced to once a day, such as 500M or 10G; 0: no limit")
	fs.Var(&o.MaxAge, "store_max_age", "`AGE` since a result was last used, beyond which it is removed once a day, such as 30d or 12h; 0: no limit")
}

// Complete sets the options that the command line of fs, to which AddFlags was applied, has left
// open. It takes them from the variables of a store, then from the file of flags that the environment
// names. Without any location the store is in DefaultDir.
func (o *Options) Complete(fs *pflag.FlagSet, getenv func(string) string) error {
	err := o.addEnvironment(fs, getenv)
	if err == nil && o.Location == "" {
		o.Location, err = DefaultDir(getenv)
		o.IsDefault = true
	}
	return err
}

// FromEnvironment returns the options of the environment alone. Location is
// empty if it names none.
func FromEnvironment(getenv func(string) string) (o Options, err error) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(fs)
	err = o.addEnvironment(fs, getenv)
	return o, err
}

func (o *Options) addEnvironment(fs *pflag.FlagSet, getenv func(string) string) error {
	if file := getenv(FlagsVariable); file != "" {
		if !filepath.IsAbs(file) {
			return fmt.Errorf("%s=%s: want an absolute path", FlagsVariable, file)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", FlagsVariable, err)
		}
		if err := addFile(fs, b); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if l := getenv(LocationVariable); l != "" {
		if _, err := parseLocation(l); err != nil {
			return fmt.Errorf("%s: %w", LocationVariable, err)
		}
		if !fs.Changed("store") {
			o.Location = l
		}
	}
	if m := getenv(ModeVariable); m != "" {
		var mode Mode
		if err := mode.Set(m); err != nil {
			return fmt.Errorf("%s=%w", ModeVariable, err)
		}
		if !fs.Changed("store_mode") {
			o.Mode = mode
		}
	}
	return nil
}

var flagLine = regexp.MustCompile(`^--([a-z_-]+)(=.*)?$`)

// addFile sets the flags of a file that the command line of fs has left open. The file has one flag
// on each line; empty lines and those that start with # are ignored. Errors don't show what a line
// holds.
func addFile(fs *pflag.FlagSet, file []byte) error {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Options).AddFlags(all)
	n := 0
	for line := range strings.Lines(string(file)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		m := flagLine.FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("line %d: want --flag=value", n)
		}
		f := all.Lookup(strings.ReplaceAll(m[1], "-", "_"))
		if f == nil {
			return fmt.Errorf("line %d: --%s is not a flag of the store", n, m[1])
		}
		value := strings.TrimPrefix(m[2], "=")
		if m[2] == "" {
			if f.NoOptDefVal == "" {
				return fmt.Errorf("line %d: want --%s=value", n, m[1])
			}
			value = f.NoOptDefVal
		}
		if err := f.Value.Set(value); err != nil {
			return fmt.Errorf("line %d: bad value of --%s", n, m[1])
		}
		if !fs.Changed(f.Name) {
			_ = fs.Lookup(f.Name).Value.Set(value) // as above; the command line still hasn't it
		}
	}
	return nil
}

// check reports the first thing that is wrong with o for the given places.
func (o *Options) check(places []locationPart) error {
	mode := o.mode()
	if err := mode.Set(string(mode)); err != nil {
		return fmt.Errorf("--store_mode: %w", err)
	}
	if o.Timeout < 0 {
		return fmt.Errorf("--store_timeout=%v: want a positive duration", o.Timeout)
	}
	if r := o.retries(); r < 0 || r > 20 {
		return fmt.Errorf("--store_retries=%d: want a number from 0 to 20", r)
	}
	for i, h := range o.Headers {
		if h.Name == "" {
			return fmt.Errorf("--store_header: number %d: want NAME=VALUE", i+1)
		}
		if err := checkHeader(h.Name, string(h.Value)); err != nil {
			return fmt.Errorf("--store_header: number %d: %w", i+1, err)
		}
	}
	if (o.TLSClientCertificate == "") != (o.TLSClientKey == "") {
		return errors.New("--store_tls_client_certificate and --store_tls_client_key go together")
	}
	hosts := map[string]bool{}
	for _, p := range places {
		if p.remote() {
			hosts[p.hostname()] = true
		}
	}
	if len(hosts) > 1 && len(o.Headers) > 0 {
		return errors.New("--store_header would go to several servers; use --store_credential_helper=HOST=PROGRAM to tell them apart")
	}
	return nil
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_|~-]+$")

// checkHeader checks what may be sent; the error doesn't show the value.
func checkHeader(name, value string) error {
	if !headerName.MatchString(name) || strings.HasPrefix(strings.ToLower(name), "grpc-") {
		return errors.New("not the name of a header")
	}
	switch http.CanonicalHeaderKey(name) {
	case "Content-Length", "Transfer-Encoding", "Connection", "Host", "Te", "Content-Type":
		return fmt.Errorf("header %s can't be set", name)
	}
	// What gRPC allows; HTTP allows more, which nobody needs.
	if strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return fmt.Errorf("header %s: want printable ASCII characters", name)
	}
	return nil
}
