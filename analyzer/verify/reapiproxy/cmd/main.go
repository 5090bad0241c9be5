// Command cmd is package reapiproxy as a program, for tests by hand:
//
//	go run ./analyzer/verify/reapiproxy/cmd LISTEN SERVER
//
// with two addresses of the form 127.0.0.1:50052.
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/rules-tasting/rules_tasting/analyzer/verify/reapiproxy"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "reapiproxy: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: LISTEN SERVER, two addresses like 127.0.0.1:50052")
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	s, conn, err := reapiproxy.New(args[1])
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.Serve(l)
}
