package store

import (
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// locationPart is a directory or the URL of a server.
type locationPart struct {
	dir string // of a directory; otherwise:

	scheme string // http, https, grpc or grpcs
	host   string // with port
	prefix string // of the path, of http and https; without a slash at its end
	user   *url.Userinfo
}

func (p locationPart) remote() bool { return p.dir == "" }

func (p locationPart) grpc() bool { return p.scheme == "grpc" || p.scheme == "grpcs" }

func (p locationPart) tls() bool { return p.scheme == "https" || p.scheme == "grpcs" }

// String returns the location without the user part.
func (p locationPart) String() string {
	if !p.remote() {
		return p.dir
	}
	return p.scheme + "://" + p.host + p.prefix
}

// hostname is the host without the port.
func (p locationPart) hostname() string {
	return (&url.URL{Host: p.host}).Hostname()
}

// helperURI is the URI for a credential helper. As with Bazel, the
// scheme is https for gRPC, and the port is left out if it is that of https.
func (p locationPart) helperURI() string {
	if p.grpc() {
		return "https://" + strings.TrimSuffix(p.host, ":443") + "/"
	}
	return p.scheme + "://" + p.host + p.prefix
}

const wantLocation = "want the absolute path of a directory, http://HOST/PATH, https://HOST/PATH, grpc://HOST:PORT, grpcs://HOST:PORT, or several of these separated by commas"

// parseLocation parses what Open describes. Errors don't show what may be
// secret.
func parseLocation(location string) ([]locationPart, error) {
	var parts []locationPart
	for i, s := range strings.Split(location, ",") {
		p, err := parsePart(s)
		if err != nil {
			if strings.Contains(location, "@") {
				return nil, fmt.Errorf("store, location %d: %w", i+1, err)
			}
			return nil, fmt.Errorf("store %q: %w", s, err)
		}
		if slices.ContainsFunc(parts, func(x locationPart) bool { return x.String() == p.String() }) {
			return nil, fmt.Errorf("store %q: named twice", p)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func parsePart(s string) (locationPart, error) {
	if filepath.IsAbs(s) {
		if strings.ContainsRune(s, 0) {
			return locationPart{}, fmt.Errorf("%s", wantLocation)
		}
		return locationPart{dir: filepath.Clean(s)}, nil
	}
	scheme, _, ok := strings.Cut(s, "://")
	if !ok {
		return locationPart{}, fmt.Errorf("%s", wantLocation)
	}
	// url.Parse's error holds the whole text, with the user part.
	u, err := url.Parse(s)
	if err != nil {
		return locationPart{}, fmt.Errorf("not a URL; special characters in a user name or password have to be percent-encoded, commas as %%2C")
	}
	p := locationPart{scheme: strings.ToLower(scheme), host: u.Host, user: u.User}
	if u.Hostname() == "" {
		return locationPart{}, fmt.Errorf("no host: %s", wantLocation)
	}
	if strings.ContainsAny(u.Host, "\\%") {
		return locationPart{}, fmt.Errorf("not a host")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
		return locationPart{}, fmt.Errorf("? and # have no meaning here")
	}
	switch p.scheme {
	case "http", "https":
		p.prefix = strings.TrimRight(u.EscapedPath(), "/")
		if p.prefix != "" && path.Clean(p.prefix) != p.prefix {
			return locationPart{}, fmt.Errorf("not a clean path")
		}
	case "grpc", "grpcs":
		if strings.Trim(u.Path, "/") != "" {
			return locationPart{}, fmt.Errorf("a path has no meaning here; --store_instance_name sets the name of an instance")
		}
		if p.user != nil {
			return locationPart{}, fmt.Errorf("a user part has no meaning here; use --store_header or --store_credential_helper")
		}
		if u.Port() == "" {
			p.host += map[string]string{"grpc": ":80", "grpcs": ":443"}[p.scheme]
		}
	default:
		return locationPart{}, fmt.Errorf("unknown scheme: %s", wantLocation)
	}
	return p, nil
}

// Redact returns a location without the user parts of its URLs. Every location that is
// shown goes through it. If a location isn't well-formed and may have a user part,
// nothing of it is shown: nobody knows where the user part begins and ends.
func Redact(location string) string {
	places, err := parseLocation(location)
	if err != nil {
		if strings.Contains(location, "@") {
			return hidden
		}
		return location
	}
	return joined(places, ",")
}

// IsRemote reports whether any part of a location is on a server.
func IsRemote(location string) bool { return strings.Contains(location, "://") }

// Local returns the directories of a location, as a location; "" if it has
// none. Results that must not leave the machine may go there.
func Local(location string) string {
	parts := strings.Split(location, ",")
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return !filepath.IsAbs(s) }), ",")
}

// DefaultDir returns the directory of the store if none is named: tasting in
// the user's cache directory.
//
// Bazel gives tests no HOME, or one that is only for this test (TEST_TMPDIR),
// hence the home directory of the passwd database as a last resort.
func DefaultDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tasting"), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) || home == getenv("TEST_TMPDIR") {
		u, err := user.LookupId(fmt.Sprint(os.Getuid()))
		if err != nil {
			return "", fmt.Errorf("no HOME and no home directory of user %d (%v): set TASTING_STORE to a directory", os.Getuid(), err)
		}
		home = u.HomeDir
	}
	return filepath.Join(home, ".cache", "tasting"), nil
}
