package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits of a directory by default.
const (
	DefaultMaxSize Size = 10 << 30
	DefaultMaxAge  Age  = 90 * Age(24*time.Hour)
)

const tidyEvery = 24 * time.Hour

// Size is a number of bytes, such as 500M or 10G. 0 is no limit.
type Size int64

const units = "KMGT"

// String implements pflag.Value.
func (s *Size) String() string {
	n, unit := int64(*s), 0
	for n > 0 && n%1024 == 0 && unit < len(units) {
		n, unit = n/1024, unit+1
	}
	return strconv.FormatInt(n, 10) + strings.TrimSpace((" " + units)[unit:unit+1])
}

// Set implements pflag.Value.
func (s *Size) Set(text string) error {
	digits := strings.TrimRight(text, units)
	shift := 0
	if unit := text[len(digits):]; len(unit) == 1 {
		shift = 10 * (1 + strings.Index(units, unit))
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(text) > len(digits)+1 || n < 0 || n<<shift>>shift != n || n<<shift < 0 {
		return errors.New("want a number of bytes like 1000000, 500M or 10G, or 0 for no limit")
	}
	*s = Size(n << shift)
	return nil
}

// Type implements pflag.Value.
func (s *Size) Type() string { return "SIZE" }

// Age is a duration, such as 12h or 30d. 0 is no limit.
type Age time.Duration

const day = Age(24 * time.Hour)

// String implements pflag.Value.
func (a *Age) String() string {
	switch {
	case *a == 0:
		return "0"
	case *a%day == 0:
		return fmt.Sprintf("%dd", *a/day)
	}
	return time.Duration(*a).String()
}

// Set implements pflag.Value.
func (a *Age) Set(text string) error {
	if n, err := strconv.ParseUint(strings.TrimSuffix(text, "d"), 10, 16); err == nil && (n == 0 || strings.HasSuffix(text, "d")) {
		*a = Age(n) * day
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return errors.New("want a duration like 30d or 12h, or 0 for no limit")
	}
	*a = Age(d)
	return nil
}

// Type implements pflag.Value.
func (a *Age) Type() string { return "AGE" }

// Create makes the directories of a location.
func Create(location string) (err error) {
	places, _ := parseLocation(location)
	for _, p := range places {
		if !p.remote() {
			err = errors.Join(err, OpenDisk(p.dir).create())
		}
	}
	return err
}

// Tidied is what Tidy has removed from a directory.
type Tidied struct {
	Dir string
	*GCReport
}

// Tidy removes results beyond the limits of o from the directories of its location, once a day from each. It skips directories
// that tasting hasn't created or that another process tidies. It ignores errors, because the next call tries again.
func Tidy(ctx context.Context, o Options) (removed []Tidied) {
	places, _ := parseLocation(o.Location)
	for _, p := range places {
		if p.remote() || o.MaxSize == 0 && o.MaxAge == 0 {
			continue
		}
		d := OpenDisk(p.dir)
		if unlock := d.mayTidy(); unlock != nil {
			r, _ := d.gc(ctx, GCOptions{int64(o.MaxSize), time.Duration(o.MaxAge), DefaultGrace})
			unlock()
			if r != nil && r.RemovedEntries > 0 {
				removed = append(removed, Tidied{d.dir, r})
			}
		}
	}
	return removed
}

// mayTidy locks the directory for Tidy, or returns nil if it isn't to be tidied now.
func (d *Disk) mayTidy() (unlock func()) {
	stamp := filepath.Join(d.dir, "tmp", "tidied")
	isRecent := func() bool {
		info, err := os.Stat(stamp)
		return err == nil && time.Since(info.ModTime()).Abs() < tidyEvery
	}
	if _, err := os.Stat(filepath.Join(d.dir, marker)); err != nil || isRecent() {
		return nil
	}
	unlock, err := d.lock(syscall.LOCK_EX | syscall.LOCK_NB)
	if err != nil {
		return nil
	}
	// The stamp comes first: if this process is killed, the next one doesn't begin again at once.
	if isRecent() || os.WriteFile(stamp, nil, 0o666) != nil || os.Chtimes(stamp, time.Time{}, time.Now()) != nil {
		unlock()
		return nil
	}
	return unlock
}

// lock locks the directory, which has a marker, for a process that removes files.
func (d *Disk) lock(how int) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(d.dir, "tmp"), 0o777); err != nil { // for remove
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(d.dir, "tmp", lockName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	// On a file system without locks, users have to see to it that only one process removes files.
	if err := syscall.Flock(int(f.Fd()), how); errors.Is(err, syscall.EWOULDBLOCK) {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// isOwn reports whether a file of tmp is the store's own, which stays.
func isOwn(f fs.FileInfo) bool { return f.Name() == lockName || f.Name() == "tidied" }
