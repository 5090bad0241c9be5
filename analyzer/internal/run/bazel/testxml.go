package bazel

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// maxXML is the size in bytes of the largest log that is written to XML here: larger ones
// aren't worth the memory.
const maxXML = 16 << 20

// WriteTestXML writes test.xml for a test that has passed and wrote none itself, with its log.
// Source: Bazel's generate-xml.sh.
func WriteTestXML(w io.Writer, name string, took time.Duration, log *io.SectionReader) error {
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

// characterData returns text as the content of a CDATA section. Bytes that aren't characters of
// XML become question marks.
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
