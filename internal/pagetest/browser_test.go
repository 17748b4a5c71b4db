package pagetest

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	chromium    = flag.String("chromium", "", "the browser; by default the first of chromium-headless-shell, chromium, google-chrome on the PATH")
	screenshots = flag.String("screenshots", "", "a directory for screenshots; none are taken without")
)

// browserPath fails the test where there is no browser: what is not looked at
// is not known to work.
func browserPath(t *testing.T) string {
	t.Helper()
	if *chromium != "" {
		return *chromium
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium: install the package chromium or chromium-headless-shell, or say where one is with -args -chromium PATH")
	return ""
}

// tab is a page in a browser of its own. What it complains of and whom it asks
// is kept, and checked when the test ends.
type tab struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string
	asked  map[string]int // by host
}

type screen struct {
	width, height int64
	mobile        bool
}

var (
	desktop = screen{1280, 900, false}
	phone   = screen{390, 844, true}
)

// openTab opens an address. scheme is "light" or "dark".
func openTab(t *testing.T, address string, s screen, scheme string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browserPath(t)),
		chromedp.NoSandbox, // containers run as root
		chromedp.Flag("disable-background-networking", true),
		chromedp.WSURLReadTimeout(time.Minute),
	)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{T: t, ctx: ctx, asked: map[string]int{}}
	require.NoError(t, chromedp.Listen(ctx, b.note))
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: s.width, Height: s.height, DeviceScaleFactor: 1, Mobile: s.mobile,
	})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.do(chromedp.Navigate(address))
	t.Cleanup(func() {
		u, err := url.Parse(address)
		assert.NoError(t, err)
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.Empty(t, b.errors, "errors on the console")
		for host, times := range b.asked {
			assert.Equal(t, u.Host, host, "asked %d times", times)
		}
	})
	return b
}

func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		b.errors = append(b.errors, text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text := string(e.Type)
			for _, arg := range e.Args {
				text += " " + string(arg.Value) + arg.Description
			}
			b.errors = append(b.errors, text)
		}
	case *log.EventEntryAdded: // the Content-Security-Policy's, among others
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil {
			b.errors = append(b.errors, err.Error())
			return
		}
		b.asked[u.Host]++
	}
}

// forget forgets complaints that a test has brought about itself.
func (b *tab) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = nil
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	require.NoError(b, chromedp.Do(b.ctx, actions...))
}

// call sends a command of the DevTools protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	require.NoError(b, err)
	return result
}

// eval evaluates JavaScript into a Go value.
func eval[V any](b *tab, script string) V {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[V](script))
	require.NoError(b, err)
	return v
}

// until waits until a condition in JavaScript holds.
func (b *tab) until(condition string) {
	b.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if eval[bool](b, "Boolean("+condition+")") {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("it does not come to hold: %s\nstatus: %s", condition, eval[string](b, "document.body.innerText"))
		}
	}
}

// shoot takes a screenshot of the whole page.
func (b *tab) shoot(name string) {
	b.Helper()
	if *screenshots == "" {
		return
	}
	size := call(b, page.GetLayoutMetrics, cdp.Empty{}).CSSContentSize
	png := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{
		CaptureBeyondViewport: new(true), Clip: &page.Viewport{Width: size.Width, Height: size.Height, Scale: 1},
	}).Data
	require.NoError(b, os.MkdirAll(*screenshots, 0o755))
	require.NoError(b, os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644))
}

// noOverflow holds that nothing makes the page wider than the screen.
func (b *tab) noOverflow() {
	b.Helper()
	width := eval[int](b, "document.documentElement.clientWidth")
	assert.LessOrEqual(b, eval[int](b, "document.documentElement.scrollWidth"), width)
	wide := eval[[]string](b, fmt.Sprintf(`[...document.querySelectorAll("main *, header *, footer *")].filter(e => {
		const box = e.getBoundingClientRect();
		return box.width > 0 && box.right > %d + 0.5 && !e.closest(".scroll, .hidden, thead") && !e.closest(".uplot");
	}).map(e => e.outerHTML.slice(0, 120))`, width))
	assert.Empty(b, wide, "reach beyond the screen")
}

// mark marks the rows that are there.
var mark = chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("tbody tr").forEach((row) => { row.marked = true; })`)

// hover moves the pointer.
func hover(x, y float64) chromedp.Action[chromedp.Void] {
	return chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y)
}
