package store

import (
	"bytes"
	"io"
	"os"
)

// Spool is a buffer that keeps more than Memory bytes in a file without a name, so that nothing is left if the process is
// killed.
type Spool struct {
	Memory int

	memory bytes.Buffer
	file   *os.File
	size   int64
}

// Write implements io.Writer. After an error the spool is of no use.
func (s *Spool) Write(b []byte) (int, error) {
	s.size += int64(len(b))
	if s.file == nil && s.size > int64(s.Memory) {
		f, err := os.CreateTemp("", "tasting-")
		if err != nil {
			return 0, err
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil {
			return 0, err
		}
		if _, err := s.memory.WriteTo(f); err != nil {
			return 0, err
		}
		s.memory = bytes.Buffer{}
	}
	if s.file != nil {
		return s.file.Write(b)
	}
	return s.memory.Write(b)
}

// Content returns what was written.
func (s *Spool) Content() *io.SectionReader {
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, s.size)
	}
	return Content(s.memory.Bytes())
}

// Close releases the content.
func (s *Spool) Close() error {
	if s.file != nil {
		return s.file.Close()
	}
	return nil
}
