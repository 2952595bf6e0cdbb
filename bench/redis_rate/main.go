// Checks of one key with go-redis/redis_rate, by many goroutines in a closed loop.
//
//	go run . -addr 127.0.0.1:6379 -callers 256 -checks 200000 -rounds 3
//
// Prints the checks per second of each round, and their median.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"sort"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server")
	callers := flag.Int("callers", 256, "goroutines")
	checks := flag.Int("checks", 200_000, "checks a round")
	rounds := flag.Int("rounds", 3, "rounds")
	flag.Parse()

	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: *addr})
	defer client.Close()
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.PerSecond(1_000_000_000)
	// The script is loaded, and the pool has its connections.
	round(ctx, limiter, limit, *callers, *checks/10)

	var rates []float64
	for range *rounds {
		rates = append(rates, round(ctx, limiter, limit, *callers, *checks))
	}
	sort.Float64s(rates)
	fmt.Printf("redis_rate, %d callers, one key: %.0f checks per second (%.0f to %.0f)\n",
		*callers, rates[len(rates)/2], rates[0], rates[len(rates)-1])
}

func round(ctx context.Context, limiter *redis_rate.Limiter, limit redis_rate.Limit, callers, checks int) float64 {
	began := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Add(1)
		go func() {
			defer all.Done()
			for range checks / callers {
				result, err := limiter.Allow(ctx, "bench", limit)
				if err != nil {
					log.Fatal(err)
				}
				if result.Allowed != 1 {
					log.Fatal("denied")
				}
			}
		}()
	}
	all.Wait()
	return float64(checks/callers*callers) / time.Since(began).Seconds()
}
