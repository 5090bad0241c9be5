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
	Ready  string
	Charts []struct {
		ID            string
		Width, Height float64
		// Drawn are the shapes that take room; their colours must be seen.
		Drawn     int
		Invisible []string
	}
	// ScrollWidth is above Width if the page doesn't fit.
	Width, ScrollWidth float64
	// Overlaps are labels of an axis that lie over each other, Small is text
	// that is hard to read.
	Overlaps, Small []string
	Unnamed         []string
	Contrast        []string
	Tables          int
}

const measure = `async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const box = (e) => e.getBoundingClientRect();
  const charts = [...document.querySelectorAll("svg[data-chart]")].map((svg) => {
    const shapes = [...svg.children];
    // A box doesn't contain the stroke, and a dot is a line without length.
    const stroke = (s) => getComputedStyle(s).stroke === "none" ? 0 : parseFloat(getComputedStyle(s).strokeWidth);
    const seen = shapes.filter((s) => box(s).width + stroke(s) > 0 && box(s).height + stroke(s) > 0 && s.getAttribute("d").length > 4);
    const paint = (s) => { const c = getComputedStyle(s); return c.fill !== "none" ? c.fill : c.stroke; };
    const surface = getComputedStyle(svg.closest("figure")).backgroundColor;
    return {ID: svg.dataset.chart, Width: box(svg).width, Height: box(svg).height, Drawn: seen.length,
      Invisible: shapes.filter((s) => ["none", "rgba(0, 0, 0, 0)", surface].includes(paint(s))).map((s) => s.getAttribute("class"))};
  });
  const overlaps = [];
  for (const axis of document.querySelectorAll(".x, .chart .y")) {
    const labels = [...axis.querySelectorAll("span:not(.width)")].filter((s) => box(s).width > 0);
    labels.forEach((a, i) => labels.slice(i + 1).forEach((b) => {
      const [p, q] = [box(a), box(b)];
      if (p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom) overlaps.push(a.textContent + " | " + b.textContent);
    }));
    const outer = box(axis.parentElement);
    for (const s of labels) if (box(s).left < outer.left - 1 || box(s).right > outer.right + 1) overlaps.push(s.textContent + " sticks out");
  }
  const small = [], contrast = [];
  const channel = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = (rgb) => { const [r, g, b] = rgb.match(/[\d.]+/g).map((x) => channel(x / 255)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility({visibilityProperty: true}) || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(e);
    if (parseFloat(style.fontSize) < 10) small.push(e.textContent.slice(0, 40));
    let behind = e;
    while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    const [a, b] = [luminance(style.color), luminance(getComputedStyle(behind || document.body).backgroundColor)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) contrast.push(e.tagName + " " + e.textContent.slice(0, 40));
  }
  return {Ready: document.documentElement.dataset.ready || "", Charts: charts, Overlaps: overlaps, Small: small, Contrast: contrast,
    Width: document.documentElement.clientWidth, ScrollWidth: document.documentElement.scrollWidth,
    Unnamed: [...document.querySelectorAll("svg:not([aria-hidden])")].filter((s) => s.getAttribute("role") !== "img" || !s.getAttribute("aria-label")).map((s) => s.outerHTML.slice(0, 80)),
    Tables: document.querySelectorAll("table").length};
}`

