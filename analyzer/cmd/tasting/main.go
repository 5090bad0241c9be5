// Command tasting identifies what C and C++ tests can do, and replays the
// recorded results of those whose fingerprint is known.
package main

import (
	"os"

	"github.com/rules-tasting/rules_tasting/analyzer/cmd/tasting/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
