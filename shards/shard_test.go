package shards_test

import (
	"fmt"
	"testing"

	"holdfast/shards"
)

func TestShardPrintsForPeople(t *testing.T) {
	if got := fmt.Sprintf("%v %s", shards.Shard{Number: 3, Token: 7}, shards.Shard{Number: 0, Token: 1}); got != "shard 3, token 7 shard 0, token 1" {
		t.Errorf("%q", got)
	}
}
