// Goroutines, interfaces, leaf functions without frames.
package main

import (
	"os"
	"strconv"
	"time"
)

var sink uint64

//go:noinline
func spin(n int) uint64 {
	x := uint64(n)
	for i := 0; i < n*1000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//go:noinline
func hotSixty() { sink += spin(60) }

//go:noinline
func hotForty() { sink += spin(40) }

//go:noinline
func stage() {
	hotSixty()
	hotForty()
}

func main() {
	seconds := 5.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	done := make(chan bool)
	go func() {
		for time.Now().Before(until) {
			stage()
		}
		done <- true
	}()
	<-done
}
