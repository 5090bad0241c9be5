// Package ci has the recipes of this directory, for `tasting adopt`.
package ci

import "embed"

// Files are the recipes, under their names.
//
//go:embed tasting.sh *.yml Jenkinsfile
var Files embed.FS
