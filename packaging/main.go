package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	r := release{root: ".."}
	flag.StringVar(&r.version, "version", "", "version of the release, such as v0.1.0; with -one: v0.0.0-dev if it is missing")
	flag.StringVar(&r.out, "out", "../dist", "directory of the files; it must be empty or missing, but with -one")
	flag.StringVar(&r.url, "url", "", "URL under which the files will be published, for the Homebrew formula; without it, none is written")
	flag.StringVar(&r.maintainer, "maintainer", "holdfast <holdfast@localhost>", "maintainer in the packages, as Name <address>")
	flag.StringVar(&r.only, "only", "", "make the files of one system, such as linux/amd64, and no others")
	flag.StringVar(&r.one, "one", "", "make no release but one file for this machine, of the sources as they are: deb, rpm or image")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "packaging: it takes flags only: see go run . -help")
		os.Exit(2)
	}
	if err := r.make(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}
