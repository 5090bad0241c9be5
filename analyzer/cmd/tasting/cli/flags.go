package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// storeFlags adds the flags of a store to f.
func storeFlags(f *pflag.FlagSet, o *store.Options) {
	o.AddFlags(f)
	f.String(storeFlagsFile, "", "`FILE` with flags of the store, one on each line (default: $TASTING_STORE_FLAGS)")
}

const storeFlagsFile = "store_flags"

// completeStore sets the options that f leaves open, from the file of --store_flags and from the environment.
func completeStore(f *pflag.FlagSet, o *store.Options) error {
	file, _ := f.GetString(storeFlagsFile)
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("--%s: %w", storeFlagsFile, err)
		}
	}
	return o.Complete(f, func(name string) string {
		if name == store.FlagsVariable && file != "" {
			if abs, err := filepath.Abs(file); err == nil {
				return abs
			}
		}
		return os.Getenv(name)
	})
}

// withStore calls f with the store that flags and environment name.
func withStore(cmd *cobra.Command, o *store.Options, f func(store.Store) error) error {
	if err := completeStore(cmd.Flags(), o); err != nil {
		return err
	}
	s, err := store.Open(o.Location, *o)
	if err != nil {
		return err
	}
	defer store.Close(s)
	return f(s)
}
