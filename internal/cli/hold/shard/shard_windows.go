package shard

import "os"

func resume(chan<- os.Signal) {} // there is nothing to continue
