// Package certs reads the certificates of a listener, and reads them again after a change.
package certs
