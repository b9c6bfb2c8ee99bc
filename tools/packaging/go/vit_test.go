package vit

import (
	"context"
	"errors"
	"image"
	"image/color"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// The module contains this small model of clothes: 28 x 28 grey pixels, ten classes.
const file = "testdata/fashion-vit.vit"

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func picture() Photo {
	pixels := make([]byte, 64*48*3)
	for i := range pixels {
		pixels[i] = byte(i * i / 7)
	}
	return Photo{Pixels: pixels, Width: 64, Height: 48}
}

func same(t *testing.T, a, b []float32) {
	t.Helper()
	if len(a) != len(b) || len(a) == 0 {
		t.Fatalf("%d and %d numbers", len(a), len(b))
	}
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			t.Fatalf("number %d: %v and %v", i, a[i], b[i])
		}
	}
}

func embedding(t *testing.T, s *Session) []float32 {
	t.Helper()
	return must[[]Answer](t)(s.Run(picture()))[0].Embedding
}

func expectError(t *testing.T, err error, code Code, text string) {
	t.Helper()
	if !errors.Is(err, code) || !strings.Contains(err.Error(), text) {
		t.Fatalf("%v, expected %v: %q", err, code, text)
	}
}

func TestNumbersAndLabels(t *testing.T) {
	m := must[*Model](t)(Open(file))
	defer m.Close()
	channels, height, width := m.Input()
	rows, columns := m.Grid()
	if m.NumClasses() != 10 || channels != 1 || height != 28 || width != 28 || rows*m.PatchSize() != 28 ||
		m.NumTokens() != rows*columns+m.NumPrefixTokens() || m.EmbeddingDim() != m.EmbedDim() ||
		m.Depth() == 0 || m.NumHeads() == 0 {
		t.Fatal(m.size)
	}
	if len(m.Label(9)) < 2 || m.Label(10) != "" || m.Label(-1) != "" || m.Label(1<<40) != "" {
		t.Fatal("labels")
	}
	if strings.Count(LibraryVersion(), ".") != 2 {
		t.Fatal(LibraryVersion())
	}
}

func TestErrors(t *testing.T) {
	_, err := Open("no/such.vit")
	expectError(t, err, IO, "no/such.vit: ")
	_, err = Open("a\x00b")
	expectError(t, err, Argument, "zero byte")
	data := must[[]byte](t)(os.ReadFile(file))
	_, err = OpenBytes(data[:1000])
	expectError(t, err, Truncated, "")
	_, err = OpenBytes(make([]byte, 1000))
	expectError(t, err, Magic, "")
	if _, err = OpenBytes(nil); err == nil {
		t.Fatal("nothing opens")
	}
	m := must[*Model](t)(Open(file))
	_, err = m.Resized(56, 56)
	expectError(t, err, Unsupported, "")
	_, err = m.EmbedText("words")
	expectError(t, err, Unsupported, "")
	if m.TextScores([]float32{0.5}) == nil || m.TextScores(nil) == nil {
		t.Fatal("a model without words")
	}
	_, err = NewPool(1 << 40)
	expectError(t, err, Argument, "")
	_, err = NewSession(m, &Options{Batch: -1})
	expectError(t, err, Argument, "")
	s := must[*Session](t)(NewSession(m, nil))
	_, err = s.Run()
	expectError(t, err, Argument, "no photos")
	_, err = s.Attention(picture(), 1000)
	expectError(t, err, Argument, "")

	// Closed models and sessions stay closed; the model of an open session stays open.
	if m.Close() != nil || m.Close() != ErrClosed {
		t.Fatal("closed twice")
	}
	embedding(t, s)
	if s.Close() != nil || s.Close() != ErrClosed {
		t.Fatal("closed twice")
	}
	if _, err = s.Run(picture()); err != ErrClosed {
		t.Fatal(err)
	}
	if _, err = NewSession(m, nil); err != ErrClosed {
		t.Fatal(err)
	}
	if _, err = m.EmbedText("words"); err != ErrClosed || m.Label(0) != "" {
		t.Fatal(err)
	}
}

func TestPhotosHaveEnoughPixels(t *testing.T) {
	m := must[*Model](t)(Open(file))
	s := must[*Session](t)(NewSession(m, nil))
	defer s.Close()
	for _, c := range []struct {
		stride int
		format Format
		size   int
	}{{0, RGB8, 45}, {20, RGB8, 55}, {0, RGBA8, 60}, {0, Gray8, 15}, {0, BGR8, 45}, {0, BGRA8, 60},
		{0, RGB565, 30}, {0, YUYV, 36}, {0, NV12, 30}, {0, F32, 180}, {32, F32, 276}} {
		photo := Photo{make([]byte, c.size), 5, 3, c.stride, c.format}
		must[[]Answer](t)(s.Run(photo))
		photo.Pixels = photo.Pixels[1:]
		_, err := s.Run(photo)
		expectError(t, err, Argument, "expected")
		_, err = s.Tokens(photo)
		expectError(t, err, Argument, "expected")
	}
	for _, photo := range []Photo{{}, {Width: 5, Height: 3}, {make([]byte, 99), 5, 3, 14, RGB8},
		{make([]byte, 99), 5, -3, 0, RGB8}, {make([]byte, 99), 5, 3, 0, 99}, {make([]byte, 99), 1 << 40, 1, 0, RGB8}} {
		_, err := s.Run(picture(), photo)
		expectError(t, err, Argument, "photo")
	}
}

