package runner

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/base/wholefile"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/run/bazel"
	"github.com/rules-tasting/rules_tasting/analyzer/internal/store"
)

// writeXML writes the XML file of a test that has passed and wrote none itself, with its
// log: what Bazel's generate-xml.sh would do, for which Bazel starts another process.
// If that doesn't work, Bazel does it.
func (r *runner) writeXML(res *store.Result) {
	file := r.env.get("XML_OUTPUT_FILE")
	if file == "" {
		return
	}
	if _, err := os.Lstat(file); err == nil {
		return // the test's own
	}
	// Whole or not at all: Bazel may stop the test at any moment.
	_ = wholefile.WriteFrom(file, 0o644, func(w io.Writer) error {
		return bazel.WriteTestXML(w, r.xmlName(), res.End.Sub(res.Start), io.NewSectionReader(res.Log, 0, res.Log.Size()))
	})
}

// xmlName is the name of the test as Bazel has it in XML.
func (r *runner) xmlName() string {
	name := strings.TrimPrefix(strings.TrimPrefix(r.env.get("TEST_BINARY"), "./"), "../")
	if total := r.env.get("TEST_TOTAL_SHARDS"); total != "" && total != "0" {
		var shard int
		if _, err := fmt.Sscan(r.env.get("TEST_SHARD_INDEX"), &shard); err == nil {
			name = fmt.Sprintf("%s_shard_%d/%s", name, shard+1, total)
		}
	}
	return name
}
