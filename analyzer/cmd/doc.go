// Package cmd is the folder of programs: tasting, and the tour that demonstrates and checks it.
package cmd