func TestEveryWayGivesTheSameBits(t *testing.T) {
	m := must[*Model](t)(Open(file))
	first := must[*Session](t)(NewSession(m, nil))
	expected := embedding(t, first)
	pool := must[*Pool](t)(NewPool(3))
	if pool.NumThreads() != 3 {
		t.Fatal(pool.NumThreads())
	}
	pooled := must[*Session](t)(NewSession(m, &Options{Pool: pool}))
	small := must[*Session](t)(NewSession(m, &Options{Pool: pool, LowMemory: true}))
	pool.Close()
	data := must[[]byte](t)(os.ReadFile(file))
	copied := must[*Model](t)(OpenBytes(data))
	for i := range data {
		data[i] = 0
	}
	memory := must[*Session](t)(NewSession(copied, nil))
	copied.Close()
	runtime.GC()
	for _, s := range []*Session{pooled, small, memory} {
		same(t, embedding(t, s), expected)
		s.Close()
	}

	answers := must[[]Answer](t)(first.Run(picture(), picture(), picture()))
	for _, a := range answers {
		same(t, a.Embedding, expected)
		sum := float32(0)
		for _, x := range a.Scores {
			sum += x
		}
		top := a.Top(99)
		if math.Abs(float64(sum-1)) > 1e-5 || len(top) != 10 || top[0].Score != a.Scores[top[0].Index] || top[0].Score < top[1].Score {
			t.Fatal(a.Scores)
		}
	}
	if Cosine(answers[0].Embedding, answers[2].Embedding) < 0.99999 || Top(nil, 3) != nil {
		t.Fatal("cosine")
	}

	// Each goroutine has a session, and all share another one.
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			s := first
			if i > 0 {
				s, _ = NewSession(m, nil)
				defer s.Close()
			}
			for n := 0; n < 10; n++ {
				a, err := first.Run(picture())
				b, also := s.Run(picture())
				if err != nil || also != nil || a[0].Embedding[0] != expected[0] || b[0].Embedding[0] != expected[0] {
					t.Error(err, also)
				}
			}
		}(i)
	}
	group.Wait()
}

func TestTokensAndAttention(t *testing.T) {
	m := must[*Model](t)(Open(file))
	s := must[*Session](t)(NewSession(m, nil))
	if tokens := must[[]float32](t)(s.Tokens(picture())); len(tokens) != m.NumTokens()*m.EmbedDim() || tokens[0] == 0 {
		t.Fatal(len(tokens))
	}
	attention := must[[]float32](t)(s.Attention(picture(), -1))
	for i := 0; i < len(attention); i += m.NumTokens() {
		sum := 0.0
		for _, x := range attention[i : i+m.NumTokens()] {
			sum += float64(x)
		}
		if math.Abs(sum-1) > 1e-4 {
			t.Fatal(sum)
		}
	}
}

func TestContextEndsRuns(t *testing.T) {
	m := must[*Model](t)(Open(file))
	s := must[*Session](t)(NewSession(m, nil))
	expected := embedding(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.RunContext(ctx, picture()); err != context.Canceled {
		t.Fatal(err)
	}
	many := make([]Photo, 20000)
	for i := range many {
		many[i] = picture()
	}
	ctx, cancel = context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.RunContext(ctx, many...); err != context.DeadlineExceeded {
		t.Fatal(err)
	}
	same(t, embedding(t, s), expected)
}

func TestFromImage(t *testing.T) {
	m := must[*Model](t)(Open(file))
	s := must[*Session](t)(NewSession(m, nil))
	p := picture()
	nrgba := image.NewNRGBA(image.Rect(-3, 5, 64-3+10, 48+5+10))
	rgba := image.NewRGBA(nrgba.Rect)
	for y := 0; y < 48; y++ {
		for x := 0; x < 64; x++ {
			i := 3 * (64*y + x)
			c := color.NRGBA{p.Pixels[i], p.Pixels[i+1], p.Pixels[i+2], 255}
			nrgba.SetNRGBA(x-3, y+5, c)
			rgba.Set(x-3, y+5, c)
		}
	}
	inner := image.Rect(-3, 5, 64-3, 48+5)
	for _, picture := range []image.Image{nrgba.SubImage(inner), rgba.SubImage(inner)} {
		same(t, must[[]Answer](t)(s.Run(FromImage(picture)))[0].Embedding, embedding(t, s))
	}
	grey := image.NewGray(image.Rect(0, 0, 9, 9))
	if photo := FromImage(grey.SubImage(image.Rect(2, 2, 5, 5))); photo.Format != Gray8 || photo.Stride != 9 {
		t.Fatal(photo)
	}
	_, err := s.Run(FromImage(grey.SubImage(image.Rect(3, 3, 3, 3))))
	expectError(t, err, Argument, "no photo: 0 x 0")
}
