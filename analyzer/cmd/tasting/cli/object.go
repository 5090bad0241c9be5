package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/command"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/objfile"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func objectCommand() *cobra.Command {
	var output string
	var each bool
	var opt objfile.Options
	cmd := &cobra.Command{
		Use:   "object -o OUT.manifest FILE | --each FILE=OUT.manifest... | --each @PARAMFILE",
		Short: "Write the manifests of object files, archives or shared libraries",
		Long: `Write the manifest of an ELF object, archive or shared library, told by content.
@PARAMFILE stands for the lines of a file.`,
		Args: command.Args(1, -1, "a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			write := func(file, output string) error {
				m, err := objfile.ManifestOrContent(file, opt)
				if err != nil {
					return err
				}
				return manifest.Write(output, m)
			}
			switch {
			case each && output != "":
				return errors.New("object: -o names one manifest: with --each, write FILE=OUT.manifest")
			case each:
				pairs, err := objectPairs(args)
				if err != nil {
					return err
				}
				return writeEach(pairs, write)
			case len(args) != 1:
				return fmt.Errorf("object: %d files: for more than one, use --each FILE=OUT.manifest", len(args))
			case output == "":
				return errors.New("object: no -o: name the manifest to write, -o OUT.manifest")
			}
			return write(args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`FILE` to write (required)")
	cmd.Flags().BoolVar(&each, "each", false, "write several manifests")
	cmd.Flags().BoolVar(&opt.InterfaceOnly, "interface-only", false, "of a shared library, hash only the names of its symbols")
	cmd.Flags().BoolVar(&opt.Assembly, "assembly", false, "the objects come from assembly")
	return cmd
}

// objectPairs returns the files and manifests that args name, with files of
// parameters in their place.
func objectPairs(args []string) (pairs [][2]string, err error) {
	words, err := command.ExpandArgs(args)
	if err != nil {
		return nil, err
	}
	for _, w := range words {
		// Names may have equals signs of their own; the file is there.
		file, output := "", ""
		for i := range w {
			if w[i] != '=' || i+1 == len(w) {
				continue
			}
			if _, err := os.Stat(w[:i]); err == nil || file == "" {
				file, output = w[:i], w[i+1:]
			}
		}
		if file == "" {
			return nil, fmt.Errorf("object: %q: want FILE=OUT.manifest", w)
		}
		pairs = append(pairs, [2]string{file, output})
	}
	return pairs, nil
}

// writeEach calls write for all pairs, on all CPUs, and returns the errors in
// their order.
func writeEach(pairs [][2]string, write func(file, output string) error) error {
	errs := make([]error, len(pairs))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range pairs {
		g.Go(func() error { errs[i] = write(p[0], p[1]); return nil })
	}
	_ = g.Wait()
	return errors.Join(errs...)
}
