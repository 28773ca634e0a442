// A small web service with work to profile: it sells bread. Importing net/http/pprof is all that
// it does for profiling.
//
//	GET /bake?ms=50    burns so many milliseconds of CPU
//	GET /order?kb=64   allocates so many kilobytes
//	GET /queue         waits for a lock that others hold
//	GET /debug/pprof/  its profiles
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// What /order allocates is kept for a while, so that live memory is there to be seen.
type orders struct {
	mu   sync.Mutex
	last [64][]byte
	next int
}

//go:noinline
func knead(until time.Time) (n int) {
	sum := sha256.Sum256([]byte("flour"))
	for time.Now().Before(until) {
		for i := 0; i < 200; i++ {
			sum = sha256.Sum256(sum[:])
		}
		n += int(sum[0]) + 1
	}
	return n
}

//go:noinline
func pack(bytes int) []byte {
	box := make([]byte, bytes)
	box[0] = 1
	return box
}

func (o *orders) add(box []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last[o.next%len(o.last)] = box
	o.next++
}

//go:noinline
func (o *orders) waitInLine() {
	o.mu.Lock()
	time.Sleep(time.Millisecond)
	o.mu.Unlock()
}

func number(r *http.Request, name string, otherwise int) int {
	if n, err := strconv.Atoi(r.FormValue(name)); err == nil && n >= 0 {
		return n
	}
	return otherwise
}

func main() {
	listen := flag.String("listen", ":8080", "address")
	load := flag.Bool("load", false, "customers come by themselves")
	flag.Parse()
	// Off in Go unless somebody asks for them.
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)

	var shop orders
	http.HandleFunc("/bake", func(w http.ResponseWriter, r *http.Request) {
		until := time.Now().Add(time.Duration(number(r, "ms", 50)) * time.Millisecond)
		fmt.Fprintln(w, knead(until))
	})
	http.HandleFunc("/order", func(w http.ResponseWriter, r *http.Request) {
		shop.add(pack(number(r, "kb", 64) << 10))
		fmt.Fprintln(w, "thank you")
	})
	http.HandleFunc("/queue", func(w http.ResponseWriter, r *http.Request) {
		shop.waitInLine()
		fmt.Fprintln(w, "next please")
	})
	if *load {
		go func() {
			for {
				knead(time.Now().Add(30 * time.Millisecond))
				shop.add(pack(64 << 10))
				go shop.waitInLine()
				time.Sleep(70 * time.Millisecond)
			}
		}()
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", l.Addr())
	log.Fatal(http.Serve(l, nil))
}