// hover moves the pointer over all columns of each chart and returns what is
// shown beside it.
const hover = `async () => {
  const texts = {};
  for (const plot of document.querySelectorAll("[data-tips]")) {
    const r = plot.getBoundingClientRect();
    const seen = new Set();
    for (let i = 0; i < 50; i++) {
      plot.dispatchEvent(new PointerEvent("pointermove", {clientX: r.left + (i + 0.5) * r.width / 50, clientY: r.top + r.height / 2, bubbles: true}));
      const tip = document.getElementById("tip");
      if (!tip.hidden) seen.add(tip.textContent);
      const t = tip.getBoundingClientRect();
      if (t.left < 0 || t.right > window.innerWidth) seen.add("sticks out");
    }
    plot.dispatchEvent(new PointerEvent("pointerleave"));
    texts[plot.dataset.tips] = [...seen];
  }
  return texts;
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

// The page in a real browser: no script error, nothing loaded, no empty chart,
// nothing that doesn't fit, in narrow and wide windows, light and dark.
//
// With TASTING_SCREENSHOTS=DIR it leaves pictures there.
func TestBrowser(t *testing.T) {
	b := startBrowser(t)
	pages := []struct {
		name   string
		runs   []*Run
		charts []string
	}{
		{"small", sample(30, 36, 1), []string{"verdicts", "times", "ratios", "costs", "strip", "matrix", "latency"}},
		{"one", sample(1, 5, 2), []string{"verdicts", "times", "ratios", "costs", "strip", "matrix", "latency"}},
		{"three", sample(3, 8, 4), []string{"verdicts", "times", "ratios", "costs", "strip", "matrix", "latency"}},
		{"large", sample(510, 300, 3), []string{"verdicts", "times", "ratios", "costs", "strip", "matrix", "latency"}},
		{"none", nil, nil},
		{"hostile", hostile(), []string{"verdicts", "times", "ratios", "strip", "matrix", "latency"}},
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
					var texts map[string][]string
					b.eval(hover, &texts)

					for _, problem := range b.problems {
						t.Errorf("the page complains: %s", problem)
					}
					for _, u := range b.requests {
						if u != url && !strings.HasPrefix(u, "data:") {
							t.Errorf("the page asks for %s", u)
						}
					}
					if m.Ready != "yes" {
						t.Error("the script has not run to its end")
					}
					var charts []string
					for _, c := range m.Charts {
						charts = append(charts, c.ID)
						if c.Drawn == 0 || c.Width < 100 || c.Height < 18 || len(c.Invisible) > 0 {
							t.Errorf("chart %s: %v shapes that can be seen in %v x %v, of no colour: %v", c.ID, c.Drawn, c.Width, c.Height, c.Invisible)
						}
					}
					if fmt.Sprint(charts) != fmt.Sprint(p.charts) {
						t.Errorf("charts %v, want %v", charts, p.charts)
					}
					if m.Width != float64(width) || m.ScrollWidth > m.Width {
						t.Errorf("%v pixels in a window of %v, want %d", m.ScrollWidth, m.Width, width)
					}
					for what, found := range map[string][]string{"labels in each other's way": m.Overlaps, "text is too small": m.Small, "text hardly stands out": m.Contrast, "pictures without a text": m.Unnamed} {
						if len(found) > 0 {
							t.Errorf("%s: %d, such as %q", what, len(found), found[:min(3, len(found))])
						}
					}
					for _, id := range p.charts {
						if id == "strip" {
							continue
						}
						if len(texts[id]) < min(len(p.runs), 25) {
							t.Errorf("chart %s: %d texts beside the pointer: %q", id, len(texts[id]), texts[id])
						}
						for _, text := range texts[id] {
							if strings.Contains(text, "undefined") || text == "sticks out" || !strings.Contains(text, "\n") {
								t.Errorf("chart %s: %q beside the pointer", id, text)
							}
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
	text := `<!DOCTYPE html><body style="background:#fff"><figure style="background:#fff"><svg data-chart="empty" width="0" height="0"></svg>
<svg data-chart="white" viewBox="0 0 1 1" width="90" height="90"><path d="M0 0H1V1z" fill="#fff" class="w"/></svg></figure>
<div class="x"><span style="position:absolute">one</span><span style="position:absolute">two</span></div>
<p style="font-size:6px;color:#ddd">tiny</p><div style="width:2000px">wide</div><div id="tip" hidden></div>
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
	if m.Ready != "" || len(m.Charts) != 2 || m.Charts[0].Drawn != 0 || len(m.Charts[1].Invisible) != 1 ||
		m.ScrollWidth <= m.Width || len(m.Overlaps) == 0 || len(m.Small) == 0 || len(m.Contrast) == 0 || len(m.Unnamed) != 2 {
		t.Errorf("not noticed: %+v", m)
	}
}
