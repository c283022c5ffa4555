// Package examples has a program for each of the things that people do first with holdfast. Each is one file.
package examples
