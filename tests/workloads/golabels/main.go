// Costs 70 of 100 with the labels of one span and 30 with those of another.
package main

import (
	"context"
	"os"
	"runtime/pprof"
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
func hotSeventy(context.Context) { sink += spin(70) }

//go:noinline
func hotThirty(context.Context) { sink += spin(30) }

func main() {
	seconds := 5.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	a := pprof.Labels("trace_id", "a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0", "span_id", "a1a1a1a1a1a1a1a1",
		"http.route", "/cart")
	b := pprof.Labels("trace_id", "b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0", "span_id", "b1b1b1b1b1b1b1b1",
		"http.route", "/pay", "tenant", "blue")
	done := make(chan bool)
	go func() {
		for time.Now().Before(until) {
			pprof.Do(context.Background(), a, hotSeventy)
			pprof.Do(context.Background(), b, hotThirty)
		}
		done <- true
	}()
	<-done
}
