// Package vit runs Vision Transformers on the CPU: classes, embeddings, tokens and attention of
// photos, embeddings of texts. It contains vit.h, a C header without dependencies, which cgo
// compiles with the system's C compiler. Models are .vit files, which vit-convert of vit.h makes.
//
//	model, err := vit.Open("cifar10-vit.vit")
//	...
//	defer model.Close()
//	session, err := vit.NewSession(model, nil) // keeps its memory from photo to photo
//	...
//	defer session.Close()
//	answers, err := session.Run(vit.FromImage(picture)) // an image.Image
//	...
//	fmt.Println(model.Label(answers[0].Top(1)[0].Index))
//
// All types may be used by several goroutines; calls of one Session take turns. Outputs have the same
// bits for any number of threads and any position in a batch. The package was tested on Linux with Go
// 1.19.
package vit

/*
#cgo CFLAGS: -std=c99 -O2
#cgo !windows LDFLAGS: -lm -lpthread
#include "handles.h"
#include <stdlib.h>

// Runs one photo in Go's memory. C may read this memory only during the call.
static int run_one(vith_session *session, const uint8_t *pixels, const int32_t *shape,
                   const float **scores, const float **embedding) {
    return vith_run(session, 1, &pixels, shape, scores, embedding);
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Code is the kind of an Error. The kinds are those of vit_result in vit.h. A test for a kind is
// errors.Is(err, vit.Unsupported).
type Code int

// The kinds.
const (
	Argument    Code = -1
	IO          Code = -2
	Memory      Code = -3
	Alignment   Code = -4
	Magic       Code = -5
	Version     Code = -6
	Truncated   Code = -7
	Corrupt     Code = -8
	Unsupported Code = -9
	SelfTest    Code = -10
	ABI         Code = -11
)

func (c Code) Error() string { return C.GoString(C.vith_result_string(C.int(c))) }

// Error has the library's message.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return "vit: " + e.Message }

// Is compares the Code with that of another Error.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// ErrClosed is returned by calls of a closed model, pool or session.
var ErrClosed = errors.New("vit: already closed")

func failed(result C.int) error {
	if result == 0 {
		return nil
	}
	return &Error{Code(result), Code(result).Error()}
}

func wrong(format string, values ...any) error {
	return &Error{Argument, fmt.Sprintf(format, values...)}
}

// clamp converts a number to C's int. If the number is too large for an int, the result is a number
// that the library refuses as too large.
func clamp(n int) C.int {
	if n > math.MaxInt32 {
		return math.MaxInt32
	}
	if n < math.MinInt32 {
		return math.MinInt32
	}
	return C.int(n)
}

// LibraryVersion is the version of vit.h, such as "2.0.0".
func LibraryVersion() string { return C.GoString(C.vith_version()) }

// counted is closed when its last user releases it.
type counted struct {
	users int32
	free  func()
}

func (c *counted) acquire() bool {
	for {
		users := atomic.LoadInt32(&c.users)
		if users == 0 {
			return false
		}
		if atomic.CompareAndSwapInt32(&c.users, users, users+1) {
			return true
		}
	}
}

func (c *counted) release() {
	if atomic.AddInt32(&c.users, -1) == 0 {
		c.free()
	}
}

// Model is an open .vit file.
type Model struct {
	c     *C.vith_model
	open  *counted
	close sync.Once
	size  [C.VITH_NUM_TOKENS + 1]int
}

// Open maps a file. The file must not be truncated or changed while it is open: replace model files
// by renaming, or use OpenBytes.
func Open(path string) (*Model, error) {
	if strings.IndexByte(path, 0) >= 0 {
		return nil, wrong("%q: the path has a zero byte", path)
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return open(func(model **C.vith_model, message *C.char) C.int {
		return C.vith_model_open(name, nil, 0, 0, model, message)
	}, func() {})
}

// OpenBytes copies a file that is in memory.
func OpenBytes(data []byte) (*Model, error) {
	const line = 64
	memory := C.malloc(C.size_t(len(data) + line))
	if memory == nil {
		return nil, failed(C.int(Memory))
	}
	start := unsafe.Add(memory, line-int(uintptr(memory)%line))
	copy(unsafe.Slice((*byte)(start), len(data)), data)
	return open(func(model **C.vith_model, message *C.char) C.int {
		return C.vith_model_open(nil, start, C.size_t(len(data)), 0, model, message)
	}, func() { C.free(memory) })
}

func open(call func(**C.vith_model, *C.char) C.int, then func()) (*Model, error) {
	var message [C.VITH_MESSAGE]C.char
	m := &Model{}
	if result := call(&m.c, &message[0]); result != 0 {
		then()
		return nil, &Error{Code(result), C.GoString(&message[0])}
	}
	c := m.c
	m.open = &counted{1, func() {
		C.vith_model_close(c)
		then()
	}}
	for i := range m.size {
		m.size[i] = int(C.vith_number(c, C.int(i)))
	}
	runtime.SetFinalizer(m, (*Model).Close)
	return m, nil
}

// Close releases the file after its last session is closed.
func (m *Model) Close() error {
	err := ErrClosed
	m.close.Do(func() {
		runtime.SetFinalizer(m, nil)
		m.open.release()
		err = nil
	})
	return err
}

// Resized gives a model of the same file for another input size in pixels, if the model allows
// other sizes.
func (m *Model) Resized(height, width int) (*Model, error) {
	if !m.open.acquire() {
		return nil, ErrClosed
	}
	return open(func(model **C.vith_model, message *C.char) C.int {
		return C.vith_model_resized(m.c, clamp(height), clamp(width), model, message)
	}, m.open.release)
}

// NumClasses is 0 for a backbone without a head.
func (m *Model) NumClasses() int { return m.size[C.VITH_NUM_CLASSES] }

// EmbeddingDim is the length of an embedding.
func (m *Model) EmbeddingDim() int { return m.size[C.VITH_EMBEDDING_DIM] }

// Input is the size of the input.
func (m *Model) Input() (channels, height, width int) {
	return m.size[C.VITH_IN_CHANS], m.size[C.VITH_IMG_HEIGHT], m.size[C.VITH_IMG_WIDTH]
}

// PatchSize is the side of a patch in pixels.
func (m *Model) PatchSize() int { return m.size[C.VITH_PATCH_SIZE] }

// EmbedDim is the width of a token.
func (m *Model) EmbedDim() int { return m.size[C.VITH_EMBED_DIM] }

// Depth is the number of blocks.
func (m *Model) Depth() int { return m.size[C.VITH_DEPTH] }

// NumHeads is the number of attention heads.
func (m *Model) NumHeads() int { return m.size[C.VITH_NUM_HEADS] }

// Grid is the number of rows and columns of patches.
func (m *Model) Grid() (rows, columns int) {
	return m.size[C.VITH_GRID_HEIGHT], m.size[C.VITH_GRID_WIDTH]
}

// NumPrefixTokens counts the class token and registers, which precede the patches.
func (m *Model) NumPrefixTokens() int { return m.size[C.VITH_NUM_PREFIX_TOKENS] }

// NumTokens counts all tokens.
func (m *Model) NumTokens() int { return m.size[C.VITH_NUM_TOKENS] }

// Label is the name of a class, or "" if the file has none.
func (m *Model) Label(index int) string {
	if !m.open.acquire() {
		return ""
	}
	defer m.open.release()
	return C.GoString(C.vith_label(m.c, clamp(index)))
}

// EmbedText gives the embedding of a text, if the file has a text encoder. A text that is too long is
// cut.
func (m *Model) EmbedText(text string) ([]float32, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, wrong("the text has a zero byte")
	}
	if !m.open.acquire() {
		return nil, ErrClosed
	}
	defer m.open.release()
	words := C.CString(text)
	defer C.free(unsafe.Pointer(words))
	embedding := make([]float32, m.EmbeddingDim())
	return embedding, failed(C.vith_text_embed(m.c, words, floats(embedding)))
}

// TextScores turns the cosines of a photo and several texts into probabilities, in place.
func (m *Model) TextScores(cosines []float32) error {
	if !m.open.acquire() {
		return ErrClosed
	}
	defer m.open.release()
	return failed(C.vith_text_scores(m.c, floats(cosines), clamp(len(cosines))))
}

func floats(x []float32) *C.float {
	if len(x) == 0 {
		return nil
	}
	return (*C.float)(&x[0])
}

// Cosine returns the cosine of the angle between two embeddings of the same length.
func Cosine(a, b []float32) float32 {
	if len(a) != len(b) {
		panic(fmt.Sprintf("vit: embeddings of %d and %d numbers", len(a), len(b)))
	}
	return float32(C.vith_cosine(floats(a), floats(b), clamp(len(a))))
}

// Prediction is a class and its score.
type Prediction struct {
	Index int
	Score float32
}

// Top gives the k best of some scores, best first. Among equal scores, the lower index comes first.
func Top(scores []float32, k int) []Prediction {
	if k > len(scores) {
		k = len(scores)
	}
	if k < 1 {
		return nil
	}
	index, value := make([]int32, k), make([]float32, k)
	found := int(C.vith_top_k(floats(scores), clamp(len(scores)), clamp(k), (*C.int32_t)(&index[0]), floats(value)))
	top := make([]Prediction, found)
	for i := range top {
		top[i] = Prediction{int(index[i]), value[i]}
	}
	return top
}

// Format is the layout of pixels. The layouts are those of vit_pixel in vit.h.
type Format int

// The layouts. F32 has planes of red, green and blue: floats from 0 to 1.
const (
	RGB8 Format = iota
	RGBA8
	Gray8
	BGR8
	BGRA8
	RGB565
	YUYV
	NV12
	F32
)

// Photo has pixels in memory. Stride is the number of bytes from row to row, 0 for rows without
// gaps.
type Photo struct {
	Pixels        []byte
	Width, Height int
	Stride        int
	Format        Format
}

// FromImage gives the pixels of a picture that image.Decode read. Alpha is ignored.
func FromImage(picture image.Image) Photo {
	size := picture.Bounds()
	width, height := size.Dx(), size.Dy()
	switch p := picture.(type) {
	case *image.Gray:
		if width > 0 && height > 0 {
			return Photo{p.Pix[p.PixOffset(size.Min.X, size.Min.Y):], width, height, p.Stride, Gray8}
		}
	case *image.NRGBA:
		if width > 0 && height > 0 {
			return Photo{p.Pix[p.PixOffset(size.Min.X, size.Min.Y):], width, height, p.Stride, RGBA8}
		}
	}
	rgba := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.Draw(rgba, rgba.Rect, picture, size.Min, draw.Src)
	return Photo{rgba.Pix, width, height, rgba.Stride, RGBA8}
}

// shape checks that the photo has enough pixels for its width, height and stride.
func (p *Photo) shape() ([4]C.int32_t, error) {
	shape := [4]C.int32_t{C.int32_t(clamp(p.Width)), C.int32_t(clamp(p.Height)), C.int32_t(clamp(p.Stride)),
		C.int32_t(clamp(int(p.Format)))}
	needed := uint64(C.vith_photo_size(&shape[0]))
	if needed == 0 {
		return shape, wrong("no photo: %d x %d pixels, stride %d, format %d", p.Width, p.Height, p.Stride, p.Format)
	}
	if uint64(len(p.Pixels)) < needed {
		return shape, wrong("a photo of %d x %d pixels, format %d: expected %d bytes, found %d", p.Width, p.Height,
			p.Format, needed, len(p.Pixels))
	}
	return shape, nil
}

// Pool has threads that sessions use in turn.
type Pool struct {
	c     *C.vith_pool
	open  *counted
	close sync.Once
}

// NewPool starts threads. numThreads includes the thread that calls Run; 0: one per core.
func NewPool(numThreads int) (*Pool, error) {
	p := &Pool{}
	if err := failed(C.vith_pool_open(clamp(numThreads), &p.c)); err != nil {
		return nil, err
	}
	c := p.c
	p.open = &counted{1, func() { C.vith_pool_close(c) }}
	runtime.SetFinalizer(p, (*Pool).Close)
	return p, nil
}

// NumThreads counts the calling thread too.
func (p *Pool) NumThreads() int {
	if !p.open.acquire() {
		return 0
	}
	defer p.open.release()
	return int(C.vith_pool_threads(p.c))
}

// Close ends the threads after the last session of the pool is closed.
func (p *Pool) Close() error {
	err := ErrClosed
	p.close.Do(func() {
		runtime.SetFinalizer(p, nil)
		p.open.release()
		err = nil
	})
	return err
}

// Options are the settings of a session.
type Options struct {
	Pool      *Pool // nil: the calling thread
	LowMemory bool  // less than half the memory and the same bits, but slower
	Batch     int   // photos computed together; 0: as many as the threads' caches hold
}

// Session has the memory for forward passes.
type Session struct {
	turn  sync.Mutex
	c     *C.vith_session
	stop  *C.int32_t // in C's memory
	model *Model
	pool  *Pool
}

// NewSession makes a session; options may be nil.
func NewSession(model *Model, options *Options) (*Session, error) {
	if options == nil {
		options = &Options{}
	}
	if !model.open.acquire() {
		return nil, ErrClosed
	}
	s := &Session{model: model, pool: options.Pool}
	var pool *C.vith_pool
	if s.pool != nil {
		if !s.pool.open.acquire() {
			model.open.release()
			return nil, ErrClosed
		}
		pool = s.pool.c
	}
	low := C.int(0)
	if options.LowMemory {
		low = 1
	}
	result := C.int(Memory)
	if s.stop = (*C.int32_t)(C.calloc(1, 4)); s.stop != nil {
		result = C.vith_session_open(model.c, pool, low, clamp(options.Batch), s.stop, &s.c)
	}
	if result != 0 {
		s.release()
		return nil, failed(result)
	}
	runtime.SetFinalizer(s, (*Session).Close)
	return s, nil
}

func (s *Session) release() {
	C.free(unsafe.Pointer(s.stop))
	if s.pool != nil {
		s.pool.open.release()
	}
	s.model.open.release()
}

// Close waits for the current call, and frees the memory.
func (s *Session) Close() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.c == nil {
		return ErrClosed
	}
	runtime.SetFinalizer(s, nil)
	C.vith_session_close(s.c)
	s.c = nil
	s.release()
	return nil
}

// Answer is the answer for one photo. Scores are nil without a head.
type Answer struct {
	Scores    []float32
	Embedding []float32
}

// Top gives the k best classes.
func (a *Answer) Top(k int) []Prediction { return Top(a.Scores, k) }

// Run gives the answers for photos of any sizes.
func (s *Session) Run(photos ...Photo) ([]Answer, error) {
	return s.RunContext(context.Background(), photos...)
}

// RunContext is like Run, but ends early, with ctx.Err(), when ctx is done: at the end of the
// current phase, which takes a few milliseconds for a base model. Models whose input has the aspect
// ratio of each photo complete the run.
func (s *Session) RunContext(ctx context.Context, photos ...Photo) (answers []Answer, err error) {
	if len(photos) == 0 {
		return nil, wrong("no photos")
	}
	shapes := make([][4]C.int32_t, len(photos))
	for i := range photos {
		if shapes[i], err = photos[i].shape(); err != nil {
			return nil, err
		}
	}
	err = s.call(ctx, func() C.int {
		var scores, embedding *C.float
		result := s.run(photos, shapes, &scores, &embedding)
		if result == 0 {
			answers = s.answers(len(photos), scores, embedding)
		}
		return result
	})
	return answers, err
}

// call waits for other calls of the session, calls run, and sets the session's flag when ctx is
// done.
func (s *Session) call(ctx context.Context, run func() C.int) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.c == nil {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var watching sync.WaitGroup
	ended := make(chan struct{})
	flag := (*int32)(s.stop)
	if ctx.Done() != nil {
		watching.Add(1)
		go func() {
			defer watching.Done()
			select {
			case <-ctx.Done():
				atomic.StoreInt32(flag, 1)
			case <-ended:
			}
		}()
	}
	result := run()
	close(ended)
	watching.Wait()
	atomic.StoreInt32(flag, 0)
	runtime.KeepAlive(s)
	if result == C.VITH_STOPPED {
		return ctx.Err()
	}
	return failed(result)
}

func (s *Session) run(photos []Photo, shapes [][4]C.int32_t, scores, embedding **C.float) C.int {
	n := len(photos)
	if n == 1 {
		return C.run_one(s.c, (*C.uint8_t)(&photos[0].Pixels[0]), &shapes[0][0], scores, embedding)
	}
	// Pointers to Go's memory may not lie in an array.
	list := C.malloc(C.size_t(n) * C.size_t(unsafe.Sizeof(uintptr(0))))
	if list == nil {
		return C.int(Memory)
	}
	defer C.free(list)
	pixels := unsafe.Slice((**C.uint8_t)(list), n)
	for i := range photos {
		size := C.vith_photo_size(&shapes[i][0])
		pixels[i] = (*C.uint8_t)(C.malloc(C.size_t(size)))
		if pixels[i] == nil {
			return C.int(Memory)
		}
		defer C.free(unsafe.Pointer(pixels[i]))
		copy(unsafe.Slice((*byte)(pixels[i]), int(size)), photos[i].Pixels)
	}
	return C.vith_run(s.c, clamp(n), &pixels[0], &shapes[0][0], scores, embedding)
}

func (s *Session) answers(n int, scores, embedding *C.float) []Answer {
	answers := make([]Answer, n)
	rows := func(from *C.float, width int) []float32 {
		if from == nil || width == 0 {
			return nil
		}
		return append([]float32(nil), unsafe.Slice((*float32)(from), n*width)...)
	}
	classes, dim := s.model.NumClasses(), s.model.EmbeddingDim()
	allScores, allEmbeddings := rows(scores, classes), rows(embedding, dim)
	for i := range answers {
		if allScores != nil {
			answers[i].Scores = allScores[i*classes : (i+1)*classes : (i+1)*classes]
		}
		answers[i].Embedding = allEmbeddings[i*dim : (i+1)*dim : (i+1)*dim]
	}
	return answers
}

// Tokens gives all tokens of a photo after the last norm, NumTokens times EmbedDim.
func (s *Session) Tokens(photo Photo) ([]float32, error) {
	tokens := make([]float32, s.model.NumTokens()*s.model.EmbedDim())
	return tokens, s.look(photo, floats(tokens), 0, nil)
}

// Attention gives the attention of a block (-1 is the last): NumHeads times NumTokens times
// NumTokens.
func (s *Session) Attention(photo Photo, block int) ([]float32, error) {
	tokens := s.model.NumTokens()
	attention := make([]float32, s.model.NumHeads()*tokens*tokens)
	return attention, s.look(photo, nil, block, floats(attention))
}

func (s *Session) look(photo Photo, tokens *C.float, block int, attention *C.float) error {
	shape, err := photo.shape()
	if err != nil {
		return err
	}
	return s.call(context.Background(), func() C.int {
		pixels := (*C.uint8_t)(&photo.Pixels[0])
		return C.vith_look(s.c, pixels, &shape[0], tokens, clamp(block), attention)
	})
}
