package main

import "os"

func resume(chan<- os.Signal) {} // there is nothing to continue
