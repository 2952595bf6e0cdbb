// Calls a server with the client that oapi-codegen generated: go run . SERVER USER
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"example.com/generated/api"
)

func main() {
	client, err := api.NewClientWithResponses(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for range 4 {
		entries := map[string]string{"user": os.Args[2]}
		response, err := client.CheckWithResponse(context.Background(), api.Check{Domain: "daily", Descriptor: &entries})
		if err != nil {
			log.Fatal(err)
		}
		decision := response.JSON200
		if decision == nil {
			log.Fatal(string(response.Body))
		}
		fmt.Println(decision.Verdict, *decision.Remaining, *decision.Limit, decision.ResetAfterUs > 7*3600*1_000_000, *decision.RetryAfterUs > 7*3600*1_000_000)
	}
}
