// go.go - what packages/go.sh compiles against the module: MODEL PHOTO.ppm EMBEDDING. Prints the class
// and its score, and writes the embedding's floats, which are vit-embed's.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"time"

	"example.org/vit/v2"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	start := time.Now()
	model, err := vit.Open(os.Args[1])
	check(err)
	defer model.Close()
	file, err := os.ReadFile(os.Args[2])
	check(err)
	photo := vit.Photo{Pixels: file[len(file)-128*128*3:], Width: 128, Height: 128}
	session, err := vit.NewSession(model, nil)
	check(err)
	defer session.Close()
	answers, err := session.Run(photo, photo)
	check(err)
	took := time.Since(start)
	best := answers[1].Top(1)[0]
	fmt.Printf("%s %.4f\n", model.Label(best.Index), best.Score)
	out, err := os.Create(os.Args[3])
	check(err)
	check(binary.Write(out, binary.LittleEndian, answers[1].Embedding))
	check(out.Close())

	pool, err := vit.NewPool(2)
	check(err)
	defer pool.Close()
	pooled, err := vit.NewSession(model, &vit.Options{Pool: pool})
	check(err)
	defer pooled.Close()
	one, err := pooled.Run(photo)
	check(err)
	for i, x := range one[0].Embedding {
		if x != answers[0].Embedding[i] {
			log.Fatal("the pool gives other bits")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	many := make([]vit.Photo, 10000)
	for i := range many {
		many[i] = photo
	}
	if _, err = pooled.RunContext(ctx, many...); err != context.DeadlineExceeded {
		log.Fatal(err)
	}

	// Words, which the bundled model knows.
	text, err := model.EmbedText("a cat")
	check(err)
	fmt.Printf("%.4f\n", vit.Cosine(text, answers[0].Embedding))
	begin := time.Now()
	for i := 0; i < 20; i++ {
		_, err = session.Run(photo)
		check(err)
	}
	fmt.Fprintf(os.Stderr, "%.2f ms to the first two answers, %.2f ms for a photo\n",
		1e3*took.Seconds(), 50*time.Since(begin).Seconds())
}
