package report

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// chromium returns the path of the browser. Without one the test is skipped, or
// fails if TASTING_REQUIRE_CHROMIUM is set, as it is where all tests must run.
func chromium(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	if os.Getenv("TASTING_REQUIRE_CHROMIUM") != "" {
		t.Fatal("chromium is required, and is not on PATH")
	}
	t.Skip("no chromium on this machine")
	return ""
}

// browser is a headless Chromium, spoken to through the DevTools protocol over
// pipes: messages in JSON, each ended by a zero byte.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	id      int
	session string
	// watchdog ends the browser if a page takes longer than pageTime.
	watchdog *time.Timer
	// problems is what the page complained about, requests the URLs that it
	// asked for.
	problems, requests []string
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// pageTime is far more than a page takes on a slow machine.
const pageTime = 10 * time.Minute

func startBrowser(t *testing.T) *browser {
	path := chromium(t)
	home := t.TempDir()
	theirIn, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
		"--user-data-dir="+filepath.Join(home, "profile"), "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, to: to, from: bufio.NewReader(from)}
	// A browser that hangs ends, and with it the pipe.
	b.watchdog = time.AfterFunc(pageTime, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		b.watchdog.Stop()
		fmt.Fprintf(to, `{"id":-1,"method":"Browser.close"}`+"\x00")
		to.Close()
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-done
		}
		from.Close()
		if t.Failed() {
			t.Logf("chromium said:\n%s", said.Bytes())
		}
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) receive() message {
	b.t.Helper()
	text, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("chromium ended or hung: %v", err)
	}
	var m message
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatalf("%v: %s", err, text)
	}
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		b.problems = append(b.problems, string(m.Params))
	case "Runtime.consoleAPICalled":
		b.problems = append(b.problems, string(m.Params))
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		json.Unmarshal(m.Params, &p)
		b.requests = append(b.requests, p.Request.URL)
	}
	return m
}

