package runner

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rules-tasting/rules_tasting/analyzer/store"
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
	w, err := os.CreateTemp(filepath.Dir(file), ".test.xml-")
	if err != nil {
		return
	}
	err = writeTestXML(w, r.xmlName(), res.End.Sub(res.Start), io.NewSectionReader(res.Log, 0, res.Log.Size()))
	if err = errors.Join(err, w.Chmod(0o644), w.Close()); err == nil {
		err = os.Rename(w.Name(), file)
	}
	if err != nil {
		_ = os.Remove(w.Name())
	}
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

// maxXML is the size in bytes of the largest log that is written to XML here: larger ones
// aren't worth the memory.
const maxXML = 16 << 20

func writeTestXML(w io.Writer, name string, took time.Duration, log *io.SectionReader) error {
	if log.Size() > maxXML {
		return fmt.Errorf("the log has more than %d bytes", maxXML)
	}
	text, err := io.ReadAll(log)
	if err != nil {
		return err
	}
	var escaped strings.Builder
	if err := xml.EscapeText(&escaped, []byte(name)); err != nil {
		return err
	}
	seconds := int(took.Seconds())
	_, err = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="%[1]s" tests="1" failures="0" errors="0">
    <testcase name="%[1]s" status="run" duration="%[2]d" time="%[2]d"></testcase>
      <system-out>
Generated test.log (if the file is not UTF-8, then this may be unreadable):
<![CDATA[%[3]s]]>
      </system-out>
    </testsuite>
</testsuites>
`, escaped.String(), seconds, characterData(text))
	return err
}

// characterData returns text as the content of a CDATA section. What isn't a character of
// XML becomes a question mark.
func characterData(text []byte) []byte {
	text = bytes.Map(func(c rune) rune {
		// A byte that is no UTF-8 is U+FFFD here.
		if c == '\t' || c == '\n' || c == '\r' || 0x20 <= c && c < 0xfffd && (c < 0xd800 || 0xdfff < c) || c > 0xffff {
			return c
		}
		return '?'
	}, text)
	return bytes.ReplaceAll(text, []byte("]]>"), []byte("]]>]]<![CDATA[>"))
}
