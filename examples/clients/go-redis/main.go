// Decisions over the Redis protocol, with go-redis.
//
//	go run . USER [redis://127.0.0.1:6380]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

// Decision is the part of an answer that callers need most.
type Decision struct {
	Verdict          string
	Remaining, Limit int64
	RetryAfter       time.Duration
}

// check decides one request by the rules of a domain.
func check(ctx context.Context, client *redis.Client, domain, key string) (Decision, error) {
	reply, err := client.Do(ctx, "RK.CHECK", domain, key).Result()
	if err != nil {
		return Decision{}, err
	}
	fields, ok := reply.(map[any]any) // RESP 3, the default of go-redis
	if !ok {
		return Decision{}, fmt.Errorf("unexpected reply %v", reply)
	}
	number := func(name string) int64 { n, _ := fields[name].(int64); return n } // 0 for null
	verdict, _ := fields["verdict"].(string)
	return Decision{
		Verdict:    verdict,
		Remaining:  number("remaining"),
		Limit:      number("limit"),
		RetryAfter: time.Duration(number("retry_after_us")) * time.Microsecond,
	}, nil
}

func main() {
	user, address := os.Args[1], "redis://127.0.0.1:6380"
	if len(os.Args) > 2 {
		address = os.Args[2]
	}
	options, err := redis.ParseURL(address)
	if err != nil {
		log.Fatal(err)
	}
	options.DialTimeout, options.ReadTimeout = time.Second, time.Second
	options.MaxRetries = -1 // A command without an answer may have taken its permits: it is not sent again.
	client := redis.NewClient(options)
	defer client.Close()
	ctx := context.Background()

	for range 4 {
		decision, err := check(ctx, client, "daily", user)
		if err != nil {
			log.Fatal(err)
		}
		if decision.Verdict == "allow" {
			fmt.Printf("daily: allow, %d of %d left\n", decision.Remaining, decision.Limit)
		} else {
			seconds := (decision.RetryAfter + time.Second - 1) / time.Second
			fmt.Printf("daily: %s, retry after %d s\n", decision.Verdict, seconds)
		}
	}

	for range 3 {
		for {
			decision, err := check(ctx, client, "paced", user)
			if err != nil {
				log.Fatal(err)
			}
			if decision.Verdict == "allow" {
				break
			}
			time.Sleep(decision.RetryAfter)
		}
		// The request itself is sent here.
	}
	fmt.Println("paced: 3 requests sent")

	// The same with the limit in the call, as with redis-cell: 30 a minute and a burst of 15 beyond the first.
	numbers, err := client.Do(ctx, "CL.THROTTLE", "call:"+user, 15, 30, 60).Int64Slice()
	if err != nil {
		log.Fatal(err)
	}
	verdict := "allow"
	if numbers[0] == 1 {
		verdict = "deny"
	}
	fmt.Printf("throttle: %s, %d of %d left\n", verdict, numbers[2], numbers[1])
}
