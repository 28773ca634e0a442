// Shop is a small program with known hot spots, and the source of examples/shop.pb.gz: it prices
// carts for a few seconds while Go's own profiler watches.
//
//	go run . ../shop.pb.gz
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime/pprof"
	"sort"
	"strings"
	"time"
)

type item struct {
	Name  string  `json:"name"`
	Price float64 `json:"price"`
	Count int     `json:"count"`
}

type cart struct {
	ID    int    `json:"id"`
	Items []item `json:"items"`
}

func makeCart(id int) cart {
	c := cart{ID: id}
	for i := 0; i < 40; i++ {
		c.Items = append(c.Items, item{fmt.Sprintf("item-%d", (id*7+i*13)%97), float64(i) * 1.25, i % 5})
	}
	return c
}

// discount is the bug this example is about: it compares every item with every other.
func discount(c cart) float64 {
	var off float64
	for _, a := range c.Items {
		for _, b := range c.Items {
			if a.Name != b.Name && strings.HasPrefix(a.Name, b.Name) {
				off += 0.01
			}
		}
	}
	return off
}

func total(c cart) float64 {
	var sum float64
	for _, i := range c.Items {
		sum += i.Price * float64(i.Count)
	}
	return sum - discount(c)
}

func render(c cart) []byte {
	sort.Slice(c.Items, func(i, j int) bool { return c.Items[i].Name < c.Items[j].Name })
	out, err := json.Marshal(c)
	if err != nil {
		log.Fatal(err)
	}
	return out
}

func serve(id int) int {
	c := makeCart(id)
	return int(total(c)) + len(render(c))
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: shop OUTPUT.pb.gz")
	}
	f, err := os.Create(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		log.Fatal(err)
	}
	sum := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		for id := 0; id < 100; id++ {
			sum += serve(id)
		}
	}
	pprof.StopCPUProfile()
	if err := f.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("priced carts worth", sum)
}
