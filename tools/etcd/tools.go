//go:build tools

// Package tools names the program that the tests build from this module.
package tools

import _ "go.etcd.io/etcd/server/v3"
