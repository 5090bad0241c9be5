package store

// SetStep has f called before each step of s's Put.
func SetStep(s Store, f func(string)) {
	switch s := s.(type) {
	case *Disk:
		s.step = f
	case *Remote:
		s.step = f
	}
}

// Exported for tests.
var (
	ParseHelper   = parseHelper
	ParseLocation = parseLocation
)