func (b *browser) call(method string, params any, result any) {
	b.t.Helper()
	b.id++
	req := map[string]any{"id": b.id, "method": method}
	if params != nil {
		req["params"] = params
	}
	if b.session != "" {
		req["sessionId"] = b.session
	}
	text, err := json.Marshal(req)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.receive()
		if m.ID != b.id {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// open loads a page and waits until it has been drawn.
func (b *browser) open(url string) {
	b.t.Helper()
	b.watchdog.Reset(pageTime)
	b.problems, b.requests = nil, nil
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for b.receive().Method != "Page.loadEventFired" {
	}
}

// eval runs a script in the page and reads its result, a JSON text.
func (b *browser) eval(script string, result any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value string }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": "(async () => JSON.stringify(await (" + script + ")()))()", "awaitPromise": true, "returnByValue": true}, &r)
	if len(r.ExceptionDetails) > 0 {
		b.t.Fatalf("%s", r.ExceptionDetails)
	}
	if err := json.Unmarshal([]byte(r.Result.Value), result); err != nil {
		b.t.Fatalf("%v: %s", err, r.Result.Value)
	}
}

func (b *browser) window(width, height int, scheme string) {
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// measured is what the page looks like.
type measured struct {
	// Bars are those with a segment. Invisible are classes of segments that take no room or have no colour of their own.
	Bars      int
	Invisible []string
	// Ragged are labels of tests whose states aren't one letter wide for each run.
	Ragged []string
	// ScrollWidth is above Width if the page doesn't fit.
	Width, ScrollWidth float64
	// Small is text that is hard to read, Contrast text that hardly stands out.
	Small, Contrast []string
	Tables, Scripts int
}

const measure = `async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const box = (e) => e.getBoundingClientRect();
  const segments = [...document.querySelectorAll(".bar > span")];
  const behind = (e) => { while (e && getComputedStyle(e).backgroundColor === "rgba(0, 0, 0, 0)") e = e.parentElement; return getComputedStyle(e || document.body).backgroundColor; };
  const invisible = segments.filter((s) => box(s).width <= 0 || box(s).height < 4 || behind(s) === behind(s.parentElement)).map((s) => s.className);
  const widths = [...document.querySelectorAll("td.cells")].map((c) => [...c.children].reduce((sum, s) => sum + box(s).width, 0));
  const ragged = [...document.querySelectorAll("td.cells")].filter((c, i) => Math.abs(widths[i] - widths[0]) > 1).map((c) => c.parentElement.firstElementChild.textContent);
  const small = [], contrast = [];
  const channel = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = (rgb) => { const [r, g, b] = rgb.match(/[\d.]+/g).map((x) => channel(x / 255)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility({visibilityProperty: true}) || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(e);
    if (parseFloat(style.fontSize) < 10) small.push(e.textContent.slice(0, 40));
    const [a, b] = [luminance(style.color), luminance(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) contrast.push(e.tagName + " " + e.textContent.slice(0, 40));
  }
  return {Bars: document.querySelectorAll(".bar:has(> span)").length, Invisible: invisible, Ragged: ragged, Small: small, Contrast: contrast,
    Width: document.documentElement.clientWidth, ScrollWidth: document.documentElement.scrollWidth,
    Tables: document.querySelectorAll("table").length, Scripts: document.scripts.length};
}`

func writePage(t *testing.T, runs []*Run, damaged ...Damaged) string {
	t.Helper()
	var b Builder
	for _, r := range runs {
		b.Add(r.normalise())
	}
	b.AddDamaged(damaged...)
	file := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := b.Data().HTML(f); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

// The page in a real browser: nothing loaded, no bar that can't be seen, nothing that doesn't fit, in narrow and wide
// windows, light and dark.
//
// With TASTING_SCREENSHOTS=DIR it leaves pictures there.
func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	pages := []struct {
		name         string
		runs         []*Run
		bars, tables int // at least
	}{
		{"small", sample(30, 36, 1), 60, 6},
		{"one", sample(1, 5, 2), 3, 5},
		{"three", sample(3, 8, 4), 6, 6},
		{"large", sample(510, 300, 3), 1000, 6},
		{"none", nil, 0, 0},
		{"hostile", hostile(), 5, 6},
	}
	for _, p := range pages {
		url := writePage(t, p.runs)
		for _, width := range []int{360, 768, 1440} {
			for _, scheme := range []string{"light", "dark"} {
				if scheme == "dark" && (p.name != "small" || width == 768) {
					continue // only colours differ
				}
				t.Run(fmt.Sprintf("%s_%d_%s", p.name, width, scheme), func(t *testing.T) {
					b.t = t
					b.window(width, 900, scheme)
					b.open(url)
					var m measured
					b.eval(measure, &m)
					for _, problem := range b.problems {
						t.Errorf("the page complains: %s", problem)
					}
					for _, u := range b.requests {
						if u != url && !strings.HasPrefix(u, "data:") {
							t.Errorf("the page asks for %s", u)
						}
					}
					if m.Bars < p.bars || m.Tables < p.tables || m.Scripts > 0 {
						t.Errorf("%d bars, %d tables, %d scripts, want %d and %d or more, and no script", m.Bars, m.Tables, m.Scripts, p.bars, p.tables)
					}
					if m.Width != float64(width) || m.ScrollWidth > m.Width {
						t.Errorf("%v pixels in a window of %v, want %d", m.ScrollWidth, m.Width, width)
					}
					for what, found := range map[string][]string{"bars that can't be seen": m.Invisible, "rows of another width": m.Ragged, "text is too small": m.Small, "text hardly stands out": m.Contrast} {
						if len(found) > 0 {
							t.Errorf("%s: %d, such as %q", what, len(found), found[:min(3, len(found))])
						}
					}
					b.screenshot(fmt.Sprintf("%s_%d_%s.png", p.name, width, scheme), width)
				})
			}
		}
	}
}

func (b *browser) screenshot(name string, width int) {
	dir := os.Getenv("TASTING_SCREENSHOTS")
	if dir == "" {
		return
	}
	var size struct {
		CSSContentSize struct{ Height float64 }
	}
	b.call("Page.getLayoutMetrics", nil, &size)
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": width, "height": size.CSSContentSize.Height, "scale": 1}}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), png, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// The checks of TestBrowser find what they are for.
func TestBrowserNotices(t *testing.T) {
	b := startBrowser(t)
	b.window(800, 600, "light")
	broken := filepath.Join(t.TempDir(), "broken.html")
	text := `<!DOCTYPE html><body style="background:#fff">
<div class="bar" style="display:flex;height:9px"><span class="empty"></span><span class="white" style="width:9px;background:#fff"></span></div>
<table><tr><td>a</td><td class="cells"><span>rr</span></td></tr><tr><td>b</td><td class="cells"><span>rrrr</span></td></tr></table>
<p style="font-size:6px;color:#ddd">tiny</p><div style="width:2000px">wide</div>
<img src="http://127.0.0.1:9/x.png"><script>undefinedFunction()</script>`
	if err := os.WriteFile(broken, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.open("file://" + broken)
	var m measured
	b.eval(measure, &m)
	if len(b.problems) == 0 || !strings.Contains(strings.Join(b.problems, ""), "undefinedFunction") {
		t.Errorf("the script's error isn't noticed: %q", b.problems)
	}
	if !strings.Contains(strings.Join(b.requests, " "), "127.0.0.1") {
		t.Errorf("the request isn't noticed: %q", b.requests)
	}
	if m.Bars != 1 || len(m.Invisible) != 2 || len(m.Ragged) != 1 || m.ScrollWidth <= m.Width || len(m.Small) == 0 || len(m.Contrast) == 0 || m.Tables != 1 || m.Scripts != 1 {
		t.Errorf("not noticed: %+v", m)
	}
}
